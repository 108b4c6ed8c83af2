"""The reader of settings: kinds, ranges, and errors that name the place."""

import json

import pytest

from bert_tf.errors import UserError
from bert_tf.runtime.settings import (
    FLAG,
    LIST,
    OBJECT,
    TEXT,
    TEXTS,
    Settings,
    list_of,
    map_of,
    number,
    one_of,
    read_settings,
    whole,
)

NAN, HUGE = float("nan"), 10**400
KINDS = {
    "flag": (FLAG, [True, False], [1, 0, "true"]),
    "text": (TEXT, ["", "x"], [1, ["x"], True]),
    "list": (LIST, [[], [1]], [{}, "x"]),
    "object": (OBJECT, [{}], [[], "x"]),
    "whole": (whole(1), [1, 2**31 - 1], [0, 2**31, HUGE, True, 1.0, "1"]),
    "any whole": (whole(), [0, -(2**31) + 1], [2**31, -(2**40), NAN]),
    "number": (number(0), [0, 1.5, 3.4e38], [-1, NAN, float("inf"), HUGE, 1e300, True, "1", [1]]),
    "above": (number(above=0), [1e-12, 1], [0, -1e-12, HUGE]),
    "up to": (number(0, 1), [0, 1], [1.01]),
    "one of": (one_of("a", "b"), ["a"], ["c", ["a"], 1, {}]),
    "texts": (TEXTS, [[], ["a"]], [["a", 1], "a", [None]]),
    "rows": (list_of(list_of(TEXT, "texts"), "rows"), [[["a"]]], [["a"]]),
    "map": (map_of(whole(0), "ids"), [{}, {"a": 0}], [{"a": -1}, {"a": True}, []]),
}


@pytest.mark.parametrize("name", KINDS)
def test_value_is_of_its_kind_or_an_error_that_names_it(name):
    kind, right, wrong = KINDS[name]
    for value in right:
        assert Settings({"a": value}, "FILE").value("a", kind) == value
    for value in wrong:
        with pytest.raises(UserError, match=r"FILE: a is .*; expected "):
            Settings({"a": value}, "FILE").value("a", kind)


def test_missing_and_null_are_the_default():
    values = Settings({"a": None}, "FILE")
    assert [values.value("a", TEXT), values.value("b", TEXT, "x"), values.inside("a"), values.each("b")] == (
        [None, "x", {}, []]
    )


def test_errors_name_the_place_in_the_file(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"model": {"steps": [{}, {"type": 5}], "size": "x"}}))
    inside = read_settings(path).inside("model")
    with pytest.raises(UserError, match=r"settings.json: model.size is 'x'; expected a whole number from 1 to"):
        inside.value("size", whole(1))
    with pytest.raises(UserError, match=r"settings.json: model.steps\[1\].type is 5; expected a text"):
        [each.value("type", TEXT) for each in inside.each("steps")]
    with pytest.raises(UserError, match="model.size is 'x'; expected an object"):
        inside.inside("size")
    assert read_settings(tmp_path / "missing.json") == {}
