"""MPNet (Song et al. 2020; transformers `MPNetModel`)."""

import dataclasses

from bert_tf.families.base import huggingface
from bert_tf.families.base.name_tables import layers
from bert_tf.families.roberta import about as roberta

TRAITS = dataclasses.replace(
    roberta.TRAITS,
    may_be_causal=False,
    may_be_sinusoidal=False,
    tokenizer="mpnet",
    embedding_options={"has_segments": False},
)
HUGGINGFACE = dataclasses.replace(
    roberta.HUGGINGFACE,
    model_type="mpnet",
    classes="MPNet",
    prefix="mpnet.",
    names={
        **{ours: theirs for ours, theirs in roberta.HUGGINGFACE.names.items() if "segment" not in ours},
        **layers(
            "encoder.layer.{i}",
            **{**huggingface.BERT_LAYER, **{part: f"attention.attn.{part[0]}" for part in ("query", "key", "value")}}
            | {"project_out": "attention.attn.o", "attention_norm": "attention.LayerNorm"},
        ),
        "encoder/relative_attention_bias": "encoder.relative_attention_bias.weight",
    },
    constants={"relative_attention_num_buckets": 32, "pad_token_id": 1},
    left_out=(*huggingface.NARROW, "type_vocab_size"),
    defaults={"vocab_size": 30527},
    may_be_causal=False,
)
