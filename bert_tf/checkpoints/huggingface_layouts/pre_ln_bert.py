"""Megatron-BERT, which is BERT with LayerNorm before attention and feed-forward."""

from bert_tf.checkpoints.huggingface_layouts.base.layout import (
    BERT_HEADS,
    BERT_LAYER,
    NARROW,
    OUTSIDE,
    TABLES,
    TASK_HEADS,
    Layout,
    layers,
    module,
)

LAYOUT = Layout(
    model_type="megatron-bert",
    classes="MegatronBert",
    prefix="bert.",
    names={
        **TABLES,
        **layers("encoder.layer.{i}", **BERT_LAYER | {"attention_norm": "attention.ln", "feed_forward_norm": "ln"}),
        **module("encoder/norm", "encoder.ln"),
        **module("encoder/pooler", "pooler.dense"),
        **BERT_HEADS,
        **TASK_HEADS,
    },
    outside=OUTSIDE,
    left_out=NARROW,
    defaults={
        "vocab_size": 29056,
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
)
