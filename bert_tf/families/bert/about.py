"""BERT (Devlin et al. 2018; transformers `BertModel`)."""

from bert_tf.config.encoder_traits import like_bert
from bert_tf.families.base import google, huggingface, keras_hub
from bert_tf.families.base.name_tables import TENSORFLOW, Names, layers, module

TRAITS = like_bert(initialized_from=("bilstm_on_top",), may_be_sinusoidal=True)
HUGGINGFACE = huggingface.Layout(
    model_type="bert",
    classes="Bert",
    prefix="bert.",
    names={
        **huggingface.TABLES,
        **module("encoder/embeddings/norm", "embeddings.LayerNorm"),
        **layers("encoder.layer.{i}", **huggingface.BERT_LAYER),
        **module("encoder/pooler", "pooler.dense"),
        **huggingface.BERT_HEADS,
        **huggingface.TASK_HEADS,
    },
    outside=huggingface.OUTSIDE,
    left_out=huggingface.NARROW,
    defaults={"vocab_size": 30522},
)
GOOGLE = google.Layout(
    config_file="bert_config.json",
    gelu="gelu_tanh",
    names={
        "encoder/embeddings/token_table": "bert/embeddings/word_embeddings",
        "encoder/embeddings/position_table": "bert/embeddings/position_embeddings",
        "encoder/embeddings/segment_table": "bert/embeddings/token_type_embeddings",
        **module("encoder/embeddings/norm", "bert/embeddings/LayerNorm", endings=TENSORFLOW),
        **layers(
            "bert/encoder/layer_{i}",
            TENSORFLOW,
            **{part: path.replace(".", "/") for part, path in huggingface.BERT_LAYER.items()},
        ),
        **module("encoder/pooler", "bert/pooler/dense", endings=TENSORFLOW),
        **module("masked_lm/transform", "cls/predictions/transform/dense", endings=TENSORFLOW),
        **module("masked_lm/norm", "cls/predictions/transform/LayerNorm", endings=TENSORFLOW),
        "masked_lm/output_bias": "cls/predictions/output_bias",
        "next_sentence/kernel": "cls/seq_relationship/output_weights",
        "next_sentence/bias": "cls/seq_relationship/output_bias",
        "classifier/kernel": "output_weights",  # at the top, as in run_classifier.py
        "classifier/bias": "output_bias",
        "crf/potentials": "crf/potentials",
        "span/kernel": "cls/squad/output_weights",
        "span/bias": "cls/squad/output_bias",
    },
)
KERAS_HUB = keras_hub.Layout(
    classes="Bert",
    names=keras_hub.SEPARATE
    | keras_hub.module("encoder/pooler", "layers/dense")
    | keras_hub.MASKED_LM_HEAD
    | keras_hub.CLASSIFIER,
    has_embedder=True,
)
MODEL_GARDEN: Names = {
    "encoder/embeddings/token_table": "word_embeddings/embeddings",
    "encoder/embeddings/position_table": "position_embedding/embeddings",
    "encoder/embeddings/segment_table": "type_embeddings/embeddings",
    **module("encoder/embeddings/norm", "embeddings/layer_norm", endings=TENSORFLOW),
    **layers(
        "transformer/layer_{i}",
        TENSORFLOW,
        query="self_attention/query",
        key="self_attention/key",
        value="self_attention/value",
        project_out="self_attention/attention_output",
        attention_norm="self_attention_layer_norm",
        expand="intermediate",
        contract="output",
        feed_forward_norm="output_layer_norm",
    ),
    **module("encoder/pooler", "pooler_transform", endings=TENSORFLOW),
    **module("masked_lm/transform", "cls/predictions/transform/dense", endings=TENSORFLOW),
    **module("masked_lm/norm", "cls/predictions/transform/LayerNorm", endings=TENSORFLOW),
    "masked_lm/output_bias": "cls/predictions/output_bias/bias",
    **module("next_sentence", "next_sentence/logits", endings=TENSORFLOW),
    **module("classifier", "classifier/logits", endings=TENSORFLOW),
    **module("span", "span_labeling/logits", endings=TENSORFLOW),
}
