"""The flags that every script that trains has: where, and with what numbers."""

import dataclasses

from bert_tf.config.flags import flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceFlags:
    """Precision, compilation, replicas."""

    precision: str = flag(
        "auto",
        "Numbers to compute with; auto: bfloat16 where the hardware has it.",
        ("auto", "float32", "bfloat16", "float16"),
    )
    jit_compile: str = flag(
        "auto", "Compile forward and backward pass with XLA; auto: on GPUs.", ("auto", "true", "false")
    )
    recompute: bool = flag(
        False, "Compute layers again in the backward pass instead of keeping them; less memory, same result."
    )
    packed_rows: int = flag(
        0,
        "Under XLA: rows of max_seq_length in which a micro-batch lies, several texts in a row; one that needs more is "
        "padded. 0: a row for each text. Without XLA there are as many rows as needed.",
    )
    distribution_strategy: str = flag(
        "auto", "Where to train.", ("auto", "one_device", "mirrored", "multi_worker", "tpu")
    )
    num_logical_devices: int = flag(1, "Cut the CPU into so many devices, to rehearse replicas.")
    tpu_name: str = flag("", "Name or address of the TPU.")


# Those that may differ between two starts of one run: the result does not depend on them, but for what is dropped out
# where texts lie in other rows.
DEVICE_FLAGS = frozenset("distribution_strategy num_logical_devices tpu_name jit_compile recompute packed_rows".split())
