"""Texts to vectors of whole texts: `tasks.embeddings.extraction` in NumPy, of the last layer and without dense layers.

n tokens of a text, D hidden size.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.export.host import Numbers, Row, rows

PAIR = re.compile(r"(?s)(.*\S.*) \|\|\| (.*)", re.ASCII)  # split at the last bar
SMALLEST = 1e-12  # smallest length that a vector is divided by


class Read(NamedTuple):
    """A text in rows: how many, and the row and position that show each of its tokens with most context."""

    rows: int
    places: list[tuple[int, int]]


class Stages:
    """See `export.host`. settings: see `VectorChoice.host_settings`."""

    inputs: dict[str, int | None] = {"text": None}
    outputs = ("vectors",)

    def __init__(self, settings: dict[str, Any], about: dict[str, Any], tokenizer: Any) -> None:
        self._tokenizer, self._settings = tokenizer, settings

    def read(self, examples: Sequence[Sequence[str]]) -> tuple[list[Row], list[Read]]:
        """Rows of texts, "first ||| second" being a pair."""
        found, texts = [], []
        for (text,) in examples:
            match = PAIR.fullmatch(text.rstrip(" \t\n\r\f")) if self._settings.get("splits_pairs", True) else None
            parts = [match[1], match[2]] if match else [text]
            segments = [self._tokenizer(part) for part in (self._settings["prompt"] + parts[0], *parts[1:])]
            own = self._rows(segments)
            found += own[0]
            texts.append(Read(len(own[0]), own[1]))
        return found, texts

    def _rows(self, segments: list[list[int]]) -> tuple[list[Row], list[tuple[int, int]]]:
        length, tokenizer = self._settings["max_seq_length"], self._tokenizer
        room = length - tokenizer.special_count(len(segments))
        plan = rows.windows([len(each) for each in segments], room, self._settings["stride"])
        found = []
        for number in range(max(each.number for each in plan)):
            parts = zip(segments, plan, strict=True)
            shown = [ids[each.start(number) : each.start(number) + each.size] for ids, each in parts]
            found.append(rows.pack(tokenizer, shown, length))
        places, offset = [(0, 0)], 1
        for number, each in enumerate(plan):
            for token in range(each.length):
                before = (2 * token - (each.size - 1)) // (2 * max(each.stride, 1))
                near = sorted({min(max(window, 0), each.number - 1) for window in (before, before + 1)})
                starts = [each.start(window) for window in near]
                best = rows.max_context(token, starts, [each.size] * len(near))
                places.append((near[best], offset + token - starts[best]))
            closings = tokenizer.separators if number < len(plan) - 1 else 1
            places += [(each.number - 1, offset + each.size + closing) for closing in range(closings)]
            offset += each.size + closings
        return found, places

    def answer(self, numbers: Numbers, texts: Sequence[Read]) -> dict[str, np.ndarray]:
        """The outputs of the signature."""
        found, first = [], 0
        for read in texts:
            if self._settings["pooling"] == "pooled":
                vector = numbers["pooled"][first]
            else:
                own = numbers["tokens"][first : first + read.rows]
                tokens = own[0] if read.rows == 1 else np.stack([own[row][position] for row, position in read.places])
                pools = self._settings["pooling"].replace("mean_max", "mean+max").split("+")
                vector = np.concatenate([_pooled(tokens, name) for name in pools])
            found.append(vector)
            first += read.rows
        vectors = np.stack(found)
        vectors = _unit(vectors) if self._settings["is_normalized"] else vectors
        vectors = vectors[:, : self._settings["truncate_dim"]]
        return {"vectors": _unit(vectors) if self._settings["is_normalized_last"] else vectors}


def _pooled(tokens: np.ndarray, pooling: str) -> np.ndarray:
    """Tokens [n, D] -> one vector [D]."""
    if pooling == "weighted_mean":
        ranks = np.arange(1, len(tokens) + 1, dtype=np.float32)
        return (tokens * ranks[:, None]).sum(0) / ranks.sum()
    if pooling == "mean_sqrt_len":
        return tokens.sum(0) / np.sqrt(np.float32(len(tokens)))
    if pooling in ("cls", "last"):
        return tokens[0 if pooling == "cls" else -1]
    return tokens.mean(0) if pooling == "mean" else tokens.max(0)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), SMALLEST)
