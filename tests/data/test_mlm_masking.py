"""Masking against the plain-Python oracle, and its rates."""

import numpy as np
import oracle_pretraining_data as oracle
import pytest
import tensorflow as tf

from bert_tf.data.mlm_masking import mask_tokens, num_to_mask, random_bits, select_greedily

PAD, CLS, SEP, MASK, VOCAB = 0, 1, 2, 3, 200
SPANS = {"whole_word": False, "max_span_words": 3}
CONTINUATION = np.arange(VOCAB) % 3 == 1  # ids 4, 7, 10 ... are ## tokens


def eagerly(function, *arguments):
    return function(*arguments)


def inside_a_dataset(function, *arguments):
    return next(iter(tf.data.Dataset.from_tensors(arguments).map(function)))


def masked(run, token_ids, seeds, **options):
    options = {"masked_lm_prob": 0.15, "max_predictions_per_seq": 8} | options
    special = {"cls_id": CLS, "sep_id": SEP, "pad_id": PAD, "mask_id": MASK, "vocab_size": VOCAB}
    token_ids, seeds = tf.constant(token_ids, tf.int32), tf.constant(seeds, tf.int64)
    result = run(lambda t, s: mask_tokens(t, s, is_continuation=CONTINUATION, **special, **options), token_ids, seeds)
    return {name: value.numpy() for name, value in result.items()}


def random_texts(count, length_limit, shortest=3):
    """int32 [count, length_limit]: [CLS] a [SEP] b [SEP] and padding, of random lengths."""
    generator = np.random.default_rng(5)
    texts = np.zeros([count, length_limit], np.int32)
    for row in texts:
        length = generator.integers(shortest, length_limit + 1)
        row[:length] = generator.integers(4, VOCAB, length)
        row[0], row[length - 1], row[generator.integers(1, length)] = CLS, SEP, SEP
    return texts


@pytest.mark.parametrize("run", [eagerly, inside_a_dataset])
@pytest.mark.parametrize("together", [{"whole_word": False}, {"whole_word": True}, SPANS], ids=str)
@pytest.mark.parametrize("prob, limit", [(0.15, 8), (0.5, 40), (0.3, 3)])
def test_masks_match_the_original_token_by_token(run, together, prob, limit):
    texts = random_texts(150, 40)
    options = {"masked_lm_prob": prob, "max_predictions_per_seq": limit, **together}
    result = masked(run, texts, np.arange(150) * 7 - 300, **options)
    for row, text in enumerate(texts):
        tokens = [int(token) for token in text if token != PAD]
        settings = {"special": {CLS, SEP}, "mask_id": MASK, "vocab_size": VOCAB, "is_continuation": CONTINUATION}
        masked_ids, positions, labels = oracle.mask_tokens(
            tokens, (row * 7 - 300) % 2**64, **settings, prob=prob, limit=limit, **{"whole_word": False, **together}
        )
        filler = [0] * (limit - len(positions))
        assert result["token_ids"][row].tolist() == masked_ids + [PAD] * (40 - len(tokens))
        assert result["masked_lm_positions"][row].tolist() == positions + filler
        assert result["masked_lm_ids"][row].tolist() == labels + filler
        assert result["masked_lm_weights"][row].tolist() == [1] * len(positions) + filler


def test_masks_do_not_depend_on_batch_order_or_padding():
    texts = random_texts(30, 24)
    seeds = np.arange(30)
    together = masked(eagerly, texts, seeds)
    backwards = masked(eagerly, texts[::-1], seeds[::-1])
    wide = masked(eagerly, np.pad(texts, [[0, 0], [0, 9]]), seeds)
    alone = masked(eagerly, texts[11:12], seeds[11:12])
    for name in together:
        assert (backwards[name][::-1] == together[name]).all()
        assert (wide[name][:, : together[name].shape[1]] == together[name]).all()
        assert (alone[name][0] == together[name][11]).all()


def test_masks_depend_on_the_seed():
    texts = np.repeat(random_texts(1, 64, shortest=64), 50, axis=0)
    positions = masked(eagerly, texts, np.arange(50))["masked_lm_positions"]
    assert len({tuple(row) for row in positions.tolist()}) == 50


def test_padding_row_is_unchanged():
    result = masked(eagerly, [[PAD] * 6], [1])
    assert result["token_ids"].tolist() == [[PAD] * 6]
    assert result["masked_lm_weights"].sum() == 0


def test_text_without_candidates_has_no_masks():
    assert masked(eagerly, [[CLS, SEP, SEP, PAD]], [1])["masked_lm_weights"].sum() == 0


def test_word_longer_than_the_target_is_skipped():
    word = [CLS, 5, 4, 4, 4, 4, SEP, PAD]  # one word of five tokens, a target of one
    assert masked(eagerly, [word], [1], whole_word=True)["masked_lm_weights"].sum() == 0
    assert masked(eagerly, [word], [1], whole_word=False)["masked_lm_weights"].sum() == 1


def test_continuation_after_separator_belongs_to_the_word_before():
    text = [[CLS, 5, SEP, 4, SEP]]
    result = masked(eagerly, text, [1], whole_word=True, masked_lm_prob=0.4)
    assert result["masked_lm_positions"][0].tolist() == [1, 3, 0, 0, 0, 0, 0, 0]


def test_unused_prediction_slots_are_zero():
    result = masked(eagerly, [[CLS, 5, 6, SEP]], [1], max_predictions_per_seq=9)
    assert result["masked_lm_positions"].shape == (1, 9)
    assert result["masked_lm_weights"].sum() == 1


@pytest.mark.parametrize(
    "length, prob, expected",
    [(3, 0.15, 1), (10, 0.15, 2), (30, 0.15, 4), (50, 0.05, 2), (128, 0.15, 19), (500, 0.15, 20)],
)
def test_number_of_masks_rounds_half_to_even(length, prob, expected):
    assert num_to_mask(tf.constant([length]), prob, 20).numpy().tolist() == [expected]
    assert min(20, max(1, round(length * prob))) == expected


@pytest.mark.parametrize(
    "sizes, target, expected",
    [
        ([1, 1, 1, 0], 2, [1, 1, 0, 0]),
        ([3, 1, 1, 0], 2, [0, 1, 1, 0]),
        ([2, 4, 2, 3, 1], 5, [1, 0, 1, 0, 1]),
        ([1, 5, 4, 3, 2, 1, 1], 4, [1, 0, 0, 1, 0, 0, 0]),
        ([5, 5], 4, [0, 0]),
    ],
)
def test_groups_that_exceed_the_target_are_skipped(sizes, target, expected):
    selected = select_greedily(tf.constant([sizes]), tf.constant([target]))
    assert selected.numpy().tolist() == [[bool(value) for value in expected]]


def test_masking_rates_are_15_percent_and_80_10_10():
    texts = random_texts(1000, 102, shortest=102)
    result = masked(eagerly, texts, np.arange(1000) + 99, max_predictions_per_seq=40)
    labels = result["masked_lm_ids"]
    masked_ids = np.take_along_axis(result["token_ids"], result["masked_lm_positions"], 1)
    is_used = result["masked_lm_weights"] > 0
    assert is_used.sum() == 15000  # round(102 * 0.15) of each text
    assert abs((masked_ids == MASK)[is_used].mean() - 0.8) < 0.01
    assert abs((masked_ids == labels)[is_used].mean() - 0.1) < 0.008
    random_ids = masked_ids[is_used & (masked_ids != MASK) & (masked_ids != labels)]
    assert len(np.unique(random_ids)) > 190  # the whole vocabulary, specials included
    assert set(range(3)) <= set(random_ids.tolist())
    counts = np.bincount(result["masked_lm_positions"][is_used], minlength=102)[1:101]
    assert counts.min() > 90 and counts.max() < 215  # 150 expected, six deviations are 72


def test_random_bits_match_reference_hash():
    bits = random_bits(tf.constant([[0], [-5], [2**62]], tf.int64), 2, tf.constant([[0, 77]])).numpy()
    assert bits.tolist() == [[oracle.random_bits(s % 2**64, 2, c) for c in (0, 77)] for s in (0, -5, 2**62)]


def test_random_bits_of_adjacent_seeds_are_uniform_and_independent():
    bits = random_bits(tf.range(300, dtype=tf.int64)[:, None], 0, tf.range(300)[None, :]).numpy()
    every = bits[..., None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)
    assert abs(every.mean(axis=(0, 1)) - 0.5).max() < 0.01  # each bit: 90,000 tosses, 6 deviations
    cells = np.bincount((bits >> np.uint64(56)).astype(int).ravel(), minlength=256)
    expected = 90000 / 256
    assert ((cells - expected) ** 2 / expected).sum() < 256 + 6 * (2 * 256) ** 0.5  # chi squared
    uniform = bits.astype(np.float64) / 2.0**64
    assert abs(np.corrcoef(uniform[:-1].ravel(), uniform[1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(uniform[:, :-1].ravel(), uniform[:, 1:].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize(("max_span_words", "shortest", "longest"), [(1, 1.0, 1.1), (4, 2.2, 3.2), (10, 3.2, 5.0)])
def test_spans_mask_adjacent_words(max_span_words, shortest, longest):
    text = [CLS, *[5] * 400, SEP]  # words of one token
    limits = {"masked_lm_prob": 0.05, "max_predictions_per_seq": 20, "max_span_words": max_span_words}
    positions = masked(eagerly, [text] * 300, np.arange(300), **limits)["masked_lm_positions"]
    runs = (np.diff(positions) > 1).sum() + len(positions)
    assert shortest < positions.size / runs < longest
