"""DistilBERT: BERT without segments, half as deep (Sanh et al. 2019; transformers `DistilBertModel`).

It has no pooler; its classifiers have one with a ReLU (`pre_classifier` in transformers).
"""

from bert_tf.config.encoder_traits import like_bert
from bert_tf.families.base import huggingface, keras_hub
from bert_tf.families.base.name_tables import layers, module

TRAITS = like_bert(
    sentence_pairs="", may_be_sinusoidal=True, embedding_options={"has_segments": False}, pooler_activation="relu"
)
HUGGINGFACE = huggingface.Layout(
    model_type="distilbert",
    classes="DistilBert",
    prefix="distilbert.",
    names={
        **{ours: theirs for ours, theirs in huggingface.TABLES.items() if "segment" not in ours},
        **module("encoder/embeddings/norm", "embeddings.LayerNorm"),
        **layers(
            "transformer.layer.{i}",
            query="attention.q_lin",
            key="attention.k_lin",
            value="attention.v_lin",
            project_out="attention.out_lin",
            attention_norm="sa_layer_norm",
            expand="ffn.lin1",
            contract="ffn.lin2",
            feed_forward_norm="output_layer_norm",
        ),
        **module("encoder/pooler", "pre_classifier"),
        **module("masked_lm/transform", "vocab_transform"),
        **module("masked_lm/norm", "vocab_layer_norm"),
        "masked_lm/output_bias": "vocab_projector.bias",
        **huggingface.TASK_HEADS,
    },
    outside=("pre_classifier.", "classifier.", "qa_outputs.", "vocab_"),
    renamed={
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
        "hidden_act": "activation",
        "hidden_dropout_prob": "dropout",
        "attention_probs_dropout_prob": "attention_dropout",
    },
    constants={"sinusoidal_pos_embds": False},
    left_out=(*huggingface.NARROW, "type_vocab_size", "layer_norm_eps"),
    defaults={"vocab_size": 30522, "n_layers": 6},
    may_be_causal=False,
)
KERAS_HUB = keras_hub.Layout(
    classes="DistilBert",
    names=keras_hub.TOGETHER | keras_hub.MASKED_LM_HEAD | keras_hub.POOLED_CLASSIFIER,
    sizes=keras_hub.SIZES,
    hidden_act="gelu_erf",
)
