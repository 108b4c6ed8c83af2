"""Which tokens to hide and with what: stateless; pieces, whole words or runs of words; 80/10/10.

B texts, T slots, P = max_predictions_per_seq, G groups of a text (at most T), V vocabulary. A *group* is what is hidden
together: one piece, with whole words a piece and the ## pieces after it, with spans some such words in a row.

All chance comes from `random_bits`, a hash of the text's own seed and a counter, so that what is hidden in a text does
not depend on its batch, on the padding, on the order or the number of threads, and needs no state to be saved.
"""

import tensorflow as tf

ORDER, KIND, REPLACEMENT, SPAN = range(4)  # streams of random bits; counters of different streams never meet
SPAN_ENDS = 0.2  # probability that a span ends behind a word: the p of SpanBERT's geometric lengths


def random_bits(seeds, stream, counters):
    """64 random bits for each seed, stream and counter: uint64 of the broadcast shape.

    seeds: int64 or uint64 (or one int); stream: a small int; counters: int32 or int64 below 2 ** 32. Two rounds of
    splitmix64 (Steele et al. 2014): the seed is hashed first, so that neighbouring seeds have nothing in common.
    """
    counters = tf.cast(counters, tf.uint64) + tf.constant((stream << 32) + 1, tf.uint64)
    return _mixed(_mixed(_bits(seeds) + _constant(0x9E3779B97F4A7C15)) + counters * _constant(0x9E3779B97F4A7C15))


def hide(
    token_ids,
    seeds,
    *,
    cls_id,
    sep_id,
    pad_id,
    mask_id,
    vocab_size,
    is_continuation=None,
    masked_lm_prob=0.15,
    max_predictions_per_seq=20,
    whole_word=False,
    max_span_words=1,
    shares=(0.8, 0.1, 0.1),
):
    """Hides tokens for the masked language model (google-research/bert `create_masked_lm_predictions`).

    token_ids: int32 [B, T] (T static), padded with pad_id; seeds: int64 or uint64 [B], one per text; is_continuation:
    bool [V], true for ## pieces, needed for whole_word and for max_span_words above 1: then a text is cut at random
    into spans of whole words, of geometric length up to that, and whole spans are hidden (after SpanBERT, Joshi et al.
    2020, §3.1, which draws spans one after another); shares: how a hidden token is shown: as [MASK], as a random id of
    the whole vocabulary, as itself. Of n tokens (specials included) min(P, max(1, round(n * masked_lm_prob))) are
    hidden, never [CLS], [SEP], [PAD]; with words and spans maybe fewer: a group that would go over is passed over.
    Returns "token_ids" int32 [B, T]; "masked_lm_positions", "masked_lm_ids" int32 [B, P] in order of position;
    "masked_lm_weights" float32 [B, P]. Where the weight is 0 (a row of padding has no other), so are those two.
    """
    token_ids, seeds = tf.convert_to_tensor(token_ids, tf.int32), _bits(seeds)
    candidate = (token_ids != cls_id) & (token_ids != sep_id) & (token_ids != pad_id)  # [B, T]
    lengths = tf.math.count_nonzero(token_ids != pad_id, 1, dtype=tf.int32)  # [B]
    wanted = number_to_hide(lengths, masked_lm_prob, max_predictions_per_seq)
    whole = is_continuation if whole_word or max_span_words > 1 else None
    group = _groups(token_ids, candidate, seeds, whole, max_span_words)  # [B, T]
    hidden = _hidden(group, candidate, seeds, wanted)  # [B, T]
    positions, weights = _places(hidden, max_predictions_per_seq)  # [B, P]
    here = weights > 0
    labels = tf.where(here, tf.gather(token_ids, positions, batch_dims=1), 0)
    shown = tf.where(here, _shown(labels, positions, seeds, mask_id, vocab_size, shares), 0)
    return {
        "token_ids": tf.tensor_scatter_nd_add(token_ids, _with_rows(positions), shown - labels),  # 0 where unused
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": weights,
    }


def number_to_hide(lengths, masked_lm_prob, max_predictions_per_seq):
    """Lengths int32 [B] (specials included) -> how many tokens to hide, int32 [B]; halves go to the even number."""
    share = tf.round(tf.cast(lengths, tf.float64) * tf.constant(masked_lm_prob, tf.float64))
    return tf.minimum(max_predictions_per_seq, tf.maximum(1, tf.cast(share, tf.int32)))


def take_in_order(sizes, wanted):
    """Which groups a greedy choice takes: each in order, unless it would go over what is wanted.

    sizes: int32 [B, G], in the order of choice, 0 for no group; wanted: int32 [B] -> bool [B, G]. Instead of going
    through the groups one by one, all are taken; where the sum first goes over, the later groups that no longer fit
    (the room only shrinks) are dropped; and again, until nothing goes over: two or three times for words.
    """

    def sums(sizes):
        return tf.cumsum(sizes, 1)  # [B, G]

    def goes_over(sizes):
        return tf.reduce_any(sums(sizes) > wanted[:, None])

    def drop(sizes):
        over = sums(sizes) > wanted[:, None]
        room = wanted - tf.reduce_max(tf.where(over, 0, sums(sizes)), 1)  # [B], where it first goes over
        return [tf.where(over & (sizes > room[:, None]), 0, sizes)]

    (taken,) = tf.while_loop(goes_over, drop, [sizes])
    return taken > 0


def _groups(token_ids, candidate, seeds, is_continuation, max_span_words):
    """The number of each slot's group in its text, int32 [B, T]: -1 before the first."""
    starts = candidate if is_continuation is None else _word_starts(token_ids, candidate, is_continuation)
    if max_span_words > 1:
        starts = _span_starts(starts, candidate, seeds, max_span_words)
    return tf.cumsum(tf.cast(starts, tf.int32), 1) - 1


def _word_starts(token_ids, candidate, is_continuation):
    """Where words begin, bool [B, T].

    As in the original, a ## piece joins the last candidate before it, even across a [SEP]; if there is none, it begins
    a word.
    """
    seen = tf.cumsum(tf.cast(candidate, tf.int32), 1, exclusive=True)
    return candidate & (~tf.gather(tf.constant(is_continuation), token_ids) | (seen == 0))


def _span_starts(starts, candidate, seeds, max_span_words):
    """Where words begin -> where spans do, bool [B, T]: at random, at the most words, and behind [CLS] and [SEP]."""
    batch, slots = tf.shape(starts)[0], starts.shape[1]
    ends = _uniform(seeds, SPAN, tf.range(slots)[None, :]) < SPAN_ENDS
    after_special = ~tf.pad(candidate, [[0, 0], [1, 0]])[:, :-1]
    free = starts & (ends | after_special)  # where spans without a limit begin
    words = tf.cumsum(tf.cast(starts, tf.int32), 1)  # [B, T]
    span = tf.cumsum(tf.cast(free, tf.int32), 1) + (slots + 1) * tf.range(batch)[:, None]
    first = tf.math.unsorted_segment_min(words + slots * tf.cast(~starts, tf.int32), span, batch * (slots + 1))
    return starts & ((words - tf.gather(first, span)) % max_span_words == 0)


def _hidden(group, candidate, seeds, wanted):
    """Goes through the groups in random order -> bool [B, T], which slots are hidden."""
    batch, slots = tf.shape(group)[0], group.shape[1]
    flat = tf.where(candidate, group + slots * tf.range(batch)[:, None], -1)  # negative: counted nowhere
    sizes = tf.math.unsorted_segment_sum(tf.ones_like(flat), flat, batch * slots)
    sizes = tf.reshape(sizes, [batch, slots])  # [B, G]
    order = _random_order(seeds, sizes)  # [B, G]
    taken = take_in_order(tf.gather(sizes, order, batch_dims=1), wanted)
    chosen = tf.scatter_nd(_with_rows(order), taken, [batch, slots])  # [B, G]
    return tf.gather(chosen, tf.maximum(group, 0), batch_dims=1) & candidate


def _random_order(seeds, sizes):
    """Groups of each text in random order, absent ones (size 0) last: int32 [B, G]."""
    bits = random_bits(seeds[:, None], ORDER, tf.range(sizes.shape[1])[None, :])
    keys = tf.cast(_right(bits, 2), tf.int64)  # above 0 for groups that are there
    return tf.math.top_k(tf.where(sizes > 0, keys + 1, 0), sizes.shape[1]).indices


def _shown(labels, positions, seeds, mask_id, vocab_size, shares):
    """What stands in place of the hidden tokens, int32 [B, P]."""
    kind = _uniform(seeds, KIND, positions)  # [B, P]
    other = _right(random_bits(seeds[:, None], REPLACEMENT, positions), 32)
    other = tf.cast(_right(other * _constant(vocab_size), 32), tf.int32)  # in [0, V)
    return tf.where(kind < shares[0], mask_id, tf.where(kind < shares[0] + shares[1], other, labels))


def _uniform(seeds, stream, counters):
    """float64 in [0, 1) for each text and counter: seeds [B], counters [B or 1, N] -> [B, N]."""
    return tf.cast(_right(random_bits(seeds[:, None], stream, counters), 11), tf.float64) * 2.0**-53


def _places(hidden, limit):
    """Bool [B, T], at most `limit` true a row -> their places in order, int32 [B, P], and weights float32 [B, P]."""
    slots = hidden.shape[1]
    from_end = tf.where(hidden, slots - tf.range(slots), 0)  # [B, T]
    found = tf.math.top_k(from_end, min(limit, slots)).values
    found = tf.pad(found, [[0, 0], [0, limit - found.shape[1]]])  # [B, P]
    return tf.where(found > 0, slots - found, 0), tf.cast(found > 0, tf.float32)


def _with_rows(columns):
    """Column numbers int32 [B, C] -> pairs of row and column, int32 [B, C, 2], as the scatter ops want them."""
    rows = tf.range(tf.shape(columns)[0])[:, None] + tf.zeros_like(columns)
    return tf.stack([rows, columns], -1)


def _bits(seeds):
    seeds = tf.constant(seeds, tf.int64) if isinstance(seeds, int) else tf.convert_to_tensor(seeds)
    return seeds if seeds.dtype == tf.uint64 else tf.bitcast(tf.cast(seeds, tf.int64), tf.uint64)


def _constant(value):
    return tf.constant(value, tf.uint64)


def _right(x, bits):
    return tf.bitwise.right_shift(x, _constant(bits))


def _mixed(x):
    """The finalizer of splitmix64: each bit of the result depends on all bits of x."""
    x = tf.bitwise.bitwise_xor(x, _right(x, 30)) * _constant(0xBF58476D1CE4E5B9)
    x = tf.bitwise.bitwise_xor(x, _right(x, 27)) * _constant(0x94D049BB133111EB)
    return tf.bitwise.bitwise_xor(x, _right(x, 31))
