"""ELECTRA."""

from bert_tf.checkpoints.huggingface_layouts.base.layout import BERT_LAYER, TABLES, TASK_HEADS, Layout
from bert_tf.checkpoints.name_tables import layers, module

LAYOUT = Layout(
    model_type="electra",
    classes="Electra",
    prefix="electra.",
    names={
        **TABLES,
        **module("encoder/embeddings/norm", "embeddings.LayerNorm"),
        **module("encoder/embeddings/projection", "embeddings_project"),
        **layers("encoder.layer.{i}", **BERT_LAYER),
        **module("encoder/pooler", "sequence_summary.summary"),
        **module("masked_lm/transform", "generator_predictions.dense"),
        **module("masked_lm/norm", "generator_predictions.LayerNorm"),
        "masked_lm/output_bias": "generator_lm_head.bias",
        **module("replaced_token/transform", "discriminator_predictions.dense"),
        **module("replaced_token/output_layer", "discriminator_predictions.dense_prediction"),
        **TASK_HEADS,
    },
    of_texts={**module("encoder/pooler", "classifier.dense"), **module("classifier", "classifier.out_proj")},
    outside=("sequence_summary.", "generator_", "discriminator_", "classifier.", "qa_outputs."),
    constants={"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"},
    left_out=("num_hidden_groups",),
    defaults={
        "vocab_size": 30522,
        "embedding_size": 128,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    },
    has_fixed_gelu=True,
    optional=lambda config: () if config.embedding_size else ("encoder/embeddings/projection/",),
)
