"""Preprocessed examples: token sequences with labels as TFRecords, in the layout of google-research/bert.

Same features as `run_classifier.py` and `run_squad.py: file_based_convert_examples_to_features`: input_ids, input_mask,
segment_ids, and label_ids or start_positions and end_positions. NAME.json next to a file records the settings of its
rows; files without it are read too.

n examples, B rows of a batch, T = max_seq_length.
"""

import dataclasses
import functools
import hashlib
import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.atomic_files import atomic_write, write_json
from bert_tf.runtime.json_files import require_json
from bert_tf.runtime.lazy import tf

if TYPE_CHECKING:
    Specs = Mapping[str, tf.TensorSpec]  # features of a row, by our names

EXTENSIONS = (".tf_record", ".tfrecord")
NAMES = {"token_ids": "input_ids", "lengths": "input_mask", "labels": "label_ids"}  # ours -> theirs; others are equal
BOUNDS = {"segment_ids": (0, 1), "lengths": (0, 1), "begins": (0, 1), "ends": (0, 1)}  # ranges of values
POSITIONS = ("start_positions", "end_positions")
NOT_STORED = ("row_numbers", "row_weights")
ROWS_AT_ONCE = 4096
FIRST_UNIQUE_ID = 1_000_000_000  # as in run_squad.py


@dataclasses.dataclass(frozen=True)
class StoredExamples:
    """A split with the examples of a preprocessed file."""

    path: str


def is_file_of_them(path: str) -> bool:
    """Returns whether a path is named like a file of preprocessed examples."""
    return path.lower().endswith(EXTENSIONS)


def digest(vocabulary: Iterable[str]) -> str:
    """A short hash that identifies a vocabulary."""
    return hashlib.blake2b("\n".join(vocabulary).encode(), digest_size=8).hexdigest()


def write(path: str, batches: "tf.data.Dataset", about: Mapping[str, Any], extra: Mapping[str, np.ndarray]) -> int:
    """Writes the rows of one pass over a split, and `about` next to them; returns the number of rows.

    Args:
        path: the file.
        batches: the batches of a split in order; rows with number 0 or, if there are weights, weight 0 are skipped.
        about: the settings as plain data.
        extra: {name: int array [n, ...]}, additional features; n counts all rows of the split.
    """
    count = 0
    with atomic_write(path) as partial, tf.io.TFRecordWriter(partial) as writer:
        for batch in batches.as_numpy_iterator():
            numbers, weights = batch["row_numbers"], batch.get("row_weights", batch["row_numbers"])
            for row in np.flatnonzero((numbers > 0) & ((weights > 0) | (not about["is_known"]))):
                values = {name: array[row] for name, array in batch.items() if name not in NOT_STORED}
                values |= {name: array[numbers[row] - 1] for name, array in extra.items()}
                writer.write(_serialize(values, count))
                count += 1
    write_json(f"{path}.json", {**about, "count": count})
    return count


def _serialize(row: Mapping[str, np.ndarray], number: int) -> bytes:
    example = tf.train.Example()
    feature = example.features.feature
    for name, values in row.items():
        if name == "lengths":
            values = np.arange(row["token_ids"].shape[-1]) < np.expand_dims(values, -1)
        flat = np.reshape(values, -1)
        if flat.dtype.kind == "f":
            feature[NAMES.get(name, name)].float_list.value.extend(flat.tolist())
        else:
            feature[NAMES.get(name, name)].int64_list.value.extend(flat.astype(np.int64).tolist())
    feature["is_real_example"].int64_list.value.append(1)
    feature["unique_ids"].int64_list.value.append(FIRST_UNIQUE_ID + number)
    return example.SerializeToString(deterministic=True)


def about_of(path: str) -> dict[str, Any]:
    """The settings that a file's rows were made with, {} if unknown."""
    name = f"{path}.json"
    about = require_json(name, "a JSON object; write the examples again") if files.is_file(name) else {}
    if not isinstance(about, dict):
        raise UserError(f"{name} contains no JSON object: write the examples again.")
    labels = about.get("labels") or []
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise UserError(f"{name} has labels {labels!r}; expected a list of names: write the examples again.")
    if not isinstance(about.get("flags") or {}, dict):
        raise UserError(f"{name} has flags {about['flags']!r}; expected a JSON object: write the examples again.")
    return about


class ReadyRows:
    """The rows of a file, kept serialized in memory.

    Args:
        path: the file.
        specs: specs of the features of a row.
        vocabulary_size: upper bound of the ids.
        labels: the smallest and the largest label number, if there are labels.

    Attributes:
        count, checksum: n, and the checksum of all rows.
        lengths: tokens of the longest row of an example, int32 [n].
        labels: the labels of the rows, an array [n, ...]; None if `specs` has none.
        token_counts: tokens before truncation, int32 [n, segments], if the file has them; else None.

    Raises:
        UserError: the file is missing, damaged, empty, or contains other rows.
    """

    def __init__(
        self, path: str, specs: "Specs", vocabulary_size: int, *, labels: tuple[int, int] | None = None
    ) -> None:
        if not files.is_file(path):
            raise UserError(f"There is no file {path}: pass TFRecords of preprocessed examples.")
        self.path, self.specs, self.is_known = path, dict(specs), bool(about_of(path).get("is_known", True))
        try:
            records = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        except tf.errors.OpError as error:
            raise UserError(
                f"{path} contains no readable TFRecords ({type(error).__name__}); write it again."
            ) from None
        if not records:
            raise UserError(f"{path} contains no examples.")
        self.count = len(records)
        self.checksum = functools.reduce(lambda total, row: zlib.crc32(row, total), records, 0)
        self._records = tf.constant(records, tf.string)
        positions = self.specs["token_ids"].shape[-1]
        self._bounds = {name: BOUNDS[name] for name in BOUNDS.keys() & self.specs.keys()}
        self._bounds |= {name: (0, positions - 1) for name in POSITIONS if name in self.specs}
        self._bounds["token_ids"] = (0, vocabulary_size - 1)
        self._bounds |= {} if labels is None else {"labels": labels}
        self._check()

    def _check(self) -> None:
        """Reads lengths and labels of every row, once; raises UserError for rows of a different kind."""
        parts = []
        for first in range(0, self.count, ROWS_AT_ONCE):
            records = self._records[first : first + ROWS_AT_ONCE]
            values = {name: x.numpy() for name, x in self._values(records).items()}
            for name, numbers in values.items():
                self._check_numbers(name, numbers, first)
            rows = self._parse(records)
            parts.append({name: rows[name].numpy() for name in ("lengths", "labels") if name in rows})
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        self.lengths = arrays["lengths"].reshape(self.count, -1).max(1)
        self.labels = arrays.get("labels")
        self.token_counts = self._token_counts()

    def _check_numbers(self, name: str, values: np.ndarray, first: int) -> None:
        """Raises UserError for values [B, ...] that no task writes, in the records from `first` on."""
        flat = values.reshape(len(values), -1)
        dtype = self.specs[name].dtype
        low, high = self._bounds.get(name, (dtype.min, dtype.max))
        is_wrong = ~((flat >= low) & (flat <= high))  # NaN, too
        if is_wrong.any():
            row, column = np.argwhere(is_wrong)[0]
            number, place = flat[row, column], f"record {first + row + 1}"
            if name == "token_ids":
                raise UserError(
                    f"{self.path} was written with a different vocabulary: it contains the token id {number} in "
                    f"{place}, but the vocabulary has {high + 1} tokens."
                )
            expected = "a number" if name not in self._bounds else f"{low} to {high}"
            raise UserError(
                f"{self.path} has the number {number} in {NAMES.get(name, name)} of {place}; expected {expected}."
            )
        if name == "lengths":
            has_hole = (np.diff(values, axis=-1) > 0).reshape(len(values), -1).any(1)
            for is_bad, reason in ((has_hole, "has holes"), (flat.max(1) == 0, "is 0 throughout")):
                if is_bad.any():
                    raise UserError(
                        f"{self.path}: input_mask {reason} in record {first + int(is_bad.argmax()) + 1}; expected 1 "
                        "for each token, then 0."
                    )

    def _token_counts(self) -> np.ndarray | None:
        ragged = tf.io.parse_example(self._records, {"token_counts": tf.io.RaggedFeature(tf.int64)})["token_counts"]
        counts = ragged.values.numpy().astype(np.int32)
        return counts.reshape(self.count, -1) if len(counts) and len(counts) % self.count == 0 else None

    def _parse(self, records: "tf.Tensor") -> "dict[str, tf.Tensor]":
        """Serialized rows, string [B] -> {our name: tensor [B, ...]}."""
        rows = self._values(records)
        rows["lengths"] = tf.reduce_sum(rows["lengths"], -1)
        return {name: tf.cast(x, self.specs[name].dtype) for name, x in rows.items()}

    def _values(self, records: "tf.Tensor") -> "dict[str, tf.Tensor]":
        """The values of serialized rows as stored, int64 or float32; a mask for lengths."""
        positions = self.specs["token_ids"].shape[-1]
        shapes = {
            name: [*spec.shape, positions] if name == "lengths" else spec.shape for name, spec in self.specs.items()
        }
        features = {
            NAMES.get(name, name): tf.io.FixedLenFeature(
                shapes[name], tf.float32 if spec.dtype.is_floating else tf.int64
            )
            for name, spec in self.specs.items()
        }
        try:
            values = tf.io.parse_example(records, features)
        except tf.errors.InvalidArgumentError:
            expected = ", ".join(f"{NAMES.get(name, name)} of {np.prod(shape):.0f}" for name, shape in shapes.items())
            raise UserError(
                f"{self.path} does not fit this task with max_seq_length {positions}; expected {expected}: write it "
                "with the same flags."
            ) from None
        return {name: values[NAMES.get(name, name)] for name in self.specs}

    def with_padding(self, row: "Mapping[str, tf.Tensor]") -> "ReadyRows":
        """Adds a row for padding batches, with index n."""
        values = {name: np.asarray(row[name]) for name in self.specs}
        self._records = tf.concat([self._records, [_serialize(values, self.count)]], 0)
        return self

    def gather(self, indices: "tf.Tensor") -> "dict[str, tf.Tensor]":
        """The rows at these indices, int64 [B] -> {our name: tensor [B, ...]}."""
        return self._parse(tf.gather(self._records, indices))
