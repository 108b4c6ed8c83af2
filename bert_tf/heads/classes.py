"""Classification: one of several classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from bert_tf.heads.base.label_head import SoftmaxHead
from bert_tf.training import metrics

if TYPE_CHECKING:
    from bert_tf.heads.base.table_options import TableOptions


class Classes(SoftmaxHead):
    """One of several named classes."""

    kind = "classes"
    model_class = "Classifier"
    is_labelled = True
    score_names: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1")
    scored_with: ClassVar[tuple[str, ...]] = ("sklearn",)

    @property
    def criteria(self) -> tuple[str, ...]:
        return (*self.score_names, "matthews", *(("f1",) if self.size == 2 else ()))

    @classmethod
    def from_table(cls, labels: Sequence[str], columns: Sequence[str], options: TableOptions) -> Self:
        return cls(labels)

    @classmethod
    def from_about(cls, about: Mapping[str, Any]) -> Self:
        return cls([str(label) for label in about["labels"]]).with_temperature(about.get("temperature", 1.0))

    def label_counts(self, labels: np.ndarray) -> np.ndarray:
        """Examples of each class, [C]."""
        return np.bincount(labels, minlength=len(self.labels))

    def tables(self, labels: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
        rows = metrics.per_class(labels, predicted, self.labels)
        return {"per_class": rows, **metrics.confusions(labels, predicted, self.labels)}


HEAD = Classes
