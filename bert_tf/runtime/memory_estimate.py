"""A lower bound of the memory of a training step, compared with that of the device before the work begins.

V vocabulary, D hidden size, H heads, T tokens per row.
"""

import dataclasses
import logging
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import accelerators

# Bytes per weight: itself, its gradient and the two moments of Adam, in float32.
BYTES_PER_WEIGHT, BYTES_PER_FROZEN_WEIGHT = 16, 4
# Numbers per token and layer that are stored for the backward pass: measured 25 D + 2 H T, on a CPU.
STORED_PER_WIDTH, STORED_PER_TOKEN = 20, 2
STORED_LOGITS = 2  # the logits and their gradient
CONTROL_GROUP = "/sys/fs/cgroup/memory.max"


@dataclasses.dataclass(frozen=True)
class Room:
    """Memory of a device, and how many such devices share a batch in this process. total, free: bytes."""

    owner: str
    total: int
    free: int
    devices: int = 1


def check(config: Any, options: Any, *, processes: int = 1, rows_per_example: int = 1) -> None:
    """Raises UserError if a step cannot fit into the memory of a GPU, or of this machine; warns if it is not free.

    config: a BertConfig. options: train_batch_size, num_accumulation_steps (0: as many as needed), max_seq_length,
    precision, and if the script has them gradient_checkpointing, max_predictions_per_seq, num_frozen_layers and what
    `_room` reads. processes: the number of machines that share a batch. rows_per_example: the choices of a multiple
    choice. Does nothing where an accelerator does not tell its memory, as TPUs.
    """
    room = _room(options)
    if room is None:
        return
    processes *= room.devices
    required = minimum_bytes(config, options, processes=processes, rows_per_example=rows_per_example)
    if required <= room.free:
        return
    parts = options.num_accumulation_steps or "auto"
    sentence = (
        f"train_batch_size {options.train_batch_size} with max_seq_length {options.max_seq_length} and "
        f"num_accumulation_steps {parts} needs at least {required / 2**30:,.1f} GiB of memory "
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


def _room(options: Any) -> Room | None:
    """Where a step is computed: on the smallest GPU, or on this machine; None where that is unknown.

    options: if the script has them, device, distribution_strategy, num_logical_devices and gpu_memory_limit (MiB).
    """
    if getattr(options, "device", "auto") == "cpu" or not accelerators.are_there():
        return Room("this machine", *machine_memory())
    gpus = accelerators.gpus()
    strategy = getattr(options, "distribution_strategy", "auto")
    if not gpus or strategy == "tpu":
        return None
    smallest = min(gpus, key=lambda gpu: gpu.total)
    free, parts = min(gpu.free for gpu in gpus), getattr(options, "num_logical_devices", 1)
    if parts > 1:
        limit = getattr(options, "gpu_memory_limit", 0) << 20 or smallest.total
        owner = f"a part of {smallest.name}"
        return Room(owner, min(limit, smallest.total), min(limit, free), parts * len(gpus))
    return Room(smallest.name, smallest.total, free, 1 if strategy == "one_device" else len(gpus))


def expect_room_for_weights(config: Any) -> None:
    """Raises UserError for a configuration whose weights alone, in float32, need more memory than the machine has."""
    required, (total, _) = 4 * num_weights(config), machine_memory()
    if required > total:
        raise UserError(
            f"A model of this configuration has {num_weights(config):,} weights, which need {required / 2**30:,.1f} "
            f"GiB of memory, and this machine has {total / 2**30:,.1f} GiB: use the configuration that belongs to the "
            "checkpoint, or a smaller model."
        )


def minimum_bytes(config: Any, options: Any, *, processes: int = 1, rows_per_example: int = 1) -> float:
    """Returns the bytes that a step needs in one process: a lower bound, as a false warning is worse than none."""
    parts = options.num_accumulation_steps or options.train_batch_size / processes
    rows = options.train_batch_size * rows_per_example / parts / processes
    length = options.max_seq_length
    activations = rows * length * _stored_per_token(config, options) * (4 if options.precision == "float32" else 2)
    is_causal = getattr(options, "left_to_right", False)
    predicted = length if is_causal else getattr(options, "max_predictions_per_seq", 0)
    logits = rows * predicted * config.vocab_size * 4 * STORED_LOGITS
    if getattr(options, "lora_rank", 0) or getattr(options, "freeze", "none") == "encoder":
        return BYTES_PER_FROZEN_WEIGHT * num_weights(config) + (activations if options.freeze == "none" else 0)
    return _bytes_of_weights(config, getattr(options, "num_frozen_layers", 0)) + activations + logits


def _stored_per_token(config: Any, options: Any) -> float:
    """Numbers per token that all layers store for the backward pass."""
    layers = config.num_hidden_layers - getattr(options, "num_frozen_layers", 0)
    layer = STORED_PER_WIDTH * config.hidden_size
    layer += STORED_PER_TOKEN * config.num_attention_heads * options.max_seq_length
    if getattr(options, "gradient_checkpointing", False):  # the input of each layer, and all of one
        return (layer if layers else 0) + layers * config.hidden_size
    return layers * layer


def _bytes_of_weights(config: Any, num_frozen_layers: int) -> int:
    total = num_weights(config)
    if not num_frozen_layers:
        return BYTES_PER_WEIGHT * total
    without = dataclasses.replace(config, num_hidden_layers=config.num_hidden_layers - num_frozen_layers)
    trained = num_weights(without) - num_embeddings(without)
    return BYTES_PER_WEIGHT * trained + BYTES_PER_FROZEN_WEIGHT * (total - trained)


def num_weights(config: Any) -> int:
    """Returns the number of weights of the encoder, which are nearly all of a model."""
    width = config.hidden_size
    layer = 4 * width * width + 2 * width * config.intermediate_size
    return num_embeddings(config) + config.layers_with_weights * layer


def num_embeddings(config: Any) -> int:
    """Returns the number of weights of the embeddings."""
    return (config.vocab_size + config.max_position_embeddings + config.type_vocab_size) * config.embedding_width


def machine_memory() -> tuple[int, int]:
    """Returns (bytes of memory, bytes of it that are free), within the limit of the container if there is one."""
    import psutil

    memory = psutil.virtual_memory()
    limit = memory.total
    try:
        with open(CONTROL_GROUP, encoding="ascii") as file:
            limit = min(limit, int(file.read()))
    except (OSError, ValueError):  # no control groups, or "max"
        pass
    return limit, min(limit, memory.available)
