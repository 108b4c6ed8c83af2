"""Stateless masking for masked language models: single tokens, whole words or spans; 80/10/10.

B texts, T positions, P = max_predictions_per_seq, G groups of a text (at most T), V vocabulary. A *group* is masked
together: one token; with whole words, a token and the following ones that continue its word (## tokens, ideographs
joined by a segmenter); with spans, several such words in a row.

All randomness comes from `random_bits`, a hash of the text's own seed and a counter, so the masks of a text do not
depend on its batch, on padding, or on the order or number of threads, and need no saved state.
"""

from __future__ import annotations

from bert_tf.data.hashed_bits import as_uint64, random_bits, shift_right, uint64
from bert_tf.runtime.lazy import tf

ORDER, KIND, REPLACEMENT, SPAN = range(4)  # streams of random bits; counters of different streams never collide
SPAN_END_PROBABILITY = 0.2  # probability that a span ends after a word: p of SpanBERT's geometric lengths


def mask_tokens(
    token_ids: tf.Tensor,
    seeds: tf.Tensor,
    *,
    cls_id: int,
    sep_id: int,
    pad_id: int,
    mask_id: int,
    vocab_size: int,
    is_continuation: tf.Tensor | None = None,
    continues_word: tf.Tensor | None = None,
    masked_lm_prob: float = 0.15,
    max_predictions_per_seq: int = 20,
    whole_word: bool = False,
    max_span_words: int = 1,
    replacement_probs: tuple[float, float, float] = (0.8, 0.1, 0.1),
) -> dict[str, tf.Tensor]:
    """Masks tokens for the masked language model (google-research/bert `create_masked_lm_predictions`).

    Masks min(P, max(1, round(n * masked_lm_prob))) of n tokens (specials included), never [CLS], [SEP], [PAD];
    possibly fewer with words and spans: a group that would exceed the number is skipped.

    Args:
        token_ids: int32 [B, T] (T static), padded with pad_id.
        seeds: int64 or uint64 [B], one per text.
        cls_id: the id of [CLS].
        sep_id: the id of [SEP].
        pad_id: the id of [PAD].
        mask_id: the id of [MASK].
        vocab_size: V; random replacements are drawn from the whole vocabulary.
        is_continuation: bool [V], true for ## tokens; required for whole_word and for max_span_words above 1.
        continues_word: bool [B, T], additional tokens that continue the word before them.
        masked_lm_prob: the share of tokens to mask.
        max_predictions_per_seq: P.
        whole_word: mask all tokens of a word together.
        max_span_words: above 1, a text is split at random into spans of whole words, of geometric length up to this,
            and whole spans are masked (after SpanBERT, Joshi et al. 2020, section 3.1, which draws spans one by one).
        replacement_probs: probabilities that a masked token becomes [MASK], a random token, or stays.

    Returns:
        "token_ids" int32 [B, T]; "masked_lm_positions", "masked_lm_ids" int32 [B, P] in order of position;
        "masked_lm_weights" float32 [B, P]. If the weight is 0 (as in a row of padding), so are the other two.
    """
    token_ids, seeds = tf.convert_to_tensor(token_ids, tf.int32), as_uint64(seeds)
    candidate = (token_ids != cls_id) & (token_ids != sep_id) & (token_ids != pad_id)  # [B, T]
    lengths = tf.math.count_nonzero(token_ids != pad_id, 1, dtype=tf.int32)  # [B]
    share = tf.round(tf.cast(lengths, tf.float64) * tf.constant(masked_lm_prob, tf.float64))  # halves become even
    targets = tf.minimum(max_predictions_per_seq, tf.maximum(1, tf.cast(share, tf.int32)))
    continues = None
    if whole_word or max_span_words > 1:
        continues = tf.gather(tf.constant(is_continuation), token_ids)
        continues = continues if continues_word is None else continues | continues_word
    group = _groups(candidate, seeds, continues, max_span_words)  # [B, T]
    is_masked = _select_tokens(group, candidate, seeds, targets)  # [B, T]
    positions, weights = _positions(is_masked, max_predictions_per_seq)  # [B, P]
    is_used = weights > 0
    labels = tf.where(is_used, tf.gather(token_ids, positions, batch_dims=1), 0)
    replacements = _replacements(labels, positions, seeds, mask_id, vocab_size, replacement_probs)
    replacements = tf.where(is_used, replacements, 0)
    return {
        "token_ids": tf.tensor_scatter_nd_add(token_ids, _with_rows(positions), replacements - labels),  # 0 if unused
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": weights,
    }


def select_greedily(sizes: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Selects groups greedily: each in order, unless it would exceed the target.

    sizes: int32 [B, G], in the order of selection, 0 for no group; targets: int32 [B] -> bool [B, G]. Instead of
    iterating over the groups, takes all of them and, after the sum first exceeds the target, drops the groups that
    no longer fit (the room only shrinks); repeats until no sum exceeds it: two or three times for words.
    """

    def sums(sizes: tf.Tensor) -> tf.Tensor:
        return tf.cumsum(sizes, 1)  # [B, G]

    def exceeds(sizes: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any(sums(sizes) > targets[:, None])

    def drop(sizes: tf.Tensor) -> list[tf.Tensor]:
        over = sums(sizes) > targets[:, None]
        room = targets - tf.reduce_max(tf.where(over, 0, sums(sizes)), 1)  # [B], at the first excess
        return [tf.where(over & (sizes > room[:, None]), 0, sizes)]

    (selected,) = tf.while_loop(exceeds, drop, [sizes])
    return selected > 0


def _groups(candidate: tf.Tensor, seeds: tf.Tensor, continues: tf.Tensor | None, max_span_words: int) -> tf.Tensor:
    """The group number of each position within its text, int32 [B, T]: -1 before the first group.

    As in the original, a token that continues a word joins the last candidate before it, even across a [SEP]; without
    one, it begins a word.
    """
    starts = candidate
    if continues is not None:
        seen = tf.cumsum(tf.cast(candidate, tf.int32), 1, exclusive=True)
        starts &= ~continues | (seen == 0)
    if max_span_words > 1:
        starts = _span_starts(starts, candidate, seeds, max_span_words)
    return tf.cumsum(tf.cast(starts, tf.int32), 1) - 1


def _span_starts(starts: tf.Tensor, candidate: tf.Tensor, seeds: tf.Tensor, max_span_words: int) -> tf.Tensor:
    """Word starts -> span starts, bool [B, T]: at random, after max_span_words words, and after [CLS] and [SEP]."""
    batch, length = tf.shape(starts)[0], starts.shape[1]
    ends = _uniform(seeds, SPAN, tf.range(length)[None, :]) < SPAN_END_PROBABILITY
    after_special = ~tf.pad(candidate, [[0, 0], [1, 0]])[:, :-1]
    unlimited = starts & (ends | after_special)  # span starts without the limit
    words = tf.cumsum(tf.cast(starts, tf.int32), 1)  # [B, T]
    span = tf.cumsum(tf.cast(unlimited, tf.int32), 1) + (length + 1) * tf.range(batch)[:, None]
    first = tf.math.unsorted_segment_min(words + length * tf.cast(~starts, tf.int32), span, batch * (length + 1))
    return starts & ((words - tf.gather(first, span)) % max_span_words == 0)


def _select_tokens(group: tf.Tensor, candidate: tf.Tensor, seeds: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Selects groups in random order -> bool [B, T], the positions to mask."""
    batch, length = tf.shape(group)[0], group.shape[1]
    flat = tf.where(candidate, group + length * tf.range(batch)[:, None], -1)  # negative: not counted
    sizes = tf.math.unsorted_segment_sum(tf.ones_like(flat), flat, batch * length)
    sizes = tf.reshape(sizes, [batch, length])  # [B, G]
    order = _random_order(seeds, sizes)  # [B, G]
    selected = select_greedily(tf.gather(sizes, order, batch_dims=1), targets)
    selected = tf.scatter_nd(_with_rows(order), selected, [batch, length])  # [B, G]
    return tf.gather(selected, tf.maximum(group, 0), batch_dims=1) & candidate


def _random_order(seeds: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """The groups of each text in random order, absent ones (size 0) last: int32 [B, G]."""
    bits = random_bits(seeds[:, None], ORDER, tf.range(sizes.shape[1])[None, :])
    keys = tf.cast(shift_right(bits, 2), tf.int64)  # at least 0
    return tf.math.top_k(tf.where(sizes > 0, keys + 1, 0), sizes.shape[1]).indices


def _replacements(
    labels: tf.Tensor,
    positions: tf.Tensor,
    seeds: tf.Tensor,
    mask_id: int,
    vocab_size: int,
    probs: tuple[float, float, float],
) -> tf.Tensor:
    """The ids that replace the masked tokens, int32 [B, P]."""
    kind = _uniform(seeds, KIND, positions)  # [B, P]
    other = shift_right(random_bits(seeds[:, None], REPLACEMENT, positions), 32)
    other = tf.cast(shift_right(other * uint64(vocab_size), 32), tf.int32)  # in [0, V)
    return tf.where(kind < probs[0], mask_id, tf.where(kind < probs[0] + probs[1], other, labels))


def _uniform(seeds: tf.Tensor, stream: int, counters: tf.Tensor) -> tf.Tensor:
    """float64 in [0, 1) for each text and counter: seeds [B], counters [B or 1, N] -> [B, N]."""
    return tf.cast(shift_right(random_bits(seeds[:, None], stream, counters), 11), tf.float64) * 2.0**-53


def _positions(is_masked: tf.Tensor, limit: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Bool [B, T], at most `limit` true per row -> positions in order, int32 [B, P], and weights float32 [B, P]."""
    length = is_masked.shape[1]
    from_end = tf.where(is_masked, length - tf.range(length), 0)  # [B, T]
    top = tf.math.top_k(from_end, min(limit, length)).values
    top = tf.pad(top, [[0, 0], [0, limit - top.shape[1]]])  # [B, P]
    return tf.where(top > 0, length - top, 0), tf.cast(top > 0, tf.float32)


def _with_rows(columns: tf.Tensor) -> tf.Tensor:
    """Column indices int32 [B, C] -> (row, column) pairs, int32 [B, C, 2], for the scatter ops."""
    rows = tf.range(tf.shape(columns)[0])[:, None] + tf.zeros_like(columns)
    return tf.stack([rows, columns], -1)
