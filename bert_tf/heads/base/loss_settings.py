"""Changes to a head's training loss: smoothed labels, focal weights, label weights.

C labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bert_tf.errors import UserError
from bert_tf.runtime.lazy import tf

BALANCED = "balanced"


def cross_entropy(targets: tf.Tensor, log_probabilities: tf.Tensor, gamma: float) -> tf.Tensor:
    """-sum of targets * (1 - p)^gamma * log p over the last axis, float32 [...] of [..., C].

    Cross entropy if gamma is 0, otherwise the focal loss.
    """
    terms = targets * log_probabilities
    if gamma:
        terms *= tf.pow(-tf.math.expm1(log_probabilities), gamma)
    return -tf.reduce_sum(terms, -1)


def parse_weights(flag: str, text: str, labels: Sequence[str]) -> np.ndarray:
    """Label weights, float32 [C], from "3", "1,3" in their order, or "yes=3", which leaves others at 1.

    Raises UserError, which names the flag, for anything else.
    """
    weights = np.ones(len(labels), np.float32)
    parts = [part.strip() for part in text.split(",")]
    if not any("=" in part for part in parts) and len(parts) in (1, len(labels)):
        weights[:] = [_number(flag, part, text) for part in parts]
        return weights
    for part in parts:
        label, _, number = part.rpartition("=")
        if label not in labels:
            raise UserError(
                f"{flag} is {text!r}; expected {BALANCED}, a number for each of the {len(labels)} labels in their "
                f"order, or label=number with labels among {', '.join(labels)}."
            )
        weights[labels.index(label)] = _number(flag, number, text)
    return weights


def _number(flag: str, part: str, text: str) -> float:
    try:
        number = float(part)
    except ValueError:
        number = np.nan
    if not 0 <= number < np.inf:
        raise UserError(f"{flag} is {text!r}; expected numbers of 0 or more, but {part!r} is not.")
    return number
