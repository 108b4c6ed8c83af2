"""Vocabularies learned from texts; those of byte-level BPE and SentencePiece are in tests of their own."""

import hashlib
import logging
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from bert_tf.errors import UserError
from bert_tf.text import vocabulary_learning

ROOT = Path(__file__).resolve().parents[2]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = ["The lower tower flowed slowly.", "Lower towers glow; slower flowers grow.", "Café, CAFÉ! naïve 我爱你"] * 3


def test_learn_takes_special_tokens():
    learned = vocabulary_learning.learn(["[E1] ab ab [/E1]"] * 9, 20, special_tokens=["[E1]", "[/E1]"])
    assert learned == [*SPECIAL, "[E1]", "[/E1]", "a", "b", "##b", "ab"]


def test_learn_orders_special_tokens_alphabet_and_merges():
    learned = vocabulary_learning.learn(["low lower lowest"] * 2, 40)
    alphabet = ["e", "l", "o", "r", "s", "t", "w", "##e", "##o", "##r", "##s", "##t", "##w"]
    assert learned[: 5 + len(alphabet)] == [*SPECIAL, *alphabet]
    assert set(learned[5 + len(alphabet) :]) >= {"low", "lower", "lowest"}


def test_learn_splits_like_the_tokenizer():
    learned = vocabulary_learning.learn(TEXTS, 200)[len(SPECIAL) :]
    assert {"cafe", "我", ",", "!"} <= set(learned)
    assert not any(character in "".join(learned) for character in "éïCT \u0301")
    cased = vocabulary_learning.learn(TEXTS, 200, lower_case=False)
    assert {"Café", "é", "ï"} <= set(cased)


def test_learn_ignores_characters_that_cannot_match():
    learned = vocabulary_learning.learn(["a\0b\u200b\ufffdc\x07 \u0378 \U00011b00 xy"] * 3, 60)
    assert {"abc", "xy"} <= set(learned)
    assert not any(character in "".join(learned) for character in "\0\u200b\ufffd\x07\u0378\U00011b00")


def test_learn_keeps_the_most_frequent_characters():
    learned = vocabulary_learning.learn(["aa aa bb bb cz zc q"], 100, limit_alphabet=3)
    assert {token for token in learned if len(token) == 1} == {"a", "b"}  # c occurs only next to z, which is dropped


def test_learn_keeps_more_characters_of_a_large_script_if_there_is_room():
    common, rare = [chr(0x4E00 + number) for number in range(1500)], [chr(0x5800 + number) for number in range(200)]
    texts = [" ".join(common)] * 200 + ["".join(rare)]  # the rare ones are 0.07% of the characters
    learned = {size: set(vocabulary_learning.learn(texts, size)) for size in (4000, 2200)}
    assert set(common) <= learned[4000] and 40 <= len(learned[4000] & set(rare)) <= 60
    assert len(learned[2200] & set(common)) == 1100
    hangul = "".join(chr(0xAC00 + number) for number in range(1400))  # each is needed as c and as ##c
    pairs = [f"{first}{second}" for first, second in zip(hangul, hangul[1:] + hangul[:1], strict=True)]
    assert len(vocabulary_learning.learn([" ".join(pairs)] * 2, 2500, lower_case=False)) == 2500


def test_learn_gives_fewer_tokens_for_small_texts(caplog):
    with caplog.at_level(logging.WARNING):
        assert len(vocabulary_learning.learn(TEXTS, 5000)) < 200
    assert "fewer than the requested 5,000" in caplog.text


def test_learn_merges_only_pairs_of_minimum_frequency():
    assert "xy" not in vocabulary_learning.learn(["xy ab ab"], 50)
    assert "xy" in vocabulary_learning.learn(["xy ab ab"], 50, min_frequency=1)


@pytest.mark.parametrize(
    ("texts", "size", "message"),
    [([], 100, "No word"), (["\0 \u200b"], 100, "No word"), (["the quick brown fox"], 20, "size=20.*need 3")],
)
def test_learn_refuses_texts_and_sizes_without_a_vocabulary(texts, size, message):
    with pytest.raises(UserError, match=message):
        vocabulary_learning.learn(texts, size)


def test_learn_reads_an_iterator_once_and_ignores_text_order():
    assert vocabulary_learning.learn(iter(TEXTS), 150) == vocabulary_learning.learn(reversed(TEXTS), 150)


def test_learn_is_deterministic_across_processes():
    words = random.Random(1)
    text = " ".join("".join(words.choices("abcdefghijé我", k=words.randint(1, 6))) for _ in range(2000))
    expected = hashlib.sha256("\n".join(vocabulary_learning.learn([text], 300)).encode()).hexdigest()
    program = (
        "import hashlib, sys; from bert_tf.text import vocabulary_learning; text = sys.stdin.buffer.read().decode();"
        "print(hashlib.sha256('\\n'.join(vocabulary_learning.learn([text], 300)).encode()).hexdigest());"
        "assert 'tensorflow' not in sys.modules"
    )
    for seed, threads in (("1", "1"), ("2", "2"), ("3", "2")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, input=text.encode(), cwd=ROOT, env=environment, check=True, capture_output=True)
        assert done.stdout.decode().strip() == expected
