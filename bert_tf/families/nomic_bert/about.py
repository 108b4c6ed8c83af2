"""NomicBERT (Nussbaum et al. 2024; transformers `NomicBertModel`)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.config.encoder_traits import like_bert
from bert_tf.families.base import huggingface
from bert_tf.families.base.name_tables import module
from bert_tf.runtime.settings import Settings, whole

TRAITS = like_bert(
    may_be_causal=False,
    sentence_pairs="",
    has_layer_biases=False,
    embedding_options={"has_positions": False},
    settings={"rotary_emb_base": 1000.0},
)

NAMES = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
    "layer_norm_eps": "layer_norm_epsilon",
    "hidden_dropout_prob": "resid_pdrop",
    "attention_probs_dropout_prob": "attn_pdrop",
}
INSIDE = {  # names of modules in transformers, which renames them when it saves a model
    "embeddings.LayerNorm": "emb_ln",
    "post_attention_layernorm": "norm1",
    "post_mlp_layernorm": "norm2",
    "self_attn.o_proj": "attn.out_proj",
    "mlp.up_proj": "mlp.fc11",
    "mlp.gate_proj": "mlp.fc12",
    "mlp.down_proj": "mlp.fc2",
}
QUERY = ".self_attn.q_proj.weight"


def read_arrays(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Renames state dict names to those in files."""
    for name in [name for name in arrays if name.endswith(QUERY)]:
        layer = name.removesuffix(QUERY)
        parts = [f"{layer}{QUERY.replace('.q_', f'.{part}_')}" for part in "qkv"]
        if arrays.keys() >= set(parts):
            arrays[f"{layer}.attn.Wqkv.weight"] = np.concatenate([arrays.pop(part) for part in parts])
    found = {}
    for name, array in arrays.items():
        for theirs, ours in INSIDE.items():
            name = name.replace(theirs, ours)
        found[f"encoder.{name}" if name.startswith("layers.") else name] = array
    return found


def read(values: Settings) -> dict[str, Any]:
    """Renames entries from the authors' own code to the names in transformers."""
    if values.get("rope_theta") is not None:
        values["rotary_emb_base"] = values["rope_theta"]
    if rotation := values.inside("rope_parameters"):
        values["rotary_emb_base"] = huggingface.theta_of(rotation, values.get("rotary_emb_base"))
    for name, theirs in NAMES.items():
        if values.get(theirs) is not None:
            values.setdefault(name, values[theirs])
    huggingface.check_one_of(values, "activation_function", "swiglu", (None, "swiglu"))
    size = values.value("hidden_size", whole(1), 768) // values.value("num_attention_heads", whole(1), 12)
    huggingface.check_one_of(values, "head_dim", size, (None, size))
    huggingface.check_no_scaling(values)
    return {name: value for name, value in values.items() if value is not None}


def write(values: Mapping[str, Any]) -> dict[str, Any]:
    """Also writes the rotation under its newer name."""
    rotation = {"rope_type": "default", "rope_theta": values["rotary_emb_base"]}
    return {**values, "rope_parameters": rotation}


HUGGINGFACE = huggingface.Layout(
    model_type="nomic_bert",
    classes="NomicBert",
    prefix="nomic_bert.",
    names={
        "encoder/embeddings/token_table": "embeddings.word_embeddings.weight",
        "encoder/embeddings/segment_table": "embeddings.token_type_embeddings.weight",
        **module("encoder/embeddings/norm", "emb_ln"),
        "encoder/layers/{i}/attention/query_key_value/kernel": "encoder.layers.{i}.attn.Wqkv.weight",
        "encoder/layers/{i}/attention/project_out/kernel": "encoder.layers.{i}.attn.out_proj.weight",
        **module("encoder/layers/{i}/attention_norm", "encoder.layers.{i}.norm1"),
        "encoder/layers/{i}/feed_forward/expand/kernel": (
            "encoder.layers.{i}.mlp.fc12.weight",
            "encoder.layers.{i}.mlp.fc11.weight",
        ),
        "encoder/layers/{i}/feed_forward/contract/kernel": "encoder.layers.{i}.mlp.fc2.weight",
        **module("encoder/layers/{i}/feed_forward_norm", "encoder.layers.{i}.norm2"),
        **module("encoder/pooler", "pooler.dense"),
        **module("masked_lm/transform", "cls.predictions.transform.dense"),
        **module("masked_lm/norm", "cls.predictions.transform.layer_norm"),
        "masked_lm/output_bias": "cls.predictions.bias",
        **huggingface.TASK_HEADS,
    },
    outside=huggingface.OUTSIDE,
    constants={
        **dict.fromkeys(("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "prenorm", "parallel_block"), False),
        **dict.fromkeys(("rotary_emb_interleaved", "use_rms_norm", "causal", "scale_attn_by_inverse_layer_idx"), False),
        **dict.fromkeys(("rotary_scaling_factor", "rotary_emb_scale_base"), None),
        "rotary_emb_fraction": 1.0,
    },
    left_out=(*huggingface.NARROW, "position_embedding_type"),
    defaults={
        "vocab_size": 30528,
        "hidden_act": "silu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 2048,
    },
    may_be_causal=False,
    read=read,
    read_arrays=read_arrays,
    write=write,
)
