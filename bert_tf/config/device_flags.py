"""The flags that every script that trains has: where, and with what numbers."""

import dataclasses

from bert_tf.config.flags import flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceFlags:
    """Precision, compilation, replicas."""

    precision: str = flag(
        "auto",
        "Compute precision; auto: bfloat16 where the hardware supports it.",
        ("auto", "float32", "bfloat16", "float16"),
    )
    jit_compile: str = flag(
        "auto", "Compile forward and backward pass with XLA; auto: on GPUs.", ("auto", "true", "false")
    )
    gradient_checkpointing: bool = flag(
        False,
        "Recompute layers in the backward pass instead of storing their activations; less memory, same result.",
        aliases=("recompute",),
    )
    packed_rows: int = flag(
        0,
        "Under XLA: rows of max_seq_length per micro-batch, with several texts packed into a row; a "
        "micro-batch that does not fit is padded. 0: one text per row. Without XLA the number of rows is dynamic.",
    )
    distribution_strategy: str = flag(
        "auto", "tf.distribute strategy.", ("auto", "one_device", "mirrored", "multi_worker", "tpu")
    )
    num_logical_devices: int = flag(1, "Split the CPU into N logical devices, to test data parallelism.")
    tpu_name: str = flag("", "Name or address of the TPU.")


# Flags that may change when a run is resumed: the result does not depend on them, except for dropout where texts are
# packed into other rows.
DEVICE_FLAGS = frozenset(
    "distribution_strategy num_logical_devices tpu_name jit_compile gradient_checkpointing packed_rows".split()
)
