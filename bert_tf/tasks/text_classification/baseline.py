"""A baseline without BERT: TF-IDF of words and pairs of words, with a linear model, on the same split.

n examples, F texts of an example.
"""

import warnings
from typing import Any

import numpy as np

NAME = "TF-IDF with a linear model"
MAX_EXAMPLES = 20_000  # that it learns from: some seconds
MIN_FREQUENCY_FROM = 1000  # examples from which words that occur once are left out
C = 10.0  # inverse regularization; TF-IDF vectors have length 1, and scikit-learn's 1 underfits them


def predict(train: np.ndarray, labels: np.ndarray, texts: np.ndarray, *, is_balanced: bool) -> np.ndarray | None:
    """Predicts labels of texts, as the goal numbers them; None if the labels show nothing to learn.

    Args:
        train: texts [n, F] to learn from.
        labels: their labels: class numbers [n], 0 or 1 for each label [n, C], or float [n].
        texts: [m, F].
        is_balanced: let all classes count alike.
    """
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier

    if len(train) > MAX_EXAMPLES:
        rows = np.linspace(0, len(train) - 1, MAX_EXAMPLES).astype(int)
        train, labels = train[rows], labels[rows]
    is_number = labels.dtype.kind == "f" and labels.ndim == 1
    if np.all(labels == labels[:1]):
        return None
    features: list[list[Any]] = [[], []]
    for column in range(train.shape[1]):
        vectorizer = TfidfVectorizer(
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
    known, new = (hstack(each).tocsr() for each in features)
    if is_number:
        return Ridge(alpha=1.0).fit(known, labels).predict(new).astype(np.float32)
    model: Any = LogisticRegression(C=C, max_iter=1000, class_weight="balanced" if is_balanced else None)
    if labels.ndim == 2:
        model = OneVsRestClassifier(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of labels that all examples or none have, and of few iterations
        return model.fit(known, labels).predict(new).astype(labels.dtype)
