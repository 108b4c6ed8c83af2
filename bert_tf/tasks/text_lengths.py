"""How long the texts of a split are, and how much padding that makes: statistics for the report of a run.

n texts, R texts of a batch, P places where pre-training may ask for a piece.
"""

import numpy as np
import tensorflow as tf

from bert_tf.model import sequence_packing

BATCH, MOST_BATCHES = 32, 8  # padding is estimated on so many texts of so many places of the split
SAMPLE = 2048  # rows of pre-training that are looked at: there may be millions
MOST_BARS = 24


def statistics(sizes, slots):
    """{name: number} of texts of `sizes` pieces [n], [CLS] and [SEP] included, in rows of at most `slots`.

    The three kinds of padding are shares of all slots: in rows that all have `slots`, in batches that are cut to their
    longest text, and in such batches whose texts share rows (see model.sequence_packing). "lengths" has, for bars, the
    "width" of a bar in pieces, and "counts", how many texts lie under each.
    """
    sizes = np.asarray(sizes)
    rows = np.minimum(sizes, slots)
    cut, packed = _padding_of_batches(rows)
    return {
        "mean_length": round(float(sizes.mean()), 1),
        "longest": int(sizes.max()),
        f"longer_than_{slots}": int((sizes > slots).sum()),
        "padding_in_full_rows": round(1 - float(rows.mean()) / slots, 3),
        "padding_in_batches": round(cut, 3),
        "padding_when_packed": round(packed, 3),
        "lengths": _bars(sizes),
    }


def of_rows(task, slots, split="train"):
    """{name: number} of the first SAMPLE rows that pre-training reads, as `statistics` has it of texts.

    Besides, "predictions_per_row" and "most_predictions_in_a_row": how many pieces of a row are asked for. The masks
    are those of an evaluation: other pieces than in training, as many. {} where the split has no rows.
    """
    batches = list(task.eval_batches(SAMPLE // 8, split).take(8))
    sizes = np.concatenate([np.zeros(0, int), *(batch["lengths"].numpy() for batch in batches)])
    if not sizes.any():
        return {}
    asked = np.concatenate([(batch["masked_lm_weights"].numpy() > 0).sum(1) for batch in batches])[sizes > 0]
    found = statistics(sizes[sizes > 0], slots)
    del found[f"longer_than_{slots}"]  # none is, by the making of the records
    predictions = {"predictions_per_row": round(float(asked.mean()), 1), "most_predictions_in_a_row": int(asked.max())}
    return {"rows_in_the_sample": len(asked), **predictions, **found}


def _padding_of_batches(rows):
    """Shares of padding in batches cut to the longest, and in the same ones packed."""
    starts = np.arange(0, len(rows), BATCH)
    starts = starts[:: -(-len(starts) // MOST_BATCHES)]
    used = cut = packed = 0
    for start in starts:
        batch = rows[start : start + BATCH].astype(np.int32)
        used += int(batch.sum())
        cut += int(batch.max()) * len(batch)
        packed += int(_slots_when_packed(batch))
    return 1 - used / cut, 1 - used / packed


@tf.function(input_signature=[tf.TensorSpec([None], tf.int32)], autograph=False)
def _slots_when_packed(lengths):
    width = sequence_packing.choose_row_width(lengths, sequence_packing.local_costs())
    return sequence_packing.first_fit_decreasing(lengths, width[None])[1][0] * width


def _bars(sizes):
    """{"width", "counts"}: a round width so that there are at most MOST_BARS, the last of which holds all beyond."""
    most = max(int(np.percentile(sizes, 99.5)), 1)
    width = next(size for size in (1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128, 250, 256, 500, 512, 1000, most)
                 if most / size <= MOST_BARS)  # fmt: skip
    bars = min(-(-most // width), MOST_BARS)
    counts = np.bincount(np.minimum((sizes - 1) // width, bars - 1), minlength=bars)
    return {"width": width, "counts": counts.tolist()}
