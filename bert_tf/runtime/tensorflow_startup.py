"""Starts TensorFlow without the lines about GPUs that it prints on machines that have none."""

import os
import sys
import tempfile


def start_tensorflow():
    """Imports TensorFlow; what it says meanwhile is shown only if that fails.

    Call it before the first import of a module that needs TensorFlow. TF_CPP_MIN_LOG_LEVEL=0 shows everything.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as said:
        kept = os.dup(2)  # of the process: the lines come from C++
        os.dup2(said.fileno(), 2)
        try:
            from bert_tf.runtime import backend

            backend.gpu_count()  # loads the drivers
        except BaseException:
            said.seek(0)
            os.write(kept, said.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
