"""Calibration of predicted probabilities: expected calibration error, and the temperature that lowers it.

Guo et al. 2017, "On Calibration of Modern Neural Networks". n examples, C classes or answers. No TensorFlow.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bert_tf.errors import UserError
from bert_tf.runtime.lazy import module

optimize = module("scipy.optimize")
BINS = 15  # of equal width, as in the paper
BOUNDS = 0.05, 20.0  # for temperatures
END = 0.01  # a temperature is at the end of BOUNDS if their logarithms are this close
FEWEST = 50  # examples needed to propose a temperature
BLOCK = 1 << 22  # logits per computation
Rows = Sequence[np.ndarray] | np.ndarray


class Prior(NamedTuple):
    """Prior of a temperature before any example is seen: a normal distribution of its logarithm."""

    temperature: float
    deviation: float


# After training on few rows until all are right: measured 2.6 to 5.0 with 64 and 300 rows (docs/results.md).
FEW_ROWS = Prior(4.0, 0.5)
BEST = "best"  # the value of --temperature that selects the fitted one


def parse_temperature(text: str) -> float | None:
    """The number in the flag temperature; None for BEST. Raises UserError for anything else."""
    if text == BEST:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < np.inf:
        raise UserError(f"temperature is {text}; expected a number above 0, or {BEST}.")
    return value


def softmax(logits: ArrayLike, temperature: ArrayLike = 1.0) -> np.ndarray:
    """The softmax of logits / temperature along the last axis, float64."""
    scaled = np.asarray(logits, np.float64) / np.asarray(temperature, np.float64)
    shares = np.exp(scaled - scaled.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def sigmoid(logits: ArrayLike) -> np.ndarray:
    """The sigmoid, float32."""
    return (0.5 * (1 + np.tanh(0.5 * np.asarray(logits, np.float64)))).astype(np.float32)


def expected_calibration_error(confidences: ArrayLike, is_right: ArrayLike) -> float:
    """The mean difference between confidence and accuracy over BINS, weighted by bin size.

    confidences: probability of each prediction [n]. is_right: whether it is correct [n].
    """
    rows = reliability(confidences, is_right)
    total = sum(row["count"] for row in rows)
    return sum(row["count"] * abs(row["accuracy"] - row["confidence"]) for row in rows) / max(total, 1)


def reliability(confidences: ArrayLike, is_right: ArrayLike) -> list[dict[str, Any]]:
    """[{"from", "to", "count", "confidence", "accuracy"}] for the non-empty bins (from, to]."""
    confidences, is_right = np.asarray(confidences, np.float64), np.asarray(is_right, np.float64)
    numbers = np.clip(np.ceil(confidences * BINS).astype(int) - 1, 0, BINS - 1)
    rows = []
    for number in np.unique(numbers):
        inside = numbers == number
        edges = {"from": float(number / BINS), "to": float((number + 1) / BINS)}
        means = {"confidence": float(confidences[inside].mean()), "accuracy": float(is_right[inside].mean())}
        rows.append({**edges, "count": int(inside.sum()), **means})
    return rows


def fit_temperature(logits: Rows, right: Rows, prior: Prior | None = None) -> float:
    """The temperature with the smallest mean negative log-likelihood; 1 if it is not within BOUNDS.

    If all predictions are right, for example, there is no best temperature: lower is always more likely. With a prior
    there is a most probable one; for few examples it is close to the prior's.

    logits: one array [C] per example; C may differ. right: indices of each example's correct outputs; their
    probabilities are summed. An example without a correct output teaches that all its outputs are unlikely: its
    likelihood is the probability that its first output, the prediction, is wrong.
    """
    blocks = [_block(logits[rows], right[rows]) for rows in _slices(logits)]
    if not blocks:
        return prior.temperature if prior else 1.0

    def loss(log_temperature: float) -> float:
        likelihoods = [_likelihoods(*block, temperature=np.exp(log_temperature)) for block in blocks]
        surprise = 0.0
        if prior:
            surprise = ((log_temperature - np.log(prior.temperature)) / prior.deviation) ** 2 / 2
        return float(-np.log(np.clip(np.concatenate(likelihoods), 1e-12, 1)).mean() + surprise / len(logits))

    ends = np.log(BOUNDS)
    found = optimize.minimize_scalar(loss, bounds=tuple(ends), method="bounded", options={"xatol": 1e-4})
    is_within = np.abs(found.x - ends).min() > END and found.fun < min(map(loss, ends))
    return float(np.exp(found.x)) if is_within else 1.0


def _slices(logits: Rows) -> list[slice]:
    """Slices of examples with at most BLOCK logits, to save memory with 10,000 classes; at least one example each."""
    count = max(1, BLOCK // max(map(len, logits), default=1))
    return [slice(begin, begin + count) for begin in range(0, len(logits), count)]


def _block(logits: Rows, right: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits [n, C], padded with -inf, and the rows and columns of the correct outputs."""
    if isinstance(logits, np.ndarray):
        table = logits
    else:
        table = np.full((len(logits), max(map(len, logits))), -np.inf)
        for row, values in enumerate(logits):
            table[row, : len(values)] = values
    rows = np.repeat(np.arange(len(right)), [len(numbers) for numbers in right])
    return table, rows, np.concatenate([np.asarray(numbers, int) for numbers in right])


def _likelihoods(table: np.ndarray, rows: np.ndarray, columns: np.ndarray, *, temperature: float) -> np.ndarray:
    """Likelihoods of a block's examples, [n]: see `fit_temperature`."""
    shares = softmax(table, temperature)
    sums = np.bincount(rows, shares[rows, columns], minlength=len(table))
    return np.where(np.bincount(rows, minlength=len(table)) > 0, sums, 1 - shares[:, 0])


def report(logits: Rows, right: Rows, prior: Prior | None = None) -> dict[str, Any]:
    """Calibration of the probabilities of predictions, without and with a temperature.

    Args as for `fit_temperature`; an example's prediction is its largest logit, for questions the first.

    Returns:
        "expected_calibration_error" and "bins" of softmax(logits); "temperature", fitted on all examples; and
        "with_temperature", the error with each half of the examples scaled by the temperature fitted on the other;
        None with fewer than FEWEST examples, and if no temperature fits best. "is_used": whether there is a prior, as
        for temperatures applied to answers.
    """
    temperature = fit_temperature(logits, right, prior)
    is_proposed = len(logits) >= FEWEST and temperature != 1
    halves = [fit_temperature(logits[1 - half :: 2], right[1 - half :: 2], prior) for half in (0, 1)]  # the other half
    others = np.resize(halves, len(logits))
    columns = [_predicted(logits[rows], right[rows], others[rows]) for rows in _slices(logits)]
    is_right, plain, scaled = np.concatenate([np.zeros((3, 0)), *columns], 1)
    return {
        "expected_calibration_error": expected_calibration_error(plain, is_right),
        "temperature": temperature,
        "with_temperature": expected_calibration_error(scaled, is_right) if is_proposed else None,
        "is_used": prior is not None,
        "bins": reliability(plain, is_right),
    }


def _predicted(logits: Rows, right: Rows, temperatures: np.ndarray) -> np.ndarray:
    """For each example's largest logit: is it right, its probability, and its probability with temperature, [3, n].

    temperatures: one per example, [n].
    """
    table, rows, columns = _block(logits, right)
    best, every = table.argmax(1), np.arange(len(table))
    is_right = np.bincount(rows, best[rows] == columns, minlength=len(table))
    return np.stack([is_right, softmax(table)[every, best], softmax(table, temperatures[:, None])[every, best]])


def log_losses(logits: np.ndarray, labels: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Negative log-probability of each label, clipped at a probability of 1e-12; logits [n, C], labels [n]."""
    blocks = (_block(logits[rows], labels[rows, None]) for rows in _slices(logits))
    likelihoods = [_likelihoods(*block, temperature=temperature) for block in blocks]
    return -np.log(np.clip(np.concatenate([np.zeros(0), *likelihoods]), 1e-12, 1))


def sentence(values: dict[str, Any]) -> str:
    """The report in words."""
    error, scaled = values["expected_calibration_error"], values["with_temperature"]
    if values.get("is_used"):
        measured = "" if scaled is None else f": expected calibration error {scaled:.3f} (without it {error:.3f})"
        return f"probabilities have the temperature {values['temperature']:.2f}{measured}"
    if scaled is None:
        return f"expected calibration error {error:.3f}"
    if scaled >= error:
        return f"expected calibration error {error:.3f}; a temperature does not lower it"
    return (
        f"expected calibration error {error:.3f}; {scaled:.3f} with temperature {values['temperature']:.2f} "
        "(fitted on the other half)"
    )
