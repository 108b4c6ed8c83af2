"""BERT."""

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
    model_type="bert",
    classes="Bert",
    prefix="bert.",
    names={
        **TABLES,
        **module("encoder/embeddings/norm", "embeddings.LayerNorm"),
        **layers("encoder.layer.{i}", **BERT_LAYER),
        **module("encoder/pooler", "pooler.dense"),
        **BERT_HEADS,
        **TASK_HEADS,
    },
    outside=OUTSIDE,
    left_out=NARROW,
    defaults={"vocab_size": 30522},
)
