"""How much memory a step of training takes at least, and whether this machine has it: asked before the work begins.

V vocabulary, D hidden size, H heads, T slots.
"""

import dataclasses
import glob
import logging

from bert_tf.errors import UserError

# What a weight takes: itself, its gradient and the two moments of Adam, in float32.
BYTES_A_WEIGHT, BYTES_A_FROZEN_WEIGHT = 16, 4
# What the backward pass keeps of a token in a layer, in numbers: measured 25 D + 2 H T, on a CPU.
KEPT_A_WIDTH, KEPT_A_SLOT = 20, 2
KEPT_LOGITS = 2  # the logits and their gradient
ACCELERATORS = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/accel*")  # they have a memory of their own
CONTROL_GROUP = "/sys/fs/cgroup/memory.max"


def check(config, options, *, processes=1, rows_per_example=1):
    """Raises UserError if a step cannot fit into the memory of this machine, and warns if it does not fit just now.

    config: a BertConfig. options: train_batch_size, num_accumulation_steps, max_seq_length, precision, and if the
    script has them gradient_checkpointing, max_predictions_per_seq and num_frozen_layers. processes: the number of
    machines that share a batch. rows_per_example: the choices of a multiple choice. Does nothing on a machine with an
    accelerator.
    """
    if any(glob.glob(pattern) for pattern in ACCELERATORS):
        return
    needed, (total, free) = (
        at_least(config, options, processes=processes, rows_per_example=rows_per_example),
        of_machine(),
    )
    if needed <= free:
        return
    sentence = (
        f"train_batch_size {options.train_batch_size} with max_seq_length {options.max_seq_length} and "
        f"num_accumulation_steps {options.num_accumulation_steps} needs at least {needed / 2**30:,.1f} GiB of memory "
    )
    advice = (
        "raise num_accumulation_steps or use gradient_checkpointing (same result), or lower train_batch_size, "
        "max_seq_length or the size of the model."
    )
    if needed > total:
        raise UserError(f"{sentence}and this machine has {total / 2**30:,.1f} GiB: {advice}")
    logging.getLogger("bert_tf").warning("%s", f"{sentence}and {free / 2**30:,.1f} GiB are free: if it fails, {advice}")


def at_least(config, options, *, processes=1, rows_per_example=1):
    """Bytes that a step takes in one process, cautiously: a warning that is wrong is worse than none."""
    rows = options.train_batch_size * rows_per_example / options.num_accumulation_steps / processes
    frozen = getattr(options, "num_frozen_layers", 0)
    slots = options.max_seq_length
    number = 4 if options.precision == "float32" else 2  # auto may be bfloat16
    width, heads = config.hidden_size, config.num_attention_heads
    layers = config.num_hidden_layers - frozen
    of_layers = layers * (KEPT_A_WIDTH * width + KEPT_A_SLOT * heads * slots)  # numbers a token
    if getattr(options, "gradient_checkpointing", False):  # what came into each layer, and all of one
        of_layers = (of_layers / layers if layers else 0) + layers * width
    kept = rows * slots * of_layers * number
    guessed = slots if getattr(options, "left_to_right", False) else getattr(options, "max_predictions_per_seq", 0)
    logits = rows * guessed * config.vocab_size * 4 * KEPT_LOGITS
    fixed = BYTES_A_WEIGHT * weights(config)
    if frozen:
        trained = dataclasses.replace(config, num_hidden_layers=config.num_hidden_layers - frozen)
        trained = weights(trained) - tables(config)
        fixed = BYTES_A_WEIGHT * trained + BYTES_A_FROZEN_WEIGHT * (weights(config) - trained)
    return fixed + kept + logits


def weights(config):
    """The number of weights of the encoder, which are nearly all there are."""
    width = config.hidden_size
    layer = 4 * width * width + 2 * width * config.intermediate_size
    return tables(config) + config.num_hidden_layers * layer


def tables(config):
    """The number of weights of the embeddings."""
    return (config.vocab_size + config.max_position_embeddings + config.type_vocab_size) * config.hidden_size


def of_machine():
    """(bytes of memory, bytes of it that are free), within the limit of the container if there is one."""
    import psutil

    memory = psutil.virtual_memory()
    limit = memory.total
    try:
        with open(CONTROL_GROUP, encoding="ascii") as file:
            limit = min(limit, int(file.read()))
    except (OSError, ValueError):  # no control groups, or "max"
        pass
    return limit, min(limit, memory.available)
