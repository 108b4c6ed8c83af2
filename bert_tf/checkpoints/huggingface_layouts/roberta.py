"""RoBERTa."""

from bert_tf.checkpoints.huggingface_layouts.base import layout as base
from bert_tf.checkpoints.name_tables import layers, module

LAYOUT = base.Layout(
    model_type="roberta",
    classes="Roberta",
    prefix="roberta.",
    names={
        **base.TABLES,
        **module("encoder/embeddings/norm", "embeddings.LayerNorm"),
        **layers("encoder.layer.{i}", **base.BERT_LAYER),
        **module("encoder/pooler", "pooler.dense"),
        **module("masked_lm/transform", "lm_head.dense"),
        **module("masked_lm/norm", "lm_head.layer_norm"),
        "masked_lm/output_bias": "lm_head.bias",
        **base.TASK_HEADS,
    },
    of_texts={**module("encoder/pooler", "classifier.dense"), **module("classifier", "classifier.out_proj")},
    outside=("lm_head.", "classifier.", "qa_outputs."),
    constants={"pad_token_id": 1},
    written={"bos_token_id": 0, "eos_token_id": 2},
    left_out=base.NARROW,
    defaults={"vocab_size": 50265},
    has_fixed_gelu=True,
)
