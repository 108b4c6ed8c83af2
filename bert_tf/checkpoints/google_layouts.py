"""The names of weights in the TF1 checkpoints of google-research/bert, albert and electra.

Those of electra are of its `model/modeling.py` and `run_pretraining.py`; the generator reads the embeddings of the
discriminator, and its own variables lie beside.
"""

from collections.abc import Mapping

import numpy as np

from bert_tf.checkpoints.name_tables import TENSORFLOW, Names, layers, module
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.model.weights import expand

LAYER = "bert/encoder/layer_{i}/"
NAMES: Names = {
    "encoder/embeddings/token_table": "bert/embeddings/word_embeddings",
    "encoder/embeddings/position_table": "bert/embeddings/position_embeddings",
    "encoder/embeddings/segment_table": "bert/embeddings/token_type_embeddings",
    **module("encoder/embeddings/norm", "bert/embeddings/LayerNorm", endings=TENSORFLOW),
    **layers(
        "bert/encoder/layer_{i}",
        TENSORFLOW,
        query="attention/self/query",
        key="attention/self/key",
        value="attention/self/value",
        project_out="attention/output/dense",
        attention_norm="attention/output/LayerNorm",
        expand="intermediate/dense",
        contract="output/dense",
        feed_forward_norm="output/LayerNorm",
    ),
    **module("encoder/pooler", "bert/pooler/dense", endings=TENSORFLOW),
    **module("masked_lm/transform", "cls/predictions/transform/dense", endings=TENSORFLOW),
    **module("masked_lm/norm", "cls/predictions/transform/LayerNorm", endings=TENSORFLOW),
    "masked_lm/output_bias": "cls/predictions/output_bias",
    "next_sentence/kernel": "cls/seq_relationship/output_weights",
    "next_sentence/bias": "cls/seq_relationship/output_bias",
    "classifier/kernel": "output_weights",  # as run_classifier.py names them, at the top
    "classifier/bias": "output_bias",
    "crf/potentials": "crf/potentials",
    "span/kernel": "cls/squad/output_weights",
    "span/bias": "cls/squad/output_bias",
}
# Parts of a layer's names in google-research/bert and in google-research/albert.
ALBERT_LAYER = "bert/encoder/transformer/group_{i}/inner_group_0/"
ALBERT_PARTS = {
    "attention/self/": "attention_1/self/",
    "attention/output/dense/": "attention_1/output/dense/",
    "attention/output/LayerNorm/": "LayerNorm/",
    "intermediate/dense/": "ffn_1/intermediate/dense/",
    "output/dense/": "ffn_1/intermediate/output/dense/",
    "output/LayerNorm/": "LayerNorm_1/",
}
# What the others call `masked_lm` and the heads of pre-training.
ELECTRA_HEADS = {
    **module("masked_lm/transform", "generator_predictions/dense", endings=TENSORFLOW),
    **module("masked_lm/norm", "generator_predictions/LayerNorm", endings=TENSORFLOW),
    "masked_lm/output_bias": "generator_predictions/output_bias",
    **module("replaced_token/transform", "discriminator_predictions/dense", endings=TENSORFLOW),
    **module("replaced_token/output_layer", "discriminator_predictions/dense_1", endings=TENSORFLOW),
}
ELECTRA_TABLE = "electra/embeddings/word_embeddings"
ELECTRA_HEAD_SIZE = 64  # google-research/electra `get_bert_config`
GELUS = {"bert": "gelu_tanh", "albert": "gelu_tanh", "electra": "gelu_erf"}  # what each code computes for "gelu"


def names_of(config: BertConfig) -> dict[str, tuple[str, ...]]:
    """Returns {canonical name: theirs} of all weights of an encoder and its heads."""
    if config.encoder == "electra":
        return expand(_electra_names(), config.num_hidden_layers)
    if config.encoder == "albert":
        return expand(_albert_names(), config.layers_with_weights)
    return expand(NAMES, config.num_hidden_layers)


def is_electra(arrays: Mapping[str, np.ndarray]) -> bool:
    """Returns whether {their name: array} are of a checkpoint of google-research/electra."""
    return ELECTRA_TABLE in arrays


def electra_config(arrays: Mapping[str, np.ndarray]) -> BertConfig:
    """Returns the configuration of an ELECTRA as the shapes of its weights give it.

    Raises UserError if weights are missing that every ELECTRA has.
    """
    layer = LAYER.replace("bert/", "electra/", 1)
    names = (
        ELECTRA_TABLE,
        "electra/embeddings/position_embeddings",
        "electra/embeddings/token_type_embeddings",
        layer.format(i=0) + "intermediate/dense/kernel",
    )
    missing = [name for name in names if name not in arrays or arrays[name].ndim != 2]
    if missing:
        raise UserError(f"The checkpoint of an ELECTRA lacks the matrix {missing[0]}: fetch it again.")
    (vocab_size, width), (positions, _), (segments, _), (hidden, intermediate) = (arrays[name].shape for name in names)
    num_layers = 0
    while layer.format(i=num_layers) + "intermediate/dense/kernel" in arrays:
        num_layers += 1
    return BertConfig(
        encoder="electra",
        vocab_size=vocab_size,
        embedding_size=width,
        hidden_size=hidden,
        num_hidden_layers=num_layers,
        num_attention_heads=max(1, hidden // ELECTRA_HEAD_SIZE),
        intermediate_size=intermediate,
        max_position_embeddings=positions,
        type_vocab_size=segments,
        hidden_act=GELUS["electra"],
    )


def _electra_names() -> Names:
    names: Names = {}
    for ours, theirs in NAMES.items():
        names[ours] = _in_scope("electra/", theirs)
        if ours.startswith(("encoder/layers/", "encoder/pooler/")):  # poolers are ours alone
            names[ours.replace("encoder/", "generator/", 1)] = _in_scope("generator/", theirs)
    for ours, scope in (("encoder", "electra"), ("generator", "generator")):
        names |= module(f"{ours}/embeddings/projection", f"{scope}/embeddings_project", endings=TENSORFLOW)
    return names | ELECTRA_HEADS


def _in_scope(scope: str, theirs: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if isinstance(theirs, str):
        return scope + theirs.removeprefix("bert/") if theirs.startswith("bert/") else theirs
    return tuple(scope + name.removeprefix("bert/") for name in theirs)


def _albert_names() -> Names:
    names = module("encoder/embeddings/projection", "bert/encoder/embedding_hidden_mapping_in", endings=TENSORFLOW)
    for ours, theirs in NAMES.items():
        names[ours] = _in_albert(theirs) if isinstance(theirs, str) else tuple(map(_in_albert, theirs))
    return names


def _in_albert(name: str) -> str:
    if not name.startswith(LAYER):
        return name
    part = name.removeprefix(LAYER)
    bert, albert = next(each for each in ALBERT_PARTS.items() if part.startswith(each[0]))
    return ALBERT_LAYER + albert + part.removeprefix(bert)
