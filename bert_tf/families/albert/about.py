"""ALBERT: narrow embeddings, layers that share weights, sentence order prediction (Lan et al. 2019).

transformers: `AlbertModel`.
"""

from bert_tf.config.encoder_traits import like_bert
from bert_tf.families.base import google, huggingface, keras_hub
from bert_tf.families.base.name_tables import TENSORFLOW, layers, module
from bert_tf.families.bert import about as bert

TRAITS = like_bert(
    sentence_pairs="order",
    may_be_sinusoidal=True,
    shares_layers=True,
    has_narrow_embeddings=True,
    tokenizer="sentencepiece",
    embedding_options={"is_projected": True},
)
HUGGINGFACE = huggingface.Layout(
    model_type="albert",
    classes="Albert",
    prefix="albert.",
    names={
        **huggingface.TABLES,
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
        **huggingface.TASK_HEADS,
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
GOOGLE = google.Layout(
    config_file="albert_config.json",
    gelu="gelu_tanh",
    names={
        **module("encoder/embeddings/projection", "bert/encoder/embedding_hidden_mapping_in", endings=TENSORFLOW),
        **bert.GOOGLE.names,
        **layers(
            "bert/encoder/transformer/group_{i}/inner_group_0",
            TENSORFLOW,
            query="attention_1/self/query",
            key="attention_1/self/key",
            value="attention_1/self/value",
            project_out="attention_1/output/dense",
            attention_norm="LayerNorm",
            expand="ffn_1/intermediate/dense",
            contract="ffn_1/intermediate/output/dense",
            feed_forward_norm="LayerNorm_1",
        ),
    },
    written=lambda config: {"embedding_size": config.embedding_width, "inner_group_num": 1},
)
KERAS_HUB = keras_hub.Layout(
    classes="Albert",
    names=keras_hub.PROJECTED
    | keras_hub.module("encoder/pooler", "layers/dense_1")
    | keras_hub.MASKED_LM_HEAD
    | keras_hub.CLASSIFIER,
    sizes=keras_hub.SIZES | keras_hub.SEGMENTS | keras_hub.NARROW | {"num_hidden_groups": "num_groups"},
    masked_lm_act="gelu_tanh",
)
