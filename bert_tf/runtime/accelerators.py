"""The accelerators of this machine as its driver describes them, and XLA's cache for them; without TensorFlow."""

import contextlib
import csv
import dataclasses
import functools
import glob
import os
import subprocess
import sys

from bert_tf.errors import UserError
from bert_tf.runtime import files

DEVICE_FILES = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/accel*")
QUERY = "name,driver_version,compute_cap,memory.total,memory.free"  # of nvidia-smi
QUERY_SECONDS = 20
OLDEST_DRIVER = (525, 60, 13)  # of CUDA 12, which TensorFlow is built with (NVIDIA's table of minor compatibility)
AMPERE = (8, 0)  # the first compute capability with instructions for bfloat16

XLA_FLAGS, CACHE_FLAG = "TF_XLA_FLAGS", "--tf_xla_persistent_cache_directory"
CACHED_DEVICES = "--tf_xla_persistent_cache_device_types=XLA_GPU_JIT,GPU"  # XLA on CPUs compiles for the one machine
DEFAULT_CACHE, NO_CACHE = "auto", "none"


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU of NVIDIA. total, free: bytes of its memory; driver and capability as numbers, () where unknown."""

    name: str
    driver: tuple[int, ...]
    capability: tuple[int, ...]
    total: int
    free: int


def are_there() -> bool:
    """Whether the operating system has an accelerator, whatever TensorFlow sees."""
    return any(glob.glob(pattern) for pattern in DEVICE_FILES)


@functools.cache
def gpus() -> tuple[Gpu, ...]:
    """The GPUs that the driver's own tool lists and CUDA_VISIBLE_DEVICES leaves; () where there is no such tool."""
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=QUERY_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    listed = _parse(done.stdout) if done.returncode == 0 else []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [] if visible is None else [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]
    if visible is None or not all(map(str.isdecimal, names)):  # all, or by the names of devices
        return tuple(listed)
    return tuple(listed[number] for number in map(int, names) if number < len(listed))


def _parse(text: str) -> list[Gpu]:
    listed = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        with contextlib.suppress(ValueError):  # "[N/A]", as the memory of cards that share that of the machine
            name, driver, capability, total, free = row
            listed.append(Gpu(name, _numbers(driver), _numbers(capability), int(total) << 20, int(free) << 20))
    return listed


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def why_unseen() -> str:
    """Why TensorFlow sees no GPU, as far as the driver tells, as the end of a sentence with what to do."""
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
    """Lets TensorFlow take memory of GPUs as it is needed, not nearly all of it at once; before its runtime starts."""
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")


def cache_compiled_programs(folder: str = DEFAULT_CACHE) -> None:
    """Lets XLA keep what it compiles for GPUs in a folder, from which later processes take it; before TensorFlow.

    folder: "auto": one in the user's cache; "none": nothing is kept. Does nothing where there is no accelerator, where
    TF_XLA_FLAGS names a folder, and in a process that has imported TensorFlow.

    Raises:
        UserError: the folder cannot be made, or its name has a space, at which TensorFlow would cut it.
    """
    flags = os.environ.get(XLA_FLAGS, "")
    if folder == NO_CACHE or CACHE_FLAG in flags or "tensorflow" in sys.modules or not are_there():
        return
    path = os.path.join(_user_cache(), "bert_tf", "xla") if folder == DEFAULT_CACHE else files.absolute(folder)
    problem = "its name has a space" if len(path.split()) > 1 else _problem_of(path)
    if not problem:
        os.environ[XLA_FLAGS] = f"{flags} {CACHE_FLAG}={path} {CACHED_DEVICES}".strip()
    elif folder != DEFAULT_CACHE:
        raise UserError(f"xla_cache={folder} cannot be used ({problem}): give another folder, or none.")


def _problem_of(folder: str) -> str:
    """Why nothing can be written into a folder, which is made if need be; "" where it can."""
    if files.is_remote(folder):
        return "it is in a store, not on this machine"
    try:
        files.make_folder(folder)
    except OSError as error:
        return error.strerror or str(error)
    return "" if os.access(folder, os.W_OK) else "it is not writable"


def _user_cache() -> str:
    return os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
