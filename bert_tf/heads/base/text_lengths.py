"""Lengths of the texts of a split and the padding they need: statistics for run reports. n texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bert_tf.model import packing
from bert_tf.runtime.lazy import tf

BATCH, MAX_BATCHES = 32, 8  # padding is estimated on 8 batches of 32 texts, from all over the split
SAMPLE = 2048  # rows of pre-training data, which may have millions
MAX_BARS = 24
PACKED = packing.Planner(rules=(packing.shared,), texts_per_row=BATCH)


def statistics(lengths: npt.ArrayLike, max_seq_length: int) -> dict[str, Any]:
    """{name: number} for texts of these lengths [n], with [CLS] and [SEP], in rows of at most max_seq_length tokens.

    The three kinds of padding are fractions of all positions: in rows of max_seq_length, in batches as wide as their
    longest text, and in such batches whose texts share rows (see model.packing). "lengths" is a histogram: the
    "width" of a bar in tokens, and "counts", the number of texts in each bar.
    """
    sizes = np.asarray(lengths)
    rows = np.minimum(sizes, max_seq_length)
    cut, packed = _padding_of_batches(rows)
    return {
        "mean_length": round(float(sizes.mean()), 1),
        "longest": int(sizes.max()),
        f"longer_than_{max_seq_length}": int((sizes > max_seq_length).sum()),
        "padding_in_full_rows": round(1 - float(rows.mean()) / max_seq_length, 3),
        "padding_in_batches": round(cut, 3),
        "padding_when_packed": round(packed, 3),
        "lengths": _bars(sizes),
    }


def of_rows(batches: tf.data.Dataset, max_seq_length: int) -> dict[str, Any]:
    """{name: number} for the first SAMPLE rows of pre-training batches, as returned by `statistics` for texts.

    Also "predictions_per_row" and "most_predictions_in_a_row": masked tokens of a row. Masks are as in an
    evaluation: different tokens from training, but equally many. {} if there are no rows.
    """
    rows = next(iter(batches.rebatch(SAMPLE)), None)
    if rows is None:
        return {}
    sizes = rows["lengths"].numpy()
    masked = (rows["masked_lm_weights"].numpy() > 0).sum(1)[sizes > 0]
    row_statistics = statistics(sizes[sizes > 0], max_seq_length)
    del row_statistics[f"longer_than_{max_seq_length}"]  # never longer: records are made for this length
    predictions = {
        "predictions_per_row": round(float(masked.mean()), 1),
        "most_predictions_in_a_row": int(masked.max()),
    }
    return {"rows_in_the_sample": len(masked), **predictions, **row_statistics}


def _padding_of_batches(rows: np.ndarray) -> tuple[float, float]:
    """Fractions of padding in batches as wide as their longest row, and in the same batches packed."""
    starts = np.arange(0, len(rows), BATCH)
    starts = starts[:: -(-len(starts) // MAX_BATCHES)]
    used = cut = packed = 0
    for start in starts:
        batch = rows[start : start + BATCH]
        used += int(batch.sum())
        cut += int(batch.max()) * len(batch)
        packed += sum(call.shape.rows * call.shape.width for call in PACKED.plan(batch.tolist()))
    return 1 - used / cut, 1 - used / packed


def _bars(sizes: np.ndarray) -> dict[str, Any]:
    """{"width", "counts"}: a round width, with at most MAX_BARS bars; the last bar contains all longer texts."""
    most = max(int(np.percentile(sizes, 99.5)), 1)
    width = next(size for size in (1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128, 250, 256, 500, 512, 1000, most)
                 if most / size <= MAX_BARS)  # fmt: skip
    bars = min(-(-most // width), MAX_BARS)
    counts = np.bincount(np.minimum((sizes - 1) // width, bars - 1), minlength=bars)
    return {"width": width, "counts": counts.tolist()}
