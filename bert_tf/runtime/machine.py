"""The memory and the accelerators of this machine, as described by system and driver; without TensorFlow."""

import contextlib
import csv
import dataclasses
import functools
import glob
import os
import subprocess

import psutil

DEVICE_FILES = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/accel*")
QUERY = "name,driver_version,compute_cap,memory.total,memory.free"  # fields queried from nvidia-smi
QUERY_SECONDS = 20
OLDEST_DRIVER = (525, 60, 13)  # for CUDA 12, used by TensorFlow (NVIDIA's table of minor compatibility)
AMPERE = (8, 0)  # the first compute capability with instructions for bfloat16
CONTROL_GROUP = "/sys/fs/cgroup/memory.max"


@dataclasses.dataclass(frozen=True)
class Gpu:
    """An NVIDIA GPU. total, free: bytes of memory; driver and capability as numbers, () if unknown."""

    name: str
    driver: tuple[int, ...]
    capability: tuple[int, ...]
    total: int
    free: int


def gpus_used(device: str) -> int:
    """The number of GPUs used for training with this value of --device."""
    return 0 if device == "cpu" else len(gpus())


def has_accelerator() -> bool:
    """Returns whether the operating system has an accelerator, whatever TensorFlow sees."""
    return any(glob.glob(pattern) for pattern in DEVICE_FILES)


@functools.cache
def gpus() -> tuple[Gpu, ...]:
    """The GPUs listed by the driver's tool and not hidden by CUDA_VISIBLE_DEVICES; () without such a tool."""
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=QUERY_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    listed = _parse(done.stdout) if done.returncode == 0 else []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [] if visible is None else [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]
    if visible is None or not all(map(str.isdecimal, names)):  # all, or specified by device name
        return tuple(listed)
    return tuple(listed[number] for number in map(int, names) if number < len(listed))


def _parse(text: str) -> list[Gpu]:
    listed = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        with contextlib.suppress(ValueError):  # "[N/A]", such as memory of cards that share the machine's
            name, driver, capability, total, free = row
            listed.append(Gpu(name, _numbers(driver), _numbers(capability), int(total) << 20, int(free) << 20))
    return listed


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def why_unseen() -> str:
    """Why TensorFlow sees no GPU, as far as the driver tells, and a remedy: the end of a sentence."""
    listed = gpus()
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides them all: unset it"
    if not listed:
        return "nvidia-smi lists none either: see whether a card is built in and its driver runs"
    if listed[0].driver < OLDEST_DRIVER:
        own, needed = (".".join(map(str, version)) for version in (listed[0].driver, OLDEST_DRIVER))
        return f"the driver of {listed[0].name} is {own}, and CUDA 12 needs {needed} or later: install a newer driver"
    return (
        f"nvidia-smi lists {listed[0].name}: install TensorFlow's libraries for it with "
        "`pip install tensorflow[and-cuda]`"
    )


def grow_memory() -> None:
    """Lets TensorFlow allocate GPU memory on demand instead of nearly all of it; call before its runtime starts."""
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")


def memory() -> tuple[int, int]:
    """Returns (bytes of memory, free bytes), within the container's limit if there is one."""
    found = psutil.virtual_memory()
    limit = found.total
    try:
        with open(CONTROL_GROUP, encoding="ascii") as file:
            limit = min(limit, int(file.read()))
    except (OSError, ValueError):  # no cgroups, or "max"
        pass
    return limit, min(limit, found.available)
