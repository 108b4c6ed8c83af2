"""Micro-batches of a batch, and the sums of what they give."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.training.metric_sums import Sums
from bert_tf.training.task import Batch

Gradients = list[tf.Tensor | None]  # None if the loss does not depend on a weight


def to_dense(gradient: Any) -> tf.Tensor | None:
    """A gradient that may be sparse, or missing, as a tensor."""
    return None if gradient is None else tf.convert_to_tensor(gradient)


def split(batch: Batch, seed: tf.Tensor, parts: int) -> Callable[[Any], tuple[Batch, tf.Tensor]]:
    """A function from the number of a micro-batch to its rows and its seed of dropout."""
    if parts == 1:
        return lambda number: (batch, seed)
    split = {name: tf.reshape(x, [parts, x.shape[0] // parts, *x.shape[1:]]) for name, x in batch.items()}
    fold_in = tf.random.experimental.stateless_fold_in
    return lambda number: ({name: x[number] for name, x in split.items()}, fold_in(seed, number))


def sum_over(parts: int, on_part: Callable[[Any], tuple[Sums, Gradients]]) -> tuple[Sums, Gradients]:
    """The sums of what micro-batches give, one after the other."""
    metrics, gradients = on_part(0)
    dense = [gradient for gradient in gradients if gradient is not None]

    def add(number: tf.Tensor, metrics: Sums, dense: Gradients) -> tuple[Any, ...]:
        more_metrics, more = on_part(number)
        more = [gradient for gradient in more if gradient is not None]
        return number + 1, *tf.nest.map_structure(tf.add, (metrics, dense), (more_metrics, more))

    if parts > 1:
        _, metrics, dense = tf.while_loop(lambda number, *_: number < parts, add, (1, metrics, dense))
    return metrics, fill_in(dense, gradients)


def fill_in(dense: Sequence[tf.Tensor], gradients: Gradients) -> Gradients:
    """The dense gradients, with None if `gradients` has None."""
    remaining = iter(dense)
    return [None if gradient is None else next(remaining) for gradient in gradients]
