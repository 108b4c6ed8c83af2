"""`answer_search` as a graph, for exports on strings: valid spans, the best across all windows, their texts.

B rows, T positions in a row, n = n_best_size, W windows, Q questions, M candidates per window.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, Self

from bert_tf.data.questions import Answer, Prediction
from bert_tf.heads.base.head import as_text
from bert_tf.heads.span.answer_search import IMPOSSIBLE, SPARE, Search
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.runtime.lazy import tf
from bert_tf.text.ragged_scan import from_row_numbers
from bert_tf.text.wordpiece import substrings

CANDIDATES = ("start_scores", "end_scores", "starts", "ends", "null_scores")
CHARACTERS_AT_ONCE = 1 << 18  # of answers whose texts are cut at once, which is faster and takes 60 bytes each
UNLIKELY = 1e-38  # stands for probabilities too small for float32

Tensors = dict[str, "tf.Tensor"]


class GraphSearch(Search):
    """The search as a graph."""

    @classmethod
    def of(cls, search: Search) -> Self:
        """The same search."""
        return cls(**dataclasses.asdict(search))

    def candidates(
        self, start_logits: tf.Tensor, end_logits: tf.Tensor, rows: Mapping[str, tf.Tensor], windows: QuestionWindows
    ) -> Tensors:
        """The best spans of each window: its best starts combined with its best ends.

        A span is valid inside the context, at most max_answer_length tokens long, starting where no other window
        shows more context.

        Args:
            start_logits: float32 [B, T].
            end_logits: float32 [B, T].
            rows: result of `windows.rows`, with "starts" and "ends" of at least as many positions.
            windows: how contexts are split.

        Returns:
            Best first, float32 "start_scores", "end_scores" and int32 "starts", "ends" (characters), all [B, M], with
            scores of IMPOSSIBLE if there is no other valid span. "null_scores" float32 [B, 2]: [CLS] scored as
            start and end.
        """
        length = tf.shape(start_logits)[1]
        rows = {name: x[:, :length] if name in ("starts", "ends") else x for name, x in rows.items()}
        is_padding = tf.range(length)[None, :] >= rows["lengths"][:, None]
        padding = [[0, 0], [0, self.n_best_size]]  # rows may have fewer positions than there are answers to return

        def top(logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            logits = tf.pad(tf.where(is_padding, IMPOSSIBLE, logits), padding, constant_values=IMPOSSIBLE)
            return tf.math.top_k(logits, self.n_best_size)  # scores, positions [B, n]

        def gather(name: str, positions: tf.Tensor) -> tf.Tensor:
            return tf.gather(tf.pad(rows[name], padding, constant_values=-1), positions, batch_dims=1)

        (start_scores, first), (end_scores, last) = top(start_logits), top(end_logits)
        starts, ends = gather("starts", first), gather("ends", last)  # [B, n]
        sizes = last[:, None, :] - first[:, :, None] + 1  # [B, n, n]
        is_valid = windows.is_max_context(rows, first)[:, :, None] & (ends >= 0)[:, None, :]
        is_valid &= (sizes >= 1) & (sizes <= self.max_answer_length)

        def pairs(x: tf.Tensor, axis: int, default: float) -> tf.Tensor:  # [B, n] -> [B, n * n]
            values = tf.where(is_valid, tf.expand_dims(x, axis), default)
            return tf.reshape(values, [-1, self.n_best_size * self.n_best_size])

        candidates = {
            "start_scores": pairs(start_scores, 2, float(IMPOSSIBLE)),
            "end_scores": pairs(end_scores, 1, float(IMPOSSIBLE)),
            "starts": pairs(starts, 2, 0),
            "ends": pairs(ends, 1, 0),
        }
        most = min(self.n_best_size**2, SPARE * self.n_best_size)
        order = tf.math.top_k(candidates["start_scores"] + candidates["end_scores"], most).indices
        candidates = {name: tf.gather(x, order, batch_dims=1) for name, x in candidates.items()}
        return {**candidates, "null_scores": tf.stack([start_logits[:, 0], end_logits[:, 0]], -1)}

    def answers(self, candidates: Tensors, owners: tf.Tensor, contexts: tf.Tensor) -> Tensors:
        """The answers to questions, from the candidates of all their windows.

        Args:
            candidates: result of `candidates`, [W, ...].
            owners: the question of each window, int32 [W], ascending; every question has at least one window.
            contexts: string [Q].

        Returns:
            Best first, string "texts" and float32 "start_scores", "end_scores", "probabilities" [Q, n], int32 "starts"
            and "ends" (characters of the context) [Q, n]; padding has an empty text, probability 0 and the scores
            IMPOSSIBLE. No text occurs twice. With has_null [Q, n + 1]: "no answer" is among them, an empty text at 0.
            And "null_scores" float32 [Q], "score_differences" [Q]: null minus the best other answer; "chosen" int32
            [Q], see `choose`.
        """
        count = tf.size(contexts)
        windows = from_row_numbers(tf.range(tf.size(owners)), owners, count)  # for each question
        of_question = {name: _by_owner(x, windows) for name, x in candidates.items() if name != "null_scores"}
        null = self._null_scores(candidates["null_scores"], owners, count)  # [Q, 2]
        answers = self._unique(of_question, contexts)
        best = answers["start_scores"][:, 0] + answers["end_scores"][:, 0]
        difference = tf.reduce_sum(null, -1) - tf.maximum(best, IMPOSSIBLE)
        if self.has_null:
            answers = self._with_null(answers, null)
        totals = answers["start_scores"] + answers["end_scores"]  # [Q, n]
        is_answer = totals > IMPOSSIBLE / 2
        probabilities = tf.nn.softmax(tf.where(is_answer, totals / self.temperature, IMPOSSIBLE))
        answers["probabilities"] = tf.where(is_answer, probabilities, 0.0)
        answers |= {"null_scores": tf.reduce_sum(null, -1), "score_differences": difference}
        return {**answers, "chosen": self.choose(answers)}

    def _null_scores(self, scores: tf.Tensor, owners: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """Start and end score of "no answer", from the window with the smallest sum."""
        totals = tf.reduce_sum(scores, -1)  # [W]
        least = tf.math.unsorted_segment_min(totals, owners, count)
        size, windows = tf.size(owners), tf.range(tf.size(owners))
        is_least = tf.equal(totals, tf.gather(least, owners))
        window = tf.math.unsorted_segment_min(tf.where(is_least, windows, size - 1), owners, count)
        return tf.gather(scores, window)

    def _unique(self, candidates: Tensors, contexts: tf.Tensor) -> Tensors:
        """The n best candidates [Q, ...] with different texts."""
        totals = candidates["start_scores"] + candidates["end_scores"]
        width = SPARE * self.n_best_size
        totals = tf.pad(totals, [[0, 0], [0, width]], constant_values=2 * IMPOSSIBLE)
        totals, indices = tf.math.top_k(totals, width)
        is_valid = totals > IMPOSSIBLE / 2
        indices = tf.where(is_valid, indices, 0)
        best = {name: tf.gather(x, indices, batch_dims=1) for name, x in candidates.items()}  # [Q, width]
        starts, ends = (tf.where(is_valid, best[name], 0) for name in ("starts", "ends"))
        texts = _parts(contexts, starts, ends)
        earlier = tf.linalg.band_part(tf.ones([width, width], tf.int32), -1, 0) - tf.eye(width, dtype=tf.int32)
        same = tf.cast(tf.equal(texts[:, :, None], texts[:, None, :]), tf.int32) * earlier
        is_new = is_valid & tf.equal(tf.reduce_max(same, -1), 0)
        order = tf.argsort(tf.cast(~is_new, tf.int32), stable=True)[:, : self.n_best_size]  # new ones first
        is_new = tf.gather(is_new, order, batch_dims=1)
        return _where(is_new, {name: tf.gather(x, order, batch_dims=1) for name, x in {**best, "texts": texts}.items()})

    def _with_null(self, answers: Tensors, null: tf.Tensor) -> Tensors:
        """Inserts "no answer" among the others by its score: [Q, n + 1]."""
        null_answer = {
            "texts": tf.fill([tf.shape(null)[0], 1], ""),
            "starts": tf.zeros_like(answers["starts"][:, :1]),
            "ends": tf.zeros_like(answers["ends"][:, :1]),
            "start_scores": null[:, :1],
            "end_scores": null[:, 1:],
        }
        merged = {name: tf.concat([null_answer[name], x], 1) for name, x in answers.items()}
        order = tf.argsort(merged["start_scores"] + merged["end_scores"], direction="DESCENDING", stable=True)
        merged = {name: tf.gather(x, order, batch_dims=1) for name, x in merged.items()}
        # As in google-research/bert, null is one of the n best, or is added to them.
        is_last = tf.equal(order[:, -1:], 0)  # [Q, 1]
        return _where(tf.concat([tf.ones_like(order[:, :-1], tf.bool), is_last], 1), merged)

    def choose(self, answers: Tensors) -> tf.Tensor:
        """The index [Q] of the chosen answer among the n best.

        The first; with has_null the first that is not null, or null itself if it exceeds that by more than the
        threshold, or if there is no other.
        """
        if not self.has_null:
            return tf.zeros_like(answers["starts"][:, 0])
        is_null = tf.equal(answers["ends"], 0)
        null = tf.argmax(is_null, -1, tf.int32)
        other = tf.argmax(~is_null, -1, tf.int32)
        takes_null = (answers["score_differences"] > self.threshold) | tf.reduce_all(is_null, -1)
        return tf.where(takes_null, null, other)


def _parts(contexts: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """The texts of answers [Q, n], from one character of their context [Q] to another.

    Answers overlap: a few long words can make their total length a hundred times the context's.
    """
    count = tf.shape(starts)[1]

    def at_once() -> tf.Tensor:
        questions = tf.repeat(tf.range(tf.size(contexts)), count)
        texts = substrings(contexts, questions, tf.reshape(starts, [-1]), tf.reshape(ends, [-1]))
        return tf.reshape(texts, tf.shape(starts))

    def one_by_one() -> tf.Tensor:
        ranges = (tf.transpose(starts), tf.transpose(ends - starts))
        cut = functools.partial(tf.strings.substr, contexts, unit="UTF8_CHAR")
        texts = tf.map_fn(lambda place: cut(*place), ranges, fn_output_signature=tf.string, parallel_iterations=1)
        return tf.transpose(texts)

    total = tf.reduce_sum(tf.cast(ends - starts, tf.int64))
    return tf.ensure_shape(tf.cond(total < CHARACTERS_AT_ONCE, at_once, one_by_one), starts.shape)


def _by_owner(x: tf.Tensor, windows: tf.RaggedTensor) -> tf.Tensor:
    """[W, M] -> [Q, (windows of the question) * M], padded with impossible candidates."""
    padding = tf.constant(IMPOSSIBLE if x.dtype.is_floating else 0, x.dtype)
    dense = windows.with_values(x).to_tensor(padding)  # [Q, windows, M]
    return tf.reshape(dense, [windows.nrows(), -1])


def _where(is_kept: tf.Tensor, answers: Tensors) -> Tensors:
    """The answers [Q, n], with padding in place of dropped ones."""
    padding = {"texts": "", "starts": 0, "ends": 0, "start_scores": IMPOSSIBLE, "end_scores": IMPOSSIBLE}
    return {name: tf.where(is_kept, x, tf.constant(padding[name], x.dtype)) for name, x in answers.items()}


def from_outputs(outputs: Mapping[str, Any], *, has_null: bool) -> Prediction:
    """The Prediction from an export's outputs for a question; the odds are computed from the probabilities."""
    columns = (outputs[name].tolist() for name in ("answers", "starts", "ends", "probabilities"))
    n_best: list[Answer] = [
        {"text": as_text(text), "start": start, "end": end, "probability": probability}
        for text, start, end, probability in zip(*columns, strict=True)
    ]
    answer: Answer = {
        "text": as_text(outputs["answer"]),
        "start": int(outputs["start"]),
        "end": int(outputs["end"]),
        "probability": float(outputs["score"]),
    }
    odds = None
    if has_null:
        null, other = (
            max([answer["probability"] for answer in n_best if bool(answer["end"]) is is_answer], default=0)
            for is_answer in (False, True)
        )
        odds = math.log(max(null, UNLIKELY)) - math.log(max(other, UNLIKELY))
    return Prediction(answer, [answer for answer in n_best if answer["probability"] > 0], odds)
