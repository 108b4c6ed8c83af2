"""Traits of encoders, for flags, configurations, tasks and formats, without TensorFlow.

A module in bert_tf/model/encoders has a row in `TRAITS` here; one from elsewhere has a dictionary of that name.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import plugins

PACKAGE = "bert_tf.model.encoders"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderTraits:
    """The properties of an encoder that other modules depend on; a row of TRAITS has those that differ.

    A dictionary may begin with {"like": another encoder}: it has those that differ from its.

    Attributes:
        is_functional: `model.functional_bert` computes it too, so other engines can hold it.
        has_attention: it returns attention probabilities.
        pretraining: what it predicts in pre-training: "masked" tokens, or if causal the next one; "both_ways", the next
            and the previous token, at positions that count twice (see encoders.lstm); "replaced_tokens", which tokens a
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
        tokenizer: the kind of tokenizer that a new vocabulary for it is of, see `text.vocabulary`.
        padding_id: the id of the padding token.
        position_offset: rows of the table of positions before that of the first position.
        has_layer_biases: the dense layers of attention and of gated feed-forward have a bias.
        has_norm_biases: LayerNorms have one.
        shares_head: heads on tokens, that for masked LM among them, read what its pooler makes of them.
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
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def may_pool_mean(self) -> bool:
        """Returns whether heads may read the mean of the tokens without a pooler, see `BertConfig.pooling`."""
        return self.is_functional and not self.shares_head


_bert = functools.partial(EncoderTraits, is_functional=True, has_attention=True, pretraining="masked")
_roberta = functools.partial(  # position_offset: padding_id + 1, from where fairseq numbers positions
    _bert, sentence_pairs="", full_sentences=True, may_be_sinusoidal=True, padding_id=1, position_offset=2
)
TRAITS: Mapping[str, EncoderTraits] = {  # of the modules in PACKAGE
    "albert": _bert(
        sentence_pairs="order",
        may_be_sinusoidal=True,
        shares_layers=True,
        has_narrow_embeddings=True,
        tokenizer="sentencepiece",
    ),
    "bert": _bert(initialized_from=("bilstm_on_top",), may_be_sinusoidal=True),
    "bilstm_on_top": EncoderTraits(
        has_attention=True,
        needs_even_hidden_size=True,
        extra_layers=1,  # the BiLSTM's last
        initialized_from=("bert",),
    ),
    "camembert": _roberta(tokenizer="xlm_roberta"),
    "deberta_v2": _bert(
        generator="shallow",
        may_be_causal=False,
        may_drop_tokens=False,
        sentence_pairs="",
        full_sentences=True,
        tokenizer="deberta_v2",
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
    ),
    "distilbert": _bert(sentence_pairs="", may_be_sinusoidal=True),
    "electra": _bert(
        pretraining="replaced_tokens",
        generator="narrow",
        sentence_pairs="",
        may_be_causal=False,
        may_be_sinusoidal=True,
        has_narrow_embeddings=True,
    ),
    "lstm": EncoderTraits(pretraining="both_ways", may_be_causal=False, needs_even_hidden_size=True),
    "modern_bert": _bert(
        may_be_causal=False,
        sentence_pairs="",
        full_sentences=True,
        tokenizer="bert_byte_bpe",
        has_layer_biases=False,
        has_norm_biases=False,
        shares_head=True,
        settings={
            "local_attention": 128,
            "global_attn_every_n_layers": 3,
            "global_rope_theta": 160000.0,
            "local_rope_theta": 10000.0,
            "classifier_pooling": ["cls", "mean"],
            "pad_token_id": 0,
        },
    ),
    "mpnet": _roberta(may_be_causal=False, may_be_sinusoidal=False, tokenizer="mpnet"),
    "nomic_bert": _bert(
        may_be_causal=False, sentence_pairs="", has_layer_biases=False, settings={"rotary_emb_base": 1000.0}
    ),
    "pre_ln_bert": _bert(may_be_sinusoidal=True),
    "roberta": _roberta(tokenizer="byte_bpe"),
    "static": EncoderTraits(has_layers=False, initialized_from=("bert", "bilstm_on_top")),
    "xlm_roberta": _roberta(tokenizer="xlm_roberta"),
    "xlnet": _bert(
        pretraining="",
        may_be_causal=False,
        may_drop_tokens=False,
        sentence_pairs="",
        tokenizer="xlnet",
        padding_id=5,
        has_layer_biases=False,
        settings={"cls_token_id": 3, "cls_has_segment": True},
    ),
}


def traits(name: str) -> EncoderTraits:
    """The traits of an encoder: a row of TRAITS, or the dictionary of that name in a module from elsewhere.

    Raises UserError if there is no such encoder.
    """
    if name in TRAITS:
        return TRAITS[name]
    module = plugins.import_outside(name) if "." in name else None
    if module is None:
        raise UserError(f"There is no encoder {name!r}. Known: {', '.join(TRAITS)}.")
    values = dict(getattr(module, "TRAITS", {}))
    return dataclasses.replace(traits(values.pop("like")) if "like" in values else EncoderTraits(), **values)
