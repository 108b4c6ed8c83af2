"""What an export of pre-training answers to texts with masks: the pieces of the oracle, in its order.

The vocabulary has 30 pieces and the model room for 12, [CLS] and [SEP] included.
"""

import numpy as np
import pytest
import tiny
from mask_filling_cases import TEXTS, VOCABULARY, expected_answers, filler

from bert_tf.heads.masked_lm import mask_filling
from bert_tf.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(VOCABULARY)


@pytest.fixture(scope="module")
def live():
    """A model with random weights and {name: array} of them."""
    return tiny.pretrainer()


@pytest.fixture(scope="module")
def fill(live, tokenizer):
    return filler(live[0], tokenizer)


@pytest.mark.parametrize(
    "text, seen",
    [
        ("the [MASK] ran.", "the [MASK] ran ."),
        ("[MASK] ran", "[MASK] ran"),
        ("The fox\n[MASK]", "the fox [MASK]"),
        ("[MASK]", "[MASK]"),
        ("[MASK][MASK] sat on,[MASK]!", "[MASK] [MASK] sat on , [MASK] !"),
        ("foxs [mask] zebra [MASK]", "fox ##s [UNK] [UNK] [UNK] [UNK] [MASK]"),
        ("the [SEP] [MASK]", "the [UNK] [UNK] [UNK] [MASK]"),
    ],
)
def test_masks_are_filled_like_the_reference(live, fill, text, seen):
    pieces, scores = fill([text])
    expected_pieces, expected_scores = expected_answers(live[1], seen)
    assert pieces[0].tolist() == expected_pieces
    np.testing.assert_allclose(scores[0], expected_scores, atol=1e-5)


@pytest.mark.parametrize(
    "text, seen",
    [
        ("a " * 5 + "[MASK]" + " the" * 4, "a a a a a [MASK] the the the the"),  # 10 pieces: as many as there is room
        ("a " * 30 + "[MASK]" + " the" * 30, "a a a a a [MASK] the the the the"),
        ("a a [MASK]" + " the" * 30, "a a [MASK] the the the the the the the"),
        ("a " * 30 + "[MASK] the", "a a a a a a a a [MASK] the"),
        ("[MASK] " * 30, "[MASK] " * 10),
        ("a [MASK]" + " the" * 30 + " [MASK]", "a [MASK] the the the the the the the the"),
    ],
)
def test_long_text_is_cut_around_its_first_mask(live, fill, text, seen):
    pieces, scores = fill([text])
    expected_pieces, expected_scores = expected_answers(live[1], seen)
    np.testing.assert_allclose(scores[0], expected_scores, atol=1e-5)
    assert len(pieces[0]) == len(expected_pieces)


@pytest.mark.parametrize("texts", [[], [""], ["the fox"], ["the fox", "", "sat " * 40]])
def test_text_without_mask_has_no_answer(fill, texts):
    pieces, scores = fill(texts)
    assert pieces.shape == scores.shape == (len(texts), 0, 10)


def test_fewer_masks_are_padded_with_empty_answers(fill):
    pieces, scores = fill(["[MASK] [MASK]", "the [MASK]", ""])
    assert pieces.shape == (3, 2, 10)
    empty = pieces[1, 1].tolist() + pieces[2].ravel().tolist()
    assert empty == [b""] * 30 and scores[1, 1].tolist() == [0.0] * 10 and not scores[2].any()
    assert b"" not in pieces[1, 0].tolist() and (np.diff(scores[1, 0]) <= 0).all()


def test_batch_composition_has_no_effect(fill):
    together = fill(TEXTS)[1]
    for text, row in zip(TEXTS, together, strict=True):
        alone = fill([text])[1][0]
        np.testing.assert_allclose(row[: len(alone)], alone, atol=1e-6)
        assert not row[len(alone) :].any()


def test_untrained_next_sentence_head_has_no_signature(live, tokenizer):
    assert sorted(mask_filling.signatures(live[0], tokenizer)) == ["next_sentence", "serving_default"]
    assert sorted(mask_filling.signatures(live[0], tokenizer, next_sentence=False)) == ["serving_default"]
