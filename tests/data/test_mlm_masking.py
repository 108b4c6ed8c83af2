"""Masking against the plain-Python oracle, and its rates."""

import numpy as np
import oracle_pretraining_data as oracle
import pytest
import tensorflow as tf

from bert_tf.data.hashed_bits import random_bits
from bert_tf.data.mlm_masking import mask_tokens

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


def test_padding_row_is_unchanged():
    result = masked(eagerly, [[PAD] * 6], [1])
    assert result["token_ids"].tolist() == [[PAD] * 6]
    assert result["masked_lm_weights"].sum() == 0


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
