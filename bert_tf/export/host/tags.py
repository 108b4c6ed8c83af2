"""Texts of any length to entities, and words to tags, in NumPy, one text at a time.

N words in a text, P tokens in it, C labels, E entities.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.data.host_windows import Windows
from bert_tf.data.tag_schemes import TagSet
from bert_tf.export.host import Numbers, Row, rows
from bert_tf.heads.tags.decoding import decode
from bert_tf.text import byte_level
from bert_tf.text.characters import is_cjk
from bert_tf.text.host_tokenizer import Tokens

WITHIN_WORDS = "-./&_@"  # punctuation that does not separate letters and digits on both sides of it


class Read(NamedTuple):
    """A text: itself, the span of each word, its number of rows, and the row and position that show each word."""

    text: str
    spans: list[tuple[int, int]]
    rows: int
    places: list[tuple[int, int] | None]


class Stages:
    """See `export.host`. settings: "windows" as in TagWindows, "scheme" of the TagSet."""

    inputs: dict[str, int | None] = {"text": None}

    def __init__(self, settings: dict[str, Any], about: dict[str, Any], tokenizer: Any) -> None:
        self._tokenizer, self._windows = tokenizer, settings["windows"]
        self._tag_set = TagSet(tuple(about["labels"]), settings["scheme"])
        surfaces = [tokenizer.surface(token) for token in tokenizer.vocabulary]
        self._is_mark = np.array([surface != "" and surface in WITHIN_WORDS for surface in surfaces])
        ends_in_ideograph = np.array([bool(surface) and is_cjk(surface[-1]) for surface in surfaces])
        self._of_letters = tokenizer.is_of_letters & ~ends_in_ideograph

    def read(self, examples: Sequence[Sequence[str]]) -> tuple[list[Row], list[Read]]:
        """Rows for texts, and the locations of their words."""
        found, texts = [], []
        for (text,) in examples:
            tokens = self._tokenizer.with_offsets(text)
            firsts = self._first_tokens(tokens)
            lasts = [*(first - 1 for first in firsts[1:]), len(tokens.ids) - 1][: len(firsts)]
            bounds = ((tokens.starts[first], tokens.ends[last]) for first, last in zip(firsts, lasts, strict=True))
            spans = [byte_level.trimmed(text, *each) for each in bounds]
            is_word = [start < end for start, end in spans]  # not tokens of white space
            own, places = self._rows(tokens.ids, list(itertools.compress(firsts, is_word)))
            found += own
            texts.append(Read(text, list(itertools.compress(spans, is_word)), len(own), list(places)))
        return found, texts

    def read_words(self, sentences: Sequence[Sequence[str]]) -> tuple[list[Row], list[Read]]:
        """Rows for sentences already split into words."""
        found, texts = [], []
        for words in sentences:
            ids: list[int] = []
            firsts = []
            for word in words:
                own = self._tokenizer.inside_text(word)
                firsts.append(len(ids) if own else None)
                ids += own
            row, shown = self._rows(ids, [first for first in firsts if first is not None])
            places = iter(shown)
            found += row
            texts.append(Read("", [], len(row), [None if first is None else next(places) for first in firsts]))
        return found, texts

    def _rows(self, ids: list[int], firsts: Sequence[int]) -> tuple[list[Row], list[tuple[int, int]]]:
        """The rows of a text, and the place where each of these tokens is shown with most context."""
        if not ids:
            return [], []
        length, tokenizer = self._windows["max_seq_length"], self._tokenizer
        windows = Windows.of(len(ids), length - tokenizer.special_count(1), self._windows["stride"])
        places = [(number, 1 + position) for number, position in map(windows.best, firsts)]
        return [rows.pack(tokenizer, [ids[part]], length) for part in map(windows.part, range(windows.number))], places

    def _first_tokens(self, tokens: Tokens) -> list[int]:
        """The first token of each word of a text, see `tag_serving`."""
        if not tokens.ids:
            return []
        is_mark, of_letters = self._is_mark[tokens.ids], self._of_letters[tokens.ids]
        starts, ends = np.array(tokens.starts), np.array(tokens.ends)
        touches = np.append(False, starts[1:] == ends[:-1])
        before_letters = np.append((touches & of_letters)[1:], False)
        is_within = is_mark & touches & np.append(False, of_letters[:-1]) & before_letters
        continues = self._tokenizer.continues_word(tokens) | is_within | np.append(False, is_within[:-1])
        continues[0] = False
        found: list[int] = np.flatnonzero(~continues).tolist()
        return found

    def labels_of(self, numbers: Numbers) -> int:
        """The number of labels that numbers cover."""
        return int(numbers["logits"][0].shape[-1])

    def answer(self, numbers: Numbers, texts: Sequence[Read]) -> dict[str, np.ndarray]:
        """The outputs of the signature serving_default."""
        found = []
        for read, (labels, shares) in zip(texts, self._labels(numbers, texts), strict=True):
            scores = shares[np.arange(len(labels)), labels]
            found.append(
                [
                    (read.text[read.spans[first][0] : read.spans[end - 1][1]], kind)
                    + (read.spans[first][0], read.spans[end - 1][1], scores[first:end].mean())
                    for kind, first, end in self._tag_set.spans(labels.tolist())
                ]
            )
        counts = [len(each) for each in found]
        padding = ("", "", 0, 0, 0.0)
        padded = [each + [padding] * (max(counts) - len(each)) for each in found]
        kinds = {"texts": object, "labels": object, "starts": np.int32, "ends": np.int32, "scores": np.float32}
        columns = {
            name: np.array([[row[place] for row in each] for each in padded], kind).reshape(len(found), -1)
            for place, (name, kind) in enumerate(kinds.items())
        }
        return {**columns, "counts": np.array(counts, np.int32)}

    def tags(self, numbers: Numbers, sentences: Sequence[Read]) -> list[tuple[list[str], list[float]]]:
        """The tag of each word in sentences, and its probability; a word without tokens is O."""
        names = self._tag_set.labels
        return [
            ([names[label] for label in labels], shares[np.arange(len(labels)), labels].tolist())
            for labels, shares in self._labels(numbers, sentences)
        ]

    def _labels(self, numbers: Numbers, texts: Sequence[Read]) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each text the labels of its words, [N], and the probabilities of all labels, float32 [N, C]."""
        found, first, outside = [], 0, self._tag_set.outside
        for read in texts:
            labels = np.full(len(read.places), outside)
            shares = np.eye(len(self._tag_set.labels), dtype=np.float32)[labels]
            shown = [place for place in read.places if place is not None]
            if shown:
                is_shown = np.array([place is not None for place in read.places])
                logits = np.stack([numbers["logits"][first + row][position] for row, position in shown])
                potentials = numbers["potentials"][first] if "potentials" in numbers else None
                labels[is_shown], shares[is_shown] = decode(self._tag_set, logits, potentials)
            first += read.rows
            found.append((labels, shares))
        return found
