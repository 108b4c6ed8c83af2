"""Lets the weights of a run be freed when it ends, as the next run of the same process needs the memory."""

import contextlib
import sys
from collections.abc import Iterator

from bert_tf.runtime.lazy import module

ops = module("tensorflow.python.framework.ops")
CUSTOM = "CustomGradient-"  # how the names of what `tf.custom_gradient` registers begin


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    """Forgets the custom gradients that functions are traced with in the block; these cannot be differentiated later.

    TensorFlow registers each under a new name for good, and with it the graph that it is of, and the weights and
    moments of the optimizer that this captures: 450 MB for each fine-tuning of all-MiniLM-L6-v2.
    """
    known = set(ops.gradient_registry.list()) if "tensorflow" in sys.modules else set()  # the block starts it
    try:
        yield
    finally:
        for name in set(ops.gradient_registry.list()) - known:
            if name.startswith(CUSTOM):
                del ops.gradient_registry._registry[name]
