"""From the flag to the dtype policy."""

import pytest

from bert_tf.errors import UserError
from bert_tf.training.precision import configure, policy


@pytest.mark.parametrize(
    "precision, expected",
    [("float32", "float32"), ("tf32", "float32"), ("bfloat16", "mixed_bfloat16"), ("float16", "mixed_float16")],
)
def test_named_precision_is_used_on_any_machine(as_platform, precision, expected):
    as_platform(bfloat16=False)
    assert policy(precision) == expected


@pytest.mark.parametrize("has_bfloat16, expected", [(False, "float32"), (True, "mixed_bfloat16")])
def test_auto_is_bfloat16_on_supporting_hardware(as_platform, has_bfloat16, expected):
    as_platform(bfloat16=has_bfloat16)
    assert policy() == policy("auto") == expected


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_inference_weights_have_the_precision(precision):
    assert policy(precision, is_trained=False) == precision


def test_unknown_precision_error_lists_known_precisions():
    with pytest.raises(UserError, match="no precision 'half'. Known: auto, float32, tf32, bfloat16, float16"):
        policy("half")


@pytest.mark.parametrize(
    "precision, is_allowed", [("float32", False), ("tf32", True), ("auto", False), ("float16", False)]
)
def test_tf32_is_used_on_gpus_by_name_only(as_platform, has_tf32, caplog, precision, is_allowed):
    as_platform(gpus=1, bfloat16=False)
    caplog.set_level("INFO", "bert_tf")
    assert configure(precision) == policy(precision)
    assert has_tf32() == is_allowed and caplog.messages == ["precision=auto is float32 here."] * (precision == "auto")


def test_bfloat16_is_refused_on_gpus_without_it(as_platform, has_tf32):
    as_platform(bfloat16=False)
    assert configure("bfloat16") == "mixed_bfloat16"  # a CPU emulates it
    as_platform(gpus=1)
    with pytest.raises(UserError, match="needs a GPU of compute capability 8.0: pass float16, float32 or auto"):
        configure("bfloat16")
