"""Texts, pairs and choices to the answers of a `heads.base.text_head.TextHead`.

B examples, R rows for them, C outputs of the network.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf import heads
from bert_tf.data.host_windows import segment_windows
from bert_tf.export.host import Numbers, Row, rows
from bert_tf.runtime import json_values
from bert_tf.text.truncation import LONGEST_FIRST


class Stages:
    """See `export.host`.

    settings: "max_seq_length", "texts", "truncation", "windows" as in TextHead, and for their maximum "last_layer":
    the weights after it as JSON, or a function that returns a live model's.
    """

    def __init__(self, settings: dict[str, Any], about: dict[str, Any], tokenizer: Any) -> None:
        self._tokenizer, self._head = tokenizer, heads.of_texts(about["kind"]).from_about(about)
        self._length, self._truncation = settings["max_seq_length"], settings.get("truncation", LONGEST_FIRST)
        self._windows, last = settings.get("windows"), settings.get("last_layer", {})
        self._last = last if callable(last) else functools.cache(lambda: json_values.arrays_from_json(last))
        self._last()  # raises for damaged arrays
        shapes = self._head.input_shapes(settings["texts"])
        self.inputs = {name: shape[0] if shape else None for name, shape in shapes.items()}

    def read(self, examples: Sequence[Sequence[str]]) -> tuple[list[Row], list[int]]:
        """Rows, and the number of rows for each example."""
        found: list[Row] = []
        counts = []
        for texts in examples:
            own = self._rows([self._tokenizer(text) for text in texts])
            found += own
            counts.append(len(own))
        return found, counts

    def _rows(self, segments: list[list[int]]) -> list[Row]:
        if self._head.rows_per_example > 1:
            pairs = [[segments[0], choice] for choice in segments[1:]]
            return [rows.pack(self._tokenizer, pair, self._length, self._truncation) for pair in pairs]
        if self._windows is None:
            return [rows.pack(self._tokenizer, segments, self._length, self._truncation)]
        room = self._length - self._tokenizer.special_count(len(segments))
        sizes = list(map(len, segments))
        plan = segment_windows(sizes, room, self._windows["stride"], self._tokenizer.settings)
        count = min(max(each.number for each in plan), self._windows["most"])
        parts = ([ids[each.part(n)] for ids, each in zip(segments, plan, strict=True)] for n in range(count))
        return [rows.pack(self._tokenizer, part, self._length) for part in parts]

    def labels_of(self, numbers: Numbers) -> int | None:
        """The number of labels that numbers cover; None for a head without names."""
        if not self._head.is_labelled:
            return None
        return len(self._last()["bias"] if self._last() else numbers["logits"][0])

    def answer(self, numbers: Numbers, counts: list[int]) -> dict[str, np.ndarray]:
        """The outputs of the signature; the logits of windows are averaged, like their vectors before the head.

        The maximum is taken over vectors, which pass through the last layer here.
        """
        firsts = np.cumsum([0, *counts[:-1]])
        if self._windows and self._windows["pooling"] == "max":
            vectors = np.maximum.reduceat(np.stack(numbers["pooled"]), firsts)
            return self._head.from_logits(vectors @ self._last()["kernel"] + self._last()["bias"])
        logits = np.stack(numbers["logits"])  # [R, C]
        if self._head.rows_per_example > 1:
            logits = logits.reshape(len(counts), -1)
        elif self._windows is not None:
            logits = np.add.reduceat(logits, firsts) / np.array(counts, np.float32)[:, None]
        return self._head.from_logits(logits)
