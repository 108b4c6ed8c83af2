"""How examples are passed to a loaded model: the names, the number and the columns of their texts."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from bert_tf import heads
from bert_tf.api import texts as given_texts
from bert_tf.api.sources import Source
from bert_tf.api.texts import Texts, join_words, listed
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.export import about_file
from bert_tf.heads.choice import MultipleChoice
from bert_tf.training.run_directory import recorded_flags

PAIR, MAX_CHOICES = ("text_a", "text_b"), 64  # for third-party checkpoints


class Inputs:
    """Reads the examples of a caller for a source."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @functools.cached_property
    def takes_any_number(self) -> bool:
        """Returns whether the caller decides how many texts an example has, because nothing records it."""
        kind = self._source.head_kind
        return not self._source.is_recorded and (heads.text_counts(kind) == (1, 2) or kind == MultipleChoice.kind)

    def read(self, values: Any, names: Sequence[str], is_split_into_words: bool = False, name: str = "text") -> Texts:
        """The texts of examples with these names; name: of the argument, for messages. UserError for anything else."""
        fewest = len(names)
        if self.takes_any_number and len(names) > 1:
            fewest = 1 if len(names) == len(PAIR) else 3  # a text or a pair; a text and two choices or more
        columns = self._columns if len(self._columns) == len(names) else ()
        joined = join_words(self.words(values, names)) if is_split_into_words else values
        read = given_texts.read(joined, names, columns=columns, name=name, fewest=fewest)
        return dataclasses.replace(read, index=given_texts.index_of(values))

    def words(self, values: Any, names: Sequence[str]) -> Any:
        """Texts split into words, as lists; for a table, its text column or columns."""
        columns = self._columns if len(self._columns) == len(names) else ()
        return listed(given_texts.columns_of(values, names, columns))

    @functools.cached_property
    def _columns(self) -> Sequence[str]:
        """The text columns of the training table, () if there was none."""
        flags = recorded_flags(self._source.path) or about_file.read(self._source.path).get("reads") or {}
        return tuple(comma_separated(flags.get("text_columns")))

    @functools.cached_property
    def names(self) -> list[str]:
        """The names of an example's texts: the input names, numbered if an input takes several texts."""
        if self.takes_any_number:
            choices = ["text_a", *(f"choice {number}" for number in range(MAX_CHOICES))]
            return choices if self._source.head_kind == MultipleChoice.kind else list(PAIR)
        names: list[str] = []
        for name, count in self._source.predictor(None).inputs.items():
            names += [f"{name.removesuffix('s')} {number}" for number in range(count)] if count else [name]
        return names
