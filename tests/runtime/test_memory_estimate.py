"""Memory is counted before it runs out."""

import dataclasses
import logging

import pytest

from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.model import heads, weights
from bert_tf.runtime import accelerators, memory_estimate


@dataclasses.dataclass(frozen=True)
class Options:
    train_batch_size: int = 32
    num_accumulation_steps: int = 1
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    precision: str = "float32"


@dataclasses.dataclass(frozen=True)
class Again(Options):
    gradient_checkpointing: bool = True


BASE = BertConfig.of_size("base", vocab_size=30522)
GIB = 2**30
MACHINE_MEMORY = memory_estimate.machine_memory


@pytest.fixture(autouse=True)
def a_machine_without_accelerator(monkeypatch):
    monkeypatch.setattr(accelerators, "DEVICE_FILES", ())
    monkeypatch.setattr(logging.getLogger("bert_tf"), "propagate", True)
    monkeypatch.setattr(memory_estimate, "machine_memory", lambda: (16 * GIB, 8 * GIB))


def test_counted_weights_are_nearly_all_of_the_model():
    config = BertConfig.of_size("tiny", vocab_size=1000)
    real = sum(variable.shape.num_elements() for variable in weights.variables(heads.Pretrainer(config)).values())
    assert 0.93 * real < memory_estimate.num_weights(config) <= real


def test_too_large_batch_is_refused_with_numbers_and_flags():
    with pytest.raises(UserError) as error:
        memory_estimate.check(BASE, Options(train_batch_size=2_000_000))
    message = str(error.value)
    assert "train_batch_size 2000000" in message
    assert "16.0 GiB" in message
    assert "num_accumulation_steps" in message


def test_micro_batches_processes_and_low_precision_need_less():
    whole = memory_estimate.minimum_bytes(BASE, Options(train_batch_size=1024))
    fixed = memory_estimate.BYTES_PER_WEIGHT * memory_estimate.num_weights(BASE)
    parts = memory_estimate.minimum_bytes(BASE, Options(train_batch_size=1024, num_accumulation_steps=4))
    assert parts - fixed == pytest.approx((whole - fixed) / 4)
    assert memory_estimate.minimum_bytes(BASE, Options(train_batch_size=1024), processes=4) == parts
    again = memory_estimate.minimum_bytes(BASE, Again(train_batch_size=1024))
    assert (again - fixed) / (whole - fixed) == pytest.approx(0.16, abs=0.02)  # a layer of twelve, and what enters each
    assert memory_estimate.minimum_bytes(BASE, Options(train_batch_size=1024, precision="bfloat16")) < whole


def test_batch_above_free_memory_is_a_warning(caplog):
    with caplog.at_level(logging.WARNING, "bert_tf"):
        memory_estimate.check(BASE, Options(train_batch_size=64))
        assert "8.0 GiB are free" in caplog.text


def test_original_batch_of_bert_base_fits_silently(caplog):
    memory_estimate.check(BASE, Options())
    assert caplog.text == ""


def with_gpus(monkeypatch, *gibibytes):
    monkeypatch.setattr(accelerators, "DEVICE_FILES", ("/",))
    gpus = tuple(accelerators.Gpu("NVIDIA L4", (550,), (8, 9), size * GIB, size * GIB) for size in gibibytes)
    monkeypatch.setattr(accelerators, "gpus", lambda: gpus)


@dataclasses.dataclass(frozen=True)
class OnDevices(Options):
    device: str = "auto"
    distribution_strategy: str = "auto"
    num_logical_devices: int = 1
    gpu_memory_limit: int = 0


@pytest.mark.parametrize(
    "gibibytes, options, owner",
    [
        ([22], {}, "NVIDIA L4 has 22.0 GiB"),
        ([22, 16], {"train_batch_size": 4096}, "NVIDIA L4 has 16.0 GiB"),
        ([22, 22], {"distribution_strategy": "one_device"}, "NVIDIA L4 has 22.0 GiB"),
        ([24, 24], {}, None),
        ([22], {"num_accumulation_steps": 0}, None),
        ([22], {"num_accumulation_steps": 0, "train_batch_size": 1, "max_seq_length": 4096}, "steps auto needs"),
        ([22], {"num_logical_devices": 2, "gpu_memory_limit": 4000}, "a part of NVIDIA L4 has 3.9 GiB"),
        ([22], {"device": "cpu", "train_batch_size": 512}, "this machine has 16.0 GiB"),
        ([], {"train_batch_size": 2_000_000}, None),
        ([22], {"distribution_strategy": "tpu", "train_batch_size": 2_000_000}, None),
    ],
)
def test_batch_is_compared_with_the_memory_of_gpus(monkeypatch, gibibytes, options, owner):
    with_gpus(monkeypatch, *gibibytes)
    options = OnDevices(**{"train_batch_size": 384, **options})
    if owner is None:
        memory_estimate.check(BASE, options)
        return
    with pytest.raises(UserError, match=owner):
        memory_estimate.check(BASE, options)


def test_container_limit_is_respected(monkeypatch, tmp_path):
    limits = tmp_path / "memory.max"
    monkeypatch.setattr(memory_estimate, "CONTROL_GROUP", str(limits))
    free_of_limits = MACHINE_MEMORY()
    limits.write_text("max\n")
    assert MACHINE_MEMORY()[0] == free_of_limits[0] > 0
    limits.write_text("1048576\n")
    assert MACHINE_MEMORY() == (1048576, 1048576)
