"""Rows: the examples of a split as rows of tokens, ready for batches.

B rows of a batch, n examples.
"""

from __future__ import annotations

import abc
import functools
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.data import pipeline
from bert_tf.data.examples import Example
from bert_tf.data.preprocessed_examples import ReadyRows
from bert_tf.heads.base import text_lengths
from bert_tf.runtime.lazy import tf


class Rows(abc.ABC):
    """Examples of a split as a head sees them.

    Attributes:
        count: rows of an epoch.
        is_known: whether their labels are known.
        examples: the examples as texts, for display.
        stored: the file of preprocessed examples they were read from; None if they come from texts.
    """

    count: int
    is_known: bool
    examples: Sequence[Example] = ()
    stored: ReadyRows | None = None

    @abc.abstractmethod
    def describe(self, name: str) -> list[str]:
        """Describes the split of that name for people: its size, its labels, warnings."""

    @abc.abstractmethod
    def statistics(self) -> dict[str, Any]:
        """{name: number} for the report."""

    @abc.abstractmethod
    def batches(self, batch_size: int, *, seed: int | None = None, by_length: bool = False) -> tf.data.Dataset:
        """Batches whose tensors have static shapes [B, ...], with "row_numbers" [B]: 1, 2, ..., 0 for padding.

        With a seed: endless, in a new order every epoch; without: one pass in order. The state of an iterator is one
        number. by_length: batch rows of similar length.
        """

    @property
    def items(self) -> Sequence[Any]:
        """The examples, questions or sentences in the form that `Head.evaluate` takes."""
        return self.examples

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of texts and labels: another one after any change."""
        total = self.stored.checksum if self.stored else 0
        for each in self.items:
            content = (each.texts, each.label) if isinstance(each, Example) else each
            total = zlib.crc32(repr(content).encode("utf-8", "replace"), total)
        return f"{total:08x}"

    def extras(self) -> dict[str, np.ndarray]:
        """Additional features of preprocessed examples, arrays [n, ...]."""
        return {}

    def shown(self, count: int) -> list[Example]:
        """Some examples, spread evenly over the split."""
        return list(self.examples[:: -(-len(self.examples) // count)])


class StoredRows(Rows):
    """Preprocessed examples to train on."""

    is_known = True
    stored: ReadyRows

    def __init__(self, stored: ReadyRows, max_seq_length: int) -> None:
        self.stored, self.count, self._max_seq_length = stored, stored.count, max_seq_length

    def describe(self, name: str) -> list[str]:
        path, longest = self.stored.path, self.stored.lengths.max()
        return [f"{name}: {self.count:,} preprocessed examples of {path}, the longest of {longest} tokens."]

    def statistics(self) -> dict[str, Any]:
        return text_lengths.statistics(self.stored.lengths, self._max_seq_length)

    def batches(self, batch_size: int, *, seed: int | None = None, by_length: bool = False) -> tf.data.Dataset:

        def batch_of(numbers: tf.Tensor) -> dict[str, tf.Tensor]:
            weights = tf.ones_like(numbers, tf.float32)
            return {
                **self.stored.gather(numbers),
                "row_weights": weights,
                "row_numbers": tf.cast(numbers + 1, tf.int32),
            }

        lengths = self.stored.lengths if by_length else None
        return pipeline.indexed_batches(self.count, batch_size, batch_of, seed=seed, lengths=lengths)
