"""A check that TensorFlow works in this process: it is installed, and started here, because it hangs in forks."""

import os

from bert_tf.errors import UserError
from bert_tf.runtime.tensorflow_startup import check_installed

_first: dict[str, int] = {}


def check() -> None:
    """Call before TensorFlow computes; UserError without it, and in a fork of a process that called this."""
    check_installed()
    if _first.setdefault("id", os.getpid()) != os.getpid():
        raise UserError(
            "This process was forked after TensorFlow had started, and TensorFlow does not work in such a process: "
            'start processes with multiprocessing.get_context("spawn"), load models only in the forked processes, or '
            'load an export with engine="onnx" or engine="openvino", which work after a fork.'
        )
