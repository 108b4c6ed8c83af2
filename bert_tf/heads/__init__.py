"""Heads: one module for each kind of head, from an example's label to the answer shown to people.

The modules here are plugins (`runtime.plugins`): each ends in `HEAD`, a subclass of `base.head.Head`, whose `kind`
is the name of the module. Checkpoints, exports, flags, reports and the server know kinds only by these names. None of
them loads TensorFlow before computing something.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping

from bert_tf.errors import UserError
from bert_tf.heads.base.head import Head
from bert_tf.heads.base.text_head import INPUTS, TextHead
from bert_tf.model.weights import BETWEEN
from bert_tf.runtime import plugins

PARTS = ("replaced_token", "masked_lm", "span", "classifier")  # of weight names: the first match counts


@functools.cache
def get(kind: str) -> type[Head]:
    """The head of a module here, or of an external module by its dotted name: "my_lab.stars".

    Raises UserError for an unknown name, and for an untrusted external module, because files name kinds, too.
    """
    plugins.check_trusted(kind, "The model")
    module = plugins.load(__name__, kind, kind="kind of head")
    if not hasattr(module, "HEAD"):
        raise UserError(f"{kind} has no HEAD; a module with a head ends in HEAD = the class.")
    head: type[Head] = module.HEAD
    return head


def shown(kind: str | None) -> type[Head]:
    """The head that cards and pages describe: masked LM for None, and classes for an untrusted kind."""
    try:
        return get(kind or "masked_lm")
    except UserError:
        return get("classes")


def of_texts(kind: str) -> type[TextHead]:
    """The head of this kind; UserError unless it reads text vectors."""
    head = get(kind)
    if not issubclass(head, TextHead):
        raise UserError(f"{kind} is not a head for labels of texts; expected one of {', '.join(text_kinds())}.")
    return head


def text_kinds() -> tuple[str, ...]:
    """The kinds whose heads read text vectors."""
    return tuple(kind for kind, head in known().items() if issubclass(head, TextHead))


def text_counts(kind: str | None) -> tuple[int, ...]:
    """The allowed numbers of texts in an example, for a kind of this package; () for choices and other inputs."""
    inputs = known()[kind].signature_inputs if kind in text_kinds() else ()
    return tuple(len(names) for names in inputs if names <= set(INPUTS))


@functools.cache
def known() -> Mapping[str, type[Head]]:
    """{kind: head} of this package."""
    return {name: get(name) for name in plugins.names(__name__)}


def kinds(attribute: str) -> tuple[str, ...]:
    """The kinds whose heads have this attribute set, such as "is_labelled"."""
    return tuple(kind for kind, head in known().items() if getattr(head, attribute))


def of_signature(inputs: Collection[str] | None, outputs: Collection[str]) -> type[Head] | None:
    """The head that answers a signature with these tensors, for an export that does not name its kind.

    inputs: None if they do not matter. Returns None if no head has these outputs.
    """
    found = [head for head in known().values() if head.answers_signature(inputs, outputs)]
    return max(found, key=lambda head: len(head.signature_outputs), default=None)


def of_checkpoint(kind: str | None, weights: Collection[str]) -> type[Head] | None:
    """The head of a checkpoint with these weight names; kind: as recorded in it; None if it has no head."""
    parts = {name.split("/")[0] for name in weights}
    part = next((each for each in PARTS if each in parts), None)
    if part == "classifier":
        return None if any(name.startswith(BETWEEN) for name in weights) else get(kind or "classes")
    return next((head for head in known().values() if head.weights == part), None)
