"""Process-wide settings of memory, oneDNN and XLA, for scripts and commands, never for the library."""

import contextlib
import ctypes
import math
import os
import signal
import sys

from bert_tf.errors import UserError
from bert_tf.runtime import files, machine

PIPE_CLOSED = 128 + getattr(signal, "SIGPIPE", 13)  # exit code: the reader of the output is gone; Windows lacks it
# glibc's numbers for mallopt, and their values in bytes.
MALLOC_OPTIONS = {-1: 2**31 - 1, -3: 2**30}  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
FROZEN = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"  # read by TensorFlow when it is imported or runs its first operations
XLA_FLAGS, ROUNDING = "XLA_FLAGS", "--xla_allow_excess_precision"
BRIDGE_FLAGS, CACHE = "TF_XLA_FLAGS", "--tf_xla_persistent_cache_directory"
CACHED_DEVICES = "--tf_xla_persistent_cache_device_types=XLA_GPU_JIT,GPU"  # XLA on CPUs compiles for one machine only
DEFAULT_CACHE, NO_CACHE = "auto", "none"


def assume_frozen_weights() -> None:
    """Declares, before TensorFlow is imported, that weights never change in this process once they are used.

    oneDNN then reorders each matrix once instead of in every call: half the time for a single text in bfloat16, and
    twice the memory for weights. A value set by the user is kept.
    """
    keep_freed_memory()
    if "tensorflow" not in sys.modules:
        os.environ.setdefault(FROZEN, "1")


def check_changing_weights() -> None:
    """Raises UserError in a process that assumes frozen weights: training would use outdated weights."""
    if os.environ.get(FROZEN, "0").lower() not in ("0", "false"):
        raise UserError(
            f"{FROZEN}={os.environ[FROZEN]} is set, which prevents training: unset it; the commands for inference set "
            "it themselves."
        )


def most_open_files() -> float:
    """The limit of open files and connections in this process; infinite if there is none."""
    try:
        import resource  # Windows lacks it
    except ImportError:
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return math.inf if limit == resource.RLIM_INFINITY else limit


def drop_output() -> None:
    """Discards output after its reader, such as `head`, has closed the pipe; else Python's flush at exit would fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def keep_freed_memory() -> None:
    """Makes malloc keep the memory of large tensors: returning it to the system takes a fifth of a training step."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # not glibc; Windows
        for option, value in MALLOC_OPTIONS.items():
            ctypes.CDLL(None).mallopt(option, value)


def set_up_xla(cache: str = DEFAULT_CACHE) -> None:
    """Makes XLA round as specified in the model, and cache programs compiled for GPUs; call before TensorFlow.

    By default XLA may omit rounding to bfloat16 and keep float32 between kernels, which moves more bytes.
    Does nothing if there is no accelerator, and in a process that has imported TensorFlow.
    Existing settings in XLA_FLAGS and TF_XLA_FLAGS are kept.

    cache: a folder; "auto": one in the user's cache; "none": nothing is kept.

    Raises:
        UserError: the folder cannot be created, or its name has a space, where TensorFlow would split it.
    """
    if "tensorflow" in sys.modules or not machine.has_accelerator():
        return
    if ROUNDING not in os.environ.get(XLA_FLAGS, ""):
        _add(XLA_FLAGS, f"{ROUNDING}=false")
    if cache != NO_CACHE and CACHE not in os.environ.get(BRIDGE_FLAGS, ""):
        _use_cache(cache)


def _use_cache(folder: str) -> None:
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = os.path.join(caches, "bert_tf", "xla") if folder == DEFAULT_CACHE else files.absolute(folder)
    problem = "its name has a space" if len(path.split()) > 1 else _problem_of(path)
    if not problem:
        _add(BRIDGE_FLAGS, f"{CACHE}={path} {CACHED_DEVICES}")
    elif folder != DEFAULT_CACHE:
        raise UserError(f"xla_cache={folder} cannot be used ({problem}): pass another folder, or none.")


def _add(variable: str, flags: str) -> None:
    os.environ[variable] = f"{os.environ.get(variable, '')} {flags}".strip()


def _problem_of(folder: str) -> str:
    """Why a folder (created if missing) is not writable; "" if it is."""
    if files.is_remote(folder):
        return "it is in a store, not on this machine"
    try:
        files.make_folder(folder)
    except OSError as error:
        return error.strerror or str(error)
    return "" if os.access(folder, os.W_OK) else "it is not writable"
