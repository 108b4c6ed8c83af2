"""XLA's cache of programs that it has compiled for accelerators; without TensorFlow."""

import os
import sys

from bert_tf.errors import UserError
from bert_tf.runtime import accelerators, files

XLA_FLAGS, CACHE_FLAG = "TF_XLA_FLAGS", "--tf_xla_persistent_cache_directory"
CACHED_DEVICES = "--tf_xla_persistent_cache_device_types=XLA_GPU_JIT,GPU"  # XLA on CPUs compiles for the one machine
DEFAULT_CACHE, NO_CACHE = "auto", "none"


def use(folder: str = DEFAULT_CACHE) -> None:
    """Lets XLA keep what it compiles for GPUs in a folder, from which later processes take it; before TensorFlow.

    folder: "auto": one in the user's cache; "none": nothing is kept. Does nothing where there is no accelerator, where
    TF_XLA_FLAGS names a folder, and in a process that has imported TensorFlow.

    Raises:
        UserError: the folder cannot be made, or its name has a space, at which TensorFlow would cut it.
    """
    flags = os.environ.get(XLA_FLAGS, "")
    if folder == NO_CACHE or CACHE_FLAG in flags or "tensorflow" in sys.modules or not accelerators.are_there():
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
