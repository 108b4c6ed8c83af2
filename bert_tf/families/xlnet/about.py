"""XLNet (Yang et al. 2019; transformers `XLNetModel`)."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.encoder_traits import like_bert
from bert_tf.families.base import huggingface
from bert_tf.families.base.name_tables import module
from bert_tf.runtime.settings import Settings, whole

TRAITS = like_bert(
    pretraining="",
    may_be_causal=False,
    may_drop_tokens=False,
    sentence_pairs="",
    tokenizer="xlnet",
    padding_id=5,
    has_layer_biases=False,
    embedding_options={"has_segments": False, "has_positions": False, "is_normalized": False},
    settings={"cls_token_id": 3, "cls_has_segment": True},
)

RENAMED = {
    "hidden_size": "d_model",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "d_inner",
    "hidden_act": "ff_activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "dropout",
}
ONLY_OURS = (
    *("max_position_embeddings", "embedding_size", "num_hidden_groups", "type_vocab_size"),
    "cls_has_segment",
)
LONGEST = 2048  # tokens of a text; XLNet has no such limit
ATTENTION, LAYER = "encoder/layers/{i}/attention", "layer.{i}"
HEADS_LEFT_OUT = {
    "permutation_lm/": "because it predicts tokens by a second stream of attention, which is not supported",
    "beam_search/": "because it searches for the end given the start, which is not supported",
}


def read(given: Settings) -> dict[str, Any]:
    """The entries under the class's names, without no-ops; UserError for any that would change outputs."""
    values = Settings({name: value for name, value in given.items() if name not in ONLY_OURS}, given.source)
    values |= {RENAMED[ours]: values[ours] for ours in huggingface.SIZES & values.keys() if RENAMED[ours] not in values}
    huggingface.check_one_of(values, "clamp_len", -1, (-1, 0))
    huggingface.check_one_of(values, "summary_activation", "tanh", ("tanh",))
    size = values.value("d_model", whole(1), 1024) // values.value("n_head", whole(1), 16)
    huggingface.check_one_of(values, "d_head", size, (None, size))
    return {name: value for name, value in values.items() if value is not None}


def write(values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries under the class's names; its `max_position_embeddings` cannot be set."""
    return {name: value for name, value in values.items() if name not in ONLY_OURS}


def read_array(name: str, array: np.ndarray) -> np.ndarray:
    """Merges the axes of heads and head size, and transposes the output projection as for the other matrices."""
    if ".rel_attn." not in name or array.ndim < 2:
        return array
    flat = array.reshape(*array.shape[:-2], -1)
    return flat.T if name.endswith(".o") else flat


def write_array(name: str, array: np.ndarray, config: BertConfig) -> np.ndarray:
    """The inverse of `read_array`."""
    if ".rel_attn." not in name or "layer_norm" in name:
        return array
    flat = array.T if name.endswith(".o") else array
    return np.ascontiguousarray(flat).reshape(*flat.shape[:-1], config.num_attention_heads, config.head_size)


def heads_left_out(config: BertConfig, arrays: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the heads that need more than the content stream."""
    yield from HEADS_LEFT_OUT.items()


HUGGINGFACE = huggingface.Layout(
    model_type="xlnet",
    classes="XLNet",
    prefix="transformer.",
    names={
        "encoder/embeddings/token_table": "word_embedding.weight",
        f"{ATTENTION}/query_key_value/kernel": tuple(f"{LAYER}.rel_attn.{part}" for part in "qkv"),
        f"{ATTENTION}/project_out/kernel": f"{LAYER}.rel_attn.o",
        f"{ATTENTION}/position_key/kernel": f"{LAYER}.rel_attn.r",
        f"{ATTENTION}/content_bias": f"{LAYER}.rel_attn.r_w_bias",
        f"{ATTENTION}/position_bias": f"{LAYER}.rel_attn.r_r_bias",
        f"{ATTENTION}/segment_bias": f"{LAYER}.rel_attn.r_s_bias",
        f"{ATTENTION}/segment_table": f"{LAYER}.rel_attn.seg_embed",
        **module("encoder/layers/{i}/attention_norm", f"{LAYER}.rel_attn.layer_norm"),
        **module("encoder/layers/{i}/feed_forward/expand", f"{LAYER}.ff.layer_1"),
        **module("encoder/layers/{i}/feed_forward/contract", f"{LAYER}.ff.layer_2"),
        **module("encoder/layers/{i}/feed_forward_norm", f"{LAYER}.ff.layer_norm"),
        **module("encoder/pooler", "sequence_summary.summary"),
        "permutation_lm/output_bias": "lm_loss.bias",
        "beam_search/start": "start_logits.dense.weight",
        **huggingface.TASK_HEADS,
    },
    of_texts=module("classifier", "logits_proj"),
    has_choices_of_texts=True,
    outside=("sequence_summary.", "logits_proj.", "classifier.", "qa_outputs.", "crf."),
    renamed=RENAMED,
    constants={
        "attn_type": "bi",
        "bi_data": False,
        "untie_r": True,
        "summary_type": "last",
        "summary_use_proj": True,
        "pad_token_id": 5,
    },
    written={"bos_token_id": 1, "eos_token_id": 2, "clamp_len": -1, "mem_len": None, "summary_activation": "tanh"},
    left_out=("position_embedding_type",),
    defaults={
        "vocab_size": 32000,
        "d_model": 1024,
        "n_layer": 24,
        "n_head": 16,
        "d_inner": 4096,
        "dropout": 0.1,
        "max_position_embeddings": LONGEST,
        "type_vocab_size": 4,  # including <cls> and padding
    },
    may_be_causal=False,
    unused={"mask_emb": "only XLNet's own pre-training reads it"},
    ends=huggingface.CLASSES | {("span",): "ForQuestionAnsweringSimple"},
    read=read,
    write=write,
    read_array=read_array,
    write_array=write_array,
    heads_left_out=heads_left_out,
)
