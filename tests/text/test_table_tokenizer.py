"""The tokenizer without TensorFlow gives the ids of the other one."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.text import table_tokenizer
from bert_tf.text.normalizer import all_characters
from bert_tf.text.table_tokenizer import TableTokenizer
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.text.wordpiece import HARD_STRINGS

WORDS = "the fox ran don ' t , . 我 爱 ##es ##n ##a a b ab ##b strasse οδος ##ς σ ##σ ο cafe naive".split()
WORDS += ["internationalization"]
VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *WORDS,
    *"abcdefghijklmnopqrstuvwxyz",
    "fox",
]  # one repeated
TEXTS = [
    *HARD_STRINGS,
    "",
    " \t ",
    "The foxes ran\nand\rran\x00.\x7f",
    "internationalization Internationalizationn " + "a" * 16 + " " + "b" * 17 + " " + "ab" * 101,
    "x\u2028y\u00a0z e\u0301\u00ad",
]


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def both(request):
    return TableTokenizer(VOCABULARY, request.param), Tokenizer(VOCABULARY, request.param)


def rows(tokenizer, texts):
    ids, sizes = tokenizer(texts)
    return [row.tolist() for row in np.split(ids, np.cumsum(sizes)[:-1])]


def test_ids_are_those_of_the_kernels(both):
    ours, kernels = both
    assert rows(ours, TEXTS) == kernels(tf.constant(TEXTS)).to_list()


def test_characters_are_treated_alike(both):
    ours, kernels = both
    usual = [character for character in all_characters() if ord(character) < 0x3100 or ord(character) % 61 == 0]
    texts = [f"a{character}b {character}" for character in usual]
    ids, sizes = ours(texts)
    expected = kernels(tf.constant(texts))
    different = np.flatnonzero(sizes != expected.row_lengths().numpy())
    assert [hex(ord(texts[index][1])) for index in different] == []
    assert np.array_equal(ids, expected.values.numpy())


@pytest.fixture
def small(monkeypatch):
    """Tables with few slots, which are full after a few words."""
    for name, value in (("MAX_WORDS", 3), ("SLOT_BITS", 5)):
        monkeypatch.setattr(table_tokenizer, name, value)


def test_words_are_forgotten_when_the_table_is_full(both, small):
    _, kernels = both
    ours, expected = TableTokenizer(VOCABULARY, kernels.lower_case), kernels(tf.constant(TEXTS)).to_list()
    assert [rows(ours, [text]) for text in TEXTS] == [[row] for row in expected]


def test_words_with_the_same_slot_are_told_apart(small):
    tokenizer = TableTokenizer(VOCABULARY)
    words = "a b ab the ran don strasse cafe".split()
    for _ in range(2):
        assert rows(tokenizer, [" ".join(words)]) == [
            [max(i for i, t in enumerate(VOCABULARY) if t == w) for w in words]
        ]
