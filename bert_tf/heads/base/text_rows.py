"""TextRows: texts, pairs or choices as arrays, with statistics and warnings to read before hours of training.

n examples, F texts of an example, C classes, B rows of a batch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.data import pipeline
from bert_tf.data.examples import Example
from bert_tf.data.preprocessed_examples import ReadyRows
from bert_tf.errors import UserError, count_text, meant
from bert_tf.heads.base import text_lengths, text_windows
from bert_tf.heads.base.rows import Rows
from bert_tf.runtime.lazy import tf
from bert_tf.text.tokenizer import Tokenizer

MAX_CLASSES = 12  # number of classes whose frequencies are shown
FEW = 50  # scores on fewer examples are uncertain
UNBALANCED = 0.9  # frequency of one class above which a high score may be meaningless
TEXTS_AT_ONCE = 4096  # preprocessed examples read together


class TextRows(Rows):
    """The examples of a split as arrays: texts (string [n, F]), labels [n, ...] and loss weights float32 [n].

    Without labels the weights are 0. UserError if only some examples have labels.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        head: Any,
        tokenizer: Tokenizer,
        *,
        class_weights: str = "none",
        stored: ReadyRows | None = None,
    ) -> None:
        """head: a TextHead. class_weights: see its `configured`. stored: rows of the examples, possibly with labels."""
        self.stored, self._head, self._tokenizer = stored, head, tokenizer
        if stored is None and head.loss_settings.list_size > 1:
            self._check_lists(examples)
        missing = [example for example in examples if example.label in head.missing]
        if missing and len(missing) < len(examples):
            raise UserError(
                f"There is no label in {missing[0].location}, unlike in other rows: label every row, or none."
            )
        self.examples, self.count, self.is_known = list(examples), len(examples), not missing
        self.texts = np.array([example.texts for example in examples], object)
        if stored is not None and stored.labels is not None:
            self.is_known, self.labels = stored.is_known, stored.labels
        else:
            self.labels = head.encode(examples) if self.is_known else head.unknown(len(examples))
        self.weights = np.full(len(examples), float(self.is_known), np.float32)
        if class_weights != "none":
            self.weights = head.class_weights(self.labels, class_weights)

    @classmethod
    def of_stored(cls, stored: ReadyRows, head: Any, tokenizer: Tokenizer, *, class_weights: str = "none") -> TextRows:
        """The rows of preprocessed examples; their texts are the tokens, joined."""
        labels = stored.labels
        is_known = stored.is_known and labels is not None
        written = head.names(labels) if labels is not None and is_known else [None] * stored.count
        examples = [
            Example(str(number), texts, label, f"example {number} of {stored.path}")
            for number, (texts, label) in enumerate(zip(_texts_of(stored, head, tokenizer), written, strict=True))
        ]
        stored = stored.with_padding(empty_row(head, tokenizer))
        return cls(examples, head, tokenizer, class_weights=class_weights, stored=stored)

    def _check_lists(self, examples: Sequence[Example]) -> None:
        """Raises UserError, with its position, for a labeled list with several queries."""
        size = self._head.loss_settings.list_size
        for first in range(0, len(examples), size) if examples[0].label not in self._head.missing else ():
            block = examples[first : first + size]
            other = next((each for each in block if each.texts[0] != block[0].texts[0]), None)
            if other or len(block) < size:
                place = f"{other.location} is of another query" if other else f"{block[-1].location} is the last"
                raise UserError(
                    f"The list that begins in {block[0].location} has fewer than list_size={size} rows, {place}. Pass "
                    "a table with that many rows per query, and another one as eval_file."
                )

    @functools.cached_property
    def token_counts(self) -> np.ndarray:
        """Number of tokens of each segment of an example's longest row, int32 [n, segments]."""
        if self.stored is not None:
            counts = self.stored.token_counts  # if the file contains them
            return (self.stored.lengths - 2)[:, None] if counts is None else counts
        counts = self._tokenizer.on_host(self.texts.reshape(-1).tolist())[1]
        counts = self._head.training.token_counts(counts.reshape(self.texts.shape))
        counts[:, 1:] += self._tokenizer.separators - 1  # more than one [SEP] before a segment
        return counts

    def extras(self) -> dict[str, np.ndarray]:
        """The tokens of the texts before truncation, int32 [n, segments]."""
        return {"token_counts": self.token_counts}

    def batches(self, batch_size: int, *, seed: int | None = None, by_length: bool = False) -> tf.data.Dataset:
        """See `Rows`: inputs of the model, "labels" [B, ...] and "row_weights" [B]; rows that pad have weight 0.

        Rows of a list stay together, see `TextHead`.
        """
        count, size = self.count, self._head.loss_settings.list_size
        if seed is not None and batch_size % size:
            raise UserError(f"train_batch_size is {batch_size}; expected a multiple of list_size, {size}.")
        # an empty row after the last one pads the last batch
        texts = tf.constant(np.concatenate([self.texts, np.full_like(self.texts[:1], "")]))  # string [n + 1, F]
        labels = tf.constant(np.concatenate([self.labels, np.zeros_like(self.labels[:1])]))
        weights = tf.constant(np.append(self.weights, np.float32(0)))

        def batch_of(lists: tf.Tensor) -> dict[str, tf.Tensor]:
            rows = tf.reshape(lists[:, None] * size + tf.range(size, dtype=lists.dtype), [-1])
            rows = tf.minimum(rows, count)
            numbers = tf.where(rows < count, rows + 1, 0)
            own = self.stored.gather(rows) if self.stored else None
            return {
                **(own or self._head.training.inputs(self._tokenizer, tf.gather(texts, rows))),
                "labels": tf.gather(labels, rows),
                "row_weights": tf.gather(weights, rows),
                "row_numbers": tf.cast(numbers, tf.int32),
            }

        lengths = self.token_counts.sum(1)[::size] if by_length else None
        lists, batch_size = -(-count // size), max(1, batch_size // size)
        return pipeline.indexed_batches(lists, batch_size, batch_of, seed=seed, lengths=lengths, rows=size)

    def statistics(self) -> dict[str, Any]:
        lengths = self.token_counts.sum(1) + 1 + self.token_counts.shape[1]  # [n], with [CLS] and each [SEP]
        return {"examples": len(lengths), **text_lengths.statistics(lengths, self._head.max_seq_length)}

    def describe(self, name: str) -> list[str]:
        head, count = self._head, self.count
        label_counts = head.label_counts(self.labels) if self.is_known else None
        examples = count_text(count, "example")
        facts = [
            examples,
            text_windows.describe(self.token_counts, head.max_seq_length, head.windows, self._tokenizer.settings),
        ]
        empty = [row for row, texts in enumerate(self.texts) if not all(text.strip() for text in texts)]
        place = f"the first in {self.examples[empty[0]].location}" if empty else ""
        warnings = [f"{len(empty):,} of {count:,} have an empty text, {place}: kept as they are."] if empty else []
        if label_counts is not None:
            frequencies = dict(zip(head.labels, label_counts / count, strict=True))
            if len(frequencies) <= MAX_CLASSES:
                facts.insert(1, ", ".join(f"{label} {frequency:.1%}" for label, frequency in frequencies.items()))
            if name == "train":
                warnings += self._warnings_on_classes(label_counts)
            elif self.labels.ndim == 1:
                best = max(frequencies, key=lambda label: frequencies[label])
                facts.append(f"majority-class baseline: {frequencies[best]:.1%}")
        if name != "train" and label_counts is not None and count < FEW:
            warnings.append(f"scores on {examples} have a margin of about ±{100 / count**0.5:.0f} percentage points.")
        return [f"{name}: {'; '.join(facts)}.", *(f"Warning: {warning}" for warning in warnings)]

    def _warnings_on_classes(self, counts: np.ndarray) -> Iterator[str]:
        names = self._head.labels
        for number, phrase in ((0, "no example"), (1, "a single example")):
            labels = [label for label, count in zip(names, counts, strict=True) if count == number]
            if labels:
                named = ", ".join(map(repr, labels[:MAX_CLASSES]))
                more = f" and {len(labels) - MAX_CLASSES} others" if len(labels) > MAX_CLASSES else ""
                others = [label for label, count in zip(names, counts, strict=True) if count > 1]
                close = meant(labels[0], others, 1) if len(labels) == 1 else ""
                yield f"the training data has {phrase} of {named}{more}: too few to learn from.{close}"
        most = int(counts.argmax())
        if self.labels.ndim == 1 and counts[most] > UNBALANCED * self.count:
            yield (
                f"{counts[most] / self.count:.1%} of the training examples are {names[most]!r}, the accuracy of the "
                "majority-class baseline. Look at macro_f1, and try class_weights=balanced."
            )
        if len(names) > max(MAX_CLASSES, self.count / 2):
            yield (
                f"there are {len(names):,} classes in {self.count:,} examples: is this the label column? For numeric "
                "targets pass label_type=regression."
            )


def empty_row(head: Any, tokenizer: Tokenizer) -> dict[str, tf.Tensor]:
    """The row of empty texts that pads batches, with a label of zeros."""
    inputs = head.training.inputs(tokenizer, tf.fill([1, head.texts], ""))
    return {name: x[0] for name, x in inputs.items()} | {"labels": tf.zeros_like(head.unknown(1)[0])}


def _texts_of(stored: ReadyRows, head: Any, tokenizer: Tokenizer) -> list[tuple[str, ...]]:
    """The texts of preprocessed examples, as far as they can be restored from tokens."""
    texts: list[tuple[str, ...]] = []
    for first in range(0, stored.count, TEXTS_AT_ONCE):
        numbers = tf.range(first, min(first + TEXTS_AT_ONCE, stored.count))
        tokens = stored.gather(numbers)["token_ids"].numpy()
        for example in tokens.reshape(len(tokens), -1, tokens.shape[-1]):
            parts = [_segments(row, tokenizer) for row in example]
            found = [*parts[0][: head.texts], *(part[-1] for part in parts[1:])]
            found += [""] * (head.texts - len(found))
            texts.append(tuple(found[: head.texts]))
    return texts


def _segments(ids: np.ndarray, tokenizer: Tokenizer) -> list[str]:
    """The texts in a row of ids [T]: the parts between [CLS] and the separators."""
    ends = np.flatnonzero(ids == tokenizer.sep_id).tolist()
    starts = [1, *(end + 1 for end in ends)]
    parts = [ids[start:end].tolist() for start, end in zip(starts, ends, strict=False)]
    return list(tokenizer.detokenize(parts[:: tokenizer.separators]))
