"""A checkpoint, a run or an export as a Keras model with its tokenizer."""

import bert_tf.model.started  # noqa: F401  # isort: skip

import dataclasses
import functools
import logging
import os
from collections.abc import Sequence
from typing import Any

from bert_tf import heads
from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint, check_rows_for_tokens
from bert_tf.checkpoints.formats import native
from bert_tf.checkpoints.new_heads import Labels, with_head
from bert_tf.errors import UserError
from bert_tf.heads.replaced_tokens import ReplacedTokens
from bert_tf.heads.tags import Tags
from bert_tf.heads.vectors import Vectors
from bert_tf.model import weights
from bert_tf.model.heads import BertModel, Pretrainer, of_head
from bert_tf.model.replaced_tokens import Discriminator, ReplacedTokenModel, is_generator
from bert_tf.text import special_tokens

POOLER = "encoder/pooler/"
OPTIONAL = (POOLER, "next_sentence/")  # weights that third-party checkpoints omit if they were not trained
MAX_SHOWN = 12  # names in a warning


def load(
    path: str | os.PathLike[str],
    format_name: str | None = None,
    *,
    special_tokens_in_strings: bool | Sequence[str] | None = None,
    segments: str | None = None,
    labels: Labels | None = None,
    kind: str | None = None,
    new_head: bool = False,
) -> Checkpoint:
    """Reads any checkpoint that `bert-tf convert` takes, a run folder or an export, into a Keras model.

    The class of the model follows from the head: Classifier, Regressor, MultipleChoice, SpanFinder, TokenClassifier,
    Pretrainer for a masked LM head, or Discriminator for an ELECTRA's. Without a head, and for a tagger on frozen
    vectors, it is a BertModel, which has an encoder and returns its outputs. Unknown casing means lower case.

    Args:
        path: a folder, a prefix of files, "hf://owner/name" or the name of a KerasHub preset.
        format_name: the format; by default the one that recognizes the path.
        special_tokens_in_strings: as in Tokenizer, where True includes the tokens that the checkpoint adds; None: as
            specified in the checkpoint.
        segments: "one" or "two", for the texts of a pair; None: as specified in the checkpoint.
        labels: the head's labels, see `new_heads.with_head`; without labels and kind, the head is the checkpoint's.
        kind: the head's kind.
        new_head: whether to replace a head that the checkpoint has.

    Raises:
        UserError: no format recognizes the path, a file is damaged, a weight of the encoder or head does not have the
            shape given in the configuration, or one is missing that the head depends on.
    """
    checkpoint = formats.read(path, format_name, segments=segments)
    check_rows_for_tokens(checkpoint, path)
    if labels is not None or kind is not None:
        checkpoint = with_head(checkpoint, os.fspath(path), labels, kind, replaces=new_head)
    elif new_head:
        raise UserError("new_head needs the labels of the head, or its kind: pass labels or kind.")
    model = model_of(checkpoint)
    report = weights.assign(model, checkpoint.weights)
    _check_complete(os.fspath(path), model, report, is_new=bool(checkpoint.new_head))
    if special_tokens_in_strings is True:
        special_tokens_in_strings = special_tokens.parse(
            special_tokens.ALL, checkpoint.special_tokens, checkpoint.added_tokens
        )
    if special_tokens_in_strings is not None:
        checkpoint = dataclasses.replace(checkpoint, special_tokens=tuple(special_tokens_in_strings or ()))
    loaded = dataclasses.replace(checkpoint, weights={}, report=report)
    model.write_description = functools.partial(native.write_description, loaded)
    return dataclasses.replace(loaded, model=model)


def load_encoder(checkpoint: Checkpoint, path: str, *, dtype: Any = "float32", needs_pooler: bool = False) -> BertModel:
    """A BertModel without a head, with the weights of a checkpoint.

    Raises UserError, which names the path, if a weight is missing that the embeddings depend on.
    """
    model = BertModel(checkpoint.config, dtype=dtype)
    arrays = {name: array for name, array in checkpoint.weights.items() if name.startswith("encoder/")}
    missing = [
        name
        for name in weights.compared(model, arrays).newly_initialized
        if needs_pooler or not name.startswith(POOLER)
    ]
    if missing:
        remedy = "choose another pooling" if missing[0].startswith(POOLER) else "pass a complete checkpoint"
        raise UserError(f"{path} lacks {len(missing)} weights of its encoder, such as {missing[0]}: {remedy}.")
    weights.assign(model, arrays)
    return model


def _check_complete(path: str, model: BertModel, report: weights.LoadReport, *, is_new: bool) -> None:
    """Raises UserError if a head that is not new would have random weights.

    Warns about other random weights, and about unused ones. Third-party checkpoints lack the pooler or the next
    sentence head if these were not trained.
    """
    mismatched = [each for each in report.shape_mismatch if each[0].startswith(weights.HEADS)]
    if mismatched:
        name, actual, expected = mismatched[0]
        raise UserError(
            f"{name} has the shape {actual} in {path}, but {expected} in a head of its kind: correct the kind of the "
            "head, or its labels, in the configuration."
        )
    fresh = [name for name in report.newly_initialized if name not in model.unread]
    may_lack: tuple[str, ...] = OPTIONAL if is_new or type(model) in (BertModel, Pretrainer) else ()
    may_lack += weights.HEADS if is_new else ()
    needed = [name for name in fresh if not name.startswith(may_lack)]
    if needed:
        raise UserError(
            f"{path} lacks {len(needed)} weights of its model, such as {needed[0]}: pass a complete checkpoint."
        )
    for names, what in ((fresh, "not in it, and random"), (report.unused, "in it, and not used")):
        if names:
            more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
            logging.getLogger("bert_tf").warning("%s: %s: %s%s.", path, what, ", ".join(names[:MAX_SHOWN]), more)


def model_of(checkpoint: Checkpoint) -> BertModel:
    """Creates a model with the head of a checkpoint, newly initialized."""
    weights = checkpoint.weights
    if checkpoint.new_head:
        head = heads.get(checkpoint.kind or "")
    else:
        head = heads.of_checkpoint(checkpoint.kind, weights) or Vectors
    if head is ReplacedTokens:
        has_generator = is_generator(checkpoint.config, weights)
        return (ReplacedTokenModel if has_generator else Discriminator)(checkpoint.config)
    windows = (checkpoint.answers.get("host") or {}).get("windows")
    options = {"window_pooling": windows["pooling"]} if isinstance(windows, dict) and "pooling" in windows else {}
    if head is Tags:
        options["crf"] = any(name.startswith("crf/") for name in weights)
    size = checkpoint.new_head or len(weights.get("classifier/bias", ()))
    return of_head(head, checkpoint.config, size, **options)
