"""Vectors of texts as files: JSONL in the original's shape, TFRecord, and tables. Free of TensorFlow until used.

n tokens or words of a text (1 for a whole text), N of all texts, K vectors of each, E numbers of a vector.

A writer takes texts one after the other and holds few of them; its file appears whole or not at all.
"""

import contextlib
import dataclasses
import json
import os

from bert_tf.errors import UserError
from bert_tf.runtime import atomic_files

FORMATS = ("jsonl", "npz", "parquet", "tfrecord")
DIGITS = 6  # behind the point in JSON, as in google-research/bert `extract_features.py`


@dataclasses.dataclass(frozen=True)
class TextVectors:
    """What was found of one text: `vectors` float32 [n, K, E], of tokens, of words, or (n is 1) of the whole.

    names: the tokens, or the words as they stand in the text; None for the whole. starts, ends: characters of the
    text, -1 for [CLS] and [SEP]. segments: 0, and 1 in the second text of a pair.
    """

    vectors: object
    names: tuple | None = None
    starts: object = None
    ends: object = None
    segments: object = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """What a file of vectors holds of each text. layers: the names of the K vectors. has_ids: texts have ids."""

    unit: str
    layers: tuple
    width: int
    has_ids: bool = False


def kind_of(path, given=None):
    """The format of a file: as given, or by its ending. Raises UserError where it cannot be told."""
    kind = given or os.path.splitext(path)[1].lower().removeprefix(".")
    if kind not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise UserError(f"output is {path}; expected a name that ends in {endings}, or one of these as format.")
    return kind


def expect_writable(path, *, overwrite=False, kind=None):
    """Raises UserError where a file cannot be made: it exists, its folder does not, its format needs a package."""
    kind = kind_of(path, kind)
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise UserError(f"{path} cannot be written: give a file in a folder that is there.")
    if os.path.exists(path) and not overwrite:
        raise UserError(f"{path} exists already: give another output, or overwrite.")
    if kind == "parquet":
        from bert_tf.tasks.embeddings import feature_tables

        feature_tables.pyarrow()


@contextlib.contextmanager
def writer(path, shape, kind=None):
    """Yields `add(number, text_vectors, id)`; the file appears at the end, and not at all if something fails."""
    with (
        atomic_files.atomic_write(path, shared=True) as partial,
        _writers()[kind_of(path, kind)](partial, shape) as add,
    ):
        yield add


def _writers():
    from bert_tf.tasks.embeddings import (
        feature_tables,  # not above: it loads NumPy, and `bert-tf extract --help` is to be quick
    )

    return dict(zip(FORMATS, (_jsonl, feature_tables.npz, feature_tables.parquet, _tfrecord), strict=True))


def json_line(number, found, shape, identifier=None):
    """A line of JSON in the shape of google-research/bert `extract_features.py`.

    {"linex_index": 0, "features": [{"token": "[CLS]", "layers": [{"index": -1, "values": [...]}]}]}; a word has "start"
    and "end" too, and of a whole text there is only "layers" in the place of "features".
    """
    import numpy as np

    rounded = np.round(found.vectors.astype(np.float64), DIGITS).tolist()
    layers = [
        [{"index": name, "values": values} for name, values in zip(shape.layers, token, strict=True)]
        for token in rounded
    ]
    row = {"linex_index": number} | ({"id": identifier} if shape.has_ids else {})
    if shape.unit == "sentence":
        return json.dumps(row | {"layers": layers[0]}, ensure_ascii=False) + "\n"
    items = [{"token": name, "layers": each} for name, each in zip(found.names, layers, strict=True)]
    if shape.unit == "word":
        for item, start, end in zip(items, found.starts.tolist(), found.ends.tolist(), strict=True):
            item |= {"start": start, "end": end}
    return json.dumps(row | {"features": items}, ensure_ascii=False) + "\n"


@contextlib.contextmanager
def _jsonl(path, shape):
    with open(path, "w", encoding="utf-8", newline="") as file:
        yield lambda number, found, identifier=None: file.write(json_line(number, found, shape, identifier))


@contextlib.contextmanager
def _tfrecord(path, shape):
    """A tf.train.Example a text: "index", "vectors" (n * K * E floats), "shape" [n, K, E], and what tokens have."""
    import numpy as np
    import tensorflow as tf

    def numbers(values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=np.ravel(values)))

    def strings(values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode() for value in values]))

    def add(number, found, identifier=None):
        feature = {"index": numbers([number]), "shape": numbers(found.vectors.shape)}
        feature["vectors"] = tf.train.Feature(float_list=tf.train.FloatList(value=found.vectors.ravel()))
        if shape.has_ids:
            feature["id"] = strings([identifier])
        if found.names is not None:
            feature["tokens"] = strings(found.names)
            feature |= {name: numbers(getattr(found, name)) for name in ("starts", "ends", "segments")}
        file.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())

    with tf.io.TFRecordWriter(path) as file:
        yield add
