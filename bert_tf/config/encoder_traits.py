"""Traits of encoders, for flags, configurations, tasks and formats, without TensorFlow; and encoders by name.

An encoder of this package is a folder of bert_tf/families, whose `about.py` has its `TRAITS`. One from elsewhere is a
module with a dictionary of that name.
"""

import dataclasses
import functools
import importlib
import importlib.util
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import plugins

PACKAGE = "bert_tf.families"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderTraits:
    """The properties of an encoder that other modules depend on; a row of TRAITS has those that differ.

    A dictionary may begin with {"like": another encoder}: it has those that differ from its.

    Attributes:
        is_functional: `model.functional_bert` computes it too, so other engines can hold it.
        has_attention: it returns attention probabilities.
        pretraining: what it predicts in pre-training: "masked" tokens, or if causal the next one; "both_ways", the next
            and the previous token, at positions that count twice (see families.lstm); "replaced_tokens", which tokens a
            generator replaced; "" for no pre-training.
        generator: what a generator for it is in pre-training on replaced tokens: "narrow", a quarter as wide, or
            "shallow", half as deep; "" where it is not pre-trained so.
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
        tokenizer: the kind of tokenizer that a new vocabulary for it is of, see `text.tokenizer_kinds`.
        padding_id: the id of the padding token.
        position_offset: rows of the table of positions before that of the first position.
        has_layer_biases: the dense layers of attention and of gated feed-forward have a bias.
        has_norm_biases: LayerNorms have one.
        shares_head: heads on tokens, that for masked LM among them, read what its pooler makes of them.
        is_pre_norm: LayerNorms are before attention and feed-forward, and after the last layer.
        embedding_options: of `model.embeddings.Embeddings`, where its own differ from BERT's.
        pooler_activation: of the dense layer on the token that represents a text.
        settings: entries of the configuration that only it has, with their defaults; of a list the first, and the
            others are choices.
    """

    is_functional: bool = False
    has_attention: bool = False
    pretraining: str = ""
    generator: str = ""
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
    shares_head: bool = False
    is_pre_norm: bool = False
    embedding_options: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    pooler_activation: str = "tanh"
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def may_pool_mean(self) -> bool:
        """Returns whether heads may read the mean of the tokens without a pooler, see `BertConfig.pooling`."""
        return self.is_functional and not self.shares_head


like_bert = functools.partial(EncoderTraits, is_functional=True, has_attention=True, pretraining="masked")


@functools.cache
def names() -> tuple[str, ...]:
    """The encoders of this package."""
    return tuple(plugins.names(PACKAGE))


def traits(name: str) -> EncoderTraits:
    """The traits of an encoder.

    Raises UserError if there is no such encoder.
    """
    if name in names():
        found: EncoderTraits = importlib.import_module(f"{PACKAGE}.{name}.about").TRAITS
        return found
    values = dict(getattr(_outside(name), "TRAITS", {}))
    return dataclasses.replace(traits(values.pop("like")) if "like" in values else EncoderTraits(), **values)


def module_with_layer(name: str) -> ModuleType:
    """Imports the module with the layer `Encoder` of an encoder.

    Raises UserError if there is no such encoder.
    """
    if name not in names():
        return _outside(name)
    module = f"{PACKAGE}.{name}.layer"
    return importlib.import_module(module if importlib.util.find_spec(module) else f"{PACKAGE}.base.layer")


def _outside(name: str) -> ModuleType:
    module = plugins.import_outside(name) if "." in name else None
    if module is None:
        raise UserError(f"There is no encoder {name!r}. Known: {', '.join(names())}.")
    return module
