"""GPUs as the driver lists them, on machines that need not exist; and memory within the limit of a container."""

import pytest

from bert_tf.runtime import machine

H100 = "NVIDIA H100 80GB HBM3, 550.54.15, 9.0, 81559, 80994"
T4 = "Tesla T4, 470.82.01, 7.5, 15360, 15000"
SHARED = "NVIDIA GB10, 580.95.05, 12.1, [N/A], [N/A]"


@pytest.fixture
def driver(monkeypatch, tmp_path):
    """Pretends that nvidia-smi prints these lines; None: it is not there."""

    def pretend(*lines, code=0, visible=None):
        program = tmp_path / "nvidia-smi"
        if lines == (None,):
            program.unlink(missing_ok=True)
        else:
            (tmp_path / "lines").write_text("\n".join(lines) + "\n")
            program.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/lines\nexit {code}\n")
            program.chmod(0o755)
        machine.gpus.cache_clear()
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    yield pretend
    machine.gpus.cache_clear()


@pytest.mark.parametrize(
    "lines, options, names",
    [
        ((H100, T4), {}, ["NVIDIA H100 80GB HBM3", "Tesla T4"]),
        ((H100, T4), {"visible": "1"}, ["Tesla T4"]),
        ((H100, T4), {"visible": "-1"}, []),
        ((H100, T4), {"visible": ""}, []),
        ((H100, T4), {"visible": "GPU-5f3c"}, ["NVIDIA H100 80GB HBM3", "Tesla T4"]),
        ((SHARED,), {}, []),
        ((None,), {}, []),
        (("No devices were found",), {}, []),
        ((H100,), {"code": 9}, []),
    ],
)
def test_gpus_are_those_of_the_driver_that_are_visible(driver, lines, options, names):
    driver(*lines, **options)
    assert [gpu.name for gpu in machine.gpus()] == names


def test_memory_driver_and_capability_are_numbers(driver):
    driver(H100)
    (gpu,) = machine.gpus()
    assert (gpu.total, gpu.free) == (81559 << 20, 80994 << 20)
    assert gpu.driver >= machine.OLDEST_DRIVER and gpu.capability >= machine.AMPERE


@pytest.mark.parametrize(
    "lines, visible, expected",
    [
        ((None,), None, "nvidia-smi lists none either: see whether a card is built in and its driver runs"),
        ((T4,), None, "the driver of Tesla T4 is 470.82.1, and CUDA 12 needs 525.60.13 or later: install a newer"),
        ((H100,), None, "nvidia-smi lists NVIDIA H100 80GB HBM3: install TensorFlow's libraries for it"),
        ((H100,), "-1", "CUDA_VISIBLE_DEVICES hides them all: unset it"),
    ],
)
def test_why_tensorflow_sees_no_gpu(driver, lines, visible, expected):
    driver(*lines, visible=visible)
    assert machine.why_unseen().startswith(expected)


def test_container_limit_is_respected(monkeypatch, tmp_path):
    limits = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "CONTROL_GROUP", str(limits))
    free_of_limits = machine.memory()
    limits.write_text("max\n")
    assert machine.memory()[0] == free_of_limits[0] > 0
    limits.write_text("1048576\n")
    assert machine.memory() == (1048576, 1048576)
