"""From the flag to the dtype policy."""

import builtins
import io

import pytest
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.training.precision import policy


def machine(monkeypatch, *, gpus=(), tpus=(), cpu="flags : avx2"):
    """Pretends to be a machine with GPUs of these compute capabilities, with TPUs or with such a CPU."""
    devices = {"GPU": list(gpus), "TPU": list(tpus)}
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: devices[kind])
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda gpu: {"compute_capability": gpu} if gpu else {}
    )
    original = builtins.open

    def opened(path, *arguments, **options):
        if path != "/proc/cpuinfo":
            return original(path, *arguments, **options)
        if cpu is None:
            raise FileNotFoundError(path)
        return io.StringIO(cpu)

    monkeypatch.setattr(builtins, "open", opened)


@pytest.mark.parametrize(
    "precision, expected",
    [("float32", "float32"), ("bfloat16", "mixed_bfloat16"), ("float16", "mixed_float16")],
)
def test_a_named_precision_is_taken_on_any_machine(monkeypatch, precision, expected):
    machine(monkeypatch)
    assert policy(precision) == expected


@pytest.mark.parametrize(
    "hardware, expected",
    [
        ({"cpu": "flags : avx2 avx512f"}, "float32"),
        ({"cpu": "flags : avx2 amx_bf16 amx_tile"}, "mixed_bfloat16"),
        ({"cpu": "flags : avx2 avx512f avx512_bf16"}, "mixed_bfloat16"),
        ({"cpu": None}, "float32"),
        ({"gpus": [(8, 0)]}, "mixed_bfloat16"),
        ({"gpus": [(9, 0), (7, 5)]}, "float32"),
        ({"gpus": [None], "cpu": "flags : amx_bf16"}, "float32"),
        ({"tpus": ["TPU:0"]}, "mixed_bfloat16"),
    ],
)
def test_auto_is_bfloat16_where_the_hardware_multiplies_it(monkeypatch, hardware, expected):
    machine(monkeypatch, **hardware)
    assert policy() == policy("auto") == expected


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_weights_of_what_only_answers_are_of_the_precision_too(precision):
    assert policy(precision, is_trained=False) == precision


def test_an_unknown_precision_is_refused_with_the_known_ones():
    with pytest.raises(UserError, match="no precision 'half'. Known: auto, float32, bfloat16, float16"):
        policy("half")
