"""How this process uses memory and the processor: what has to be settled for all of it."""

import contextlib
import ctypes
import os
import sys

from bert_tf.errors import UserError

# glibc's numbers for mallopt, and what they are set to, in bytes.
MALLOC_OPTIONS = {-1: 2**31 - 1, -3: 2**30}  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
FROZEN = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"  # TensorFlow reads it when it is imported or makes its first operations


def assume_frozen_weights():
    """Says, before TensorFlow is imported, that nothing changes weights in this process once they were used.

    Then oneDNN lays out each matrix once and not in every call: half the time for a single text in bfloat16, and twice
    the memory for weights. A setting of the user's stays.
    """
    keep_freed_memory()
    if "tensorflow" not in sys.modules:
        os.environ.setdefault(FROZEN, "1")


def expect_changing_weights():
    """Raises UserError in a process that was told that weights do not change: it would train on those of before."""
    if os.environ.get(FROZEN, "0").lower() not in ("0", "false"):
        raise UserError(
            f"{FROZEN}={os.environ[FROZEN]} is set, with which a process cannot train: unset it; "
            "the commands that only answer set it themselves."
        )


def keep_freed_memory():
    """Keeps the memory of large tensors in the process: fetching it anew for every step took a fifth of the time."""
    with contextlib.suppress(AttributeError, OSError):  # not glibc
        for option, value in MALLOC_OPTIONS.items():
            ctypes.CDLL(None).mallopt(option, value)
