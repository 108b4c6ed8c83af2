"""Reading, learning, extending and writing a vocabulary."""

import hashlib
import json
import logging
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from bert_tf.errors import UserError
from bert_tf.text import vocabulary

ROOT = Path(__file__).resolve().parents[2]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LINES = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\n"
TEXTS = ["The lower tower flowed slowly.", "Lower towers glow; slower flowers grow.", "Café, CAFÉ! naïve 我爱你"] * 3


@pytest.mark.parametrize(
    "data",
    [
        LINES.encode(),
        LINES.encode("utf-8-sig"),
        LINES.replace("\n", "\r\n").encode(),
        (LINES + "\n\n").encode(),
        LINES.rstrip().encode(),
    ],
    ids=["plain", "byte order mark", "CRLF", "blank lines at the end", "no line break at the end"],
)
def test_read_gives_the_token_of_each_line(tmp_path, data):
    (tmp_path / "vocab.txt").write_bytes(data)
    assert vocabulary.read(tmp_path / "vocab.txt") == [*SPECIAL, "the", "##s"]


def test_read_keeps_ids_after_unusual_lines(tmp_path):
    (tmp_path / "vocab.txt").write_text(LINES + "\na\u2028b\n\u2581x\nlast\n", encoding="utf-8")
    assert vocabulary.read(tmp_path / "vocab.txt")[7:] == ["", "a\u2028b", "\u2581x", "last"]


def test_read_warns_about_repeated_tokens(tmp_path, caplog):
    (tmp_path / "vocab.txt").write_text(LINES + "the\n")
    assert len(vocabulary.read(tmp_path / "vocab.txt")) == 8
    assert "repeats 1 tokens (the, ...)" in caplog.text


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"[PAD]\n\xff\xfe\n", r"not UTF-8 text \(line 2\)"),
        (b"\x00\x01\x02", "binary file"),
        (b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02", "SentencePiece model"),
        (json.dumps({"model": {"vocab": {"[PAD]": 0}}}).encode(), "JSON file"),
        (b"{" + b'"a":{' * 100_000, r"no \[PAD\]"),
        (b"[MASK]\n[PAD]\n[UNK]\n[CLS]\n[SEP]\n", "has only special tokens, with which no text can be written"),
        (b"[PAD]\n[UNK]\nthe\n", r"no \[CLS\], \[SEP\], \[MASK\]"),
    ],
)
def test_read_identifies_files_that_are_not_vocabularies(tmp_path, data, message):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(UserError, match=message):
        vocabulary.read(tmp_path / "file")


def test_read_reports_missing_files_and_folders(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        vocabulary.read(tmp_path / "vocab.txt")
    with pytest.raises(UserError, match="is a folder"):
        vocabulary.read(tmp_path)


@pytest.mark.parametrize("expected", [6, 8])
def test_read_refuses_another_size_with_both_numbers(tmp_path, expected):
    (tmp_path / "vocab.txt").write_text(LINES)
    assert len(vocabulary.read(tmp_path / "vocab.txt", expected_size=7)) == 7
    with pytest.raises(UserError, match=f"has 7 tokens, but the model expects {expected}"):
        vocabulary.read(tmp_path / "vocab.txt", expected_size=expected)


def test_read_returns_what_write_wrote(tmp_path):
    tokens = [*SPECIAL, "ß", "##é", "我"]
    vocabulary.write(tmp_path / "vocab.txt", tokens)
    assert vocabulary.read(tmp_path / "vocab.txt") == tokens
    assert os.listdir(tmp_path) == ["vocab.txt"]


def test_write_keeps_the_old_file_if_a_token_is_invalid(tmp_path):
    vocabulary.write(tmp_path / "vocab.txt", [*SPECIAL, "a"])
    with pytest.raises(UserError, match="line break"):
        vocabulary.write(tmp_path / "vocab.txt", ["a\nb"])
    assert vocabulary.read(tmp_path / "vocab.txt") == [*SPECIAL, "a"]


def test_write_leaves_no_file_when_it_fails(tmp_path, monkeypatch):
    def full_disk(source, target):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space"):
        vocabulary.write(tmp_path / "vocab.txt", SPECIAL)
    assert os.listdir(tmp_path) == []


def test_extend_replaces_unused_tokens_first_then_appends():
    old = ["[PAD]", "[unused0]", "[UNK]", "[unused1]", "the"]
    assert vocabulary.extend(old, ["krill", "##opod", "fjord"]) == ["[PAD]", "krill", "[UNK]", "##opod", "the", "fjord"]
    assert old[1] == "[unused0]"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("the", "in the vocabulary already"),
        ("", "empty or has white space"),
        ("##", "empty or has white space"),
        ("two words", "empty or has white space"),
        ("Krill", "can never match.*'krill'"),
        ("covid-19", "can never match.*'covid - 19'"),
        ("x" * 201, "at most 200 bytes"),
    ],
)
def test_extend_refuses_words_that_could_not_match(word, message):
    with pytest.raises(UserError, match=message):
        vocabulary.extend([*SPECIAL, "the"], [word])


def test_extend_accepts_capitals_for_a_cased_tokenizer():
    assert vocabulary.extend(SPECIAL, ["Krill"], lower_case=False)[-1] == "Krill"


def test_extend_and_learn_take_special_tokens():
    assert vocabulary.extend(["[unused1]", *SPECIAL], ["[E1]", "<e>"]) == ["[E1]", *SPECIAL, "<e>"]
    learned = vocabulary.learn(["[E1] ab ab [/E1]"] * 9, 20, special_tokens=["[E1]", "[/E1]"])
    assert learned == [*SPECIAL, "[E1]", "[/E1]", "a", "b", "##b", "ab"]


def test_extend_refuses_a_repeated_word():
    with pytest.raises(UserError, match="given twice"):
        vocabulary.extend(SPECIAL, ["krill", "krill"])


def test_learn_orders_special_tokens_alphabet_and_merges():
    learned = vocabulary.learn(["low lower lowest"] * 2, 40)
    alphabet = ["e", "l", "o", "r", "s", "t", "w", "##e", "##o", "##r", "##s", "##t", "##w"]
    assert learned[: 5 + len(alphabet)] == [*SPECIAL, *alphabet]
    assert set(learned[5 + len(alphabet) :]) >= {"low", "lower", "lowest"}


def test_learn_splits_like_the_tokenizer():
    learned = vocabulary.learn(TEXTS, 200)[len(SPECIAL) :]
    assert {"cafe", "我", ",", "!"} <= set(learned)
    assert not any(character in "".join(learned) for character in "éïCT \u0301")
    cased = vocabulary.learn(TEXTS, 200, lower_case=False)
    assert {"Café", "é", "ï"} <= set(cased)


def test_learn_ignores_characters_that_cannot_match():
    learned = vocabulary.learn(["a\0b\u200b\ufffdc\x07 \u0378 \U00011b00 xy"] * 3, 60)
    assert {"abc", "xy"} <= set(learned)
    assert not any(character in "".join(learned) for character in "\0\u200b\ufffd\x07\u0378\U00011b00")


def test_learn_keeps_the_most_frequent_characters():
    learned = vocabulary.learn(["aa aa bb bb cz zc q"], 100, limit_alphabet=3)
    assert {token for token in learned if len(token) == 1} == {"a", "b"}  # c occurs only next to z, which is dropped


def test_learn_keeps_more_characters_of_a_large_script_if_there_is_room():
    common, rare = [chr(0x4E00 + number) for number in range(1500)], [chr(0x5800 + number) for number in range(200)]
    texts = [" ".join(common)] * 200 + ["".join(rare)]  # the rare ones are 0.07% of the characters
    learned = {size: set(vocabulary.learn(texts, size)) for size in (4000, 2200)}
    assert set(common) <= learned[4000] and 40 <= len(learned[4000] & set(rare)) <= 60
    assert len(learned[2200] & set(common)) == 1100
    hangul = "".join(chr(0xAC00 + number) for number in range(1400))  # each is needed as c and as ##c
    pairs = [f"{first}{second}" for first, second in zip(hangul, hangul[1:] + hangul[:1], strict=True)]
    assert len(vocabulary.learn([" ".join(pairs)] * 2, 2500, lower_case=False)) == 2500


def test_learn_gives_fewer_tokens_for_small_texts(caplog):
    with caplog.at_level(logging.WARNING):
        assert len(vocabulary.learn(TEXTS, 5000)) < 200
    assert "fewer than the requested 5000" in caplog.text


def test_learn_merges_only_pairs_of_minimum_frequency():
    assert "xy" not in vocabulary.learn(["xy ab ab"], 50)
    assert "xy" in vocabulary.learn(["xy ab ab"], 50, min_frequency=1)


@pytest.mark.parametrize(
    ("texts", "size", "message"),
    [([], 100, "No word"), (["\0 \u200b"], 100, "No word"), (["the quick brown fox"], 20, "size=20.*need 3")],
)
def test_learn_refuses_texts_and_sizes_without_a_vocabulary(texts, size, message):
    with pytest.raises(UserError, match=message):
        vocabulary.learn(texts, size)


def test_learn_reads_an_iterator_once_and_ignores_text_order():
    assert vocabulary.learn(iter(TEXTS), 150) == vocabulary.learn(reversed(TEXTS), 150)


def test_learn_is_deterministic_across_processes():
    words = random.Random(1)
    text = " ".join("".join(words.choices("abcdefghijé我", k=words.randint(1, 6))) for _ in range(2000))
    expected = hashlib.sha256("\n".join(vocabulary.learn([text], 300)).encode()).hexdigest()
    program = (
        "import hashlib, sys; from bert_tf.text import vocabulary; text = sys.stdin.buffer.read().decode();"
        "print(hashlib.sha256('\\n'.join(vocabulary.learn([text], 300)).encode()).hexdigest());"
        "assert 'tensorflow' not in sys.modules"
    )
    for seed, threads in (("1", "1"), ("2", "2"), ("3", "2")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, input=text.encode(), cwd=ROOT, env=environment, check=True, capture_output=True)
        assert done.stdout.decode().strip() == expected
