"""ELECTRA: a BERT trained to detect replaced tokens (Clark et al. 2020; transformers `ElectraModel`).

In pre-training a small generator fills masks, and the encoder detects the replaced tokens: see
`model.replaced_tokens`. It has no pooler; its classifiers have one with a GELU.
"""

from collections.abc import Mapping
from typing import Any

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.encoder_traits import like_bert
from bert_tf.errors import UserError
from bert_tf.families.base import google, huggingface, keras_hub
from bert_tf.families.base.name_tables import TENSORFLOW, Names, layers, module, number_of_layers
from bert_tf.families.bert import about as bert

TRAITS = like_bert(
    pretraining="replaced_tokens",
    generator="narrow",
    sentence_pairs="",
    may_be_causal=False,
    may_be_sinusoidal=True,
    has_narrow_embeddings=True,
    pooler_activation="gelu_erf",
)
HUGGINGFACE = huggingface.Layout(
    model_type="electra",
    classes="Electra",
    prefix="electra.",
    names={
        **huggingface.TABLES,
        **module("encoder/embeddings/norm", "embeddings.LayerNorm"),
        **module("encoder/embeddings/projection", "embeddings_project"),
        **layers("encoder.layer.{i}", **huggingface.BERT_LAYER),
        **module("encoder/pooler", "sequence_summary.summary"),
        **module("masked_lm/transform", "generator_predictions.dense"),
        **module("masked_lm/norm", "generator_predictions.LayerNorm"),
        "masked_lm/output_bias": "generator_lm_head.bias",
        **module("replaced_token/transform", "discriminator_predictions.dense"),
        **module("replaced_token/output_layer", "discriminator_predictions.dense_prediction"),
        **huggingface.TASK_HEADS,
    },
    of_texts={**module("encoder/pooler", "classifier.dense"), **module("classifier", "classifier.out_proj")},
    outside=("sequence_summary.", "generator_", "discriminator_", "classifier.", "qa_outputs."),
    constants={"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"},
    left_out=("num_hidden_groups",),
    defaults={
        "vocab_size": 30522,
        "embedding_size": 128,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    },
    has_fixed_gelu=True,
    optional=lambda config: () if config.embedding_size else ("encoder/embeddings/projection/",),
)
GOOGLE_TABLE = "electra/embeddings/word_embeddings"
GOOGLE_DENSE = "electra/encoder/layer_{i}/intermediate/dense/kernel"
GOOGLE_HEAD_SIZE = 64  # google-research/electra `get_bert_config`


def in_scope(scope: str) -> Names:
    """The names in google-research/bert in the scope of one of the two models."""
    return {
        ours: tuple(name.replace("bert/", f"{scope}/", 1) for name in ([theirs] if isinstance(theirs, str) else theirs))
        for ours, theirs in bert.GOOGLE.names.items()
    }


def google_config(arrays: Mapping[str, Any]) -> BertConfig:
    """The configuration inferred from the shapes of the weights.

    Raises UserError if a weight is missing that every ELECTRA has.
    """
    names = (
        GOOGLE_TABLE,
        "electra/embeddings/position_embeddings",
        "electra/embeddings/token_type_embeddings",
        GOOGLE_DENSE.format(i=0),
    )
    missing = [name for name in names if name not in arrays or arrays[name].ndim != 2]
    if missing:
        raise UserError(f"The checkpoint of an ELECTRA lacks the matrix {missing[0]}: fetch it again.")
    (vocab_size, width), (positions, _), (segments, _), (hidden, intermediate) = (arrays[name].shape for name in names)
    return BertConfig(
        encoder="electra",
        vocab_size=vocab_size,
        embedding_size=width,
        hidden_size=hidden,
        num_hidden_layers=number_of_layers(GOOGLE_DENSE, arrays),
        num_attention_heads=max(1, hidden // GOOGLE_HEAD_SIZE),
        intermediate_size=intermediate,
        max_position_embeddings=positions,
        type_vocab_size=segments,
        hidden_act="gelu_erf",
    )


GOOGLE = google.Layout(
    config_file="electra_config.json",
    gelu="gelu_erf",
    names={  # from `model/modeling.py` and `run_pretraining.py`; the generator reads the discriminator's embeddings
        **in_scope("electra"),
        **{
            ours.replace("encoder/", "generator/", 1): theirs
            for ours, theirs in in_scope("generator").items()
            if ours.startswith(("encoder/layers/", "encoder/pooler/"))  # only ours have poolers
        },
        **module("encoder/embeddings/projection", "electra/embeddings_project", endings=TENSORFLOW),
        **module("generator/embeddings/projection", "generator/embeddings_project", endings=TENSORFLOW),
        **module("masked_lm/transform", "generator_predictions/dense", endings=TENSORFLOW),
        **module("masked_lm/norm", "generator_predictions/LayerNorm", endings=TENSORFLOW),
        "masked_lm/output_bias": "generator_predictions/output_bias",
        **module("replaced_token/transform", "discriminator_predictions/dense", endings=TENSORFLOW),
        **module("replaced_token/output_layer", "discriminator_predictions/dense_1", endings=TENSORFLOW),
    },
    own_table=GOOGLE_TABLE,
    config_of=google_config,
)
KERAS_HUB = keras_hub.Layout(
    classes="Electra",
    names=keras_hub.PROJECTED,
    sizes=keras_hub.SIZES | keras_hub.SEGMENTS | keras_hub.NARROW | {"vocab_size": "vocab_size"},
    pooler_activation="tanh",
)
