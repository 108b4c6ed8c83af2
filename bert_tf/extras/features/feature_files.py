"""Vectors of texts as files: JSONL in the original's shape, TFRecord, and tables. Free of TensorFlow until used.

n tokens or words of a text (1 for a whole text), N of all texts, K vectors of each, E numbers of a vector.

A writer takes texts one after the other and holds few of them; files are written atomically.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from bert_tf.data import table_files
from bert_tf.errors import UserError
from bert_tf.extras.features import feature_tables
from bert_tf.heads.vectors.text_vectors import Add, Shape, TextVectors
from bert_tf.runtime import atomic_files, files
from bert_tf.runtime.lazy import tf

FORMATS = ("jsonl", "npz", "parquet", "tfrecord")
DIGITS = 6  # after the decimal point in JSON, as in google-research/bert `extract_features.py`


Writer = Callable[[str, Shape], AbstractContextManager[Add]]


def format_of(path: str, kind: str | None = None) -> str:
    """The format of a file: `kind`, or by its extension. Raises UserError if it is unknown."""
    kind = kind or os.path.splitext(path)[1].lower().removeprefix(".")
    if kind not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise UserError(f"output is {path}; expected a name that ends in {endings}, or one of these as format.")
    return kind


def check_writable(path: str, *, overwrite: bool = False, kind: str | None = None) -> None:
    """Raises UserError for a file that exists, a folder that does not, or a format whose package is missing."""
    kind = format_of(path, kind)
    if files.is_folder(path) or not files.has_folder(path):
        raise UserError(f"{path} cannot be written: pass a file in an existing folder.")
    if files.exists(path) and not overwrite:
        raise UserError(f"{path} exists already: pass another output, or overwrite.")
    if kind == "parquet":
        table_files.require("pyarrow")


@contextlib.contextmanager
def writer(path: str, shape: Shape, kind: str | None = None, *, shared: bool = False) -> Iterator[Add]:
    """Yields `add(number, text_vectors, id)`; the file appears at the end, and not at all after an exception.

    shared: whether other processes may write the same file at the same time.
    """
    writers = dict(zip(FORMATS, (_jsonl, feature_tables.npz, feature_tables.parquet, _tfrecord), strict=True))
    with (
        atomic_files.atomic_write(path, shared=shared) as partial,
        writers[format_of(path, kind)](partial, shape) as add,
    ):
        yield add


def json_line(number: int, text: TextVectors, shape: Shape, identifier: str | None = None) -> str:
    """A line of JSON in the shape of google-research/bert `extract_features.py`.

    {"linex_index": 0, "features": [{"token": "[CLS]", "layers": [{"index": -1, "values": [...]}]}]}; a word has
    "start" and "end" too, and a whole text has "layers" instead of "features".
    """
    rounded = np.round(text.vectors.astype(np.float64), DIGITS).tolist()
    layers = [
        [{"index": name, "values": values} for name, values in zip(shape.layers, token, strict=True)]
        for token in rounded
    ]
    row: dict[str, Any] = {"linex_index": number} | ({"id": identifier} if shape.has_ids else {})
    if shape.unit == "sentence":
        return json.dumps(row | {"layers": layers[0]}, ensure_ascii=False) + "\n"
    items: list[dict[str, Any]] = [
        {"token": name, "layers": values} for name, values in zip(text.names, layers, strict=True)
    ]
    if shape.unit == "word" and text.starts is not None and text.ends is not None:
        for item, start, end in zip(items, text.starts.tolist(), text.ends.tolist(), strict=True):
            item |= {"start": start, "end": end}
    return json.dumps(row | {"features": items}, ensure_ascii=False) + "\n"


@contextlib.contextmanager
def _jsonl(partial: str, shape: Shape) -> Iterator[Add]:
    with open(partial, "w", encoding="utf-8", newline="") as file:
        yield lambda number, text, identifier=None: file.write(json_line(number, text, shape, identifier))


@contextlib.contextmanager
def _tfrecord(path: str, shape: Shape) -> Iterator[Add]:
    """One tf.train.Example per text: "index", "vectors" (n * K * E floats), "shape" [n, K, E], columns of tokens."""

    def numbers(values: Any) -> "tf.train.Feature":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=np.ravel(values)))

    def strings(values: Sequence[str]) -> "tf.train.Feature":
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode() for value in values]))

    def add(number: int, text: TextVectors, identifier: str = "") -> None:
        feature = {"index": numbers([number]), "shape": numbers(text.vectors.shape)}
        feature["vectors"] = tf.train.Feature(float_list=tf.train.FloatList(value=text.vectors.ravel()))
        if shape.has_ids:
            feature["id"] = strings([identifier])
        if text.names is not None:
            feature["tokens"] = strings(text.names)
            feature |= {name: numbers(getattr(text, name)) for name in ("starts", "ends", "segments")}
        file.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())

    with tf.io.TFRecordWriter(path) as file:
        yield add
