"""Process-wide settings of memory and oneDNN, for scripts and commands, never for the library."""

import contextlib
import ctypes
import math
import os
import signal
import sys

from bert_tf.errors import UserError

MAX_SEED = 2_000_000_000  # TensorFlow takes 32 bits, and some seeds are the run's seed plus an offset

PIPE_CLOSED = 128 + getattr(signal, "SIGPIPE", 13)  # exit code: the reader of the output is gone; Windows lacks it
# glibc's numbers for mallopt, and their values in bytes.
MALLOC_OPTIONS = {-1: 2**31 - 1, -3: 2**30}  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
FROZEN = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"  # read by TensorFlow when it is imported or runs its first operations


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


def keep_freed_memory() -> None:
    """Makes malloc keep the memory of large tensors: returning it to the system takes a fifth of a training step."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # not glibc; Windows
        for option, value in MALLOC_OPTIONS.items():
            ctypes.CDLL(None).mallopt(option, value)
