"""Writes an index: embeddings and texts of a file, block by block; a restart after a kill resumes.

An incomplete index is in INDEX.partial, together with its settings.
"""

import dataclasses
import hashlib
import itertools
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from bert_tf.data.examples import Example
from bert_tf.errors import UserError, count_text
from bert_tf.export import prediction_inputs
from bert_tf.export.opening import AUTO, Engine
from bert_tf.extras.search import neighbors, words
from bert_tf.extras.search.embedder import Embedder, EmbedderSettings
from bert_tf.extras.search.index_files import ABOUT, GRAPH, OFFSETS, SETTINGS, TEXTS, VERSION, WORDS
from bert_tf.extras.search.stored_vectors import FLOATS as VECTORS
from bert_tf.extras.search.stored_vectors import STORAGES, Float32
from bert_tf.runtime import atomic_files, files, folder_lock
from bert_tf.runtime.json_files import parse, read_json
from bert_tf.runtime.json_values import dumps
from bert_tf.runtime.progress import progress

log = logging.getLogger("bert_tf")
BLOCK = 1024  # texts written at once
CHOICES = ("auto", "true", "false")


def build(
    texts: str,
    folder: str,
    model: str,
    *,
    columns: Sequence[str] = (),
    id_column: str | None = None,
    approximate: Literal["auto", "true", "false"] = "auto",
    bm25: bool = False,
    storage: Literal["float32", "int8", "binary"] = "float32",
    batch_size: int = 64,
    overwrite: bool = False,
    engine: Engine = AUTO,
    **settings: Any,
) -> dict[str, Any]:
    """Writes an index of the texts in a file, atomically; returns the content of its JSON file.

    Args:
        texts: a file with one text per line, or a table; empty texts are skipped.
        folder: the index to write, on a local disk.
        model: a checkpoint, run or export.
        columns: the text column of a table; default: "text".
        id_column: the id column; default: row numbers.
        approximate: "true" also builds a graph for approximate search, "auto" only above a million vectors.
        bm25: also prepare search by words.
        storage: storage of vectors, see `stored_vectors.STORAGES`; approximate search requires float32.
        batch_size: texts per batch.
        overwrite: whether to replace an index.
        engine: see `opening.choose`; also used for searches.
        settings: fields of EmbedderSettings, such as pooling, that override the model's settings.

    Raises:
        UserError: a file cannot be read, the folder exists, or another process is writing it.
    """
    prepare(texts, folder, approximate, columns, overwrite=overwrite, bm25=bm25, storage=storage)
    target = atomic_files.target_of(folder.rstrip(os.sep))
    partial = f"{target}.partial"
    is_own = not files.exists(partial)
    files.make_folder(partial)
    try:
        lock = folder_lock.acquire(partial)
    except BlockingIOError:
        raise UserError(f"Another process is writing {folder}: wait for it, or pass another folder.") from None
    try:
        given = EmbedderSettings(**settings)
        flags = {
            "model": files.absolute(model) if files.exists(model) else model,
            "texts": files.absolute(texts),
            "sha256": _digest(texts),
            "columns": list(columns),
            "id_column": id_column,
            "engine": engine,
            **dataclasses.asdict(given),
        }
        embedder = Embedder(model, given, batch_size, engine)
        if not embedder.is_for_vectors:
            log.warning(
                "%s was not trained to compare texts, so results may be poor: see "
                "docs/vectors.md for models that were, such as all-minilm-l6-v2.",
                model,
            )
        _claim(partial, flags)
        is_own = True
        rows = prediction_inputs.read(texts, {"text": None}, columns=columns, id_column=id_column)
        total = prediction_inputs.count(texts)
        count = _write_rows(partial, embedder, (row for row in rows if row.texts[0].strip()), total)
        if not count:
            raise UserError(f"{texts} contains no text: pass a file with one text per line.")
        about = _finish(partial, count, embedder, flags, approximate, bm25, storage)
        atomic_files.replace_folder(partial, target)
        return about
    except UserError:
        if is_own:  # a restart would fail again
            files.remove(partial)
        raise
    finally:
        lock.release()


def prepare(
    texts: str,
    folder: str,
    approximate: str,
    columns: Sequence[str],
    *,
    overwrite: bool,
    bm25: bool = False,
    storage: str = "float32",
) -> None:
    """Raises UserError, before a model is loaded, if anything cannot be read or written."""
    prediction_inputs.check_readable(texts)
    if len(columns) > 1:
        raise UserError(f"text_columns names {len(columns)} columns; expected one, with the text to find.")
    if approximate not in CHOICES:
        raise UserError(f"approximate is {approximate!r}; expected one of {', '.join(CHOICES)}.")
    if storage not in STORAGES:
        raise UserError(f"storage is {storage!r}; expected one of {', '.join(STORAGES)}.")
    if approximate == "true":
        if storage != "float32":
            raise UserError(f"storage is {storage}, but approximate search needs float32: remove one.")
        _ = neighbors.faiss.read_index
    if bm25:
        _ = words.bm25s.BM25
    if files.is_remote(folder):
        raise UserError(f"{folder} is in remote storage, but an index is mapped into memory: pass a local folder.")
    if not overwrite or not files.is_file(os.path.join(folder, ABOUT)):
        atomic_files.check_free(folder)


def _digest(path: str) -> str | None:
    """The SHA-256 of a file, since size and date do not identify its texts; None for a folder."""
    if not files.is_file(path):
        return None
    digest = hashlib.sha256()
    with files.open_binary(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _claim(partial: str, settings: Mapping[str, Any]) -> None:
    """Removes an index begun with other settings or another content of the file, and reports it."""
    path = os.path.join(partial, SETTINGS)
    earlier = read_json(path)
    if earlier != settings:
        names = files.names(partial)
        if not isinstance(earlier, dict) and not set(names) <= {f"{SETTINGS}.partial"}:
            raise UserError(f"{partial} is not an index: pass another folder, or remove it first.")
        if isinstance(earlier, dict):
            changed = [name for name, value in settings.items() if earlier.get(name) != value]
            reason = f"{settings['texts']} has changed" if changed == ["sha256"] else f"{', '.join(changed)} differ"
            print(f"{partial} was begun earlier, and {reason} since then: starting again.", flush=True)
        for name in names:
            files.remove(os.path.join(partial, name))
        atomic_files.write_json(path, settings)


def _write_rows(partial: str, embedder: Embedder, examples: Iterator[Example], total: int | None) -> int:
    """Appends the missing rows; returns the resulting number. total: the maximum; None: unknown."""
    vectors_path, texts_path = (os.path.join(partial, name) for name in (VECTORS, TEXTS))
    done = _truncate(vectors_path, texts_path, 4 * embedder.dimensions)
    if done:
        print(f"Continuing after {count_text(done, 'text')}.", flush=True)
    rows = embedder.in_order(itertools.islice(examples, done, None))
    with (
        open(vectors_path, "ab") as vectors,
        open(texts_path, "ab") as lines,
        progress("indexing texts", total) as report,
    ):
        while block := list(itertools.islice(rows, BLOCK)):
            new = _stacked(block)
            lines.write("".join(_line(example) for example, _ in block).encode("utf-8", "backslashreplace"))
            lines.flush()
            vectors.write(new.tobytes())
            vectors.flush()
            done += len(block)
            report(done)
        report(done, total=done)
        for file in (vectors, lines):
            os.fsync(file.fileno())
    return done


def _stacked(block: Sequence[tuple[Example, np.ndarray]]) -> np.ndarray:
    """The vectors of a block, float32 [rows, E]; UserError if one contains a non-finite number."""
    vectors = np.stack([vector for _, vector in block]).astype("<f4")
    is_finite = np.isfinite(vectors).all(1)
    if not is_finite.all():
        example = block[int(is_finite.argmin())][0]
        raise UserError(
            f"The embedding of {example.location} contains NaN or infinity: a weight is not finite, or numbers "
            "overflow; pass another model."
        )
    return vectors


def _line(example: Example) -> str:
    other = {"other": dict(example.other)} if example.other else {}
    return dumps({"id": example.id, "text": example.texts[0], **other}, default=str) + "\n"


def _truncate(vectors: str, texts: str, row_bytes: int) -> int:
    """Truncates both files to the rows that are complete in both; returns their number."""
    for path in (vectors, texts):
        open(path, "ab").close()
    ends = _line_ends(texts)
    count = min(files.size(vectors) // row_bytes, len(ends))
    os.truncate(vectors, count * row_bytes)
    os.truncate(texts, int(ends[count - 1]) if count else 0)
    return count


def _line_ends(path: str) -> np.ndarray:
    ends, first = [np.zeros(0, np.int64)], 0
    with open(path, "rb") as file:
        while block := file.read(1 << 24):
            ends.append(np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + first + 1)
            first += len(block)
    return np.concatenate(ends)


def _finish(
    partial: str, count: int, embedder: Embedder, flags: Mapping[str, Any], approximate: str, bm25: bool, storage: str
) -> dict[str, Any]:
    """Writes the other files; returns the content of the JSON file."""
    ends = _line_ends(os.path.join(partial, TEXTS))
    np.concatenate([[0], ends]).astype("<i8").tofile(os.path.join(partial, OFFSETS))
    kind, shape = STORAGES[storage], (count, embedder.dimensions)
    names, graph = {"vectors": kind.FILE, "texts": TEXTS, "offsets": OFFSETS}, None
    vectors = Float32(partial, *shape).vectors
    kind.write(vectors, partial)
    is_large = approximate == "auto" and count > neighbors.APPROXIMATE_ABOVE and storage == "float32"
    if approximate == "true" or is_large:
        names["graph"] = GRAPH
        with progress("linking texts", count) as report:
            graph = neighbors.build_graph(vectors, os.path.join(partial, GRAPH), report)
    if bm25:
        names["words"] = WORDS
        with open(os.path.join(partial, TEXTS), "rb") as lines:
            texts = (parse(line.decode(), lone_surrogates=True)["text"] for line in lines)
            words.build(texts, os.path.join(partial, WORDS))
    is_cosine = embedder.settings.similarity == "cosine"
    about = {
        "version": VERSION,
        "model": flags["model"],
        "engine": flags["engine"],
        **{name: value for name, value in dataclasses.asdict(embedder.settings).items() if value is not None},
        "count": count,
        "dimensions": embedder.dimensions,
        "storage": storage,
        "dtype": kind.DTYPE + (", each vector of length 1" if is_cosine else ""),
        "files": names,
        "graph": graph,
        "source": flags["texts"],
    }
    atomic_files.write_json(os.path.join(partial, ABOUT), about)
    files.remove(os.path.join(partial, SETTINGS))
    if kind.FILE != VECTORS:
        files.remove(os.path.join(partial, VECTORS))
    return about
