"""Frees a run's weights when it ends, because the next run in the same process needs the memory."""

import contextlib
import sys
from collections.abc import Iterator

from bert_tf.runtime.lazy import module

ops = module("tensorflow.python.framework.ops")
CUSTOM = "CustomGradient-"  # prefix of the names registered by `tf.custom_gradient`


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    """Forgets custom gradients traced in the block; its functions cannot be differentiated later.

    TensorFlow registers each permanently under a new name, with its graph and the weights and optimizer moments
    captured there: 450 MB for each fine-tuning of all-MiniLM-L6-v2.
    """
    known = set(ops.gradient_registry.list()) if "tensorflow" in sys.modules else set()  # the block imports it
    try:
        yield
    finally:
        for name in set(ops.gradient_registry.list()) - known:
            if name.startswith(CUSTOM):
                del ops.gradient_registry._registry[name]
