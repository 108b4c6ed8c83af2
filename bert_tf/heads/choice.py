"""Multiple choice: which of several texts follows a first one (Devlin et al. 2018, section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from bert_tf.errors import UserError
from bert_tf.heads.base.label_head import SoftmaxHead

if TYPE_CHECKING:
    from bert_tf.heads.base.table_options import TableOptions


class MultipleChoice(SoftmaxHead):
    """Multiple choice among C texts: the texts are (first, choice 0, choice 1, ...), the label is a number.

    Each row [CLS] first [SEP] choice [SEP] is encoded independently.
    """

    kind = "choice"
    model_class = "MultipleChoice"
    signature_inputs = (frozenset({"text_a", "choices"}),)
    score_names = ("accuracy",)

    def __init__(self, count: int) -> None:
        super().__init__([str(number) for number in range(count)])
        self.size, self.rows_per_example = 1, count

    @classmethod
    def check_columns(cls, columns: Sequence[str], options: TableOptions) -> None:
        """Raises UserError unless the columns fit this head."""
        if len(columns) < 3 or not options.label_column:
            raise UserError(
                f"text_columns is {options.text_columns!r}; expected FIRST,CHOICE,CHOICE,..., the text and two or "
                "more choices, and as label_column the number of the right one, from 0."
            )

    @classmethod
    def from_table(cls, labels: Sequence[str], columns: Sequence[str], options: TableOptions) -> Self:
        return cls(len(columns) - 1)

    @classmethod
    def from_about(cls, about: Mapping[str, Any]) -> Self:
        count = (about.get("inputs") or {}).get("choices") or len(about["labels"])
        return cls(count).with_temperature(about.get("temperature", 1.0))

    def input_shapes(self, texts: int) -> dict[str, list[int]]:
        return {"text_a": [], "choices": [len(self.labels)]}


HEAD = MultipleChoice
