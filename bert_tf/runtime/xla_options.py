"""XLA options for accelerators, and its cache of compiled programs; without TensorFlow."""

import os
import sys

from bert_tf.errors import UserError
from bert_tf.runtime import accelerators, files

FLAGS, ROUNDING = "XLA_FLAGS", "--xla_allow_excess_precision"
BRIDGE_FLAGS, CACHE = "TF_XLA_FLAGS", "--tf_xla_persistent_cache_directory"
CACHED_DEVICES = "--tf_xla_persistent_cache_device_types=XLA_GPU_JIT,GPU"  # XLA on CPUs compiles for one machine only
DEFAULT_CACHE, NO_CACHE = "auto", "none"


def set_up(cache: str = DEFAULT_CACHE) -> None:
    """Makes XLA round as specified in the model, and cache programs compiled for GPUs; call before TensorFlow.

    By default XLA may omit rounding to bfloat16 and keep float32 between kernels, which moves more bytes.
    Does nothing if there is no accelerator, and in a process that has imported TensorFlow.
    Existing settings in XLA_FLAGS and TF_XLA_FLAGS are kept.

    cache: a folder; "auto": one in the user's cache; "none": nothing is kept.

    Raises:
        UserError: the folder cannot be created, or its name has a space, where TensorFlow would split it.
    """
    if "tensorflow" in sys.modules or not accelerators.are_there():
        return
    if ROUNDING not in os.environ.get(FLAGS, ""):
        _add(FLAGS, f"{ROUNDING}=false")
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
