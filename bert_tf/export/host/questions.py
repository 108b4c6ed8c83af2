"""Questions and texts of any length to answers, in NumPy, one question at a time."""

import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.data.host_windows import window_count
from bert_tf.export.host import Numbers, Row, rows
from bert_tf.heads.span.answer_search import Asked, Search, outputs_of, room_and_stride


class Stages:
    """See `export.host`. settings: "windows" as in QuestionWindows, "search" as in Search."""

    inputs: dict[str, int | None] = {"question": None, "context": None}

    def __init__(self, settings: dict[str, Any], about: dict[str, Any], tokenizer: Any) -> None:
        self._tokenizer, self._search = tokenizer, Search(**settings["search"])
        self._windows = types.SimpleNamespace(**{**settings["windows"], "separators": tokenizer.separators})

    def read(self, examples: Sequence[Sequence[str]]) -> tuple[list[Row], list[Asked]]:
        """A row for each window of a context, and the questions."""
        found, asked = [], []
        for question, context in examples:
            ids = self._tokenizer(question)[: self._windows.max_query_length]
            tokens = self._tokenizer.with_offsets(context)
            room, stride = room_and_stride(self._windows, len(ids))
            count = window_count(len(tokens.ids), room, stride)
            for first in range(0, count * stride, stride):
                segments = [ids, tokens.ids[first : first + room]]
                found.append(rows.pack(self._tokenizer, segments, self._windows.max_seq_length))
            asked.append(Asked(len(ids), tokens.starts, tokens.ends, count, context))
        return found, asked

    def answer(self, numbers: Numbers, asked: Sequence[Asked]) -> dict[str, np.ndarray]:
        """The outputs of the signature."""
        answers, first = [], 0
        for each in asked:
            windows = slice(first, first + each.windows)
            starts, ends = numbers["start_logits"][windows], numbers["end_logits"][windows]
            answers.append(outputs_of(self._search.best(starts, ends, each, self._windows)))
            first += each.windows
        return {name: _stacked([each[name] for each in answers]) for name in answers[0]}


def _stacked(values: Sequence[Any]) -> np.ndarray:
    return np.array(values, object) if isinstance(values[0], str) else np.stack(values)
