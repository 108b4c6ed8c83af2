"""Options for the training devices of a script."""

import dataclasses

from bert_tf.config.options import COUNT, Group, flag

XLA_CACHE_HELP = (
    "Folder where XLA stores compiled GPU code to speed up later starts; auto: bert_tf/xla in the user's cache folder; "
    "none: nothing is stored."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceOptions(Group):
    """Devices and replicas."""

    device: str = flag("auto", "Device to train on; auto: GPUs if there are any.", ("auto", "cpu", "gpu"), free=True)
    deterministic: bool = flag(
        False,
        "Use only deterministic operations, bit-identical in every run: slower; always the case on CPUs.",
        free=True,
    )
    gpu_memory_growth: bool = flag(
        True, "Allocate GPU memory on demand; false: nearly all of it at the start.", free=True
    )
    gpu_memory_limit: int = flag(0, "MiB of each part of a GPU, with num_logical_devices.", free=True)
    xla_cache: str = flag("auto", XLA_CACHE_HELP, free=True)
    distribution_strategy: str = flag(
        "auto", "tf.distribute strategy.", ("auto", "one_device", "mirrored", "multi_worker", "tpu"), free=True
    )
    num_logical_devices: int = flag(
        1, "Split the CPU, or each GPU, into N logical devices, to test data parallelism.", valid=COUNT, free=True
    )
    tpu_name: str = flag("", "Name or address of the TPU.", free=True)
