"""Predictions that are worthless: all the same, or uncorrelated with the labels. Free of TensorFlow."""

import numpy as np
import numpy.typing as npt

NO_CORRELATION = 0.05  # below it predicted numbers say nothing about the labels


def reason(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> str | None:
    """Reason why predictions are worthless, in words, or None: one class for all examples, numbers that do not vary.

    labels, predictions: arrays [n] of classes, [n, C] of 0 and 1, or float [n]. Labels that do not vary themselves
    show nothing. Fine-tuning on few examples ends so now and then (Mosbach et al. 2020).
    """
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if len(labels) < 2 or np.all(labels == labels[:1]):
        return None
    if predictions.dtype.kind != "f":
        is_one = np.all(predictions == predictions[:1])
        return f"all {len(predictions)} predictions are the same" if is_one else None
    if np.std(predictions) <= 1e-4 * np.std(labels):
        return f"all {len(predictions)} predicted numbers are the same"
    correlation = np.corrcoef(labels, predictions)[0, 1]
    is_low = not correlation >= NO_CORRELATION
    return f"the predictions do not follow the labels, the correlation is {correlation:.2f}" if is_low else None
