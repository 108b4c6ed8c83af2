"""The memory of a step is counted before it runs out."""

import contextlib
import dataclasses
import logging

import pytest

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.device_options import DeviceOptions
from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import UserError
from bert_tf.model import heads, weights
from bert_tf.runtime import machine
from bert_tf.training import step_memory
from bert_tf.training.step_memory import Step

BASE = BertConfig.of_size("base", vocab_size=30522)
GIB = 2**30
ON_DEVICES = [field.name for field in dataclasses.fields(DeviceOptions)]


def step(*, max_seq_length=128, processes=1, **training):
    training = TrainConfig(**{"precision": "float32", **training})
    return Step(config=BASE, training=training, max_seq_length=max_seq_length, predicted=20, processes=processes)


def check(**training):
    step_memory.check(step(**training), DeviceOptions())


@pytest.fixture(autouse=True)
def a_machine_without_accelerator(with_gpus, with_memory):
    with_gpus()
    with_memory(16 * GIB, 8 * GIB)


def test_counted_weights_are_nearly_all_of_the_model():
    config = BertConfig.of_size("tiny", vocab_size=1000)
    real = sum(variable.shape.num_elements() for variable in weights.variables(heads.Pretrainer(config)).values())
    assert 0.93 * real < config.num_weights <= real


def test_too_large_batch_is_refused_with_numbers_and_flags():
    with pytest.raises(UserError) as error:
        check(train_batch_size=2_000_000)
    message = str(error.value)
    assert "train_batch_size 2000000" in message
    assert "16.0 GiB" in message
    assert "num_accumulation_steps" in message


def test_micro_batches_processes_and_low_precision_need_less():
    whole = step(train_batch_size=1024).minimum_bytes
    fixed = step_memory.BYTES_PER_WEIGHT * BASE.num_weights
    parts = step(train_batch_size=1024, num_accumulation_steps=4).minimum_bytes
    assert parts - fixed == pytest.approx((whole - fixed) / 4)
    assert step(train_batch_size=1024, processes=4).minimum_bytes == parts
    again = step(train_batch_size=1024, gradient_checkpointing=True).minimum_bytes
    assert (again - fixed) / (whole - fixed) == pytest.approx(0.16, abs=0.02)  # a layer of twelve, and what enters each
    assert step(train_batch_size=1024, precision="bfloat16").minimum_bytes < whole


def test_batch_above_free_memory_is_a_warning(caplog):
    with caplog.at_level(logging.WARNING, "bert_tf"):
        check(train_batch_size=64)
        assert "8.0 GiB are free" in caplog.text


def test_original_batch_of_bert_base_fits_silently(caplog):
    check()
    assert caplog.text == ""


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
def test_batch_is_compared_with_the_memory_of_gpus(with_gpus, gibibytes, options, owner):
    gpus = (machine.Gpu("NVIDIA L4", (550,), (8, 9), size * GIB, size * GIB) for size in gibibytes)
    with_gpus(*gpus, others=True)
    devices = DeviceOptions(**{name: options.pop(name) for name in ON_DEVICES if name in options})
    options = step(**{"train_batch_size": 384, **options})
    with pytest.raises(UserError, match=owner) if owner else contextlib.nullcontext():
        step_memory.check(options, devices)
