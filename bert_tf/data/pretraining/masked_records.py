"""Records masked by other programs: TFRecords of google-research/bert and NVIDIA, read as they are.

Their features are input_ids, input_mask and segment_ids [L], masked_lm_positions, masked_lm_ids and masked_lm_weights
[P], and next_sentence_labels [1]. Unlike our own records, rows have fixed masks and are padded.
"""

import concurrent.futures
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.data.pretraining import record_files
from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.lazy import tf

FEATURES = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids", "next_sentence_labels")
FORMAT = "masked"  # manifest["wanted"]["format"]
HELD_OUT = ("eval", "test", "dev", "valid")  # in file names
OPENED = 32  # files to inspect at most
COUNTED = 10_000  # rows whose tokens are counted


def find(folder: str) -> list[str]:
    """The TFRecord files of a folder without a manifest; [] if it has one, has no such files, or is ""."""
    if not folder:
        return []
    names = files.names(folder)
    if "manifest.json" in names or "options.json" in names:
        return []
    return [os.path.join(folder, name) for name in names if ".tfrecord" in name or ".tf_record" in name]


def open_masked(
    paths: Sequence[str], *, max_seq_length: int, max_predictions_per_seq: int, size: int
) -> dict[str, Any]:
    """A manifest as from `records.open_records`, with "token_counts"; reads only the beginning of some files.

    Files with "eval", "test", "dev" or "valid" in their name are held out; without any, the last of several files.
    Raises UserError if one of them has another format, other lengths, or ids of `size` or more.
    """
    held_out = [path for path in paths if any(word in os.path.basename(path) for word in HELD_OUT)]
    warnings = []
    if not held_out:
        held_out = list(paths[-1:])
        if len(paths) == 1:
            warnings.append("The records are one file: evaluation uses the training text.")
    train = [path for path in paths if path not in held_out] or list(paths)
    some = paths[:: math.ceil(len(paths) / OPENED)]
    with concurrent.futures.ThreadPoolExecutor(OPENED) as pool:  # a store answers slowly, but many at once
        rows = list(pool.map(lambda path: next(_rows(path), None), some))
    for path, row in zip(some, rows, strict=True):
        if row is None:
            raise UserError(f"{path} contains no record: remove it from the folder.")
        for flag, feature, expected in (
            ("max_seq_length", "input_ids", max_seq_length),
            ("max_predictions_per_seq", "masked_lm_positions", max_predictions_per_seq),
        ):
            if len(row[feature]) != expected:
                raise UserError(f"{path} has rows with {flag}={len(row[feature])}, not {expected}: pass that.")
    counts = _token_counts(train, size)
    return {
        "folder": os.path.dirname(paths[0]),
        "wanted": {"max_seq_length": max_seq_length, "format": FORMAT},
        "train_files": train,
        "eval_files": held_out,
        "token_counts": counts,
        "warnings": warnings,
        "evaluates_on_training_text": bool(warnings),
    }


def _token_counts(paths: Sequence[str], size: int) -> np.ndarray:
    """Counts of each id in the first rows, masked ones included: int64 [V]."""
    counts = np.zeros(size, np.int64)
    for number, row in zip(range(COUNTED), (row for path in paths for row in _rows(path)), strict=False):
        ids = row["input_ids"][: int(row["input_mask"].sum())].copy()
        weights = row["masked_lm_positions"] > 0
        ids[row["masked_lm_positions"][weights]] = row["masked_lm_ids"][weights]
        if ids.max(initial=0) >= size:
            raise UserError(
                f"Record {number} has the id {ids.max()}, and the vocabulary {size:,} tokens: pass that of the records."
            )
        counts += np.bincount(ids, minlength=size)
    return counts


def _rows(path: str) -> Iterator[dict[str, np.ndarray]]:
    """The integer features of a file's rows; raises UserError for another format or damage."""
    for serialized in record_files.read_records(path):
        features = tf.train.Example.FromString(serialized).features.feature
        missing = [name for name in FEATURES if not features[name].int64_list.value]
        if missing:
            raise UserError(
                f"{path} has no {', '.join(missing)}: it is not a TFRecord file of google-research/bert; pass text as "
                "input_file instead."
            )
        yield {name: np.array(features[name].int64_list.value) for name in FEATURES}
