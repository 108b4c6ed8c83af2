"""From the flag to the dtype policy."""

import pytest

from bert_tf.errors import UserError
from bert_tf.runtime import backend
from bert_tf.training.precision import policy


@pytest.mark.parametrize(
    "precision, expected",
    [("float32", "float32"), ("bfloat16", "mixed_bfloat16"), ("float16", "mixed_float16")],
)
def test_named_precision_is_used_on_any_machine(monkeypatch, precision, expected):
    monkeypatch.setattr(backend, "has_bfloat16", lambda: False)
    assert policy(precision) == expected


@pytest.mark.parametrize("has_bfloat16, expected", [(False, "float32"), (True, "mixed_bfloat16")])
def test_auto_is_bfloat16_on_supporting_hardware(monkeypatch, has_bfloat16, expected):
    monkeypatch.setattr(backend, "has_bfloat16", lambda: has_bfloat16)
    assert policy() == policy("auto") == expected


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_inference_weights_have_the_precision(precision):
    assert policy(precision, is_trained=False) == precision


def test_unknown_precision_error_lists_known_precisions():
    with pytest.raises(UserError, match="no precision 'half'. Known: auto, float32, bfloat16, float16"):
        policy("half")
