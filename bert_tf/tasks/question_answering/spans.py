"""From scores of starts and ends to answers: legal spans, the best of all windows, their texts.

B rows, T slots, n = n_best_size, W windows, Q questions, M candidates of a window.
"""

import dataclasses

import tensorflow as tf

IMPOSSIBLE = -1e9  # the score of what cannot be chosen; finite, as differences of infinities are no numbers
SPARE = 5  # candidates looked at for each answer that is wanted: some have the same text


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """What answers there may be, and how many are wanted (google-research/bert `run_squad.py: write_predictions`).

    has_null: "no answer" is an answer, taken where its score is above the best other by more than `threshold`.
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    has_null: bool = False
    threshold: float = 0.0

    def candidates(self, start_logits, end_logits, rows, windows):
        """The best spans of each window: of its best starts with its best ends.

        start_logits, end_logits: float32 [B, T]. rows: those of `windows`, a `question_windows.QuestionWindows`, with
        "starts" and "ends" of as many slots.
        Returns, best first, float32 "start_scores", "end_scores" and int32 "starts", "ends" (characters), all [B, M]
        with scores of IMPOSSIBLE where there is no other legal span. Not legal is what is outside of the context, ends
        before it starts, is longer than max_answer_length pieces, or begins where another window shows more of the
        context. "null_scores" float32 [B, 2]: those of [CLS] as start and end.
        """
        unused = tf.range(tf.shape(start_logits)[1])[None, :] >= rows["lengths"][:, None]
        padding = [[0, 0], [0, self.n_best_size]]  # rows may have fewer slots than answers are wanted

        def best(logits):
            logits = tf.pad(tf.where(unused, IMPOSSIBLE, logits), padding, constant_values=IMPOSSIBLE)
            return tf.math.top_k(logits, self.n_best_size)  # scores, slots [B, n]

        def at(name, slots, filler):
            return tf.gather(tf.pad(rows[name], padding, constant_values=filler), slots, batch_dims=1)

        (start_scores, start_slots), (end_scores, end_slots) = best(start_logits), best(end_logits)
        starts, ends = at("starts", start_slots, -1), at("ends", end_slots, -1)  # [B, n]
        length = end_slots[:, None, :] - start_slots[:, :, None] + 1  # [B, n, n]
        legal = windows.is_max_context(rows, start_slots)[:, :, None] & (ends >= 0)[:, None, :]
        legal &= (length >= 1) & (length <= self.max_answer_length)

        def spread(x, axis, filler):  # [B, n] -> [B, n * n]
            pairs = tf.where(legal, tf.expand_dims(x, axis), filler)
            return tf.reshape(pairs, [-1, self.n_best_size * self.n_best_size])

        found = {
            "start_scores": spread(start_scores, 2, IMPOSSIBLE),
            "end_scores": spread(end_scores, 1, IMPOSSIBLE),
            "starts": spread(starts, 2, 0),
            "ends": spread(ends, 1, 0),
        }
        most = min(self.n_best_size**2, SPARE * self.n_best_size)
        order = tf.math.top_k(found["start_scores"] + found["end_scores"], most).indices
        found = {name: tf.gather(x, order, batch_dims=1) for name, x in found.items()}
        return {**found, "null_scores": tf.stack([start_logits[:, 0], end_logits[:, 0]], -1)}

    def answers(self, candidates, owners, contexts):
        """The answers to questions from the candidates of all their windows.

        candidates: of `candidates`, [W, ...]; owners: int32 [W], ascending: whose window each is; every question has
        at least one. contexts: string [Q].
        Returns, best first, string "texts" and float32 "start_scores", "end_scores", "probabilities" [Q, n], int32
        "starts" and "ends" (characters of the context) [Q, n]; what is not there has an empty text, probability 0 and
        the scores IMPOSSIBLE. No text occurs twice. With has_null [Q, n + 1]: "no answer" is among them, an empty text
        at 0. And "null_scores" float32 [Q], "score_differences" [Q]: null minus the best other answer.
        """
        count = tf.size(contexts)
        per_question = {name: _by_owner(x, owners, count) for name, x in candidates.items() if name != "null_scores"}
        null = self._null_scores(candidates["null_scores"], owners, count)  # [Q, 2]
        found = self._different(per_question, contexts)
        best = found["start_scores"][:, 0] + found["end_scores"][:, 0]
        difference = tf.reduce_sum(null, -1) - tf.maximum(best, IMPOSSIBLE)
        if self.has_null:
            found = self._with_null(found, null)
        totals = found["start_scores"] + found["end_scores"]  # [Q, n]
        is_there = totals > IMPOSSIBLE / 2
        probabilities = tf.nn.softmax(tf.where(is_there, totals, IMPOSSIBLE))
        found["probabilities"] = tf.where(is_there, probabilities, 0.0)
        return {**found, "null_scores": tf.reduce_sum(null, -1), "score_differences": difference}

    def _null_scores(self, scores, owners, count):
        """Start and end score of "no answer": of the window where their sum is least."""
        totals = tf.reduce_sum(scores, -1)  # [W]
        least = tf.math.unsorted_segment_min(totals, owners, count)
        size, places = tf.size(owners), tf.range(tf.size(owners))
        is_least = tf.equal(totals, tf.gather(least, owners))
        place = tf.math.unsorted_segment_min(tf.where(is_least, places, size - 1), owners, count)
        return tf.gather(scores, place)

    def _different(self, candidates, contexts):
        """The n best candidates [Q, ...] whose texts differ."""
        totals = candidates["start_scores"] + candidates["end_scores"]
        width = SPARE * self.n_best_size
        totals = tf.pad(totals, [[0, 0], [0, width]], constant_values=2 * IMPOSSIBLE)
        totals, places = tf.math.top_k(totals, width)
        legal = totals > IMPOSSIBLE / 2
        places = tf.where(legal, places, 0)
        found = {name: tf.gather(x, places, batch_dims=1) for name, x in candidates.items()}  # [Q, width]
        sizes = found["ends"] - found["starts"]
        texts = tf.strings.substr(contexts[:, None], found["starts"], sizes, unit="UTF8_CHAR")  # [Q, width]
        texts = tf.where(legal, texts, "")
        earlier = tf.linalg.band_part(tf.ones([width, width], tf.int32), -1, 0) - tf.eye(width, dtype=tf.int32)
        same = tf.cast(tf.equal(texts[:, :, None], texts[:, None, :]), tf.int32) * earlier
        new = legal & tf.equal(tf.reduce_max(same, -1), 0)
        order = tf.argsort(tf.cast(~new, tf.int32), stable=True)[:, : self.n_best_size]  # new ones first
        new = tf.gather(new, order, batch_dims=1)
        chosen = {name: tf.gather(x, order, batch_dims=1) for name, x in {**found, "texts": texts}.items()}
        return _only(new, chosen)

    def _with_null(self, found, null):
        """Puts "no answer" at its place among the others: [Q, n + 1]."""
        first = {
            "texts": tf.fill([tf.shape(null)[0], 1], ""),
            "starts": tf.zeros_like(found["starts"][:, :1]),
            "ends": tf.zeros_like(found["ends"][:, :1]),
            "start_scores": null[:, :1],
            "end_scores": null[:, 1:],
        }
        joined = {name: tf.concat([first[name], x], 1) for name, x in found.items()}
        order = tf.argsort(joined["start_scores"] + joined["end_scores"], direction="DESCENDING", stable=True)
        joined = {name: tf.gather(x, order, batch_dims=1) for name, x in joined.items()}
        # As in the original null is one of the n best, or comes in addition.
        is_last = tf.equal(order[:, -1:], 0)  # [Q, 1]
        kept = tf.concat([tf.ones_like(order[:, :-1], tf.bool), is_last], 1)
        return _only(kept, joined)

    def chosen(self, answers):
        """The place [Q] of the answer to give in each list of n best.

        The first; with has_null the first that is not null, or null itself where that is above it by more than the
        threshold, or where there is no other.
        """
        if not self.has_null:
            return tf.zeros_like(answers["starts"][:, 0])
        is_null = tf.equal(answers["ends"], 0)
        null = tf.argmax(is_null, -1, tf.int32)
        other = tf.argmax(~is_null, -1, tf.int32)
        takes_null = (answers["score_differences"] > self.threshold) | tf.reduce_all(is_null, -1)
        return tf.where(takes_null, null, other)


def _by_owner(x, owners, count):
    """[W, M] -> [Q, (windows of the question) * M], filled up with what cannot be chosen."""
    rows = tf.RaggedTensor.from_value_rowids(x, owners, nrows=tf.cast(count, owners.dtype))
    filler = tf.constant(IMPOSSIBLE if x.dtype.is_floating else 0, x.dtype)
    dense = rows.to_tensor(filler)  # [Q, windows, M]
    return tf.reshape(dense, [count, -1])


def _only(kept, found):
    """The found answers [Q, n] with nothing in the place of those that are not kept."""
    nothing = {"texts": "", "starts": 0, "ends": 0, "start_scores": IMPOSSIBLE, "end_scores": IMPOSSIBLE}
    return {name: tf.where(kept, x, tf.constant(nothing[name], x.dtype)) for name, x in found.items()}
