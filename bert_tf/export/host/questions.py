"""Questions and texts of any length to answers: `tasks.question_answering` in NumPy, of a question at a time.

n = n_best_size, M candidates of a window, T tokens of a row.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.export.host import Numbers, Row, rows
from bert_tf.text.host_tokenizer import Tokens

IMPOSSIBLE = np.float32(-1e9)  # the score of what cannot be chosen
SPARE = 5  # candidates considered for each answer that is returned: some have the same text


class Asked(NamedTuple):
    """A question: its tokens, those of the context, how many windows pass over it, and the context itself."""

    size: int
    tokens: Tokens
    windows: int
    context: str


class Stages:
    """See `export.host`. settings: "windows" as of QuestionWindows, "search" as of Search."""

    inputs: dict[str, int | None] = {"question": None, "context": None}

    def __init__(self, settings: dict[str, Any], about: dict[str, Any], tokenizer: Any) -> None:
        self._tokenizer, self._windows, self._search = tokenizer, settings["windows"], settings["search"]
        self._before = 1 + tokenizer.separators  # special tokens before the window of a row

    def read(self, examples: Sequence[Sequence[str]]) -> tuple[list[Row], list[Asked]]:
        """A row for each window of a context, and the questions."""
        found, asked = [], []
        for question, context in examples:
            ids = self._tokenizer(question)[: self._windows["max_query_length"]]
            tokens = self._tokenizer.with_offsets(context)
            room, stride = self._room_and_stride(len(ids))
            count = rows.window_count(len(tokens.ids), room, stride)
            for first in range(0, count * stride, stride):
                segments = [ids, tokens.ids[first : first + room]]
                found.append(rows.pack(self._tokenizer, segments, self._windows["max_seq_length"]))
            asked.append(Asked(len(ids), tokens, count, context))
        return found, asked

    def _room_and_stride(self, size: int) -> tuple[int, int]:
        room = self._windows["max_seq_length"] - 2 - self._tokenizer.separators - size
        return room, min(self._windows["doc_stride"], room)

    def answer(self, numbers: Numbers, asked: Sequence[Asked]) -> dict[str, np.ndarray]:
        """The outputs of the signature."""
        answers, first = [], 0
        for each in asked:
            windows = slice(first, first + each.windows)
            answers.append(self._best(numbers["start_logits"][windows], numbers["end_logits"][windows], each))
            first += each.windows
        return {name: _stacked([each[name] for each in answers]) for name in answers[0]}

    def _best(self, starts: Sequence[np.ndarray], ends: Sequence[np.ndarray], asked: Asked) -> dict[str, Any]:
        """The answer to a question, and the n best."""
        found = [self._candidates(number, *pair, asked) for number, pair in enumerate(zip(starts, ends, strict=True))]
        start_scores, end_scores, begins, stops = (np.concatenate(column) for column in zip(*found, strict=True))
        null = min(((x[0], y[0]) for x, y in zip(starts, ends, strict=True)), key=lambda pair: pair[0] + pair[1])
        null_score = np.float32(null[0] + null[1])
        count, width = self._search["n_best_size"], SPARE * self._search["n_best_size"]
        totals, texts = start_scores + end_scores, set[str]()
        chosen: list[tuple[str, int, int, Any]] = []
        for index in np.argsort(-totals, kind="stable")[:width]:
            text = asked.context[begins[index] : stops[index]]
            if totals[index] > IMPOSSIBLE / 2 and text not in texts and len(chosen) < count:
                texts.add(text)
                chosen.append((text, int(begins[index]), int(stops[index]), totals[index]))
        difference = null_score - (chosen[0][3] if chosen else IMPOSSIBLE)
        chosen += [("", 0, 0, 2 * IMPOSSIBLE)] * (count - len(chosen))
        if self._search["has_null"]:
            no_answer = ("", 0, 0, null_score)
            chosen = sorted([no_answer, *chosen], key=lambda row: -row[3])
            chosen[-1] = no_answer if chosen[-1] is no_answer else ("", 0, 0, 2 * IMPOSSIBLE)
        scores = np.array([row[3] for row in chosen], np.float32)
        is_answer = scores > IMPOSSIBLE / 2
        scaled = np.where(is_answer, scores / np.float32(self._search["temperature"]), IMPOSSIBLE)
        shares = np.exp(scaled - scaled.max())
        shares = np.where(is_answer, shares / shares.sum(), 0).astype(np.float32)
        best = self._choose([row[2] for row in chosen], difference)
        return {
            "answer": chosen[best][0],
            "start": np.int32(chosen[best][1]),
            "end": np.int32(chosen[best][2]),
            "score": shares[best],
            "answers": np.array([row[0] for row in chosen], object),
            "starts": np.array([row[1] for row in chosen], np.int32),
            "ends": np.array([row[2] for row in chosen], np.int32),
            "probabilities": shares,
            "null_score": null_score,
        }

    def _choose(self, ends: Sequence[int], difference: np.float32) -> int:
        """The place of the answer to give among the n best, see `Search.choose`."""
        if not self._search["has_null"]:
            return 0
        others = [place for place, end in enumerate(ends) if end]
        return ends.index(0) if difference > self._search["threshold"] or not others else others[0]

    def _candidates(
        self, number: int, start_logits: np.ndarray, end_logits: np.ndarray, asked: Asked
    ) -> tuple[np.ndarray, ...]:
        """The best spans of a window: start and end scores, and characters of the context, [M] each."""
        room, stride = self._room_and_stride(asked.size)
        begin, before = number * stride, asked.size + self._before
        size = min(len(asked.tokens.ids) - begin, room)
        count = self._search["n_best_size"]
        first, last = (np.argsort(-x, kind="stable")[:count] for x in (start_logits, end_logits))
        is_start = np.array([self._is_max_context(position - before, number, size, asked) for position in first], bool)
        is_end = (last >= before) & (last < before + size)
        lengths = last[None, :] - first[:, None] + 1
        is_valid = is_start[:, None] & is_end[None, :] & (lengths >= 1)
        x, y = np.nonzero(is_valid & (lengths <= self._search["max_answer_length"]))
        start_scores, end_scores = start_logits[first[x]], end_logits[last[y]]
        order = np.argsort(-(start_scores + end_scores), kind="stable")[: min(count**2, SPARE * count)]
        places = [(positions[order] - before + begin).tolist() for positions in (first[x], last[y])]
        offsets = ([side[place] for place in each] for side, each in zip(asked.tokens[1:], places, strict=True))
        return start_scores[order], end_scores[order], *(np.array(each, np.int64) for each in offsets)

    def _is_max_context(self, position: int, number: int, size: int, asked: Asked) -> bool:
        """Returns whether a window shows the token at this position of it with more context than any other window."""
        if not 0 <= position < size:
            return False
        room, stride = self._room_and_stride(asked.size)
        reach = -(-room // stride)
        near = range(max(0, number - reach), min(asked.windows, number + reach + 1))
        starts = [each * stride for each in near]
        sizes = [min(len(asked.tokens.ids) - start, room) for start in starts]
        return near[rows.max_context(position + number * stride, starts, sizes)] == number


def _stacked(values: Sequence[Any]) -> np.ndarray:
    return np.array(values, object) if isinstance(values[0], str) else np.stack(values)
