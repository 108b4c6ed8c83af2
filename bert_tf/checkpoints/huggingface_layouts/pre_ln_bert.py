"""Megatron-BERT, which is BERT with LayerNorm before attention and feed-forward."""

from bert_tf.checkpoints.huggingface_layouts.base import layout as base
from bert_tf.checkpoints.name_tables import layers, module

LAYOUT = base.Layout(
    model_type="megatron-bert",
    classes="MegatronBert",
    prefix="bert.",
    names={
        **base.TABLES,
        **layers(
            "encoder.layer.{i}", **base.BERT_LAYER | {"attention_norm": "attention.ln", "feed_forward_norm": "ln"}
        ),
        **module("encoder/norm", "encoder.ln"),
        **module("encoder/pooler", "pooler.dense"),
        **base.BERT_HEADS,
        **base.TASK_HEADS,
    },
    outside=base.OUTSIDE,
    left_out=base.NARROW,
    defaults={
        "vocab_size": 29056,
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
)
