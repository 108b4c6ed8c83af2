"""ModernBERT (Warner et al. 2024; transformers `ModernBertModel`)."""

from collections.abc import Mapping
from typing import Any

from bert_tf.config.encoder_traits import like_bert
from bert_tf.families.base import huggingface
from bert_tf.families.base.huggingface import not_supported
from bert_tf.families.base.name_tables import module
from bert_tf.runtime.settings import TEXTS, Settings, whole

TRAITS = like_bert(
    may_be_causal=False,
    sentence_pairs="",
    full_sentences=True,
    tokenizer="bert_byte_bpe",
    has_layer_biases=False,
    has_norm_biases=False,
    shares_head=True,
    is_pre_norm=True,
    embedding_options={"has_positions": False, "has_segments": False},
    settings={
        "local_attention": 128,
        "global_attn_every_n_layers": 3,
        "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0,
        "classifier_pooling": ["cls", "mean"],
        "pad_token_id": 0,
    },
)

KINDS = ("full_attention", "sliding_attention")  # kinds of ModernBERT layers
THETAS = dict(zip(KINDS, ("global_rope_theta", "local_rope_theta"), strict=True))


def read(values: Settings) -> dict[str, Any]:
    """Renames `layer_types` and `rope_parameters` to older names; UserError for unsupported layers and rotations."""
    huggingface.check_same(values, "classifier_activation", "hidden_activation", "gelu")
    huggingface.check_same(values, "embedding_dropout", "mlp_dropout", 0.0)
    kinds = values.value("layer_types", TEXTS)
    if kinds is not None:
        every = next((number for number, kind in enumerate(kinds) if number and kind == KINDS[0]), len(kinds))
        given = values.value("global_attn_every_n_layers", whole(1))
        if given and kinds == _layer_types(len(kinds), given):
            every = given
        if kinds != _layer_types(len(kinds), every):
            raise not_supported(values, "layer_types", kinds, "a full_attention in every n-th layer from the first")
        values["global_attn_every_n_layers"] = every
    rotations = values.inside("rope_parameters")
    for kind in rotations:
        if kind not in THETAS:
            raise not_supported(values, "rope_parameters", kind, " and ".join(KINDS))
        values[THETAS[kind]] = huggingface.theta_of(rotations.inside(kind), values.get(THETAS[kind]))
    huggingface.check_no_scaling(values)
    return {name: value for name, value in values.items() if value is not None}


def write(values: Mapping[str, Any]) -> dict[str, Any]:
    """Writes both the older and the newer names."""
    rotations = {kind: {"rope_type": "default", "rope_theta": values[name]} for kind, name in THETAS.items()}
    return {
        **values,
        "layer_types": _layer_types(values["num_hidden_layers"], values["global_attn_every_n_layers"]),
        "rope_parameters": rotations,
        "classifier_activation": values["hidden_activation"],
        "embedding_dropout": values["mlp_dropout"],
        "sep_token_id": None,
        "cls_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def _layer_types(count: int, every: int) -> list[str]:
    return [KINDS[number % max(every, 1) > 0] for number in range(count)]


HUGGINGFACE = huggingface.Layout(
    model_type="modernbert",
    classes="ModernBert",
    prefix="model.",
    names={
        "encoder/embeddings/token_table": "embeddings.tok_embeddings.weight",
        "encoder/embeddings/norm/gamma": "embeddings.norm.weight",
        "encoder/layers/{i}/attention/query_key_value/kernel": "layers.{i}.attn.Wqkv.weight",
        "encoder/layers/{i}/attention/project_out/kernel": "layers.{i}.attn.Wo.weight",
        "encoder/layers/{i}/attention_norm/gamma": "layers.{i}.attn_norm.weight",
        "encoder/layers/{i}/feed_forward/expand/kernel": "layers.{i}.mlp.Wi.weight",
        "encoder/layers/{i}/feed_forward/contract/kernel": "layers.{i}.mlp.Wo.weight",
        "encoder/layers/{i}/feed_forward_norm/gamma": "layers.{i}.mlp_norm.weight",
        "encoder/norm/gamma": "final_norm.weight",
        "encoder/pooler/dense/kernel": "head.dense.weight",
        "encoder/pooler/norm/gamma": "head.norm.weight",
        "masked_lm/output_bias": "decoder.bias",
        **module("classifier", "classifier"),
        "crf/potentials": "crf.potentials",
    },
    of_spans=module("span", "classifier"),
    absent=lambda config: ("encoder/layers/0/attention_norm/gamma",),
    outside=("head.", "decoder.", "classifier.", "crf."),
    renamed={
        "hidden_act": "hidden_activation",
        "layer_norm_eps": "norm_eps",
        "hidden_dropout_prob": "mlp_dropout",
        "attention_probs_dropout_prob": "attention_dropout",
    },
    constants={
        **dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), False),
        **dict.fromkeys(("decoder_bias", "tie_word_embeddings"), True),
    },
    left_out=(*huggingface.NARROW, "type_vocab_size", "position_embedding_type"),
    defaults={
        "vocab_size": 50368,
        "num_hidden_layers": 22,
        "intermediate_size": 1152,
        "max_position_embeddings": 8192,
        "norm_eps": 1e-5,
        "mlp_dropout": 0.0,
        "attention_dropout": 0.0,
        "pad_token_id": 50283,
        "type_vocab_size": 1,
    },
    may_be_causal=False,
    read=read,
    write=write,
)
