"""Answers to a question from the start and end logits of its windows. Free of TensorFlow.

n = n_best_size, M candidates per window, T tokens in a row. `spans` does the same in a graph, for exports on strings.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from bert_tf.data.questions import Answer, Prediction, no_answer

IMPOSSIBLE = np.float32(-1e9)  # the score of an invalid answer
SPARE = 5  # candidates per returned answer: some have the same text


class Windows(Protocol):
    """How contexts are split; see `question_windows.QuestionWindows`."""

    @property
    def max_seq_length(self) -> int:
        """Tokens in a row."""

    @property
    def doc_stride(self) -> int:
        """Tokens from the start of a window to the next."""

    @property
    def separators(self) -> int:
        """[SEP] tokens between question and context."""


class Asked(NamedTuple):
    """A question about a text.

    size: tokens of the question. starts, ends: character offsets of the context's tokens. windows: number of windows
    that cover it.
    """

    size: int
    starts: Sequence[int] | np.ndarray
    ends: Sequence[int] | np.ndarray
    windows: int
    context: str


class Candidate(NamedTuple):
    """An answer: characters of the context, and the logits of its first and last token."""

    text: str
    start: int
    end: int
    start_score: np.float32
    end_score: np.float32

    @property
    def total(self) -> np.float32:
        """The score of the answer."""
        return np.float32(self.start_score + self.end_score)


class Best(NamedTuple):
    """The answers to a question, best first; padded to n with empty ones of probability 0.

    chosen: the index of the answer. null_score, difference: the score of "no answer", and how far it is
    above the best other score.
    """

    answers: list[Candidate]
    probabilities: np.ndarray
    chosen: int
    null_score: np.float32
    difference: np.float32

    def prediction(self, *, has_null: bool) -> Prediction:
        """The Prediction, as in prediction files."""
        rows = [
            Answer(
                text=each.text,
                start=each.start,
                end=each.end,
                probability=float(share),
                start_logit=float(each.start_score),
                end_logit=float(each.end_score),
            )
            for each, share in zip(self.answers, self.probabilities, strict=True)
        ]
        chosen = rows[self.chosen] if self.probabilities[self.chosen] > 0 else no_answer()
        odds = float(self.difference) if has_null else None
        return Prediction(chosen, [row for row in rows if row["probability"] > 0], odds)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """Which answers are valid, and how many to return (google-research/bert `run_squad.py: write_predictions`).

    has_null: "no answer" is an answer, chosen if its score exceeds the best other one by more than `threshold`.
    temperature: divides scores before they become probabilities.
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    has_null: bool = False
    threshold: float = 0.0
    temperature: float = 1.0

    def best(self, starts: Sequence[np.ndarray], ends: Sequence[np.ndarray], asked: Asked, windows: Windows) -> Best:
        """The answers to a question: n, or n + 1 with "no answer"; no text occurs twice.

        Args:
            starts: start logits of each window, float32 [T], without padding.
            ends: end logits.
            asked: the question.
            windows: how its context is split.
        """
        pairs = list(zip(starts, ends, strict=True))
        found = [self._candidates(number, *pair, asked, windows) for number, pair in enumerate(pairs)]
        start_scores, end_scores, begins, stops = (np.concatenate(column) for column in zip(*found, strict=True))
        null = min(((x[0], y[0]) for x, y in pairs), key=lambda pair: pair[0] + pair[1])
        totals, texts, chosen = start_scores + end_scores, set[str](), list[Candidate]()
        for index in np.argsort(-totals, kind="stable")[: SPARE * self.n_best_size]:
            text = asked.context[begins[index] : stops[index]]
            if totals[index] > IMPOSSIBLE / 2 and text not in texts and len(chosen) < self.n_best_size:
                texts.add(text)
                scores = start_scores[index], end_scores[index]
                chosen.append(Candidate(text, int(begins[index]), int(stops[index]), *scores))
        null_score = np.float32(null[0] + null[1])
        difference = np.float32(null_score - (chosen[0].total if chosen else IMPOSSIBLE))
        nothing = Candidate("", 0, 0, IMPOSSIBLE, IMPOSSIBLE)
        chosen += [nothing] * (self.n_best_size - len(chosen))
        if self.has_null:
            no_answer = Candidate("", 0, 0, *null)
            chosen = sorted([no_answer, *chosen], key=lambda each: -each.total)
            chosen[-1] = no_answer if chosen[-1] is no_answer else nothing
        return Best(chosen, self._probabilities(chosen), self._choose(chosen, difference), null_score, difference)

    def _probabilities(self, answers: Sequence[Candidate]) -> np.ndarray:
        scores = np.array([each.total for each in answers], np.float32)
        is_answer = scores > IMPOSSIBLE / 2
        scaled = np.where(is_answer, scores / np.float32(self.temperature), IMPOSSIBLE)
        shares = np.exp(scaled - scaled.max())
        return np.where(is_answer, shares / shares.sum(), 0).astype(np.float32)

    def _choose(self, answers: Sequence[Candidate], difference: np.float32) -> int:
        """The index of the answer.

        The first; with has_null the first that is not null, or null itself if it exceeds that by more than the
        threshold, or if there is no other.
        """
        if not self.has_null:
            return 0
        others = [place for place, each in enumerate(answers) if each.end]
        is_null = difference > self.threshold or not others
        return next(place for place, each in enumerate(answers) if not each.end) if is_null else others[0]

    def _candidates(
        self, number: int, start_logits: np.ndarray, end_logits: np.ndarray, asked: Asked, windows: Windows
    ) -> tuple[np.ndarray, ...]:
        """The best spans of a window, its best starts combined with its best ends: [M] each.

        A span is valid inside the context, at most max_answer_length tokens long, starting where no other window
        shows more context. Returns start and end scores, and characters of the context.
        """
        room, stride = room_and_stride(windows, asked.size)
        begin, before = number * stride, asked.size + 1 + windows.separators
        size = min(len(asked.starts) - begin, room)
        first, last = (np.argsort(-x, kind="stable")[: self.n_best_size] for x in (start_logits, end_logits))
        is_start = _is_max_context(first - before, number, size, asked, room, stride)
        is_end = (last >= before) & (last < before + size)
        lengths = last[None, :] - first[:, None] + 1
        is_valid = is_start[:, None] & is_end[None, :] & (lengths >= 1)
        x, y = np.nonzero(is_valid & (lengths <= self.max_answer_length))
        start_scores, end_scores = start_logits[first[x]], end_logits[last[y]]
        most = min(self.n_best_size**2, SPARE * self.n_best_size)
        order = np.argsort(-(start_scores + end_scores), kind="stable")[:most]
        firsts, lasts = ((positions[order] - before + begin).tolist() for positions in (first[x], last[y]))
        begins = np.array([asked.starts[place] for place in firsts], np.int64)
        ends = np.array([asked.ends[place] for place in lasts], np.int64)
        return start_scores[order], end_scores[order], begins, ends


def fewest_positions(separators: int) -> int:
    """Tokens of a row with a token of the question and one of the context."""
    return 4 + separators


def room_and_stride(windows: Windows, size: int) -> tuple[int, int]:
    """Tokens of a window next to a question of that size, and the stride to the next window."""
    room = windows.max_seq_length - 2 - windows.separators - size
    return room, min(windows.doc_stride, room)


def _is_max_context(positions: np.ndarray, number: int, size: int, asked: Asked, room: int, stride: int) -> np.ndarray:
    """Returns whether a window shows the tokens at its positions with the most context, see `data.windows`."""
    reach = -(-room // stride)
    near = np.arange(max(0, number - reach), min(asked.windows, number + reach + 1))
    sizes = np.minimum(len(asked.starts) - near * stride, room)
    left = positions[:, None] + (number - near)[None, :] * stride
    right = sizes[None, :] - 1 - left
    scores = np.where((left >= 0) & (right >= 0), np.minimum(left, right) + 0.01 * sizes[None, :], -1.0)
    return (near[scores.argmax(1)] == number) & (positions >= 0) & (positions < size)


def outputs_of(best: Best) -> dict[str, Any]:
    """The outputs of an export for a question."""
    chosen = best.answers[best.chosen]
    return {
        "answer": chosen.text,
        "start": np.int32(chosen.start),
        "end": np.int32(chosen.end),
        "score": best.probabilities[best.chosen],
        "answers": np.array([each.text for each in best.answers], object),
        "starts": np.array([each.start for each in best.answers], np.int32),
        "ends": np.array([each.end for each in best.answers], np.int32),
        "probabilities": best.probabilities,
        "null_score": best.null_score,
    }
