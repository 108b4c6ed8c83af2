"""JSON files: read if they can be, or required."""

import json

import pytest

from bert_tf.errors import UserError
from bert_tf.runtime.json_files import parse, read_json, require_json
from bert_tf.runtime.json_values import dumps

DEEP = b"[" * 100_000 + b"]" * 100_000
UNREADABLE = {
    "missing.json": None,
    "empty.json": b"",
    "utf-16.json": b"\xff\xfe",
    "cut.json": b'{"a": ',
    "latin.json": b'{"a": "\xe4"}',
    "deep.json": DEEP,
    "half.json": rb'["\ud83d\ude00", "\ud800"]',
}


@pytest.mark.parametrize("content", [b'{"a": "\xc3\xa4"}', b'\xef\xbb\xbf{"a": "\xc3\xa4"}'])
def test_utf_8_is_read_with_and_without_bom(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert read_json(path) == require_json(path, "an object") == {"a": "ä"}


@pytest.mark.parametrize("name, content", UNREADABLE.items())
def test_unreadable_file_is_none_or_an_error(tmp_path, name, content):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert read_json(path) is None
    reason = "is not valid JSON" if content is not None else r"cannot be read \(No such file or directory\)"
    with pytest.raises(UserError, match=rf"{name} {reason}.*: expected an object, fetch it again\.$"):
        require_json(path, "an object, fetch it again")


def test_surrogates_are_accepted_in_pairs_or_where_the_caller_drops_them():
    assert parse(r'"\ud83d\ude00 \\ud800"') == "\U0001f600 \\ud800"
    assert parse(r'"\ud800"', lone_surrogates=True) == "\ud800"


def test_numbers_that_json_lacks_become_texts():
    value = {"a": [1.5, float("nan"), (float("-inf"), True)], "b": {"c": float("inf")}, "d": "é"}
    text = dumps(value, ensure_ascii=False)
    assert text == '{"a": [1.5, "NaN", ["-Infinity", true]], "b": {"c": "Infinity"}, "d": "é"}'
    assert dumps({"d": "é"}) == json.dumps({"d": "é"})


def test_json_of_another_type_is_an_error(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[1]")
    assert read_json(path) == require_json(path, "a list", kind=list) == [1]
    with pytest.raises(UserError, match=r"a.json contains a JSON list: expected an object\.$"):
        require_json(path, "an object")
