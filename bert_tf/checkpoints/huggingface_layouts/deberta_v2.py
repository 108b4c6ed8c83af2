"""DeBERTa-v2 and -v3."""

from collections.abc import Iterator, Mapping
from typing import Any

from bert_tf.checkpoints.huggingface_layouts.base import layout as base
from bert_tf.checkpoints.name_tables import layers, module
from bert_tf.config.bert_config import ALIASES, BertConfig
from bert_tf.runtime.settings import TEXT, Settings, whole


def read(given: Settings) -> dict[str, Any]:
    """One form for each entry, with the values of the class for what a file leaves out."""
    values = Settings({name: value for name, value in given.items() if value is not None}, given.source)
    base.check_one_of(values, "relative_attention", False, (True,))
    kinds = values.get("pos_att_type", "none")
    values["pos_att_type"] = "|".join(map(str, kinds if isinstance(kinds, list) else [kinds])).replace(" ", "").lower()
    base.check_one_of(values, "pos_att_type", "none", ("p2c|c2p", "c2p|p2c", "c2p", "p2c"))
    norm = str(values.get("norm_rel_ebd", "none")).replace(" ", "").lower()
    values["norm_rel_ebd"] = "layer_norm" if "layer_norm" in norm.split("|") else "none"
    values["conv_kernel_size"] = max(values.value("conv_kernel_size", whole(), 0), 0)
    if values["conv_kernel_size"] and not values["conv_kernel_size"] % 2:
        raise base.not_supported(values, "conv_kernel_size", values["conv_kernel_size"], "an odd number")
    activation = values.value("conv_act", TEXT, "tanh")
    values["conv_act"] = "gelu_erf" if activation == "gelu" else ALIASES.get(activation, activation)
    width = values.value("hidden_size", whole(1), 1536)
    for name, expected in (
        ("pooler_hidden_size", width),
        ("attention_head_size", width // values.value("num_attention_heads", whole(1), 24)),
    ):
        base.check_one_of(values, name, expected, (expected,))
    positions = values.value("max_position_embeddings", whole(1), 512)
    reach = values.value("max_relative_positions", whole(), -1)
    values["max_relative_positions"] = positions if reach < 1 else reach
    values["position_buckets"] = max(values.value("position_buckets", whole(), -1), 0)
    for name, default in (("share_att_key", False), ("position_biased_input", True)):
        values.setdefault(name, default)
    return values


def write(values: Mapping[str, Any]) -> dict[str, Any]:
    """The names that the class has."""
    buckets, activation = values["position_buckets"] or -1, values["conv_act"]
    names = {"gelu_erf": "gelu", "gelu_tanh": "gelu_new"}
    return {**values, "position_buckets": buckets, "conv_act": names.get(activation, activation)}


def absent(config: BertConfig) -> tuple[str, ...]:
    """Weights that a DeBERTa of that configuration lacks."""
    settings = config.settings
    parts = {
        "encoder/embeddings/position_table": settings["position_biased_input"],
        "encoder/relative_norm": settings["norm_rel_ebd"] == "layer_norm",
        "encoder/convolution": settings["conv_kernel_size"] > 0,
    }
    for kind, name in (("c2p", "key"), ("p2c", "query")):
        has_own = not settings["share_att_key"] and kind in settings["pos_att_type"]
        numbers = range(config.num_hidden_layers)
        parts |= {f"encoder/layers/{number}/attention/position_{name}/": has_own for number in numbers}
    return tuple(name for name, is_there in parts.items() if not is_there)


def heads_left_out(config: BertConfig, arrays: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the head for masked LM where it is not what this package computes."""
    if "mask_predictions.dense.weight" in arrays:
        yield "masked_lm/", "as the encoder was trained to find replaced tokens"
    elif base.TABLES["encoder/embeddings/position_table"] in arrays and not config.settings["position_biased_input"]:
        yield "masked_lm/", "as it adds positions to the last layer (the enhanced mask decoder), which is not supported"


LAYOUT = base.Layout(
    model_type="deberta-v2",
    classes="DebertaV2",
    prefix="deberta.",
    names={
        **{ours: theirs for ours, theirs in base.TABLES.items() if "segment" not in ours},
        **module("encoder/embeddings/norm", "embeddings.LayerNorm"),
        "encoder/relative_table": "encoder.rel_embeddings.weight",
        **module("encoder/relative_norm", "encoder.LayerNorm"),
        **layers(
            "encoder.layer.{i}",
            **base.BERT_LAYER | {part: f"attention.self.{part}_proj" for part in ("query", "key", "value")},
        ),
        **module("encoder/layers/{i}/attention/position_query", "encoder.layer.{i}.attention.self.pos_query_proj"),
        **module("encoder/layers/{i}/attention/position_key", "encoder.layer.{i}.attention.self.pos_key_proj"),
        **module("encoder/convolution", "encoder.conv.conv"),
        **module("encoder/convolution/norm", "encoder.conv.LayerNorm"),
        **module("encoder/pooler", "pooler.dense"),
        **{ours: theirs for ours, theirs in base.BERT_HEADS.items() if "masked_lm" in ours},
        **module("replaced_token/norm", "mask_predictions.LayerNorm"),
        **module("replaced_token/transform", "mask_predictions.dense"),
        **module("replaced_token/output_layer", "mask_predictions.classifier"),
        **base.TASK_HEADS,
    },
    outside=("pooler.", "mask_predictions.", *base.OUTSIDE),
    constants={
        "relative_attention": True,
        "type_vocab_size": 0,
        "pooler_hidden_act": "gelu",
        "conv_groups": 1,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
    },
    written={"legacy": True},
    left_out=(*base.NARROW, "type_vocab_size", "position_embedding_type"),
    defaults={
        "vocab_size": 128100,
        "hidden_size": 1536,
        "num_hidden_layers": 24,
        "num_attention_heads": 24,
        "intermediate_size": 6144,
        "layer_norm_eps": 1e-7,
    },
    may_be_causal=False,
    absent=absent,
    older={
        "lm_predictions.lm_head.bias": "cls.predictions.bias",
        "lm_predictions.lm_head.": "cls.predictions.transform.",
        "mask_predictions.classifer.": "mask_predictions.classifier.",
    },
    ends=base.CLASSES | {("replaced_token",): "Model"},  # transformers has no class with that head
    read=read,
    write=write,
    heads_left_out=heads_left_out,
)
