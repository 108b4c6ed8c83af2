"""A lower bound of the memory of a training step, compared with that of the device before the work begins.

V vocabulary, D hidden size, H heads, T tokens per row.
"""

import dataclasses
import logging

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.flag_groups import DeviceOptions
from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import UserError
from bert_tf.runtime import accelerators, machine_memory

# Bytes per weight: itself, its gradient and the two moments of Adam, in float32.
BYTES_PER_WEIGHT, BYTES_PER_FROZEN_WEIGHT = 16, 4
# Numbers per token and layer that are stored for the backward pass: measured 25 D + 2 H T, on a CPU.
STORED_PER_WIDTH, STORED_PER_TOKEN = 20, 2
STORED_LOGITS = 2  # the logits and their gradient


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """Parameters that decide how much memory a training step needs.

    predicted: tokens of a row that are predicted. has_adapters: adapters are trained instead of the encoder. processes:
    the number of machines that share a batch. rows_per_example: the choices of a multiple choice.
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
        """The bytes that a step needs in one process: a lower bound, as a false warning is worse than none."""
        config, training = self.config, self.training
        parts = training.num_accumulation_steps or training.train_batch_size / self.processes
        rows = training.train_batch_size * self.rows_per_example / parts / self.processes
        width = 4 if training.precision == "float32" else 2
        activations = rows * self.max_seq_length * self._stored_per_token * width
        logits = rows * self.predicted * config.vocab_size * 4 * STORED_LOGITS
        if self.has_adapters or training.freeze == "encoder":
            frozen = BYTES_PER_FROZEN_WEIGHT * config.num_weights
            return frozen + (activations if training.freeze == "none" else 0)
        return _bytes_of_weights(config, training.num_frozen_layers) + activations + logits

    @property
    def _stored_per_token(self) -> float:
        """Numbers per token that all layers store for the backward pass."""
        layers = self.config.num_hidden_layers - self.training.num_frozen_layers
        layer = STORED_PER_WIDTH * self.config.hidden_size
        layer += STORED_PER_TOKEN * self.config.num_attention_heads * self.max_seq_length
        if self.training.gradient_checkpointing:  # the input of each layer, and all of one
            return (layer if layers else 0) + layers * self.config.hidden_size
        return layers * layer


def _bytes_of_weights(config: BertConfig, num_frozen_layers: int) -> int:
    total = config.num_weights
    if not num_frozen_layers:
        return BYTES_PER_WEIGHT * total
    without = dataclasses.replace(config, num_hidden_layers=config.num_hidden_layers - num_frozen_layers)
    trained = without.num_weights - without.num_embeddings
    return BYTES_PER_WEIGHT * trained + BYTES_PER_FROZEN_WEIGHT * (total - trained)


@dataclasses.dataclass(frozen=True)
class Room:
    """Memory of a device, and how many such devices share a batch in this process. total, free: bytes."""

    owner: str
    total: int
    free: int
    devices: int = 1


def check(step: Step, devices: DeviceOptions) -> None:
    """Raises UserError if a step cannot fit into the memory of a GPU, or of this machine; warns if it is not free.

    Does nothing if an accelerator does not tell its memory, as TPUs.
    """
    room = _room(devices)
    if room is None:
        return
    required = dataclasses.replace(step, processes=step.processes * room.devices).minimum_bytes
    if required <= room.free:
        return
    training = step.training
    sentence = (
        f"train_batch_size {training.train_batch_size} with max_seq_length {step.max_seq_length} and "
        f"num_accumulation_steps {training.num_accumulation_steps or 'auto'} needs at least {required / 2**30:,.1f} "
        "GiB of memory "
    )
    advice = (
        "raise num_accumulation_steps or use gradient_checkpointing (same result), or lower train_batch_size, "
        "max_seq_length or the size of the model."
    )
    if required > room.total:
        raise UserError(f"{sentence}and {room.owner} has {room.total / 2**30:,.1f} GiB: {advice}")
    logging.getLogger("bert_tf").warning(
        "%s", f"{sentence}and {room.free / 2**30:,.1f} GiB are free: if it fails, {advice}"
    )


def _room(devices: DeviceOptions) -> Room | None:
    """Device that computes a step: the smallest GPU, or on this machine; None if that is unknown."""
    if devices.device == "cpu" or not accelerators.are_there():
        return Room("this machine", *machine_memory.machine_memory())
    gpus = accelerators.gpus()
    if not gpus or devices.distribution_strategy == "tpu":
        return None
    smallest = min(gpus, key=lambda gpu: gpu.total)
    free, parts = min(gpu.free for gpu in gpus), devices.num_logical_devices
    if parts > 1:
        limit = devices.gpu_memory_limit << 20 or smallest.total
        owner = f"a part of {smallest.name}"
        return Room(owner, min(limit, smallest.total), min(limit, free), parts * len(gpus))
    return Room(smallest.name, smallest.total, free, 1 if devices.distribution_strategy == "one_device" else len(gpus))
