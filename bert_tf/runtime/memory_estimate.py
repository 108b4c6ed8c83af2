"""The number of weights of a configuration, and the memory of this machine."""

from typing import Any

from bert_tf.errors import UserError

CONTROL_GROUP = "/sys/fs/cgroup/memory.max"


def check_room_for_weights(config: Any) -> None:
    """Raises UserError for a configuration whose weights alone, in float32, need more memory than the machine has."""
    required, (total, _) = 4 * num_weights(config), machine_memory()
    if required > total:
        raise UserError(
            f"A model of this configuration has {num_weights(config):,} weights, which need {required / 2**30:,.1f} "
            f"GiB of memory, and this machine has {total / 2**30:,.1f} GiB: use the configuration that belongs to the "
            "checkpoint, or a smaller model."
        )


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
