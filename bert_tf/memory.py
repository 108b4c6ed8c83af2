"""How much memory a step of training takes at least, and whether this machine has it: asked before the work begins.

N tokens in a micro-batch of one process, P masked positions in it, V vocabulary, D hidden size, H heads, T slots.
"""

import glob
import logging

from bert_tf.errors import UserError

# What a weight takes: itself, its gradient and the two moments of Adam, in float32.
BYTES_A_WEIGHT = 16
# What the backward pass keeps of a token in a layer, in numbers: measured 41 D + 2 H T and more, on a CPU.
KEPT_A_WIDTH, KEPT_A_SLOT = 30, 2
KEPT_LOGITS = 2  # the logits and their gradient
ACCELERATORS = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/accel*")  # they have a memory of their own
CONTROL_GROUP = "/sys/fs/cgroup/memory.max"


def check(config, options, *, processes=1):
    """Raises UserError if a step cannot fit into the memory of this machine, and warns if it does not fit just now.

    config: a BertConfig; options: train_batch_size, num_accumulation_steps, max_seq_length, max_predictions_per_seq,
    precision; processes: among how many machines a batch is shared out. Says nothing where there is an accelerator.
    """
    if any(glob.glob(pattern) for pattern in ACCELERATORS):
        return
    needed, (total, free) = at_least(config, options, processes=processes), of_machine()
    if needed <= free:
        return
    sentence = (
        f"train_batch_size {options.train_batch_size} with max_seq_length {options.max_seq_length} and "
        f"num_accumulation_steps {options.num_accumulation_steps} needs at least {needed / 2**30:,.1f} GiB of memory "
    )
    advice = (
        "raise num_accumulation_steps (same result), or lower train_batch_size, max_seq_length or the model's size."
    )
    if needed > total:
        raise UserError(f"{sentence}and this machine has {total / 2**30:,.1f} GiB: {advice}")
    logging.getLogger("bert_tf").warning("%s", f"{sentence}and {free / 2**30:,.1f} GiB are free: if it fails, {advice}")


def at_least(config, options, *, processes=1):
    """Bytes that a step takes in one process, cautiously: a warning that is wrong is worse than none."""
    rows = options.train_batch_size / options.num_accumulation_steps / processes
    slots = options.max_seq_length
    number = 4 if options.precision == "float32" else 2  # auto may be bfloat16
    width, heads = config.hidden_size, config.num_attention_heads
    kept = rows * slots * config.num_hidden_layers * (KEPT_A_WIDTH * width + KEPT_A_SLOT * heads * slots) * number
    logits = rows * options.max_predictions_per_seq * config.vocab_size * 4 * KEPT_LOGITS
    return BYTES_A_WEIGHT * weights(config) + kept + logits


def weights(config):
    """The number of weights of the encoder, which are nearly all there are."""
    width = config.hidden_size
    tables = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    layer = 4 * width * width + 2 * width * config.intermediate_size
    return tables * width + config.num_hidden_layers * layer


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
