"""Embedding files: JSONL as in google-research/bert, TFRecord, and tables. Free of TensorFlow until used.

n tokens or words of a text (1 for a whole text), N of all texts, K vectors for each, E dimensions.

A writer takes texts one by one and keeps few in memory; files are written atomically.
"""

import contextlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.data import table_files
from bert_tf.errors import UserError
from bert_tf.heads.vectors.text_vectors import Add, Shape, TextVectors
from bert_tf.runtime import atomic_files, files
from bert_tf.runtime.lazy import tf

ROWS_AT_ONCE = 4096  # rows written to a Parquet file at once
OFFSETS = ("starts", "ends", "segments")
FORMATS = ("jsonl", "npz", "parquet", "tfrecord")
DIGITS = 6  # after the decimal point in JSON, as in google-research/bert `extract_features.py`


def format_of(path: str, kind: str | None = None) -> str:
    """The format of a file: `kind`, or determined by its extension. Raises UserError if unknown."""
    kind = kind or os.path.splitext(path)[1].lower().removeprefix(".")
    if kind not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise UserError(f"output is {path}; expected a name that ends in {endings}, or one of these as format.")
    return kind


def check_writable(path: str, *, overwrite: bool = False, kind: str | None = None) -> None:
    """Raises UserError for an existing file, a missing folder, or a format whose package is missing."""
    kind = format_of(path, kind)
    atomic_files.check_place(path)
    if files.exists(path) and not overwrite:
        raise UserError(f"{path} exists already: pass another output, or overwrite.")
    if kind == "parquet":
        table_files.require("pyarrow")


@contextlib.contextmanager
def writer(path: str, shape: Shape, kind: str | None = None, *, shared: bool = False) -> Iterator[Add]:
    """Yields `add(number, text_vectors, id)`; the file appears at the end, or not at all after an exception.

    shared: whether other processes may write the same file at the same time.
    """
    writers = dict(zip(FORMATS, (_jsonl, _npz, _parquet, _tfrecord), strict=True))
    with (
        atomic_files.atomic_write(path, shared=shared) as partial,
        writers[format_of(path, kind)](partial, shape) as add,
    ):
        yield add


def json_line(number: int, text: TextVectors, shape: Shape, identifier: str | None = None) -> str:
    """A line of JSON in the format of google-research/bert `extract_features.py`.

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
            feature |= {name: numbers(getattr(text, name)) for name in OFFSETS}
        file.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())

    with tf.io.TFRecordWriter(path) as file:
        yield add


@contextlib.contextmanager
def _npz(path: str, shape: Shape) -> Iterator[Add]:
    """Arrays for `numpy.load`: "vectors" float32 [N, E], or [N, K, E], "layers" (their names), and "ids" of texts.

    For tokens and words also "tokens", "starts", "ends", "segments" [N], and "splits" [texts + 1]: text t has the rows
    from splits[t] to splits[t + 1]. Added vectors are buffered in unnamed files in the folder of `path`.
    """
    with contextlib.ExitStack() as stack:
        spools = {name: stack.enter_context(_Spool(path)) for name in ("vectors", "splits", "tokens", "ids", *OFFSETS)}
        spools["splits"].add_numbers(np.zeros(1, np.int64))

        def add(_: int, text: TextVectors, identifier: str = "") -> None:
            spools["vectors"].add_numbers(text.vectors)
            if shape.has_ids:
                spools["ids"].add_strings([identifier])
            if text.names is None:
                return
            spools["tokens"].add_strings(text.names)
            spools["splits"].add_numbers(np.array([spools["tokens"].count], np.int64))
            for name in OFFSETS:
                spools[name].add_numbers(np.asarray(getattr(text, name), np.int32))

        yield add
        inner: tuple[int, ...] = (shape.width,) if len(shape.layers) == 1 else (len(shape.layers), shape.width)
        names = ["vectors"] + ["ids"] * shape.has_ids
        names += [] if shape.unit == "sentence" else ["splits", "tokens", *OFFSETS]
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                spools[name].write_to(archive, name, inner if name == "vectors" else ())
            with archive.open("layers.npy", "w") as member:
                np.save(member, np.array([str(name) for name in shape.layers]))


class _Spool:
    """An array that grows on disk: numbers, or strings as wide as the longest."""

    def __init__(self, path: str) -> None:
        folder = os.path.dirname(os.path.abspath(path))
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115, closed by __exit__
        self.count = self.longest = 0
        self.kind: np.dtype | None = None

    def __enter__(self) -> "_Spool":
        return self

    def __exit__(self, *_: Any) -> None:
        self.file.close()

    def add_numbers(self, values: np.ndarray) -> None:
        """Adds the rows of an array; all arrays have the same dtype."""
        self.kind = values.dtype
        self.count += len(values)
        self.file.write(np.ascontiguousarray(values).data)

    def add_strings(self, values: Sequence[str]) -> None:
        """Adds strings; line feeds become spaces."""
        for value in values:
            encoded = value.replace("\n", " ").replace("\0", " ")
            self.longest = max(self.longest, len(encoded))
            self.file.write(encoded.encode("utf-8", "replace") + b"\n")
        self.count += len(values)

    def write_to(self, archive: zipfile.ZipFile, name: str, inner: tuple[int, ...]) -> None:
        """Writes a member of the archive: an array [count, *inner]."""
        kind = np.dtype(f"U{max(self.longest, 1)}") if self.kind is None else self.kind
        header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (self.count, *inner)}
        self.file.seek(0)
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            if self.kind is not None:
                shutil.copyfileobj(self.file, member, 1 << 20)
                return
            for line in self.file:
                member.write(np.array([line[:-1].decode()], kind).tobytes())


@contextlib.contextmanager
def _parquet(path: str, shape: Shape) -> Iterator[Add]:
    """One row per token, word or text: "index" of the text, "id", "token", its offsets, and a vector for each layer."""
    table = _ParquetTable(table_files.require("pyarrow"), shape)
    with table.arrow.parquet.ParquetWriter(path, table.schema) as file:

        def add(*row: Any) -> None:
            table.add(*row)
            if table.count >= ROWS_AT_ONCE:
                file.write_table(table.flush())

        yield add
        if table.count:
            file.write_table(table.flush())


class _ParquetTable:
    """Texts not written yet, and the conversion of their vectors to columns."""

    def __init__(self, arrow: Any, shape: Shape) -> None:
        self.arrow, self.shape = arrow, shape
        self.columns = {"index": arrow.int64()} | ({"id": arrow.string()} if shape.has_ids else {})
        if shape.unit != "sentence":
            self.columns |= {"token": arrow.string()} | dict.fromkeys(("start", "end", "segment"), arrow.int32())
        names = ["vector"] if len(shape.layers) == 1 else [f"vector {name}" for name in shape.layers]
        vectors = dict.fromkeys(names, arrow.list_(arrow.float32(), shape.width))
        self.schema = arrow.schema(list((self.columns | vectors).items()))
        self.texts: list[tuple[int, TextVectors, str | None]] = []
        self.count = 0

    def add(self, number: int, text: TextVectors, identifier: str | None = None) -> None:
        """Adds the rows of a text."""
        self.texts.append((number, text, identifier))
        self.count += len(text.vectors)

    def flush(self) -> Any:
        """Returns the texts as a table and removes them."""
        texts = [text for _, text, _ in self.texts]
        sizes = [len(text.vectors) for text in texts]
        values: list[Any] = [np.repeat([number for number, _, _ in self.texts], sizes)]
        if self.shape.has_ids:
            repeated = zip(self.texts, sizes, strict=True)
            values.append([identifier for (_, _, identifier), size in repeated for _ in range(size)])
        if self.shape.unit != "sentence":
            values.append([name for text in texts for name in text.names])
            values += [np.concatenate([getattr(text, name) for text in texts]) for name in OFFSETS]
        arrays = [self.arrow.array(each, kind) for each, kind in zip(values, self.columns.values(), strict=True)]
        vectors = np.concatenate([text.vectors for text in texts])  # [N, K, E]
        for number in range(len(self.shape.layers)):
            flat = self.arrow.array(np.ascontiguousarray(vectors[:, number]).ravel())
            arrays.append(self.arrow.FixedSizeListArray.from_arrays(flat, self.shape.width))
        self.texts, self.count = [], 0
        return self.arrow.Table.from_arrays(arrays, schema=self.schema)
