"""A new head on the encoder of a checkpoint, or the checkpoint's own head if it fits."""

import dataclasses
from collections.abc import Sequence

from bert_tf import heads
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError, count_text, listed
from bert_tf.heads.base.head import Head
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import MultiLabel
from bert_tf.heads.regression import Regression

Labels = Sequence[str] | int  # the names of a head's outputs, or their number
PARTS = ("classifier", "span")  # prefixes of the weight names of task heads
UNNAMED = "LABEL_"  # prefix of Hugging Face labels without names


def with_head(
    checkpoint: Checkpoint, path: str, labels: Labels | None, kind: str | None, *, replaces: bool = False
) -> Checkpoint:
    """The checkpoint with a head of these labels and this kind: its own if it has one, otherwise a new one.

    Args:
        checkpoint: the checkpoint, with its weights.
        path: the path for messages.
        labels: the names of the outputs in their order, or their number; None for a head without labels.
        kind: a name in `bert_tf.heads`; None: the kind of the checkpoint's head, otherwise "classes".
        replaces: whether the head is new even if the checkpoint has one.

    Raises:
        UserError: the kind is unknown, labels do not fit it, or the checkpoint has a head that does not fit.
    """
    own = heads.of_checkpoint(checkpoint.kind, checkpoint.weights)
    if own is not None and own.weights not in PARTS:
        own = None
    known = [name for name, each in heads.known().items() if each.weights in PARTS]
    if kind is not None and kind not in known and "." not in kind:
        raise UserError(f"kind is {kind!r}; expected one of {', '.join(known)}.")
    head = heads.get(kind) if kind else own or Classes
    if own is not None and not replaces:
        return _with_own_head(checkpoint, path, own, head, labels)
    names = None if labels is None or isinstance(labels, int) else list(labels)
    weights = {name: array for name, array in checkpoint.weights.items() if name.startswith("encoder/")}
    return dataclasses.replace(
        checkpoint,
        weights=weights,
        labels=names,
        kind=head.kind,
        answers={},
        new_head=_size(head, labels),
        sentence_vectors=None,
        left_out=(),
    )


def _size(head: type[Head], labels: Labels | None) -> int:
    """The number of outputs of a new head; UserError for labels that do not fit it."""
    if not head.is_labelled:
        if labels is not None:
            raise UserError(f"labels is {labels!r}, but a head of the kind {head.kind} has none: remove labels.")
        return 1
    if labels is None:
        raise UserError(f"A new head of the kind {head.kind} needs labels: pass their names, or their number.")
    size = labels if isinstance(labels, int) else len(labels)
    if size == 1 and head is Classes:
        raise UserError(
            f"labels is {labels!r}; expected two classes or more. Pass kind={Regression.kind!r} for a number, or "
            f"kind={MultiLabel.kind!r} for a label that is present or absent."
        )
    return size


def _with_own_head(
    checkpoint: Checkpoint, path: str, own: type[Head], head: type[Head], labels: Labels | None
) -> Checkpoint:
    """The checkpoint with its own head, whose labels may get names; UserError if a different one was requested."""
    advice = "remove {}, or pass new_head=True to replace the head by one with random weights"
    is_unsaid = checkpoint.kind is None and {own, head} <= {Classes, MultiLabel}  # their weights have the same shapes
    if head.kind != own.kind and not is_unsaid:
        raise UserError(f"The head in {path} is of the kind {own.kind}, not {head.kind}: {advice.format('kind')}.")
    if labels is None:
        return dataclasses.replace(checkpoint, kind=head.kind)
    if not own.is_labelled:
        raise UserError(f"The head in {path} is of the kind {own.kind} without labels: {advice.format('labels')}.")
    size, named = len(checkpoint.weights["classifier/bias"]), checkpoint.labels or []
    has_names = any(not label.startswith(UNNAMED) for label in named)
    given = labels if isinstance(labels, int) else len(labels)
    theirs = f" ({listed(named)})" if has_names else ""
    if given != size:
        raise UserError(
            f"The head in {path} has {count_text(size, 'label')}{theirs}, and labels has {given}: "
            f"{advice.format('labels')}."
        )
    if isinstance(labels, int):
        return dataclasses.replace(checkpoint, kind=head.kind)
    if has_names and list(labels) != named:
        raise UserError(
            f"The head in {path} has other labels, in this order: {listed(named)}. To use it, "
            f"{advice.format('labels')}."
        )
    return dataclasses.replace(checkpoint, kind=head.kind, labels=list(labels))
