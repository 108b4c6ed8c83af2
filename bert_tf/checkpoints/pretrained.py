"""A checkpoint, a run or an export as a Keras model and its tokenizer: what a program of one's own begins with."""

import dataclasses

from bert_tf.checkpoints import formats
from bert_tf.config.bert_config import BertConfig
from bert_tf.model import heads, weights
from bert_tf.text.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loaded:
    """What `load` found. `model.encoder` is the encoder of any of them; its heads are the model's own.

    tokenizer: None where the checkpoint has no vocabulary. labels: the names of the model's outputs, None where it says
    none. report: the LoadReport of its weights.
    """

    model: heads.BertModel
    tokenizer: Tokenizer | None
    config: BertConfig
    labels: list | None
    report: weights.LoadReport


def load(path):
    """Reads any checkpoint that `bert-tf convert` takes, the folder of a run or an export, into a Keras model.

    The model is that of its head: a Classifier, Regressor, MultipleChoice, SpanFinder or TokenClassifier; a Pretrainer
    where it has the head of masked LM; else, and of a tagger on frozen vectors, a BertModel, which has an encoder and
    nothing to call. Casing that the
    checkpoint does not say is taken as lower. Raises UserError as `checkpoints.read` and `weights.assign` do.
    """
    checkpoint = formats.read(path)
    model = model_of(checkpoint)
    report = weights.assign(model, checkpoint.weights)
    pieces, lower_case = checkpoint.vocabulary, checkpoint.lower_case
    tokenizer = None if pieces is None else Tokenizer(pieces, True if lower_case is None else lower_case)
    return Loaded(model=model, tokenizer=tokenizer, config=checkpoint.config, labels=checkpoint.labels, report=report)


def model_of(checkpoint):
    """A model, its weights still to come, with the head that a Checkpoint has."""
    config, kind, held = checkpoint.config, checkpoint.kind, checkpoint.weights
    if any(name.startswith(("masked_lm/", "next_sentence/")) for name in held):
        return heads.Pretrainer(config)
    if "span/bias" in held:
        return heads.SpanFinder(config)
    if "classifier/bias" not in held or any(name.startswith("lstm/") for name in held):  # vectors have no head to ask
        return heads.BertModel(config)
    if kind in ("number", "choice"):
        return {"number": heads.Regressor, "choice": heads.MultipleChoice}[kind](config)
    return (heads.TokenClassifier if kind == "tags" else heads.Classifier)(config, len(held["classifier/bias"]))
