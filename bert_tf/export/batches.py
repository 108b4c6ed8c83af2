"""Predictions for many texts in order: texts of similar length share a batch, and batches are computed in parallel.

B texts in a batch.
"""

import concurrent.futures
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from bert_tf.data.examples import Example
from bert_tf.runtime import stopping

MAX_CHARACTERS = 4 << 20  # in the texts kept in memory at once: 4096 with a thousand each
CHARACTERS_PER_TEXT = 4096  # average in a batch: bounds the memory for long texts
MAX_PARALLEL_BATCHES = 4  # on as many cores; measured with two


class BatchFunction(Protocol):
    """Anything that computes outputs for a batch of examples."""

    def predict(self, examples: Sequence[Example]) -> dict[str, Any]:
        """{name: sequence of B values} for each output."""


def predict_in_order(
    predictor: BatchFunction, examples: Iterable[Example], *, batch_size: int, window: int
) -> Iterator[tuple[Example, dict[str, Any]]]:
    """Yields (example, {name: its value of the output}) in the order of the examples.

    Texts of similar length share a batch, so short ones are not padded to the length of long ones; long batches come
    first.

    Args:
        predictor: a Predictor, for instance.
        examples: the examples; not all are kept in memory at once.
        batch_size: examples in a batch, fewer if their texts are longer than CHARACTERS_PER_TEXT on average.
        window: examples to keep in memory at once, fewer if their texts exceed MAX_CHARACTERS.
    """
    threads = concurrent.futures.ThreadPoolExecutor(parallel_batches())
    predict = stopping.inherited(predictor.predict)
    try:
        for chunk in _chunks(examples, window):
            lengths = [_length(*example.texts) for example in chunk]
            order = sorted(range(len(chunk)), key=lengths.__getitem__, reverse=True)
            batches = _batches(order, lengths, batch_size)
            results: dict[int, dict[str, Any]] = {}
            outputs_of = threads.map(predict, ([chunk[index] for index in batch] for batch in batches))
            for batch, outputs in zip(batches, outputs_of, strict=True):
                for row, index in enumerate(batch):
                    results[index] = {name: values[row] for name, values in outputs.items()}
            yield from ((example, results[index]) for index, example in enumerate(chunk))
    finally:
        threads.shutdown(cancel_futures=True)


def parallel_batches() -> int:
    """The number of batches to compute in parallel: a single one leaves cores idle between its operations."""
    return min(MAX_PARALLEL_BATCHES, os.cpu_count() or 1)


def _length(first: str = "", *others: str) -> int:
    """Characters in a row of the model: both texts of a pair, or a first text and the longest choice."""
    return len(first) + max(map(len, others), default=0)


def _batches(order: Sequence[int], lengths: Sequence[int], size: int) -> list[list[int]]:
    """Splits `order` into batches of at most `size` texts and `size` * CHARACTERS_PER_TEXT characters, or one text."""
    batches: list[list[int]] = []
    characters = 0
    for index in order:
        characters += lengths[index]
        if not batches or len(batches[-1]) == size or characters > size * CHARACTERS_PER_TEXT:
            batches.append([])
            characters = lengths[index]
        batches[-1].append(index)
    return batches


def _chunks(examples: Iterable[Example], size: int) -> Iterator[list[Example]]:
    chunk: list[Example] = []
    characters = 0
    for example in examples:
        chunk.append(example)
        characters += sum(map(len, example.texts))
        if len(chunk) == size or characters >= MAX_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
