"""Quick baselines on the same split for fine-tuning to beat: the most common answer, and linear models.

The linear models read TF-IDF of words and word pairs, or the vectors that the model's head reads, from the
encoder before training. n examples, F texts in an example, D features, C outputs of the head.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from bert_tf.heads.base.label_head import BALANCED
from bert_tf.heads.base.text_head import TextHead
from bert_tf.runtime.lazy import module
from bert_tf.tasks.task import FineTuningTask

linear_model, feature_extraction = module("sklearn.linear_model"), module("sklearn.feature_extraction.text")
sparse = module("scipy.sparse")
Vectors = Callable[[str, int], np.ndarray]
MOST_FREQUENT, MEAN = "the most frequent class", "the mean of the training data"
MOST_LABELS = "the labels of most texts"
TF_IDF, FROZEN = "TF-IDF with a linear model", "frozen vectors with a linear model"
MAX_EXAMPLES, MAX_NUMBERS = 20_000, 5_000  # for TF-IDF, with labels or numbers: takes a few seconds
MAX_VECTORS = 5_000  # examples encoded for a baseline
MIN_FREQUENCY_FROM = 1000  # from this many examples, words that occur once are dropped
# Inverse regularization. TF-IDF vectors have length 1, and scikit-learn's 1 underfits them; encoder vectors are
# standardized, and 1 overfits them.
C = {TF_IDF: 10.0, FROZEN: 0.1}
ALPHAS = np.logspace(-2, 5, 15)  # for ridge regression; the one with the lowest leave-one-out error is used
IMPOSSIBLE = -30.0  # logit of a class without examples


class LinearHead(NamedTuple):
    """kernel float32 [D, C] and bias [C]; logits of classes or labels, or a number for each example (C is 1)."""

    kernel: np.ndarray
    bias: np.ndarray

    def predict(self, features: Any, labels: np.ndarray) -> np.ndarray:
        """Predictions [m, ...] for features [m, D], numbered like these labels [n, ...]."""
        outputs = np.asarray(features @ self.kernel) + self.bias
        if labels.ndim == 2:
            return (outputs > 0).astype(labels.dtype)
        return outputs.argmax(1).astype(labels.dtype) if labels.dtype.kind == "i" else outputs[:, 0].astype(np.float32)


def commonest(labels: np.ndarray, count: int) -> np.ndarray:
    """The same prediction [count, ...] for all: the most common class, the labels of most examples, or the mean."""
    if labels.ndim == 2:
        best: Any = labels.mean(0) > 0.5
    else:
        best = np.bincount(labels).argmax() if labels.dtype.kind == "i" else labels.mean()
    return np.repeat(np.asarray(best, labels.dtype)[None], count, 0)


def fit(features: Any, labels: np.ndarray, size: int, *, strength: float, is_balanced: bool = False) -> LinearHead:
    """Logistic regression for classes and labels, ridge regression for numbers.

    Args:
        features: [n, D], dense or sparse.
        labels: class numbers [n], 0 or 1 for each label [n, C], or float [n].
        size: C.
        strength: inverse regularization of logistic regression.
        is_balanced: whether all classes have equal weight.
    """

    def logistic(target: np.ndarray) -> Any:
        model = linear_model.LogisticRegression(
            C=strength, max_iter=1000, class_weight="balanced" if is_balanced else None
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # too few iterations
            return model.fit(features, target)

    width = features.shape[1]
    if labels.dtype.kind == "f" and labels.ndim == 1:
        ridge = linear_model.RidgeCV(ALPHAS).fit(features, labels)
        return _as_float32(np.asarray(ridge.coef_)[:, None], np.array([ridge.intercept_]))
    kernel, bias = np.zeros((width, size)), np.full(size, IMPOSSIBLE)
    if labels.ndim == 2:
        for column, target in enumerate(labels.T):
            if np.ptp(target):
                model = logistic(target)
                kernel[:, column], bias[column] = model.coef_[0], model.intercept_[0]
            elif target[0]:
                bias[column] = -IMPOSSIBLE
        return _as_float32(kernel, bias)
    model = logistic(labels)
    coefficients, intercept = model.coef_, model.intercept_
    if len(model.classes_) == 2:  # scikit-learn only has the odds of the second
        coefficients, intercept = (np.concatenate([-each / 2, each / 2]) for each in (coefficients, intercept))
    kernel[:, model.classes_], bias[model.classes_] = coefficients.T, intercept
    return _as_float32(kernel, bias)


def fit_vectors(vectors: np.ndarray, labels: np.ndarray, size: int, *, is_balanced: bool = False) -> LinearHead:
    """`fit` on standardized vectors [n, D], returned as a head on the original vectors."""
    center, scale = vectors.mean(0), max(float(vectors.std(0).mean()), 1e-6)
    head = fit((vectors - center) / scale, labels, size, strength=C[FROZEN], is_balanced=is_balanced)
    kernel = head.kernel / scale
    return _as_float32(kernel, head.bias - center @ kernel)


def _as_float32(kernel: np.ndarray, bias: np.ndarray) -> LinearHead:
    return LinearHead(kernel.astype(np.float32), bias.astype(np.float32))


def tf_idf(train: np.ndarray, labels: np.ndarray, texts: np.ndarray, *, is_balanced: bool) -> np.ndarray | None:
    """Predictions for texts [m, F] by a linear model on TF-IDF of the texts train [n, F]; None if these have no words.

    labels, is_balanced: see `fit`.
    """
    most = MAX_NUMBERS if labels.dtype.kind == "f" and labels.ndim == 1 else MAX_EXAMPLES
    if len(train) > most:
        rows = np.linspace(0, len(train) - 1, most).astype(int)
        train, labels = train[rows], labels[rows]
    features: list[list[Any]] = [[], []]
    for column in range(train.shape[1]):
        vectorizer = feature_extraction.TfidfVectorizer(
            ngram_range=(1, 2),
            sublinear_tf=True,
            min_df=2 if len(train) >= MIN_FREQUENCY_FROM else 1,
            token_pattern=r"\w+|[^\w\s]",
        )
        try:
            features[0].append(vectorizer.fit_transform(train[:, column]))
        except ValueError:  # no word in any text
            continue
        features[1].append(vectorizer.transform(texts[:, column]))
    if not features[0]:
        return None
    known, new = (sparse.hstack(each).tocsr() for each in features)
    size = labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1
    return fit(known, labels, size, strength=C[TF_IDF], is_balanced=is_balanced).predict(new, labels)


def linear_head(task: FineTuningTask, vectors: Vectors) -> LinearHead | None:
    """A linear head on the vectors of the training data; None for choices, or if there is nothing to learn."""
    if not _can_learn(task):
        return None
    known = vectors("train", MAX_VECTORS)
    head: Any = task.head  # a TextHead
    labels = task.split("train").labels[: len(known)]
    return fit_vectors(known, labels, head.size, is_balanced=head.weighting == BALANCED)


def _can_learn(task: FineTuningTask) -> bool:
    """Returns whether the task has single texts or pairs, with labels that differ."""
    if not isinstance(task.head, TextHead) or not task.head.size or task.head.rows_per_example > 1:
        return False
    labels = task.split("train").labels
    return not np.all(labels == labels[:1])


def of_task(
    task: FineTuningTask, vectors: Vectors | None = None
) -> tuple[dict[str, dict[str, float]], LinearHead | None]:
    """{baseline name: its scores on the first evaluation split}, and the last baseline that is a linear head.

    vectors(split, most): the head's input vectors [n, D] for the first `most` examples of a split, from the current
    encoder; None: it is not trained yet.
    """
    head: Any = task.head
    linear: LinearHead | None = None
    prefix, split = next(iter(task.eval_splits.items()))
    train, held_out = task.split("train"), task.split(split)
    has_texts = not (train.stored or held_out.stored)
    if not _can_learn(task):
        return _prefixed(prefix, head.quick_scores(train, held_out) if has_texts else {}), None
    name = MEAN if head.label_counts(train.labels) is None else MOST_LABELS if train.labels.ndim == 2 else MOST_FREQUENT
    predicted = {name: commonest(train.labels, held_out.count)}
    is_balanced = head.weighting == BALANCED
    if has_texts:
        texts = tf_idf(train.texts, train.labels, held_out.texts, is_balanced=is_balanced)
        predicted |= {} if texts is None else {TF_IDF: texts}
    if vectors:
        linear = linear_head(task, vectors)
    if vectors and linear:
        predicted[FROZEN] = linear.predict(vectors(split, held_out.count), train.labels)
    scores = {name: head.score(held_out.labels, each) for name, each in predicted.items()}
    return _prefixed(prefix, scores), linear


def _prefixed(prefix: str, scores: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {name: {f"{prefix}{score}": value for score, value in each.items()} for name, each in scores.items()}
