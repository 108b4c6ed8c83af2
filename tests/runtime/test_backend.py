"""What the package knows of the devices, on machines of several kinds."""

import builtins
import io

import pytest
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.runtime import backend, machine


@pytest.fixture
def devices(monkeypatch):
    """Pretends to be a machine with GPUs of these compute capabilities, with TPUs or with such a CPU."""

    def pretend(*, gpus=(), tpus=(), remote_tpus=(), cpu="flags : avx2"):
        physical = {"GPU": list(gpus), "TPU": list(tpus), "CPU": ["CPU:0"]}
        logical = {"GPU": list(gpus), "TPU": list(remote_tpus), "CPU": ["CPU:0", "CPU:1"]}

        def details(gpu):
            return {"compute_capability": gpu} if gpu else {}

        original = builtins.open

        def open_cpuinfo(path, *arguments, **options):
            if path != "/proc/cpuinfo":
                return original(path, *arguments, **options)
            if cpu is None:
                raise FileNotFoundError(path)
            return io.StringIO(cpu)

        for owner, name, answer in (
            (tf.config, "list_physical_devices", physical.__getitem__),
            (tf.config, "list_logical_devices", logical.__getitem__),
            (tf.config.experimental, "get_device_details", details),
            (builtins, "open", open_cpuinfo),
        ):
            monkeypatch.setattr(owner, name, answer)

    return pretend


@pytest.mark.parametrize(
    "hardware, platform, names",
    [
        ({}, "cpu", ["CPU:0", "CPU:1"]),
        ({"gpus": [(8, 0), (8, 0)]}, "gpu", ["GPU:0", "GPU:1"]),
        ({"tpus": ["TPU:0"]}, "tpu", ["CPU:0", "CPU:1"]),
        ({"remote_tpus": ["TPU:0"]}, "tpu", ["CPU:0", "CPU:1"]),
    ],
)
def test_platform_and_devices(devices, hardware, platform, names):
    devices(**hardware)
    assert (backend.platform(), backend.device_names()) == (platform, names)
    assert backend.gpu_count() == len(hardware.get("gpus", ()))


@pytest.mark.parametrize(
    "hardware, expected",
    [
        ({"cpu": "flags : avx2 avx512f"}, False),
        ({"cpu": "flags : avx2 amx_bf16 amx_tile"}, True),
        ({"cpu": "flags : avx2 avx512f avx512_bf16"}, True),
        ({"cpu": None}, False),
        ({"gpus": [(8, 0)]}, True),
        ({"gpus": [(9, 0), (7, 5)]}, False),
        ({"gpus": [None], "cpu": "flags : amx_bf16"}, False),
        ({"tpus": ["TPU:0"]}, True),
        ({"remote_tpus": ["TPU:0"]}, True),
    ],
)
def test_auto_precision_is_bfloat16_on_supporting_hardware(devices, hardware, expected):
    devices(**hardware)
    assert backend.has_bfloat16() is expected


def test_auto_compiles_on_gpus_only(devices):
    devices()
    assert [backend.should_jit(value) for value in ("true", "false", "auto")] == [True, False, False]
    devices(gpus=[(8, 0)])
    assert [backend.should_jit(value) for value in ("true", "false", "auto")] == [True, False, True]


def test_missing_gpu_is_one_sentence(devices, with_gpus, monkeypatch, caplog):
    devices()
    with_gpus()
    with pytest.raises(UserError, match="device=gpu: TensorFlow sees no GPU; .*hides|lists none either"):
        backend.select_device("gpu")
    backend.select_device("auto")
    assert not caplog.records
    with_gpus(machine.Gpu("Tesla K80", (470, 82), (3, 7), 1, 1))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    backend.select_device("auto")
    assert "computes on the CPU; the driver of Tesla K80 is 470.82, and CUDA 12 needs 525.60.13" in caplog.text


def test_gpus_are_split_with_a_memory_limit_and_their_memory_grows(devices, monkeypatch):
    devices(gpus=["GPU:0"])
    calls = []
    for owner, name in (
        (tf.config, "set_logical_device_configuration"),
        (tf.config.experimental, "set_memory_growth"),
    ):
        monkeypatch.setattr(owner, name, lambda *each: calls.append(each))
    backend.split_devices(2, 1024)
    backend.grow_gpu_memory()
    (split, parts), growth = calls
    assert (split, [part.memory_limit for part in parts], growth) == ("GPU:0", [1024, 1024], ("GPU:0", True))
