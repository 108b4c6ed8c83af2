"""DeBERTa-v2 and -v3 (He et al. 2021, 2023; transformers `DebertaV2Model`)."""

from collections.abc import Iterator, Mapping
from typing import Any

from bert_tf.config.bert_config import ALIASES, BertConfig
from bert_tf.config.encoder_traits import like_bert
from bert_tf.families.base import huggingface, keras_hub
from bert_tf.families.base.name_tables import layers, module
from bert_tf.runtime.settings import TEXT, Settings, whole

TRAITS = like_bert(
    generator="shallow",
    may_be_causal=False,
    may_drop_tokens=False,
    sentence_pairs="",
    full_sentences=True,
    tokenizer="deberta_v2",
    pooler_activation="gelu_erf",
    settings={
        "pos_att_type": ["p2c|c2p", "c2p|p2c", "c2p", "p2c"],
        "share_att_key": True,
        "position_buckets": 256,
        "max_relative_positions": 512,
        "norm_rel_ebd": ["layer_norm", "none"],
        "position_biased_input": False,
        "conv_kernel_size": 0,
        "conv_act": ["tanh", "gelu_erf", "gelu_tanh", "relu"],
    },
)


def read(given: Settings) -> dict[str, Any]:
    """One form for each entry, with the class's values for entries that a file omits."""
    values = Settings({name: value for name, value in given.items() if value is not None}, given.source)
    huggingface.check_one_of(values, "relative_attention", False, (True,))
    kinds = values.get("pos_att_type", "none")
    values["pos_att_type"] = "|".join(map(str, kinds if isinstance(kinds, list) else [kinds])).replace(" ", "").lower()
    huggingface.check_one_of(values, "pos_att_type", "none", ("p2c|c2p", "c2p|p2c", "c2p", "p2c"))
    norm = str(values.get("norm_rel_ebd", "none")).replace(" ", "").lower()
    values["norm_rel_ebd"] = "layer_norm" if "layer_norm" in norm.split("|") else "none"
    values["conv_kernel_size"] = max(values.value("conv_kernel_size", whole(), 0), 0)
    if values["conv_kernel_size"] and not values["conv_kernel_size"] % 2:
        raise huggingface.not_supported(values, "conv_kernel_size", values["conv_kernel_size"], "an odd number")
    activation = values.value("conv_act", TEXT, "tanh")
    values["conv_act"] = "gelu_erf" if activation == "gelu" else ALIASES.get(activation, activation)
    width = values.value("hidden_size", whole(1), 1536)
    for name, expected in (
        ("pooler_hidden_size", width),
        ("attention_head_size", width // values.value("num_attention_heads", whole(1), 24)),
    ):
        huggingface.check_one_of(values, name, expected, (expected,))
    positions = values.value("max_position_embeddings", whole(1), 512)
    reach = values.value("max_relative_positions", whole(), -1)
    values["max_relative_positions"] = positions if reach < 1 else reach
    values["position_buckets"] = max(values.value("position_buckets", whole(), -1), 0)
    for name, default in (("share_att_key", False), ("position_biased_input", True)):
        values.setdefault(name, default)
    return values


def write(values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries under the class's names."""
    buckets, activation = values["position_buckets"] or -1, values["conv_act"]
    names = {"gelu_erf": "gelu", "gelu_tanh": "gelu_new"}
    return {**values, "position_buckets": buckets, "conv_act": names.get(activation, activation)}


def absent(config: BertConfig) -> tuple[str, ...]:
    """Weights missing from a DeBERTa with that configuration."""
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
    """Yields the masked LM head if it differs from this package's."""
    has_positions = huggingface.TABLES["encoder/embeddings/position_table"] in arrays
    if "mask_predictions.dense.weight" in arrays:
        yield "masked_lm/", "because the encoder was trained to find replaced tokens"
    elif has_positions and not config.settings["position_biased_input"]:
        yield (
            "masked_lm/",
            "because it adds positions to the last layer (the enhanced mask decoder), which is not supported",
        )


HUGGINGFACE = huggingface.Layout(
    model_type="deberta-v2",
    classes="DebertaV2",
    prefix="deberta.",
    names={
        **{ours: theirs for ours, theirs in huggingface.TABLES.items() if "segment" not in ours},
        **module("encoder/embeddings/norm", "embeddings.LayerNorm"),
        "encoder/relative_table": "encoder.rel_embeddings.weight",
        **module("encoder/relative_norm", "encoder.LayerNorm"),
        **layers(
            "encoder.layer.{i}",
            **huggingface.BERT_LAYER | {part: f"attention.self.{part}_proj" for part in ("query", "key", "value")},
        ),
        **module("encoder/layers/{i}/attention/position_query", "encoder.layer.{i}.attention.self.pos_query_proj"),
        **module("encoder/layers/{i}/attention/position_key", "encoder.layer.{i}.attention.self.pos_key_proj"),
        **module("encoder/convolution", "encoder.conv.conv"),
        **module("encoder/convolution/norm", "encoder.conv.LayerNorm"),
        **module("encoder/pooler", "pooler.dense"),
        **{ours: theirs for ours, theirs in huggingface.BERT_HEADS.items() if "masked_lm" in ours},
        **module("replaced_token/norm", "mask_predictions.LayerNorm"),
        **module("replaced_token/transform", "mask_predictions.dense"),
        **module("replaced_token/output_layer", "mask_predictions.classifier"),
        **huggingface.TASK_HEADS,
    },
    outside=("pooler.", "mask_predictions.", *huggingface.OUTSIDE),
    constants={
        "relative_attention": True,
        "type_vocab_size": 0,
        "pooler_hidden_act": "gelu",
        "conv_groups": 1,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
    },
    written={"legacy": True},
    left_out=(*huggingface.NARROW, "type_vocab_size", "position_embedding_type"),
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
    ends=huggingface.CLASSES | {("replaced_token",): "Model"},  # transformers has no class with that head
    read=read,
    write=write,
    heads_left_out=heads_left_out,
)
KERAS_HUB_SETTINGS: Mapping[str, Any] = {  # the only values in KerasHub
    "pos_att_type": "p2c|c2p",
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "conv_kernel_size": 0,
}


def keras_hub_settings(given: Settings) -> dict[str, Any]:
    """The settings for a backbone."""
    buckets = given.value("bucket_size", whole(1), 256)
    reach = given.get("max_sequence_length")
    return {**KERAS_HUB_SETTINGS, "position_buckets": buckets, "max_relative_positions": reach}


def keras_hub_refused(config: BertConfig) -> Iterator[str]:
    """Yields settings that a backbone cannot have."""
    settings = config.settings
    same = {"c2p|p2c": "p2c|c2p"}  # in a different order
    for name, value in KERAS_HUB_SETTINGS.items():
        if same.get(settings[name], settings[name]) != value:
            yield f"cannot have {name} {settings[name]}, which this model has"
    if not settings["position_buckets"] or settings["max_relative_positions"] != config.max_position_embeddings:
        yield "has buckets of positions up to their number, and this model other ones"


KERAS_HUB = keras_hub.Layout(
    classes="DebertaV3",
    names=keras_hub.backbone("reversible_embedding", "", "disentangled_attention_encoder")
    | {"encoder/relative_table": "layers/relative_embedding/vars/0"}
    | keras_hub.module("encoder/relative_norm", "layers/relative_embedding/layer_norm")
    | keras_hub.MASKED_LM_HEAD
    | keras_hub.POOLED_CLASSIFIER,
    sizes=keras_hub.SIZES,
    hidden_act="gelu_erf",
    layer_norm_eps=1e-7,
    settings=keras_hub_settings,
    arguments=lambda config: {"bucket_size": config.settings["position_buckets"]},
    refused=keras_hub_refused,
)
