"""Scores of a whole held-out set, from the truth and what was guessed; scikit-learn's and scipy's, loaded when asked.

n examples, C classes. Free of TensorFlow.
"""

import numpy as np


def accuracy(truth, guesses):
    """The share of examples that are right; of several labels each ([n, C]) all must be."""
    right = np.asarray(truth) == np.asarray(guesses)
    return float(right.reshape(len(right), -1).all(-1).mean())


def f1(truth, guesses):
    """F1 of class 1 among two, as GLUE scores MRPC and QQP; 0 where nothing is found."""
    return _f1(truth, guesses, "binary")


def macro_f1(truth, guesses):
    """The mean of every class' (or label's) F1: small classes count as much as large ones."""
    return _f1(truth, guesses, "macro")


def micro_f1(truth, guesses):
    """F1 over all labels of all examples together, for several labels each ([n, C])."""
    return _f1(truth, guesses, "micro")


def _f1(truth, guesses, average):
    from sklearn.metrics import f1_score

    return float(f1_score(truth, guesses, average=average, zero_division=0))


def best_thresholds(truth, probabilities):
    """The threshold of each of several labels that gives it the best F1, where it holds above its threshold.

    truth, probabilities: [n, C] -> float32 [C], in the middle between two probabilities; 0.5 for a label that never
    holds.
    """
    return np.array([_best_threshold(*label) for label in zip(truth.T, probabilities.T, strict=True)], np.float32)


def _best_threshold(truth, shares):
    from sklearn.metrics import precision_recall_curve

    if not truth.any():
        return 0.5
    precision, recall, least = precision_recall_curve(truth, shares)  # least: of the probabilities that count as above
    best = np.argmax(precision[:-1] * recall[:-1] / np.maximum(precision + recall, 1e-12)[:-1])
    above, below = least[best], least[best - 1] if best else 0.0
    middle = np.float32((np.float64(above) + below) / 2)
    return middle if middle < above else below  # neighbours among floating point numbers have none


def matthews(truth, guesses):
    """Matthews' correlation, GLUE's score of CoLA and AX; 0 where all guesses are the same."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(truth, guesses))


def pearson(truth, guesses):
    """Pearson's correlation; 0, not NaN, where all numbers of a side are the same: such guesses are worth nothing."""
    from scipy import stats

    return 0.0 if _is_constant(truth) or _is_constant(guesses) else float(stats.pearsonr(truth, guesses).statistic)


def spearman(truth, guesses):
    """Spearman's rank correlation, ties share a rank; 0 where all numbers of a side are the same."""
    from scipy import stats

    return 0.0 if _is_constant(truth) or _is_constant(guesses) else float(stats.spearmanr(truth, guesses).statistic)


def mean_squared_error(truth, guesses):
    """The mean of squared differences."""
    return float(np.mean((np.asarray(truth, np.float64) - np.asarray(guesses, np.float64)) ** 2))


def _is_constant(values):
    values = np.asarray(values)
    return bool(len(values) < 2 or np.all(values == values[0]))


SCORES = {
    score.__name__: score
    for score in (accuracy, f1, macro_f1, micro_f1, matthews, pearson, spearman, mean_squared_error)
}


def per_class(truth, guesses, labels):
    """[{"label", "precision", "recall", "f1", "count"}] for each class; `count` is how often it is the truth.

    truth, guesses: class numbers [n], or 0 and 1 for each label [n, C].
    """
    from sklearn.metrics import precision_recall_fscore_support

    columns = precision_recall_fscore_support(truth, guesses, labels=range(len(labels)), zero_division=0)
    names = ("precision", "recall", "f1")
    return [
        {"label": label, **dict(zip(names, map(float, row), strict=True)), "count": int(count)}
        for label, *row, count in zip(labels, *columns, strict=True)
    ]


def confusion(truth, guesses, size):
    """[C][C] counts: row the true class, column the guessed one."""
    counts = np.zeros((size, size), np.int64)
    np.add.at(counts, (np.asarray(truth), np.asarray(guesses)), 1)
    return counts.tolist()
