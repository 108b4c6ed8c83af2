"""A lower bound of a training step's memory, compared with the device's memory before the work starts.

V vocabulary, D hidden size, H heads, T tokens per row.
"""

import dataclasses
import logging
from typing import NamedTuple

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.device_options import DeviceOptions
from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import UserError
from bert_tf.runtime import machine

# Bytes per weight: the weight, its gradient and Adam's two moments, in float32.
BYTES_PER_WEIGHT, BYTES_PER_FROZEN_WEIGHT = 16, 4
# Numbers stored per token and layer for the backward pass: measured 25 D + 2 H T, on a CPU.
STORED_PER_WIDTH, STORED_PER_TOKEN = 20, 2
STORED_LOGITS = 2  # the logits and their gradient


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """Parameters that determine how much memory a training step needs.

    predicted: predicted tokens per row. has_adapters: adapters are trained instead of the encoder. processes: number
    of machines that share a batch. rows_per_example: choices per multiple-choice example.
    """

    config: BertConfig
    training: TrainConfig
    max_seq_length: int
    predicted: int = 0
    has_adapters: bool = False
    processes: int = 1
    rows_per_example: int = 1

    @property
    def minimum_bytes(self) -> float:
        """Bytes that a step needs in one process: a lower bound, because a false warning is worse than none."""
        config, training = self.config, self.training
        required: float = config.num_weights * BYTES_PER_FROZEN_WEIGHT
        if training.freeze == "encoder":
            return required
        layers = config.num_hidden_layers - training.num_frozen_layers
        layer = STORED_PER_WIDTH * config.hidden_size
        layer += STORED_PER_TOKEN * config.num_attention_heads * self.max_seq_length
        stored = layers * layer
        if training.gradient_checkpointing:  # each layer's input, and one whole layer
            stored = min(layers, 1) * layer + layers * config.hidden_size
        parts = training.num_accumulation_steps or training.train_batch_size / self.processes
        rows = training.train_batch_size * self.rows_per_example / parts / self.processes
        required += rows * self.max_seq_length * stored * (4 if training.precision == "float32" else 2)
        if not self.has_adapters:
            trained = dataclasses.replace(config, num_hidden_layers=layers).num_weights
            trained -= config.num_embeddings if training.num_frozen_layers else 0
            required += trained * (BYTES_PER_WEIGHT - BYTES_PER_FROZEN_WEIGHT)
            required += rows * self.predicted * config.vocab_size * 4 * STORED_LOGITS
        return required


class Room(NamedTuple):
    """A device's memory, and how many such devices share a batch in this process. total, free: bytes."""

    owner: str
    total: int
    free: int
    devices: int = 1


def described(step: Step, devices: DeviceOptions) -> str:
    """A step's memory requirement and the device's memory, as text."""
    room, gib = _room(devices), 2**30
    if room is None:
        return f"at least {step.minimum_bytes / gib:,.1f} GiB for a step"
    required = _required(step, room)
    return f"at least {required / gib:,.1f} GiB for a step; {room.owner} has {room.free / gib:,.1f} GiB free"


def _required(step: Step, room: "Room") -> float:
    return dataclasses.replace(step, processes=step.processes * room.devices).minimum_bytes


def check(step: Step, devices: DeviceOptions) -> None:
    """Raises UserError if a step cannot fit into the memory of a GPU or of this machine; warns if too little is free.

    Does nothing if an accelerator, such as a TPU, does not report its memory.
    """
    room = _room(devices)
    if room is None:
        return
    required, training, gib = _required(step, room), step.training, 2**30
    needs = (
        f"train_batch_size {training.train_batch_size} with max_seq_length {step.max_seq_length} and "
        f"num_accumulation_steps {training.num_accumulation_steps or 'auto'} needs at least {required / gib:,.1f} "
        "GiB of memory"
    )
    advice = (
        "raise num_accumulation_steps or use gradient_checkpointing (same result), or lower train_batch_size, "
        "max_seq_length or the size of the model."
    )
    if required > room.total:
        raise UserError(f"{needs} and {room.owner} has {room.total / gib:,.1f} GiB: {advice}")
    if required > room.free:
        logging.getLogger("bert_tf").warning(f"{needs} and {room.free / gib:,.1f} GiB are free: if it fails, {advice}")


def _room(devices: DeviceOptions) -> Room | None:
    """The device that computes a step: the smallest GPU, or this machine; None if its memory is unknown."""
    if devices.device == "cpu" or not machine.has_accelerator():
        return Room("this machine", *machine.memory())
    gpus = machine.gpus()
    if not gpus or devices.distribution_strategy == "tpu":
        return None
    smallest, free = min(gpus, key=lambda gpu: gpu.total), min(gpu.free for gpu in gpus)
    sharing = 1 if devices.distribution_strategy == "one_device" else len(gpus)
    if devices.num_logical_devices <= 1:
        return Room(smallest.name, smallest.total, free, sharing)
    limit, parts = devices.gpu_memory_limit << 20 or smallest.total, devices.num_logical_devices * len(gpus)
    return Room(f"a part of {smallest.name}", min(limit, smallest.total), min(limit, free), parts)
