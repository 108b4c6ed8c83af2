"""BERT."""

from bert_tf.checkpoints.huggingface_layouts.base import layout as base
from bert_tf.checkpoints.name_tables import layers, module

LAYOUT = base.Layout(
    model_type="bert",
    classes="Bert",
    prefix="bert.",
    names={
        **base.TABLES,
        **module("encoder/embeddings/norm", "embeddings.LayerNorm"),
        **layers("encoder.layer.{i}", **base.BERT_LAYER),
        **module("encoder/pooler", "pooler.dense"),
        **base.BERT_HEADS,
        **base.TASK_HEADS,
    },
    outside=base.OUTSIDE,
    left_out=base.NARROW,
    defaults={"vocab_size": 30522},
)
