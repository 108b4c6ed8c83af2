"""Reading, extending and writing a vocabulary."""

import json
import os

import pytest

from bert_tf.errors import UserError
from bert_tf.text import vocabulary

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LINES = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\n"


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
        (b"[MASK]\n[PAD]\n[UNK]\n[CLS]\n[SEP]\n", "has only special tokens"),
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


def test_extend_replaces_unused_tokens_first_then_appends():
    old = ["[PAD]", "[unused0]", "[UNK]", "[unused1]", "the"]
    assert vocabulary.extend(old, ["krill", "##opod", "fjord"]).tokens == [
        "[PAD]",
        "krill",
        "[UNK]",
        "##opod",
        "the",
        "fjord",
    ]
    assert old[1] == "[unused0]"
    assert vocabulary.extend(SPECIAL, ["x" * 200]).tokens[-1] == "x" * 200, (
        "the longest token that the tokenizer matches"
    )


def test_extend_folds_case_and_counts_words_that_it_leaves_out():
    words = ["Syme", "The", "the", "Ralph", "ralph", "", "##", "##Ing", "two words", "covid-19", "x" * 201]
    extension = vocabulary.extend([*SPECIAL, "the"], words)
    assert extension.tokens == [*SPECIAL, "the", "syme", "ralph", "##ing"]
    assert extension.known == ("The", "the", "ralph")
    assert extension.unmatched == ("", "##", "two words", "covid-19", "x" * 201)
    start = "3 added, 3 known, 5 cannot match because the tokenizer splits them: '', '##', 'two words', ..."
    assert str(extension) == start


def test_extend_takes_special_tokens_and_capitals_for_a_cased_tokenizer_and_no_word_twice():
    assert vocabulary.extend(["[unused1]", *SPECIAL], ["[E1]", "<e>"]).tokens == ["[E1]", *SPECIAL, "<e>"]
    assert vocabulary.extend(SPECIAL, ["Krill", "Krill"], lower_case=False).tokens == [*SPECIAL, "Krill"]
