"""A split: its examples as arrays, and sentences on it that are worth reading before hours of training.

n examples, F texts of an example, C classes, B rows of a batch.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.data import pipeline
from bert_tf.data.examples import Example
from bert_tf.data.ready_examples import ReadyRows
from bert_tf.errors import UserError
from bert_tf.heads.base import text_windows
from bert_tf.heads.base.text_head import TextHead
from bert_tf.heads.base.text_windows import Windows
from bert_tf.tasks import text_lengths
from bert_tf.text.tokenizer import Tokenizer

MAX_CLASSES = 12  # whose frequencies are shown
FEW = 50  # examples on which scores are uncertain
UNBALANCED = 0.9  # frequency of one class above which a high score may mean nothing


class Split:
    """The examples of a split as arrays: texts (string [n, F]), labels [n, ...] and loss weights float32 [n].

    `is_known` says whether they have labels; without them the weights are 0. UserError where only some have.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        head: TextHead,
        *,
        class_weights: str = "none",
        ready: ReadyRows | None = None,
    ) -> None:
        """class_weights: "none", or see `TextHead.class_weights`. ready: the rows of the examples, with labels."""
        self.ready = ready
        missing = [example for example in examples if example.label in head.missing]
        if missing and len(missing) < len(examples):
            raise UserError(
                f"There is no label in {missing[0].location}, but in other rows: give every row one, or none."
            )
        self.examples, self.count, self.is_known = list(examples), len(examples), not missing
        self.texts = np.array([example.texts for example in examples], object)
        if ready is not None and ready.labels is not None:
            self.is_known, self.labels = ready.is_known, ready.labels
        else:
            self.labels = head.encode(examples) if self.is_known else head.unknown(len(examples))
        self.weights = np.full(len(examples), float(self.is_known), np.float32)
        if class_weights != "none":
            self.weights = head.class_weights(self.labels, class_weights)
        self._token_counts: np.ndarray | None = None

    def token_counts(self, head: TextHead, tokenizer: Tokenizer) -> np.ndarray:
        """Number of tokens of each segment of an example's longest row, int32 [n, segments]."""
        if self._token_counts is None and self.ready is not None:
            lengths = (self.ready.lengths - 2)[:, None]  # where the file does not have them
            self._token_counts = lengths if self.ready.token_counts is None else self.ready.token_counts
        if self._token_counts is None:
            self._token_counts = head.token_counts(text_windows.token_counts(tokenizer, self.texts))
            self._token_counts[:, 1:] += tokenizer.separators - 1  # more than one [SEP] before a segment
        return self._token_counts


def batches(
    split: Split,
    batch_size: int,
    inputs: Callable[[tf.Tensor], dict[str, tf.Tensor]],
    *,
    seed: int | None = None,
    lengths: np.ndarray | None = None,
) -> tf.data.Dataset:
    """Batches of a Split: inputs(texts [B, F]), "labels" [B, ...], "row_weights" and "row_numbers" [B].

    With a seed endless, in a new order every epoch; without one a pass in order, the last batch padded with rows of
    number and weight 0. Every tensor has a static first dimension. The state of an iterator is one number.
    lengths: of the examples, int [n], to batch those of like length.
    """
    count = len(split.texts)
    # an empty row after the last one pads the last batch
    texts = tf.constant(np.concatenate([split.texts, np.full_like(split.texts[:1], "")]))  # string [n + 1, F]
    labels = tf.constant(np.concatenate([split.labels, np.zeros_like(split.labels[:1])]))
    weights = tf.constant(np.append(split.weights, np.float32(0)))

    def batch_of(rows: tf.Tensor) -> dict[str, tf.Tensor]:
        numbers = tf.where(rows < count, rows + 1, 0)
        return {
            **(split.ready.gather(rows) if split.ready else inputs(tf.gather(texts, rows))),
            "labels": tf.gather(labels, rows),
            "row_weights": tf.gather(weights, rows),
            "row_numbers": tf.cast(numbers, tf.int32),
        }

    return pipeline.indexed_batches(count, batch_size, batch_of, seed=seed, lengths=lengths)


def statistics(counts: np.ndarray, max_seq_length: int) -> dict[str, Any]:
    """{name: number} for the report on the lengths of rows. counts: those of `Split.token_counts`."""
    lengths = counts.sum(1) + 1 + counts.shape[1]  # [n], with [CLS] and each [SEP]
    return {"examples": len(lengths), **text_lengths.statistics(lengths, max_seq_length)}


def describe(
    name: str, split: Split, head: TextHead, counts: np.ndarray, max_seq_length: int, windows: Windows | None = None
) -> list[str]:
    """Sentences on a Split for people: its size, its classes, and warnings. counts: those of `Split.token_counts`."""
    label_counts = head.label_counts(split.labels) if split.is_known else None
    facts = [f"{len(split.texts):,} examples", text_windows.describe(counts, max_seq_length, windows)]
    warnings = list(_warnings_on_texts(split))
    if label_counts is not None:
        frequencies = dict(zip(head.labels, label_counts / len(split.texts), strict=True))
        if len(frequencies) <= MAX_CLASSES:
            facts.insert(1, ", ".join(f"{label} {frequency:.1%}" for label, frequency in frequencies.items()))
        if name == "train":
            warnings += _warnings_on_classes(split, head, label_counts)
        elif split.labels.ndim == 1:
            best = max(frequencies, key=lambda label: frequencies[label])
            facts.append(f"always answering {best!r} is right in {frequencies[best]:.1%}")
    if name != "train" and label_counts is not None and split.count < FEW:
        warnings.append(
            f"scores on {split.count:,} examples are uncertain by about {100 / split.count**0.5:.0f} percentage points."
        )
    return [f"{name}: {'; '.join(facts)}.", *(f"Warning: {warning}" for warning in warnings)]


def _warnings_on_texts(split: Split) -> Iterator[str]:
    empty = [row for row, texts in enumerate(split.texts) if not all(text.strip() for text in texts)]
    if empty:
        place = split.examples[empty[0]].location
        yield f"{len(empty):,} of {len(split.texts):,} have an empty text, the first in {place}: kept as they are."


def _warnings_on_classes(split: Split, head: TextHead, counts: np.ndarray) -> Iterator[str]:
    for number, phrase in ((0, "no example"), (1, "a single example")):
        labels = [label for label, count in zip(head.labels, counts, strict=True) if count == number]
        if labels:
            named = ", ".join(map(repr, labels[:MAX_CLASSES]))
            more = f" and {len(labels) - MAX_CLASSES} others" if len(labels) > MAX_CLASSES else ""
            yield f"the training data have {phrase} of {named}{more}: that can hardly be learned."
    most = int(counts.argmax())
    if split.labels.ndim == 1 and counts[most] > UNBALANCED * len(split.texts):
        yield (
            f"{counts[most] / len(split.texts):.1%} of the training data are {head.labels[most]!r}: always answering "
            "it is right as often. Look at macro_f1, and try class_weights=balanced."
        )
    if len(head.labels) > max(MAX_CLASSES, len(split.texts) / 2):
        yield (
            f"there are {len(head.labels):,} classes in {len(split.texts):,} examples: is this the column of labels, "
            "and is it of classes? For numbers give label_type=regression."
        )
