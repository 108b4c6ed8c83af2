"""Layouts of `transformers` architectures, from the families that have one."""

from collections.abc import Mapping
from typing import Any

from bert_tf import families
from bert_tf.checkpoints import published
from bert_tf.errors import UserError
from bert_tf.families.base.huggingface import Layout
from bert_tf.runtime.settings import TEXT, TEXTS, Settings, shortened

# Entries of config.json that change the output of a model -> the only supported value.
NOT_SUPPORTED: Mapping[str, Any] = {
    "position_embedding_type": "absolute",
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "pruned_heads": {},
    "quantization_config": None,
    "alibi_starting_size": None,
}
LAYOUTS: Mapping[str, Layout] = families.having("HUGGINGFACE")
BY_TYPE = {layout.model_type: encoder for encoder, layout in LAYOUTS.items()}


def written_by_class(values: Settings) -> str:
    """The transformers class that wrote a config.json; "" if it does not specify it."""
    return next(iter(values.value("architectures", TEXTS, [])), "")


def encoder_of(values: Settings) -> str:
    """The encoder in a config.json: by its type, in older files by the class that wrote it, or BERT.

    Raises UserError if this package has no such encoder.
    """
    written_by = written_by_class(values)
    by_class = {
        layout.classes: layout.model_type for layout in LAYOUTS.values() if written_by.startswith(layout.classes)
    }
    kind = values.value("model_type", TEXT) or (by_class[max(by_class, key=len)] if by_class else "bert")
    if written_by.startswith("JinaBert"):  # whose model_type is bert
        kind = "jina_bert"
    if kind not in BY_TYPE:
        near = published.nearest(f"{kind}:")
        known = f"the nearest supported checkpoint is {near}" if near else f"expected one of {', '.join(BY_TYPE)}"
        raise UserError(
            f"{values.source} describes a model of type {shortened(kind)}, which is not supported: {known}."
        )
    return BY_TYPE[kind]
