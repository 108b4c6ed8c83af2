"""Starts TensorFlow without the messages about GPUs that it prints on machines without one.

Only scripts and commands do that, as it redirects standard error of the process: they call `silence()` at their start,
after which library code that imports TensorFlow lazily silences it too.
"""

import os
import sys
import tempfile

_process = {"is_silenced": False}


def silence() -> None:
    """Lets `start_if_silenced` silence TensorFlow in this process; for scripts and commands."""
    _process["is_silenced"] = True


def start_if_silenced() -> None:
    """`start_tensorflow` in a process that called `silence`; otherwise does nothing."""
    if _process["is_silenced"]:
        start_tensorflow()


def start_tensorflow() -> None:
    """Imports TensorFlow; what it prints to standard error meanwhile is shown only if that fails.

    Call it before importing modules that need TensorFlow. TF_CPP_MIN_LOG_LEVEL=0 shows everything.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        return
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
