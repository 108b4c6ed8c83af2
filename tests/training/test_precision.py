"""From the flag to the dtype policy."""

import pytest

from bert_tf.errors import UserError
from bert_tf.runtime import backend
from bert_tf.training.precision import configure, policy


@pytest.mark.parametrize(
    "precision, expected",
    [("float32", "float32"), ("tf32", "float32"), ("bfloat16", "mixed_bfloat16"), ("float16", "mixed_float16")],
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
    with pytest.raises(UserError, match="no precision 'half'. Known: auto, float32, tf32, bfloat16, float16"):
        policy("half")


@pytest.mark.parametrize(
    "precision, is_allowed", [("float32", False), ("tf32", True), ("auto", False), ("float16", False)]
)
def test_tf32_is_used_on_gpus_by_name_only(monkeypatch, caplog, precision, is_allowed):
    calls = []
    monkeypatch.setattr(backend, "gpu_count", lambda: 1)
    monkeypatch.setattr(backend, "has_bfloat16", lambda: False)
    monkeypatch.setattr(backend, "allow_tf32", calls.append)
    caplog.set_level("INFO", "bert_tf")
    assert configure(precision) == policy(precision)
    assert calls == [is_allowed] and caplog.messages == ["precision=auto is float32 here."] * (precision == "auto")


def test_bfloat16_is_refused_on_gpus_without_it(monkeypatch):
    monkeypatch.setattr(backend, "has_bfloat16", lambda: False)
    assert configure("bfloat16") == "mixed_bfloat16"  # a CPU emulates it
    monkeypatch.setattr(backend, "gpu_count", lambda: 1)
    monkeypatch.setattr(backend, "allow_tf32", lambda allowed: None)
    with pytest.raises(UserError, match="needs a GPU of compute capability 8.0: pass float16, float32 or auto"):
        configure("bfloat16")
