"""The files of an index folder, and their readers.

n texts, E dimensions.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.errors import UserError
from bert_tf.extras.search.stored_vectors import STORAGES
from bert_tf.runtime import files
from bert_tf.runtime.json_files import parse, require_json

ABOUT, TEXTS, OFFSETS, GRAPH = "index.json", "texts.jsonl", "offsets.i64", "graph.faiss"
WORDS = "bm25"  # a folder
SETTINGS = "settings.json"  # of an incomplete index
VERSION = 1
KEYS = {"model": str, "pooling": str, "max_seq_length": int, "count": int, "dimensions": int, "files": dict}
MORE = {"long_texts": str, "prompt": str, "query_prompt": str, "similarity": str, "truncate_dim": int}  # optional
LEAST = {"max_seq_length": 5, "count": 1, "dimensions": 1}


def is_index(path: str) -> bool:
    """Returns whether a path is an index folder."""
    return files.is_file(os.path.join(path, ABOUT))


class IndexFiles:
    """The vectors and texts of an index, which stay on disk.

    Attributes:
        about: the content of its JSON file.
        vectors: the stored vectors, see `stored_vectors`.
    """

    def __init__(self, folder: str) -> None:
        """Raises UserError if there is no index, or one of its files is damaged."""
        if not is_index(folder):
            more = ", which is incomplete: run `bert-tf index` again" if files.is_folder(f"{folder}.partial") else ""
            raise UserError(f"{folder} is not an index{more}: it has no {ABOUT}; `bert-tf index` makes one.")
        self.folder = folder
        path = os.path.join(folder, ABOUT)
        self.about = require_json(path, "the description of an index; rebuild it")
        wrong = [name for name, kind in KEYS.items() if type(self.about.get(name)) is not kind]
        wrong += [name for name, kind in MORE.items() if type(self.about.get(name, kind())) is not kind]
        wrong += [name for name, least in LEAST.items() if name not in wrong and self.about[name] < least]
        storage = STORAGES.get(str(self.about.get("storage", "float32")))
        wrong += [] if storage else ["storage"]
        if wrong or storage is None or self.about.get("version") != VERSION:
            raise UserError(f"{path} does not describe an index ({', '.join(wrong) or 'version'}): rebuild it.")
        count, dimensions = self.about["count"], self.about["dimensions"]
        for name, size in storage.files(count, dimensions).items():
            self._check_size(name, size)
        self._check_size(OFFSETS, 8 * (count + 1))
        self._offsets = np.fromfile(self.path(OFFSETS), "<i8")
        if self._offsets[0] != 0 or (np.diff(self._offsets) <= 0).any():
            raise UserError(f"{self.path(OFFSETS)} is damaged, its offsets are out of order: rebuild the index.")
        self._check_size(TEXTS, int(self._offsets[-1]))
        self.vectors = storage(folder, count, dimensions)

    def path(self, name: str) -> str:
        """The path of a file."""
        return os.path.join(self.folder, name)

    def _check_size(self, name: str, size: int) -> None:
        path = self.path(name)
        if not files.is_file(path) or files.size(path) != size:
            raise UserError(f"{path} is missing or damaged; expected {size:,} bytes: rebuild the index.")

    def check_finite(self) -> None:
        """Raises UserError if a vector contains a non-finite number."""
        number = self.vectors.first_not_finite()
        if number is not None:
            raise UserError(
                f"Vector {number} in {self.path(self.vectors.FILE)} has NaN or infinity: rebuild the index."
            )

    def rows(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """[{"id", "text", and "other" columns of a table}] for the texts with these numbers.

        Raises UserError for a line without such an object.
        """
        found = []
        with files.open_binary(self.path(TEXTS)) as file:
            for number in numbers:
                first, end = self._offsets[number : number + 2].tolist()
                file.seek(first)
                found.append(self._row(number, file.read(end - first)))
        return found

    def _row(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            row = parse(line.decode("utf-8", "replace"), lone_surrogates=True)
        except ValueError:
            row = None
        if isinstance(row, dict):
            kinds = {"id": str, "text": str, "other": dict}
            if all(isinstance(row.get(name, {} if name == "other" else None), kind) for name, kind in kinds.items()):
                return row
        raise UserError(
            f"Line {number + 1} of {self.path(TEXTS)} is damaged; expected a JSON object with an id and a text: make "
            "the index again."
        )
