"""Texts in every form that people have them in, as `bert_tf.load(...).predict` takes them."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.api import texts
from bert_tf.errors import UserError

ONE, TWO = ["text_a"], ["text_a", "text_b"]
TEXTS = ["a b", "c"]
PAIRS = [("a", "b"), ("c", "d")]


class Series:
    """What is used of a pandas Series."""

    def __init__(self, values, index):
        self.values, self.index, self.iloc = values, index, None

    def __iter__(self):
        return iter(self.values)


class Frame(dict):
    """What is used of a DataFrame."""

    columns = property(list)
    to_dict = iloc = None
    index = (5, 6)


@pytest.mark.parametrize(
    "given",
    [
        TEXTS,
        tuple([text] for text in TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, object),
        np.array(TEXTS, "S"),
        np.array([[text] for text in TEXTS]),
        Series(TEXTS, (5, 6)),
        (text for text in TEXTS),
        dict.fromkeys(TEXTS).keys(),
        map(str, TEXTS),
        [text.encode() for text in TEXTS],
        [{"text": text, "label": 1} for text in TEXTS],
        {"text": TEXTS},
        {"review": TEXTS, "label": [1, 2]},
        Frame(text=Series(TEXTS, (5, 6)), label=[0, 1]),
        tf.constant(TEXTS),
        list(map(tf.constant, TEXTS)),
        tf.data.Dataset.from_tensor_slices(TEXTS),
        tf.data.Dataset.from_tensor_slices(TEXTS).batch(2),
        tf.data.Dataset.from_tensor_slices({"review": TEXTS, "label": [0, 1]}).batch(1),
    ],
)
def test_several_texts(given):
    read = texts.read(given, ONE, columns=["review"])
    assert (read.rows, read.is_single) == ([("a b",), ("c",)], False)
    assert read.index == ((5, 6) if isinstance(given, Series | Frame) else None)


@pytest.mark.parametrize(
    "given", ["a b", b"a b", np.str_("a b"), np.array("a b"), tf.constant("a b"), {"text": "a b", "label": 1}]
)
def test_a_single_text(given):
    assert texts.read(given, ONE) == texts.Texts(rows=[("a b",)], is_single=True)


@pytest.mark.parametrize(
    "given",
    [
        PAIRS,
        list(map(list, PAIRS)),
        tuple(PAIRS),
        zip(*zip(*PAIRS, strict=True), strict=True),
        np.array(PAIRS),
        Series(PAIRS, None),
        [{"first": "a", "second": "b"}, {"text_a": "c", "text_b": "d"}],
        Frame(second=["b", "d"], label=[0, 1], first=["a", "c"]),
        tf.data.Dataset.from_tensor_slices((["a", "c"], ["b", "d"])),
        tf.data.Dataset.from_tensor_slices((["a", "c"], ["b", "d"])).batch(2),
    ],
)
def test_several_pairs(given):
    assert texts.read(given, TWO, columns=["first", "second"]).rows == PAIRS


def test_a_tuple_of_texts_is_a_pair():
    assert texts.read(("a", "b"), TWO) == texts.Texts(rows=[("a", "b")], is_single=True)
    assert texts.read({"text_b": "b", "text_a": "a"}, TWO) == texts.Texts(rows=[("a", "b")], is_single=True)


@pytest.mark.parametrize(
    ("given", "names", "message"),
    [
        (None, ONE, "^The text is None; expected a string, or several of them"),
        (3, ONE, "^The text is 3; expected a string, or several of them"),
        (np.float64("nan"), ONE, "^The text is nan; expected a string: remove it"),
        ("a\ud83d", ONE, "^The text is not Unicode: .*surrogate pair"),
        (["a", None], ONE, "^Text 1 is None; expected a string: remove it"),
        (["a", float("nan")], ONE, "^Text 1 is nan; expected a string: remove it"),
        (["a", 3], ONE, r"^Text 1 is 3; expected a string: convert it with str\(\)"),
        (np.array(["a", np.nan], object), ONE, "^Text 1 is nan"),
        (Series(["a", None], (5, 6)), ONE, "^Text 1 is None"),
        (tf.data.Dataset.range(3), ONE, "^Text 0 is 0; expected a string"),
        (["a", "\udc80"], ONE, "^Text 1 is not Unicode"),
        ([b"a", b"\xff"], ONE, r"^Text 1 is b'\\xff', which is not UTF-8"),
        ([("a", None)], TWO, "^Text 0 is None"),
        (("a", "b"), ONE, r"^2 texts were given for an example \(the text\); the model takes 1: text_a"),
        (["a", "b"], TWO, r"^1 text was given for an example \(text 0\); the model takes 2: text_a and text_b"),
        ([("a", "b"), ("a", "b", "c")], TWO, r"^3 texts were given for an example \(text 1\)"),
        ({"other": TEXTS, "label": [0, 1]}, ONE, "^The columns are other, label; expected text_a or text"),
        ([{"text": "a"}, {"other": "a", "label": 1}], ONE, "^Text 1 has the columns other, label; expected text_a"),
    ],
)
def test_mistakes_name_the_position(given, names, message):
    with pytest.raises(UserError, match=message):
        texts.read(given, names)


def test_the_only_column_is_taken_unless_another_is_known():
    assert texts.read({"anything": TEXTS}, ONE).rows == [(text,) for text in TEXTS]
    with pytest.raises(UserError, match="^The columns are anything; expected review or text_a or text: rename"):
        texts.read({"anything": TEXTS}, ONE, columns=["review"])


def test_columns_with_numbers_for_names_are_read():
    for trained in (["0"], []):
        for data in ({0: ["a", "b"], 1: [1, 0]}, [{0: "a", 1: 1}, {0: "b", 1: 0}]):
            names = ["text"] if trained else ["0"]
            assert texts.read(data, names, columns=trained).rows == [("a",), ("b",)]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([["a", 1], ["b", 0]], index=[5, 7])
    read = texts.read(frame, ["text"], columns=["0"])
    assert read.rows == [("a",), ("b",)] and list(read.index) == [5, 7]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "1 text is blank: ignore the predictions."),
        (["a", " ", "\n"], "2 texts are blank (the first is text 1): ignore the predictions."),
        (["a", "b"], None),
        ([("a", ""), ("", "b")], None),
    ],
)
def test_blank_texts_are_named(given, expected, caplog):
    names = ["text_a", "text_b"] if isinstance(given[:1], list) and isinstance(given[0], tuple) else ["text"]
    texts.warn_of_blank(texts.read(given, names))
    assert caplog.messages == ([expected] if expected else [])
