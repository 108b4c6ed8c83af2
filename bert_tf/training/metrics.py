"""Scores of a whole evaluation split, from labels and predictions; scikit-learn and scipy are imported on first use.

n examples, C classes. No TensorFlow.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bert_tf.errors import UserError
from bert_tf.runtime import plugins
from bert_tf.runtime.lazy import module

sklearn_metrics, stats = module("sklearn.metrics"), module("scipy.stats")
Score = Callable[[Any, Any], float]
NO_CORRELATION = 0.05  # below it predicted numbers are unrelated to the labels
MAX_MATRIX, MAX_CONFUSED = 500, 1000  # classes in a confusion matrix; class pairs listed instead


def accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Fraction of correct examples; for multi-label examples ([n, C]) all labels must be correct."""
    correct = np.asarray(labels) == np.asarray(predictions)
    return float(correct.reshape(len(correct), -1).all(-1).mean())


def f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """F1 of class 1 of two, as in GLUE's MRPC and QQP; 0 if undefined."""
    return _f1(labels, predictions, "binary")


def macro_f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Mean F1 over classes (or labels): small classes count as much as large ones."""
    return _f1(labels, predictions, "macro")


def micro_f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """F1 over all labels of all examples pooled, for multi-label examples ([n, C])."""
    return _f1(labels, predictions, "micro")


def _f1(labels: ArrayLike, predictions: ArrayLike, average: str) -> float:
    return float(sklearn_metrics.f1_score(labels, predictions, average=average, zero_division=0))


def best_thresholds(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Finds the threshold with the best F1 for each label; a label is predicted above its threshold.

    labels, probabilities: [n, C] -> float32 [C], halfway between two probabilities; 0.5 for a label without positives.
    """
    columns = zip(labels.T, probabilities.T, strict=True)
    return np.array([_best_threshold(*column) for column in columns], np.float32)


def _best_threshold(labels: np.ndarray, probabilities: np.ndarray) -> float:  # [n], [n]
    if not labels.any():
        return 0.5
    precision, recall, thresholds = sklearn_metrics.precision_recall_curve(labels, probabilities)  # at or above
    best = np.argmax(precision[:-1] * recall[:-1] / np.maximum(precision + recall, 1e-12)[:-1])
    above, below = thresholds[best], thresholds[best - 1] if best else 0.0
    middle = np.float32((np.float64(above) + below) / 2)
    return float(middle if middle < above else below)  # adjacent floating point numbers have no midpoint


def matthews(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Matthews correlation, GLUE's score for CoLA and AX; 0 if all predictions are equal."""
    return float(sklearn_metrics.matthews_corrcoef(labels, predictions))


def pearson(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Pearson correlation; 0, not NaN, if all labels or all predictions are equal."""
    if _is_constant(labels) or _is_constant(predictions):
        return 0.0
    return float(stats.pearsonr(labels, predictions).statistic)


def spearman(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Spearman rank correlation, ties share a rank; 0 if all labels or all predictions are equal."""
    if _is_constant(labels) or _is_constant(predictions):
        return 0.0
    return float(stats.spearmanr(labels, predictions).statistic)


def mean_squared_error(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Mean of the squared differences."""
    return float(np.mean((np.asarray(labels, np.float64) - np.asarray(predictions, np.float64)) ** 2))


def _is_constant(values: ArrayLike) -> bool:
    values = np.asarray(values)
    return bool(len(values) < 2 or np.all(values == values[0]))


SCORES: dict[str, Score] = {
    score.__name__: score
    for score in (accuracy, f1, macro_f1, micro_f1, matthews, pearson, spearman, mean_squared_error)
}


def score_of(name: str) -> Score:
    """Returns a score of SCORES, or a function (labels, predictions) -> number such as "my_lab.scores:kappa".

    Raises UserError for an unknown name.
    """
    if name in SCORES:
        return SCORES[name]
    module, _, function = name.partition(":")
    score = getattr(plugins.import_outside(module), function, None) if function else None
    if score is None:
        raise UserError(
            f"There is no score {name!r}. Known: {', '.join(SCORES)}, or a function of your own such as "
            "my_lab.scores:kappa."
        )
    return score


def per_class(labels: ArrayLike, predictions: ArrayLike, names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns [{"label", "precision", "recall", "f1", "count"}], one per class; `count` is its number of examples.

    labels, predictions: class indices [n], or 0 and 1 for each label [n, C]. names: the C class names.
    """
    columns = sklearn_metrics.precision_recall_fscore_support(
        labels, predictions, labels=range(len(names)), zero_division=0
    )
    scores = ("precision", "recall", "f1")
    return [
        {"label": name, **dict(zip(scores, map(float, row), strict=True)), "count": int(count)}
        for name, *row, count in zip(names, *columns, strict=True)
    ]


def confusions(labels: ArrayLike, predictions: ArrayLike, names: Sequence[str]) -> dict[str, Any]:
    """Returns {"confusion": matrix [C][C]}; rows are labels, columns predictions.

    With more than MAX_MATRIX classes, {"most_confused": [{"label", "predicted", "count"}]}, most frequent first, at
    most MAX_CONFUSED: the number of examples then bounds memory and file size.
    """
    pairs = np.stack([np.asarray(labels), np.asarray(predictions)], 1)  # [n, 2]
    if len(names) <= MAX_MATRIX:
        counts = np.zeros((len(names), len(names)), np.int64)
        np.add.at(counts, tuple(pairs.T), 1)
        return {"confusion": counts.tolist()}
    wrong, number = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0, return_counts=True)
    most = np.argsort(-number, kind="stable")[:MAX_CONFUSED]
    rows = zip(wrong[most].tolist(), number[most].tolist(), strict=True)
    return {"most_confused": [{"label": names[a], "predicted": names[b], "count": count} for (a, b), count in rows]}


def collapse_reason(labels: ArrayLike, predictions: ArrayLike) -> str | None:
    """Returns why predictions are worthless, in words, or None: one class for all, or numbers that do not vary.

    labels, predictions: arrays [n] of classes, [n, C] of 0 and 1, or float [n]. Constant labels prove nothing.
    Fine-tuning on few examples sometimes ends this way (Mosbach et al. 2020).
    """
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if len(labels) < 2 or np.all(labels == labels[:1]):
        return None
    if predictions.dtype.kind != "f":
        is_one = np.all(predictions == predictions[:1])
        return f"all {len(predictions):,} predictions are the same" if is_one else None
    if np.std(predictions) <= 0.01 * np.std(labels):
        return f"all {len(predictions):,} predicted numbers are nearly the same"
    correlation = np.corrcoef(labels, predictions)[0, 1]
    is_low = not correlation >= NO_CORRELATION
    return f"the predictions do not follow the labels, the correlation is {correlation:.2f}" if is_low else None
