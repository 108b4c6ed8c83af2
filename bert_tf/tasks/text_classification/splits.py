"""A split: its examples as arrays, and what is worth saying of them before hours of training.

n examples, F texts of an example, C classes.
"""

import numpy as np

from bert_tf.errors import UserError
from bert_tf.tasks import text_lengths
from bert_tf.tasks.text_classification.goals import Choice, Classes, Labels
from bert_tf.tasks.text_classification.text_windows import describe, token_counts

MOST_CLASSES = 12  # whose shares are said
UNBALANCED = 0.9  # share of one class from which a score can be high and worth nothing


class Split:
    """The examples of a split, and as arrays their texts (string [n, F]), truth [n, ...] and loss weights float32 [n].

    `is_known` says whether they have labels; without them the weights are 0. UserError where only some have.
    """

    def __init__(self, examples, goal, *, balanced=False):
        missing = [example for example in examples if example.label in goal.missing]
        if missing and len(missing) < len(examples):
            raise UserError(
                f"There is no label in {missing[0].location}, but in other rows: give every row one, or none."
            )
        self.examples, self.count, self.is_known = examples, len(examples), not missing
        self.texts = np.array([example.texts for example in examples], object)
        self.truth = goal.truth(examples) if self.is_known else goal.unknown(len(examples))
        self.weights = np.full(len(examples), float(self.is_known), np.float32)
        if balanced:
            self.weights = goal.weights(self.truth)
        self.pieces = None

    def piece_counts(self, goal, tokenizer):
        """How many pieces the texts of a row have, int32 [n, F]; of a choice, the first text and the longest choice."""
        if self.pieces is None:
            counts = token_counts(tokenizer, self.texts)
            self.pieces = np.stack([counts[:, 0], counts[:, 1:].max(1)], 1) if isinstance(goal, Choice) else counts
        return self.pieces


def statistics(split, goal, tokenizer, *, max_seq_length):
    """How long the texts of a Split are, in pieces with [CLS] and [SEP], as {name: number} for the report."""
    counts = split.piece_counts(goal, tokenizer)
    sizes = counts.sum(1) + 1 + counts.shape[1]  # [n]
    return {"examples": len(sizes), **text_lengths.statistics(sizes, max_seq_length)}


def described(name, split, goal, tokenizer, *, max_seq_length, windows=None):
    """What there is, and warnings: a list of sentences on a Split, for people."""
    counts = split.piece_counts(goal, tokenizer)
    said = [f"{len(split.texts):,} examples", describe(counts, max_seq_length, windows)]
    has_classes = split.is_known and isinstance(goal, Classes) and not isinstance(goal, Choice)
    shares = dict(zip(goal.labels, _counts(split.truth, goal) / len(split.texts), strict=True)) if has_classes else {}
    if len(shares) <= MOST_CLASSES:
        said[1:1] = [", ".join(f"{label} {share:.1%}" for label, share in shares.items())] * bool(shares)
    if shares and name != "train" and not isinstance(goal, Labels):
        best = max(shares, key=shares.get)
        said.append(f"who always says {best!r} is right in {shares[best]:.1%}")
    warnings = [*_about_texts(split), *(_about_classes(split, goal) if has_classes and name == "train" else [])]
    return [f"{name}: {'; '.join(said)}.", *(f"Warning: {warning}" for warning in warnings)]


def _counts(truth, goal):
    """How many examples each class (or label) has, [C]."""
    return truth.sum(0) if truth.ndim == 2 else np.bincount(truth, minlength=len(goal.labels))


def _about_texts(split):
    empty = [row for row, texts in enumerate(split.texts) if not all(text.strip() for text in texts)]
    if empty:
        place = split.examples[empty[0]].location
        yield f"{len(empty):,} of {len(split.texts):,} have an empty text, the first in {place}: kept as they are."


def _about_classes(split, goal):
    counts = _counts(split.truth, goal)
    for number, kind in ((0, "no example"), (1, "a single example")):
        labels = [label for label, count in zip(goal.labels, counts, strict=True) if count == number]
        if labels:
            named = ", ".join(map(repr, labels[:MOST_CLASSES]))
            more = f" and {len(labels) - MOST_CLASSES} others" if len(labels) > MOST_CLASSES else ""
            yield f"the training data have {kind} of {named}{more}: that can hardly be learned."
    most = int(counts.argmax())
    if not isinstance(goal, Labels) and counts[most] > UNBALANCED * len(split.texts):
        yield (
            f"{counts[most] / len(split.texts):.1%} of the training data are {goal.labels[most]!r}: who always says so "
            "is right as often. Look at macro_f1, and try class_weights=balanced."
        )
    if len(goal.labels) > max(MOST_CLASSES, len(split.texts) / 2):
        yield (
            f"there are {len(goal.labels):,} classes in {len(split.texts):,} examples: is this the column of labels, "
            "and is it of classes? For numbers give label_type=number."
        )
