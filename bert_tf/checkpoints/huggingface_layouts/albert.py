"""ALBERT."""

from bert_tf.checkpoints.huggingface_layouts.base.layout import TABLES, TASK_HEADS, Layout
from bert_tf.checkpoints.name_tables import layers, module

LAYOUT = Layout(
    model_type="albert",
    classes="Albert",
    prefix="albert.",
    names={
        **TABLES,
        **module("encoder/embeddings/norm", "embeddings.LayerNorm"),
        **module("encoder/embeddings/projection", "encoder.embedding_hidden_mapping_in"),
        **layers(
            "encoder.albert_layer_groups.{i}.albert_layers.0",
            **{part: f"attention.{part}" for part in ("query", "key", "value")},
            project_out="attention.dense",
            attention_norm="attention.LayerNorm",
            expand="ffn",
            contract="ffn_output",
            feed_forward_norm="full_layer_layer_norm",
        ),
        **module("encoder/pooler", "pooler"),
        **module("masked_lm/transform", "predictions.dense"),
        **module("masked_lm/norm", "predictions.LayerNorm"),
        "masked_lm/output_bias": "predictions.bias",
        **module("next_sentence", "sop_classifier.classifier"),
        **TASK_HEADS,
    },
    outside=("predictions.", "sop_classifier.", "classifier.", "qa_outputs."),
    constants={"inner_group_num": 1},
    written={"bos_token_id": 2, "eos_token_id": 3},
    defaults={
        "vocab_size": 30000,
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    },
    may_be_causal=False,
)
