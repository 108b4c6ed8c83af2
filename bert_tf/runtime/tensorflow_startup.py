"""Starts TensorFlow without the messages about GPUs that it prints on machines without one, and without Keras.

Only scripts and commands do that, as it redirects standard error of the process: they call `silence()` at their start,
after which library code that imports TensorFlow lazily silences it too.
"""

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator

# What `import tensorflow` imports of Keras at its end, to register its optimizers for `tf.saved_model.load`: a third of
# the time. No SavedModel of this package has one, and what needs Keras imports it.
PART_OF_KERAS = "keras.src.optimizers"

_process = {"is_silenced": False, "is_started": False}


def silence() -> None:
    """Lets `start_if_silenced` silence TensorFlow in this process; for scripts and commands."""
    _process["is_silenced"] = True


def start_if_silenced() -> None:
    """`start_tensorflow` in a process that called `silence`; otherwise does nothing.

    GPUs then multiply float32 in float32; TensorFlow's default is TF32, which has 10 bits.
    """
    if _process["is_silenced"] and not _process["is_started"]:
        _process["is_started"] = True
        start_tensorflow()
        from bert_tf.runtime import backend

        backend.allow_tf32(False)


def start_tensorflow() -> None:
    """Imports TensorFlow without Keras; what it prints to standard error meanwhile is shown only if that fails.

    Call it before importing modules that need TensorFlow. TF_CPP_MIN_LOG_LEVEL=0 shows everything.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        return
    with _without(PART_OF_KERAS):
        _start_silently()


@contextlib.contextmanager
def quiet_log() -> Iterator[None]:
    """Shows only errors of TensorFlow's and absl's loggers while the block runs, as in programs that silence nothing.

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
def _without(module: str) -> Iterator[None]:
    """Makes the import of a module that is not loaded yet fail, as if it was not installed."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


def _start_silently() -> None:
    sys.stderr.flush()
    with tempfile.TemporaryFile() as output:
        stderr = os.dup(2)  # of the process: the messages come from C++
        os.dup2(output.fileno(), 2)
        try:
            from bert_tf.runtime import backend

            backend.gpu_count()  # loads the drivers
        except BaseException:
            output.seek(0)
            os.write(stderr, output.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
