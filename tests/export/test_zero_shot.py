"""Hypotheses of labels; `test_checkpoint_predictor.py` has their scores."""

import pytest

from bert_tf.errors import UserError
from bert_tf.export.zero_shot import hypotheses


@pytest.mark.parametrize(
    ("template", "expected"),
    [("It is {}.", "It is {x}."), ("{}", "{x}"), ("A {{note}}: {}", "A {note}: {x}"), ("{{{}}}", "{{x}}")],
)
def test_template_is_formatted_as_transformers_does(template, expected):
    assert hypotheses(["{x}", "y"], template)[0] == expected


@pytest.mark.parametrize(
    "template", ["", "It is so.", "{{}}", "{{}} {{}}", "{} {}", "{", "}", "{0.real}", "{x}", "{:d}"]
)
def test_template_without_one_place_for_the_label_is_refused(template):
    with pytest.raises(UserError, match=r"expected a text with {} once, in place of the label\."):
        hypotheses(["a", "b"], template)
