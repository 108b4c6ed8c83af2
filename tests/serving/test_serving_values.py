"""JSON of TensorFlow Serving's REST interface: what is read, what is refused, how answers are written."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.serving.served import Served
from bert_tf.serving.values import BadRequest, read, to_json

ONE = {"text": ("string", (None,))}
TWO = {"a": ("string", (None,)), "b": ("string", (None,))}
CHOICES = {"a": ("string", (None,)), "c": ("string", (None, 2))}
IDS = {"ids": (np.int32, (None, None))}


@pytest.mark.parametrize(
    ("body", "specs", "expected", "by_row"),
    [
        ({"instances": ["x", "é"]}, ONE, {"text": [b"x", b"\xc3\xa9"]}, True),
        ({"instances": [{"text": "x"}]}, ONE, {"text": [b"x"]}, True),
        ({"instances": [{"b64": "eA=="}, "y"]}, ONE, {"text": [b"x", b"y"]}, True),
        ({"inputs": ["x"]}, ONE, {"text": [b"x"]}, False),
        ({"inputs": {"text": ["x"]}}, ONE, {"text": [b"x"]}, False),
        ({"instances": [{"a": "x", "b": "y"}]}, TWO, {"a": [b"x"], "b": [b"y"]}, True),
        ({"inputs": {"b": ["y"], "a": ["x"]}}, TWO, {"a": [b"x"], "b": [b"y"]}, False),
        ({"instances": [{"a": "x", "c": ["y", "z"]}]}, CHOICES, {"a": [b"x"], "c": [[b"y", b"z"]]}, True),
        ({"instances": [[1, 2], [3, 4]]}, IDS, {"ids": [[1, 2], [3, 4]]}, True),
    ],
)
def test_rows_and_columns_become_tensors(body, specs, expected, by_row):
    arrays, rows = read(body, specs)
    assert {name: array.tolist() for name, array in arrays.items()} == expected and rows is by_row
    assert list(arrays) == list(specs)


def nested(value, depth):
    return nested([value], depth - 1) if depth else value


@pytest.mark.parametrize(
    ("body", "specs", "words"),
    [
        ([], ONE, "an empty list; expected a JSON object"),
        ({}, ONE, "both or none of instances and inputs"),
        ({"instances": [1], "inputs": [1]}, ONE, "both or none"),
        ({"instances": []}, ONE, "instances is an empty list"),
        ({"instances": "x"}, ONE, "instances is a string"),
        ({"instances": [1]}, ONE, "text has a number; expected strings"),
        ({"instances": [None]}, ONE, "text has null"),
        ({"instances": [["x"]]}, ONE, r"shape \[1, 1\], or rows of different length; expected \[\?\]"),
        ({"instances": ["x", ["y"]]}, ONE, "rows of different length"),
        ({"instances": [{"other": "x"}]}, ONE, "Instance 0 has other; expected text"),
        ({"instances": ["x"]}, TWO, "Instance 0 has a string; expected a, b"),
        ({"instances": [{"a": "x"}]}, TWO, "Instance 0 has a; expected a, b"),
        ({"inputs": {"a": ["x"], "b": ["y", "z"]}}, TWO, "1 of a, 2 of b; expected equal numbers"),
        ({"inputs": {"a": ["x"]}}, TWO, "inputs has a; expected a, b"),
        ({"inputs": {"a": "x", "b": []}}, TWO, "a is a string; expected a list"),
        ({"instances": [{"a": "x", "c": ["y"]}]}, CHOICES, r"expected \[\?, 2\]"),
        ({"instances": [{"b64": "!"}]}, ONE, "an invalid b64 value"),
        ({"instances": [[1.5]]}, IDS, "not int32"),
        ({"instances": [["x"]]}, IDS, "not int32"),
        ({"instances": [[1], [2**31]]}, IDS, "ids has values that are too large or too small for int32"),
        ({"instances": nested("x", 40)}, ONE, r"shape \[1, .*expected \[\?\]"),
        ({"instances": nested(1, 40)}, IDS, r"shape \[1, .*expected \[\?, \?\]"),
        ({"instances": nested("x", 90)}, ONE, r"rows of different length; expected \[\?\]"),
        ({"instances": [{"k" * 100_000: "x"}]}, ONE, "^Instance 0 has k{60}...; expected text.$"),
        ({"inputs": dict.fromkeys(map(str, range(999)))}, TWO, "^inputs has 0, 1, .*, 7 and 991 more; expected a, b.$"),
    ],
)
def test_invalid_request_is_one_sentence(body, specs, words):
    with pytest.raises(BadRequest, match=words):
        read(body, specs)


def test_answers_are_formatted_by_row_or_column():
    several = {"label": np.array([b"x", b"\xff"], object), "p": np.array([[0.5, np.nan], [1, 2]], np.float32)}
    rows = [{"label": "x", "p": [0.5, None]}, {"label": "\ufffd", "p": [1.0, 2.0]}]
    assert to_json(several, True) == {"predictions": rows}
    assert to_json(several, False) == {"outputs": {"label": ["x", "\ufffd"], "p": [[0.5, None], [1.0, 2.0]]}}
    assert to_json({"p": np.array([1, 2])}, True) == {"predictions": [1, 2]}
    assert to_json({"p": np.array([1, 2])}, False) == {"outputs": [1, 2]}
    assert to_json({"raw_bytes": np.array([b"\xff"], object)}, True) == {"predictions": [{"b64": "/w=="}]}


def test_export_without_the_signature_that_serving_calls_is_refused(tmp_path):
    module = tf.Module()
    text = tf.TensorSpec([None], tf.string, "text")
    module.f = tf.function(lambda text: {"size": tf.strings.length(text)}, input_signature=[text])
    tf.saved_model.save(module, str(tmp_path), signatures={"sizes": module.f})
    with pytest.raises(UserError, match="has no signature serving_default: export it again"):
        Served("sizes", str(tmp_path))
