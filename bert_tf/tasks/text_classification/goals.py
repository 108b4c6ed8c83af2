"""What a task wants to know of texts: one of several classes, several labels, a number, or which choice is right.

B rows, C classes or choices, T = max_seq_length slots, F texts of an example, n examples.

A goal has `model`, `size` (numbers of its head for a row), the loss of its outputs, what it answers, how the words of a
label column become numbers, and the names of its scores and of those that can decide which model is best (`criteria`).
"""

import functools
import math

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.model import heads
from bert_tf.tasks.text_classification.text_windows import pack_windows
from bert_tf.text.tokenizer import pack


class Classes:
    """One of several classes; `labels` are their names, in the order of the logits."""

    kind = "class"  # what a checkpoint says of its head
    measure, scores = "cross_entropy", ("accuracy", "macro_f1")
    missing = (None, "")  # what a label column says where there is no label

    def __init__(self, labels):
        self.labels = tuple(labels)
        self.size = len(self.labels)
        if len(self.labels) < 2 or len(set(self.labels)) < len(self.labels):
            raise UserError(f"The labels are {', '.join(self.labels) or 'none'}; expected two or more different ones.")
        self.model = functools.partial(heads.Classifier, size=len(self.labels))

    @property
    def criteria(self):
        """The scores that can decide which model is best."""
        return (*self.scores, "matthews", *(("f1",) if self.size == 2 else ()))

    def number(self, example):
        """The number of an example's label; UserError with its place where the label is none of ours."""
        label = as_text(example.label)
        if label not in self.labels:
            raise UserError(
                f"In {example.location} the label is {label!r}; expected one of {_shortened(self.labels)}, "
                "which are the labels of the training data."
            )
        return self.labels.index(label)

    def truth(self, examples):
        """Class numbers, int32 [n]."""
        return np.array([self.number(example) for example in examples], np.int32)

    def unknown(self, count):
        """What stands in the place of a truth that nobody knows."""
        return np.zeros(count, np.int32)

    def weights(self, truth):
        """float32 [n] that let every class count alike: n / (C * how often the class occurs)."""
        counts = np.bincount(truth, minlength=len(self.labels))
        return (len(truth) / len(self.labels) / np.maximum(counts, 1))[truth].astype(np.float32)

    def inputs(self, tokenizer, texts, max_seq_length, windows=None):
        """String [B, F] -> what `text.pack` makes of them, or `windows.pack_windows` where windows are wanted."""
        segments = tf.unstack(texts, axis=1)
        if windows is None:
            return pack(tokenizer, segments, max_seq_length)
        return pack_windows(tokenizer, segments, max_seq_length, windows)

    def loss(self, outputs, truth):  # -> float32 [B]
        return tf.nn.sparse_softmax_cross_entropy_with_logits(truth, outputs["logits"])

    def right(self, outputs, truth):  # -> float32 [B]
        """1 where the guess is right, for the log; None where there is no such thing."""
        return tf.cast(tf.equal(tf.argmax(outputs["logits"], -1, tf.int32), truth), tf.float32)

    def answers(self, outputs):
        """What is kept of the outputs, and served: "logits" and "probabilities" [B, C]."""
        return {"logits": outputs["logits"], "probabilities": tf.nn.softmax(outputs["logits"])}

    def guesses(self, answers):
        """Class numbers [n] of answers as arrays."""
        return answers["logits"].argmax(-1)

    def named(self, guesses):
        """The guesses as the label column would write them, list of n."""
        return [self.labels[guess] for guess in guesses]

    def served(self, answers):
        """The answers as strings, by tensors: {"label": string [B]}."""
        return {"label": tf.gather(tf.constant(self.labels), tf.argmax(answers["logits"], -1))}


class Labels(Classes):
    """Any number of several labels: each holds or does not, by itself. A cell has them with `separator` in between.

    thresholds: the probability above which a label holds, one for all or one for each.
    """

    kind = "several"
    measure, scores = "binary_cross_entropy", ("micro_f1", "macro_f1", "accuracy")
    criteria = scores
    missing = (None,)

    def __init__(self, labels, separator=",", thresholds=0.5):
        super().__init__(labels)
        self.separator = separator
        self.thresholds = np.full(self.size, thresholds, np.float32)

    def truth(self, examples):
        """float32 [n, C], 1 where a label holds."""
        table = np.zeros((len(examples), len(self.labels)), np.float32)
        for row, example in enumerate(examples):
            for label in parted(example.label, self.separator):
                if label not in self.labels:
                    raise UserError(
                        f"In {example.location} there is the label {label!r}; expected some of "
                        f"{_shortened(self.labels)}, which are the labels of the training data."
                    )
                table[row, self.labels.index(label)] = 1
        return table

    def unknown(self, count):
        return np.zeros((count, len(self.labels)), np.float32)

    def weights(self, truth):
        raise UserError("class_weights=balanced goes with one class for each text; leave it out for several labels.")

    def loss(self, outputs, truth):  # mean over the labels -> float32 [B]
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(truth, outputs["logits"]), -1)

    def right(self, outputs, truth):
        holds = tf.cast(tf.sigmoid(outputs["logits"]) > self.thresholds, tf.float32)
        return tf.cast(tf.reduce_all(tf.equal(holds, truth), -1), tf.float32)

    def answers(self, outputs):
        return {"logits": outputs["logits"], "probabilities": tf.sigmoid(outputs["logits"])}

    def guesses(self, answers):  # 0 and 1 [n, C]
        return (answers["probabilities"] > self.thresholds).astype(np.int32)

    def named(self, guesses):
        return [self.separator.join(np.array(self.labels)[row > 0]) for row in guesses]

    def served(self, answers):
        names = tf.where(answers["probabilities"] > self.thresholds, tf.constant(self.labels), "")  # [B, C]
        joined = tf.strings.reduce_join(names, -1, separator=self.separator)
        repeated = tf.strings.regex_replace(joined, f"({_escaped(self.separator)})+", self.separator)
        ends = f"^{_escaped(self.separator)}|{_escaped(self.separator)}$"
        return {"label": tf.strings.regex_replace(repeated, ends, "")}


class Number:
    """A number, learned by squared error and not squashed; GLUE's STS-B from 0 to 5."""

    kind, size = "number", 1
    measure, scores, labels = "squared_error", ("pearson", "spearman", "mean_squared_error"), ()
    criteria = ("pearson", "spearman")
    missing = Classes.missing
    model = heads.Regressor
    inputs = Classes.inputs

    def truth(self, examples):
        """float32 [n]."""
        return np.array([self.number(example) for example in examples], np.float32)

    def number(self, example):
        """The label as a number; UserError with its place where it is none."""
        try:
            number = float(example.label)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise UserError(f"In {example.location} the label is {example.label!r}; expected a number.")
        return number

    def unknown(self, count):
        return np.zeros(count, np.float32)

    def weights(self, truth):
        raise UserError("class_weights=balanced was given for numbers; leave it out.")

    def loss(self, outputs, truth):  # -> float32 [B]
        return tf.math.squared_difference(outputs["values"], truth)

    def right(self, outputs, truth):
        return None

    def answers(self, outputs):
        return {"values": outputs["values"]}

    def guesses(self, answers):
        return answers["values"]

    def named(self, guesses):
        return [f"{guess:.3f}" for guess in guesses]

    def served(self, answers):
        return {}


class Choice(Classes):
    """Which of C texts goes on from the first: texts are (first, choice 0, choice 1, ...), the label is a number.

    Rows [CLS] first [SEP] choice [SEP] are encoded each by itself (Devlin et al. 2018, section 4.4).
    """

    kind = "choice"
    scores = criteria = ("accuracy",)

    def __init__(self, count):
        super().__init__(map(str, range(count)))
        self.size = 1
        self.model = heads.MultipleChoice

    def inputs(self, tokenizer, texts, max_seq_length, windows=None):  # string [B, 1 + C] -> [B, C, T], lengths [B, C]
        count = len(self.labels)
        first = tf.reshape(tf.repeat(texts[:, :1], count, axis=1), [-1])  # [B * C]
        packed = pack(tokenizer, [first, tf.reshape(texts[:, 1:], [-1])], max_seq_length)
        return {name: tf.reshape(x, [-1, count, *x.shape[1:]]) for name, x in packed.items()}


def as_text(label):
    """A label of any table as text without space around: 1, 1.0 and "1" of JSON are one label, true is "true".

    None stays None.
    """
    if isinstance(label, bool):
        return str(label).lower()
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return label if label is None else str(label).strip()


def parted(label, separator):
    """The labels of a cell: a list in JSON, else a text with separators; none in an empty one."""
    if isinstance(label, list):
        return [as_text(part) for part in label]
    return [part.strip() for part in (as_text(label) or "").split(separator) if part.strip()]


def given_threshold(text):
    """The number that label_threshold gives; None where it says to look for the best, or nothing.

    Raises UserError for anything else.
    """
    if text in ("", "best"):
        return None
    try:
        threshold = float(text)
    except ValueError:
        threshold = math.nan
    if not 0 < threshold < 1:
        raise UserError(f"label_threshold is {text}; expected a number between 0 and 1, or best.")
    return threshold


def _escaped(text):
    return "".join(rf"\x{{{ord(character):x}}}" for character in text)


def _shortened(labels, most=12):
    return ", ".join(labels[:most]) + (f" and {len(labels) - most} more" if len(labels) > most else "")
