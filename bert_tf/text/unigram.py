"""Words to pieces of a unigram model as TensorFlow ops: the best path as in Hugging Face's `tokenizers`.

U distinct words, C characters of all of them, L characters of the longest piece, M nodes of the trie of pieces, P
pieces. Kudo 2018, section 3.2. Scores are added in float64 from the left, as in `tokenizers`: rounding decides between
two ways to write a run such as "------" with the same pieces. Time grows linearly with the length of a word.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from bert_tf.runtime.lazy import tf
from bert_tf.text.ragged_scan import from_row_numbers, repeat, row_numbers, shift
from bert_tf.text.wordpiece import as_single_node, flat_bytes, substrings

CODES = 1 << 21  # above all code points
UNKNOWN_PENALTY = 10.0  # subtracted from the lowest score for an unknown character


class Unigram:
    """Splits words into ids. Constants only: no variable, table or asset.

    Args:
        pieces: (token, score) in the order of ids. The last one of a repeated token counts.
        unknown_id: the id of characters without a piece. Several in a row are one token.
        left_out: pieces that no word contains.
        byte_ids: ids of the 256 byte pieces, which encode characters without a piece; (): these are unknown.
    """

    def __init__(
        self,
        pieces: Sequence[tuple[str, float]],
        unknown_id: int,
        left_out: Collection[str] = (),
        byte_ids: Sequence[int] = (),
    ) -> None:
        keys, ids, scores = _trie(pieces, set(left_out))
        unknown = min(score for _, score in pieces) - UNKNOWN_PENALTY
        with tf.init_scope(), tf.device("CPU:0"):  # eager: captured, not copied into each graph
            self._keys = tf.constant(keys)  # int64 [M - 1]: node * CODES + character, sorted; the i-th leads to i + 1
            self._ids = tf.constant(np.append(ids, unknown_id).astype(np.int32))  # [M + 1]; the last: no piece
            self._scores = tf.constant(np.append(scores, unknown))  # float64 [M + 1]; -inf: no piece
            self._unknown_id, self._unknown_node = tf.constant(unknown_id), tf.constant(len(ids), tf.int32)
            self._byte_ids = tf.constant(byte_ids, tf.int32) if byte_ids else None
            self._node = as_single_node(self._split)

    def __call__(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Words, string [U] -> ids int32 [U, (tokens)], first and last character of each token in its word: int64."""
        ids, word, first, last = self._node(words)
        return from_row_numbers(ids, word, tf.size(words)), first, last

    def _split(self, words: tf.Tensor) -> tuple[tf.Tensor, ...]:
        points = tf.strings.unicode_decode(words, "UTF-8")
        x, word = points.values, row_numbers(points)
        begin = points.row_starts()
        nodes = self._nodes(x, tf.gather(points.row_limits(), word))
        back = self._best_path(nodes, points)
        is_end = _reached(back, begin, word, points)
        ends = tf.where(is_end)[:, 0]
        size = tf.gather(back, ends)
        node = tf.gather_nd(nodes, tf.stack([ends, size - 1], 1))
        ids, word = tf.gather(self._ids, node), tf.gather(word, ends)
        is_unknown = tf.equal(ids, self._unknown_id)
        continues = is_unknown & shift(is_unknown, 1) & tf.equal(word, shift(word, 1)) & (tf.range(tf.size(word)) > 0)
        stays, is_last = ~continues, ~shift(continues, -1)
        base = tf.gather(begin, word)
        first, last = tf.boolean_mask(ends - size + 1 - base, stays), tf.boolean_mask(ends - base, is_last)
        ids, word = tf.boolean_mask(ids, stays), tf.boolean_mask(word, stays)
        return self._in_bytes(words, ids, word, first, last) if self._byte_ids is not None else (ids, word, first, last)

    def _in_bytes(
        self, words: tf.Tensor, ids: tf.Tensor, word: tf.Tensor, first: tf.Tensor, last: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """The tokens with unknown characters replaced by byte tokens, all with the character's place."""
        is_unknown = tf.equal(ids, self._unknown_id)
        rows, begins, ends = (tf.boolean_mask(x, is_unknown) for x in (word, first, last + 1))
        texts = substrings(words, rows, begins, ends)
        counts = tf.tensor_scatter_nd_update(
            tf.ones_like(first), tf.where(is_unknown), tf.cast(tf.strings.length(texts), tf.int64)
        )
        source = repeat(tf.range(tf.size(ids)), counts)
        values, _ = flat_bytes(texts)
        in_bytes = tf.gather(self._byte_ids, tf.cast(values[:-1], tf.int32))
        word, first, last = (tf.gather(x, source) for x in (word, first, last))
        places = tf.where(tf.gather(is_unknown, source))
        return tf.tensor_scatter_nd_update(tf.gather(ids, source), places, in_bytes), word, first, last

    def _nodes(self, x: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
        """Nodes of the pieces of 1, 2, ... characters that end at each character; 0 for none: int32 [C, L]."""
        count = tf.size(x, tf.int64)
        found = tf.TensorArray(tf.int64, size=1, dynamic_size=True, infer_shape=False, element_shape=[None, 3])

        def step(size: tf.Tensor, node: tf.Tensor, end: tf.Tensor, found: tf.TensorArray) -> tuple:
            key = node * CODES + tf.cast(tf.gather(x, end), tf.int64)
            place = tf.searchsorted(self._keys, key, out_type=tf.int64)
            is_edge = tf.equal(tf.gather(self._keys, tf.minimum(place, tf.size(self._keys, tf.int64) - 1)), key)
            node, end = tf.boolean_mask(place + 1, is_edge), tf.boolean_mask(end, is_edge)
            found = found.write(tf.cast(size, tf.int32), tf.stack([end, tf.fill(tf.shape(end), size), node], 1))
            goes_on = end + 1 < tf.gather(limit, end)
            return size + 1, tf.boolean_mask(node, goes_on), tf.boolean_mask(end + 1, goes_on), found

        some = tf.TensorShape([None])
        size, _, _, found = tf.while_loop(
            lambda size, node, *_: (tf.size(node) > 0) | tf.equal(size, 0),
            step,
            (tf.constant(0, tf.int64), tf.zeros_like(x, tf.int64), tf.range(count), found),
            shape_invariants=(tf.TensorShape([]), some, some, None),
        )
        entries = found.concat()
        nodes = tf.scatter_nd(entries[:, :2], tf.cast(entries[:, 2], tf.int32), tf.stack([count, size]))
        is_unknown = tf.math.is_inf(tf.gather(self._scores, nodes[:, 0]))
        return tf.concat([tf.where(is_unknown, self._unknown_node, nodes[:, 0])[:, None], nodes[:, 1:]], 1)

    def _best_path(self, nodes: tf.Tensor, points: tf.RaggedTensor) -> tf.Tensor:
        """The length of the piece that ends at each character on the best path to it: int64 [C].

        All words advance one character at a time; the longest come first, so that finished words are last.
        """
        lengths = tf.cast(points.row_lengths(), tf.int32)
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)
        rank = tf.math.invert_permutation(order)
        longest = tf.reduce_max(tf.concat([lengths, [0]], 0))
        # The number of words that reach each place, and the words' characters sorted by place.
        running = tf.searchsorted(-tf.gather(lengths, order), -tf.range(longest), side="left")
        offsets = tf.cumsum(running, exclusive=True)
        word = row_numbers(points)
        inside = tf.range(tf.size(word, tf.int64)) - tf.gather(points.row_starts(), word)
        place = tf.gather(offsets, inside) + tf.gather(rank, word)  # place of each character in that order
        nodes = tf.scatter_nd(place[:, None], nodes, tf.shape(nodes))
        width = tf.shape(nodes)[1]
        sizes = tf.range(width)
        best = tf.fill([tf.shape(lengths)[0], width], tf.constant(-np.inf, tf.float64))
        best = tf.where(tf.equal(sizes, 0), tf.constant(0, tf.float64), best)  # before 1, 2, ... characters
        chosen = tf.TensorArray(tf.int32, size=longest, infer_shape=False, element_shape=[None])

        def step(number: tf.Tensor, best: tf.Tensor, chosen: tf.TensorArray) -> tuple:
            here = tf.gather(nodes, offsets[number] + tf.range(running[number]))
            best = best[: running[number]]
            scores = best + tf.gather(self._scores, here)
            highest = tf.reduce_max(scores, 1, keepdims=True)
            size = tf.reduce_max(tf.where(tf.equal(scores, highest), sizes, -1), 1)  # the longest of equal ones
            return number + 1, tf.concat([highest, best[:, :-1]], 1), chosen.write(number, size + 1)

        _, _, chosen = tf.while_loop(
            lambda number, *_: number < longest,
            step,
            (tf.constant(0), best, chosen),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None]), None),
        )
        return tf.cast(tf.gather(tf.concat([chosen.concat(), [0]], 0), place), tf.int64)


def _reached(back: tf.Tensor, begin: tf.Tensor, word: tf.Tensor, points: tf.RaggedTensor) -> tf.Tensor:
    """Which characters end a piece of their word's best path, bool [C], stepping back from its end.

    Each round follows twice as many steps as the one before.
    """
    count = tf.size(back, tf.int64)
    before = tf.range(count) - back
    before = tf.where(before < tf.gather(begin, word), count, before)  # count: before the word
    before = tf.concat([before, [count]], 0)
    lengths = points.row_lengths()
    last = tf.boolean_mask(points.row_limits() - 1, lengths > 0)
    reached = tf.scatter_nd(last[:, None], tf.ones_like(last), [count + 1]) > 0
    longest = tf.reduce_max(tf.concat([lengths, [0]], 0))

    def step(steps: tf.Tensor, reached: tf.Tensor, before: tf.Tensor) -> tuple:
        found = tf.boolean_mask(before, reached)
        reached |= tf.scatter_nd(found[:, None], tf.ones_like(found), [count + 1]) > 0
        return 2 * steps, reached, tf.gather(before, before)

    _, reached, _ = tf.while_loop(lambda steps, *_: steps < longest, step, (tf.constant(1, tf.int64), reached, before))
    return reached[:-1]


def _trie(pieces: Sequence[tuple[str, float]], left_out: set[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys of the edges, int64 [M - 1], and the id and score of each node's piece: int32 and float64 [M].

    Nodes are numbered level by level, by the keys of the edges that lead to them.
    """
    numbers = {token: number for number, (token, _) in enumerate(pieces) if token and token not in left_out}
    tokens, own = list(numbers), np.array(list(numbers.values()), np.int32)
    own_scores = np.array([pieces[number][1] for number in own], np.float64)
    lengths = np.array([len(token) for token in tokens])
    codes = np.frombuffer("".join(tokens).encode("utf-32-le"), "<u4").astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    node = np.zeros(len(tokens), np.int64)
    keys, ids, scores, count = [], [np.array([-1], np.int32)], [np.array([-np.inf])], 1
    for depth in range(lengths.max(initial=0)):
        longer = np.flatnonzero(lengths > depth)
        level, places = np.unique(node[longer] * CODES + codes[starts[longer] + depth], return_inverse=True)
        node[longer] = count + places
        level_ids, level_scores = np.full(len(level), -1, np.int32), np.full(len(level), -np.inf)
        ended = longer[lengths[longer] == depth + 1]
        level_ids[node[ended] - count], level_scores[node[ended] - count] = own[ended], own_scores[ended]
        keys.append(level)
        ids.append(level_ids)
        scores.append(level_scores)
        count += len(level)
    return np.concatenate(keys), np.concatenate(ids), np.concatenate(scores)
