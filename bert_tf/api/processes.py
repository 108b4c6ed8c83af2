"""A check for forked processes: TensorFlow works in the process that it started in, and hangs in forks of it."""

import os

from bert_tf.errors import UserError

_first: dict[str, int] = {}


def check() -> None:
    """Call before TensorFlow computes. Raises UserError if this process was forked from one that called it."""
    if _first.setdefault("id", os.getpid()) != os.getpid():
        raise UserError(
            "This process was forked after TensorFlow had started, and TensorFlow does not work in such a process: "
            'start processes with multiprocessing.get_context("spawn"), load models only in the forked processes, or '
            'load an export with engine="onnx" or engine="openvino", which work after a fork.'
        )
