"""Starts TensorFlow without the messages about GPUs that it prints on machines without one.

`lazy.tf` and `lazy.keras` call `ensure_started()`. Scripts and commands call `silence()` first: their TensorFlow also
starts without Keras.
"""

import contextlib
import glob
import importlib.util
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator

from bert_tf.errors import UserError, stop_of
from bert_tf.runtime import backend, keras_import, progress

# The part of Keras that `import tensorflow` imports, to register optimizers for `tf.saved_model.load`: a third of the
# time. No SavedModel of this package has one, and code that needs Keras imports it.
PART_OF_KERAS = "keras.src.optimizers"

# Imported by `import keras` if installed, for plots and wrappers that are not used here: most of its time.
EXTRAS_OF_KERAS = ("matplotlib", "sklearn")

_process = {"is_silenced": False, "is_started": False, "has_tf32": False}


def silence() -> None:
    """Lets `ensure_started` silence TensorFlow in this process; for scripts and commands."""
    _process["is_silenced"] = True


def allow_tf32() -> None:
    """Lets `ensure_started` keep TF32 for float32 products on GPUs."""
    _process["has_tf32"] = True


def ensure_started() -> None:
    """Imports TensorFlow without its messages, unless already imported; TF_CPP_MIN_LOG_LEVEL=0 shows them.

    In scripts and commands (`silence`) it calls `start_tensorflow`. GPUs then multiply float32 in float32, unless
    `allow_tf32` was called; TensorFlow's default is TF32 with 10 bits.
    """
    if _process["is_started"]:
        return
    if "tensorflow" not in sys.modules:
        check_installed()
    _process["is_started"] = True
    if not _process["is_silenced"]:
        if progress.is_notebook():
            warnings.filterwarnings("ignore", "IProgress not found")  # from huggingface_hub's tqdm, without ipywidgets
        if "tensorflow" not in sys.modules:
            with no_messages():
                backend.gpu_count()  # loads the drivers
    else:
        start_tensorflow()
        backend.allow_tf32(_process["has_tf32"])


def start_tensorflow() -> None:
    """Imports TensorFlow without Keras; shows its output on standard error only if that fails.

    A later import of Keras omits EXTRAS_OF_KERAS. Call it before importing modules that need TensorFlow.
    TF_CPP_MIN_LOG_LEVEL=0 shows everything.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        return
    if "keras" not in sys.modules:
        keras_import.within(lambda _: _without(*EXTRAS_OF_KERAS))
    with _without(PART_OF_KERAS), no_messages():
        _open_library()
        backend.gpu_count()  # loads the drivers


def _open_library() -> None:
    """Loads TensorFlow's C++ library on Linux: `import` would block all other threads for a second or more."""
    package = importlib.util.find_spec("tensorflow")
    paths = glob.glob(os.path.join(os.path.dirname(str(package and package.origin)), "libtensorflow_cc.so.*"))
    if "tensorflow" not in sys.modules and sys.platform == "linux" and paths:
        import ctypes

        dlopen = ctypes.CDLL(None).dlopen  # unlike ctypes.CDLL(path) it lets other threads run meanwhile
        dlopen.restype = ctypes.c_void_p
        dlopen(min(paths).encode(), os.RTLD_NOW)


def check_installed() -> None:
    """Raises UserError if TensorFlow is not installed."""
    if importlib.util.find_spec("tensorflow") is None:
        raise UserError(
            "TensorFlow is not installed: pip install bert-tf. Without it, `bert-tf predict` and `serve`, and "
            'bert_tf.load(path, engine="onnx"), run exports that have a model for an installed engine; '
            "`bert-tf export RUN --engine=onnx` writes one."
        )


@contextlib.contextmanager
def no_messages() -> Iterator[None]:
    """Shows output on standard error from inside the block, C++ included, only if the block fails by itself.

    TF_CPP_MIN_LOG_LEVEL=0 shows everything.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as output:
        stderr = os.dup(2)
        os.dup2(output.fileno(), 2)
        try:
            yield
        except BaseException as error:
            if not stop_of(error):
                output.seek(0)
                os.write(stderr, output.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def no_messages_if_silenced() -> contextlib.AbstractContextManager[None]:
    """`no_messages` in a process that called `silence` and has not loaded TensorFlow; otherwise does nothing."""
    is_due = _process["is_silenced"] and "tensorflow" not in sys.modules
    return no_messages() if is_due else contextlib.nullcontext()


@contextlib.contextmanager
def quiet_log() -> Iterator[None]:
    """Shows only errors of TensorFlow's and absl's loggers while the block runs, also without `silence`.

    `tf.saved_model.save` says "Assets written to" a temporary folder.
    """
    loggers = [logging.getLogger(name) for name in ("tensorflow", "absl")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def _without(*modules: str) -> Iterator[None]:
    """Makes imports of modules that are not loaded yet fail, as if these were not installed."""
    missing = [module for module in modules if module not in sys.modules]
    sys.modules.update(dict.fromkeys(missing))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for module in missing:
            del sys.modules[module]
