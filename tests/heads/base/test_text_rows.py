"""What is said of a split before training: shares of classes, long and empty texts, and what can hardly be learned."""

import numpy as np
import pytest

from bert_tf.data.examples import Example
from bert_tf.heads.base.text_rows import TextRows
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import MultiLabel
from bert_tf.heads.regression import Regression
from bert_tf.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer("[PAD] [UNK] [CLS] [SEP] [MASK] a b c".split())


def said(goal, rows, name="train"):
    """What is said of rows (label, text, ...)."""
    examples = [Example(str(i), tuple(texts), label, f"line {i}") for i, (label, *texts) in enumerate(rows, 1)]
    texts = len(examples[0].texts)
    return TextRows(examples, goal.configured(max_seq_length=5, texts=texts), TOKENIZER).describe(name)


@pytest.mark.parametrize(
    "goal, rows, expected",
    [
        (Classes("xy"), [("x", "a"), ("x", "b"), ("y", "abc")], "3 examples; x 66.7%, y 33.3%; all fit into 5 tokens"),
        (
            MultiLabel("xy"),
            [("x", "a"), ("x,y", "b"), ("", "a"), ("y", "a b a c")],
            "4 examples; x 50.0%, y 50.0%; 1 (25.0%) longer than 5 tokens (the longest: 6), truncated",
        ),
        (
            Regression(),
            [("1", "a", "b"), ("2", "a b", "c")],
            "2 examples; 1 (50.0%) longer than 5 tokens (the longest: 6), truncated",
        ),
        (
            MultipleChoice(2),
            [("0", "a", "b", "a b c"), ("1", "a", "b", "c")],
            "2 examples; 1 (50.0%) longer than 5 tokens (the longest: 7), truncated",
        ),
    ],
)  # fmt: skip
def test_split_is_described_by_classes_and_lengths(goal, rows, expected):
    assert said(goal, rows)[0] == f"train: {expected}."


def test_held_out_split_reports_the_majority_baseline():
    rows = [("x", "a"), ("y", "a"), ("y", "a")]
    assert said(Classes("xy"), rows, "dev") == [
        "dev: 3 examples; x 33.3%, y 66.7%; all fit into 5 tokens; majority-class baseline: 66.7%.",
        "Warning: scores on 3 examples have a margin of about ±58 percentage points.",
    ]
    assert said(Classes("xy"), [(None, "a")], "test") == ["test: 1 example; all fit into 5 tokens."]


@pytest.mark.parametrize(
    "goal, rows, warning",
    [
        (Classes("xyz"), [("x", "a"), ("x", "a"), ("y", "a"), ("y", "a")], "no example of 'z': too few"),
        (Classes("xy"), [("x", "a"), ("x", "a"), ("y", "a")], "a single example of 'y': too few to learn from"),
        (
            Classes(["positiv", "positive"]),
            [("positive", "a"), ("positive", "a"), ("positiv", "a")],
            "a single example of 'positiv': too few to learn from. Did you mean positive?",
        ),
        (MultiLabel("xy"), [("x", "a"), ("x,y", "a")], "a single example of 'y'"),
        (Classes("xy"), [("x", "a")] * 19 + [("y", "a")] * 2, "90.5% of the training examples are 'x'"),
        (
            Classes("xy"),
            [("x", "a"), ("x", " "), ("y", ""), ("y", "a")],
            "2 of 4 have an empty text, the first in line 2:",
        ),
        (Classes([str(i) for i in range(13)]), [(str(i), "a") for i in range(13)], "13 classes in 13 examples"),
    ],
)  # fmt: skip
def test_suspicious_data_gives_a_warning(goal, rows, warning):
    (message,) = [line for line in said(goal, rows)[1:] if warning in line]
    assert message.startswith("Warning: ")


def test_only_suspicious_training_data_gives_warnings():
    rows = [("x", "a"), ("x", "a"), ("y", "a"), ("y", "a")]
    assert len(said(Classes("xy"), rows)) == 1
    assert len(said(Classes("xyz"), [("x", "a")] * 50, "dev")) == 1
    many = Classes([f"c{number}" for number in range(20)])
    lines = said(many, [(f"c{number % 3}", "a") for number in range(60)])
    assert "c19" not in lines[0] and "'c14' and 5 others" in lines[1]
    assert np.array_equal(TextRows([Example("0", ("a",), "c2")], many, TOKENIZER).labels, [2])
