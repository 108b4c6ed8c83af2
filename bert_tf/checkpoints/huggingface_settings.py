"""Entries of config.json that architectures name in several ways, and what is not supported of them."""

from collections.abc import Mapping
from typing import Any

from bert_tf.checkpoints.checkpoint_files import shortened
from bert_tf.config.bert_config import GELUS, BertConfig
from bert_tf.errors import UserError

KINDS = ("full_attention", "sliding_attention")  # of the layers of a ModernBERT
THETAS = dict(zip(KINDS, ("global_rope_theta", "local_rope_theta"), strict=True))


def read_modern_bert(values: Mapping[str, Any]) -> dict[str, Any]:
    """Older names for `layer_types` and `rope_parameters`; UserError for layers and rotations in another order."""
    values = dict(values)
    _check_same(values, "classifier_activation", "hidden_activation", "gelu")
    _check_same(values, "embedding_dropout", "mlp_dropout", 0.0)
    kinds = values.get("layer_types")
    if kinds is not None:
        every = next((number for number, kind in enumerate(kinds) if number and kind == KINDS[0]), len(kinds))
        given = values.get("global_attn_every_n_layers")
        if isinstance(given, int) and kinds == _layer_types(len(kinds), given):
            every = given
        if kinds != _layer_types(len(kinds), every):
            raise _not_supported("layer_types", kinds, "a full_attention in every n-th layer from the first")
        values["global_attn_every_n_layers"] = every
    for kind, rotation in (values.get("rope_parameters") or {}).items():
        if kind not in THETAS:
            raise _not_supported("rope_parameters", kind, " and ".join(KINDS))
        values[THETAS[kind]] = _theta(rotation or {}, values.get(THETAS[kind]))
    _check_no_scaling(values)
    return {name: value for name, value in values.items() if value is not None}


def write_modern_bert(values: Mapping[str, Any]) -> dict[str, Any]:
    """Both the older and the newer names."""
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


def read_nomic_bert(values: Mapping[str, Any]) -> dict[str, Any]:
    """The names of transformers for those that the maker's own code has."""
    values = dict(values)
    if (rotation := values.get("rope_parameters")) is not None:
        values["rotary_emb_base"] = _theta(rotation, values.get("rotary_emb_base"))
    for name, theirs in NOMIC_NAMES.items():
        if values.get(theirs) is not None:
            values.setdefault(name, values[theirs])
    if values.get("activation_function") not in (None, "swiglu"):
        raise _not_supported("activation_function", values["activation_function"], "swiglu")
    if values.get("head_dim") not in (None, values.get("hidden_size", 768) // values.get("num_attention_heads", 12)):
        raise _not_supported("head_dim", values["head_dim"], "hidden_size / num_attention_heads")
    _check_no_scaling(values)
    return {name: value for name, value in values.items() if value is not None}


def write_nomic_bert(values: Mapping[str, Any]) -> dict[str, Any]:
    """With the rotation under its newer name, too."""
    rotation = {"rope_type": "default", "rope_theta": values["rotary_emb_base"]}
    return {**values, "rope_parameters": rotation}


def read_deberta_v2(values: Mapping[str, Any]) -> dict[str, Any]:
    """One form for each entry, with the values of the class for what a file leaves out."""
    values = {name: value for name, value in values.items() if value is not None}
    _expect_one_of(values, "relative_attention", False, (True,))
    kinds = values.get("pos_att_type", "none")
    values["pos_att_type"] = "|".join(kinds) if isinstance(kinds, list) else str(kinds).replace(" ", "").lower()
    _expect_one_of(values, "pos_att_type", "none", ("p2c|c2p", "c2p|p2c", "c2p", "p2c"))
    norm = str(values.get("norm_rel_ebd", "none")).replace(" ", "").lower()
    values["norm_rel_ebd"] = "layer_norm" if "layer_norm" in norm.split("|") else "none"
    values["conv_kernel_size"] = max(values.get("conv_kernel_size", 0), 0)
    if values["conv_kernel_size"] and not values["conv_kernel_size"] % 2:
        raise _not_supported("conv_kernel_size", values["conv_kernel_size"], "an odd number")
    activation = values.get("conv_act", "tanh")
    values["conv_act"] = "gelu_erf" if activation == "gelu" else GELUS.get(activation, activation)
    width = values.get("hidden_size", 1536)
    for name, expected in (
        ("pooler_hidden_size", width),
        ("attention_head_size", width // values.get("num_attention_heads", 24)),
    ):
        _expect_one_of(values, name, expected, (expected,))
    positions = values.get("max_position_embeddings", 512)
    given = values.get("max_relative_positions", -1)
    values["max_relative_positions"] = positions if given < 1 else given
    values["position_buckets"] = max(values.get("position_buckets", -1), 0)
    for name, default in (("share_att_key", False), ("position_biased_input", True)):
        values.setdefault(name, default)
    return values


def write_deberta_v2(values: Mapping[str, Any]) -> dict[str, Any]:
    """The names that the class has."""
    buckets, activation = values["position_buckets"] or -1, values["conv_act"]
    names = {"gelu_erf": "gelu", "gelu_tanh": "gelu_new"}
    return {**values, "position_buckets": buckets, "conv_act": names.get(activation, activation)}


def absent_of_deberta_v2(config: BertConfig) -> tuple[str, ...]:
    """What a DeBERTa of that configuration does without."""
    settings = config.settings
    parts = {
        "encoder/embeddings/position_table": settings["position_biased_input"],
        "encoder/relative_norm": settings["norm_rel_ebd"] == "layer_norm",
        "encoder/layers/0/convolution": settings["conv_kernel_size"] > 0,
    }
    for kind, name in (("c2p", "key"), ("p2c", "query")):
        has_own = not settings["share_att_key"] and kind in settings["pos_att_type"]
        layers = range(config.num_hidden_layers)
        parts |= {f"encoder/layers/{number}/attention/position_{name}/": has_own for number in layers}
    return tuple(name for name, is_there in parts.items() if not is_there)


NOMIC_NAMES = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
    "layer_norm_eps": "layer_norm_epsilon",
    "hidden_dropout_prob": "resid_pdrop",
    "attention_probs_dropout_prob": "attn_pdrop",
}


def _layer_types(count: int, every: int) -> list[str]:
    return [KINDS[number % max(every, 1) > 0] for number in range(count)]


def _theta(rotation: Mapping[str, Any], default: Any) -> Any:
    if rotation.get("rope_type", "default") != "default":
        raise _not_supported("rope_type", rotation["rope_type"], "default")
    if rotation.get("partial_rotary_factor", 1.0) != 1.0:
        raise _not_supported("partial_rotary_factor", rotation["partial_rotary_factor"], "1.0")
    return rotation.get("rope_theta", default)


def _check_no_scaling(values: Mapping[str, Any]) -> None:
    if values.get("rope_scaling") is not None:
        raise _not_supported("rope_scaling", values["rope_scaling"], "none")


def _check_same(values: Mapping[str, Any], name: str, other: str, default: Any) -> None:
    if values.get(name, default) != values.get(other, default):
        raise _not_supported(name, values.get(name, default), f"that of {other}, {values.get(other, default)!r}")


def _expect_one_of(values: Mapping[str, Any], name: str, default: Any, expected: tuple[Any, ...]) -> None:
    if values.get(name, default) not in expected:
        raise _not_supported(name, values.get(name, default), " or ".join(map(repr, expected)))


def _not_supported(name: str, value: Any, expected: str) -> UserError:
    return UserError(f"config.json: {name} is {shortened(value)}, which is not supported; supported is {expected}.")
