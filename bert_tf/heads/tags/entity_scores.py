"""Precision, recall and F1 of whole entities, counted as in conlleval (Tjong Kim Sang and De Meulder 2003).

Computed by seqeval, imported when needed; its default mode reads every sequence of tags like conlleval. Free of
TensorFlow.
"""

from collections.abc import Sequence
from typing import Any

from bert_tf.data.tag_notations import OUTSIDE
from bert_tf.runtime.lazy import module

seqeval_metrics = module("seqeval.metrics")
ALL = "micro avg"  # seqeval's name for all types together

Tags = Sequence[Sequence[str]]


def scores(labels: Tags, predictions: Tags, *, is_plain: bool = False) -> dict[str, float]:
    """{"precision", "recall", "f1"} of all entities, from 0 to 1; a correct entity has the right words and type.

    Args:
        labels: true tags of each sentence, IOB2 or BIOES.
        predictions: predicted tags, in the same shape.
        is_plain: whether every word's tag is an entity of its own.

    Returns:
        The scores; 0 if the denominator is 0.
    """
    row = _report(labels, predictions, is_plain).get(ALL, {"precision": 0.0, "recall": 0.0, "f1-score": 0.0})
    return {"f1": float(row["f1-score"]), "precision": float(row["precision"]), "recall": float(row["recall"])}


def per_type(labels: Tags, predictions: Tags, *, is_plain: bool = False) -> list[dict[str, Any]]:
    """[{"label", "precision", "recall", "f1", "count"}] for each type, sorted; `count`: true entities."""
    return [
        {
            "label": kind,
            "precision": float(row["precision"]),
            "recall": float(row["recall"]),
            "f1": float(row["f1-score"]),
            "count": int(row["support"]),
        }
        for kind, row in _report(labels, predictions, is_plain).items()
        if not kind.endswith(" avg")
    ]


def _report(labels: Tags, predictions: Tags, is_plain: bool) -> dict[str, dict[str, Any]]:
    """Seqeval's report; {} if neither side has an entity, which seqeval does not accept."""
    if is_plain:
        labels, predictions = (
            [[tag if tag == OUTSIDE else f"B-{tag}" for tag in row] for row in side] for side in (labels, predictions)
        )
    if all(tag == OUTSIDE for side in (labels, predictions) for row in side for tag in row):
        return {}
    return seqeval_metrics.classification_report(labels, predictions, output_dict=True, zero_division=0)
