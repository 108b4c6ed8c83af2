"""Traits of encoders, for flags, configurations, tasks and formats, without TensorFlow.

Each module in bert_tf/model/encoders, or a module from elsewhere, states it as a dictionary literal `TRAITS`, which is
read from the source without importing the module.
"""

import ast
import dataclasses
import functools
import importlib.abc
from collections.abc import Mapping
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import plugins

PACKAGE = "bert_tf.model.encoders"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderTraits:
    """The properties of an encoder that other modules depend on; a module's TRAITS has those that differ.

    They may begin with {"like": another encoder}: those that differ from its.

    Attributes:
        is_functional: `model.functional_bert` computes it too, so other engines can hold it.
        has_attention: it returns attention probabilities.
        pretraining: what it predicts in pre-training: "masked" tokens, or if causal the next one; "both_ways", the next
            and the previous token, at positions that count twice (see encoders.lstm); "replaced_tokens", which tokens a
            generator replaced; "" for no pre-training.
        may_be_causal: it can be restricted to preceding tokens.
        may_drop_tokens: its middle layers can do without some tokens, see `model.token_dropping`.
        needs_even_hidden_size: hidden_size is split between two directions.
        has_layers: num_hidden_layers layers have hidden states, besides the embeddings.
        extra_layers: how many more layers have.
        initialized_from: encoders, besides itself, whose checkpoints it can start from.
        sentence_pairs: what it predicts of two segments in pre-training: "next", whether the second follows the first;
            "order", whether they are in order; "" for nothing: it is pre-trained on rows of one segment.
        full_sentences: such rows go on across the ends of documents.
        may_be_sinusoidal: its positions can be fixed sines and cosines instead of learned vectors.
        shares_layers: several of its layers have the same weights (num_hidden_groups).
        has_narrow_embeddings: its embeddings can be narrower than its layers (embedding_size).
        tokenizer: the kind of tokenizer that a new vocabulary for it is of, see `text.vocabulary`.
        padding_id: the id of the padding token.
        position_offset: rows of the table of positions before that of the first position.
        has_layer_biases: the dense layers of attention and feed-forward have a bias.
        has_norm_biases: LayerNorms have one.
        activations: those of hidden_act that only it has.
        shares_head: heads on tokens, that for masked LM among them, read what its pooler makes of them.
        settings: entries of the configuration that only it has, with their defaults; of a list the first, and the
            others are choices.
    """

    is_functional: bool = False
    has_attention: bool = False
    pretraining: str = ""
    may_be_causal: bool = True
    may_drop_tokens: bool = True
    needs_even_hidden_size: bool = False
    has_layers: bool = True
    extra_layers: int = 0
    initialized_from: tuple[str, ...] = ()
    sentence_pairs: str = "next"
    full_sentences: bool = False
    may_be_sinusoidal: bool = False
    shares_layers: bool = False
    has_narrow_embeddings: bool = False
    tokenizer: str = "wordpiece"
    padding_id: int = 0
    position_offset: int = 0
    has_layer_biases: bool = True
    has_norm_biases: bool = True
    activations: tuple[str, ...] = ()
    shares_head: bool = False
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@functools.cache
def traits(name: str) -> EncoderTraits:
    """Reads the TRAITS of an encoder: a module in PACKAGE, or one from elsewhere by its dotted name.

    Raises UserError if there is no such module.
    """
    source = _source(f"{PACKAGE}.{name}") if name in plugins.names(PACKAGE) else _source(name) if "." in name else None
    if source is None:
        raise UserError(f"There is no encoder {name!r}. Known: {', '.join(plugins.names(PACKAGE))}.")
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["TRAITS"]:
            values = ast.literal_eval(node.value)
            like = values.pop("like", None)
            return dataclasses.replace(traits(like) if like else EncoderTraits(), **values)
    return EncoderTraits()


def _source(module: str) -> str | None:
    """The source of a module, None if there is none."""
    spec = plugins.find_outside(module)
    return spec.loader.get_source(spec.name) if spec and isinstance(spec.loader, importlib.abc.InspectLoader) else None
