"""Vectors of texts as tables: NPZ (arrays) and Parquet (rows and columns). Free of TensorFlow.

N tokens or words of all texts (or texts, where each has one vector), K vectors of each, E numbers of a vector.

Each writer is a context: `path`, a `feature_files.Shape` -> `add(number, text_vectors, id)`.
"""

import contextlib
import os
import shutil
import tempfile
import zipfile

import numpy as np

from bert_tf.errors import UserError

ROWS_AT_ONCE = 4096  # of a Parquet file
PLACES = ("starts", "ends", "segments")


@contextlib.contextmanager
def npz(path, shape):
    """Arrays for `numpy.load`: "vectors" float32 [N, E], or [N, K, E], "layers" (their names), and "ids" of texts.

    Of tokens and words "tokens", "starts", "ends", "segments" [N] too, and "splits" [texts + 1]: text t has those from
    splits[t] to splits[t + 1]. What is added waits in files beside `path`, which have no name.
    """
    with contextlib.ExitStack() as files:
        spools = {name: files.enter_context(_Spool(path)) for name in ("vectors", "splits", "tokens", "ids", *PLACES)}
        spools["splits"].add_numbers(np.zeros(1, np.int64))

        def add(_, found, identifier=None):
            spools["vectors"].add_numbers(found.vectors)
            if shape.has_ids:
                spools["ids"].add_strings([identifier])
            if found.names is None:
                return
            spools["tokens"].add_strings(found.names)
            spools["splits"].add_numbers(np.array([spools["tokens"].count], np.int64))
            for name in PLACES:
                spools[name].add_numbers(np.asarray(getattr(found, name), np.int32))

        yield add
        inner = (shape.width,) if len(shape.layers) == 1 else (len(shape.layers), shape.width)
        wanted = ["vectors"] + ["ids"] * shape.has_ids
        wanted += [] if shape.unit == "sentence" else ["splits", "tokens", *PLACES]
        with zipfile.ZipFile(path, "w") as archive:
            for name in wanted:
                spools[name].write_to(archive, name, inner if name == "vectors" else ())
            with archive.open("layers.npy", "w") as member:
                np.save(member, np.array([str(name) for name in shape.layers]))


class _Spool:
    """An array that grows on the disk: numbers, or strings, of which the longest says how wide the array is."""

    def __init__(self, path):
        self.file = tempfile.TemporaryFile(dir=os.path.dirname(os.path.abspath(path)))
        self.count = self.longest = 0
        self.kind = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def add_numbers(self, values):
        """Adds the rows of an array; all have one type."""
        self.kind = values.dtype
        self.count += len(values)
        self.file.write(np.ascontiguousarray(values).data)

    def add_strings(self, values):
        """Adds strings without a line feed; texts of a table's ids with one get a space."""
        for value in values:
            encoded = value.replace("\n", " ").replace("\0", " ")
            self.longest = max(self.longest, len(encoded))
            self.file.write(encoded.encode("utf-8", "replace") + b"\n")
        self.count += len(values)

    def write_to(self, archive, name, inner):
        """Becomes a member of the archive: an array [count, *inner]."""
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


def pyarrow():
    """The package; UserError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError("Parquet needs the package pyarrow: pip install 'bert-tf[parquet]'.") from None
    return pyarrow


@contextlib.contextmanager
def parquet(path, shape):
    """A row a token, word or text: "index" of the text, "id", "token" and its place, and a vector of each layer."""
    table = _ParquetTable(pyarrow(), shape)
    with table.arrow.parquet.ParquetWriter(path, table.schema) as file:

        def add(*row):
            table.add(*row)
            if table.count >= ROWS_AT_ONCE:
                file.write_table(table.taken())

        yield add
        if table.count:
            file.write_table(table.taken())


class _ParquetTable:
    """Texts that wait to be written, and how their vectors become columns."""

    def __init__(self, arrow, shape):
        self.arrow, self.shape = arrow, shape
        self.columns = {"index": arrow.int64()} | ({"id": arrow.string()} if shape.has_ids else {})
        if shape.unit != "sentence":
            self.columns |= {"token": arrow.string()} | dict.fromkeys(("start", "end", "segment"), arrow.int32())
        names = ["vector"] if len(shape.layers) == 1 else [f"vector {name}" for name in shape.layers]
        vectors = dict.fromkeys(names, arrow.list_(arrow.float32(), shape.width))
        self.schema = arrow.schema(list((self.columns | vectors).items()))
        self.texts, self.count = [], 0

    def add(self, number, found, identifier=None):
        self.texts.append((number, found, identifier))
        self.count += len(found.vectors)

    def taken(self):
        """What waited, as a table."""
        found = [each for _, each, _ in self.texts]
        sizes = [len(each.vectors) for each in found]
        values = [np.repeat([number for number, _, _ in self.texts], sizes)]
        if self.shape.has_ids:
            repeated = zip(self.texts, sizes, strict=True)
            values.append([identifier for (_, _, identifier), size in repeated for _ in range(size)])
        if self.shape.unit != "sentence":
            values.append([name for each in found for name in each.names])
            values += [np.concatenate([getattr(each, name) for each in found]) for name in PLACES]
        arrays = [self.arrow.array(each, kind) for each, kind in zip(values, self.columns.values(), strict=True)]
        vectors = np.concatenate([each.vectors for each in found])  # [N, K, E]
        for number in range(len(self.shape.layers)):
            flat = self.arrow.array(np.ascontiguousarray(vectors[:, number]).ravel())
            arrays.append(self.arrow.FixedSizeListArray.from_arrays(flat, self.shape.width))
        self.texts, self.count = [], 0
        return self.arrow.Table.from_arrays(arrays, schema=self.schema)
