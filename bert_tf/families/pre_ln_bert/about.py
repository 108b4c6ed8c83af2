"""BERT with LayerNorm before attention and feed-forward, as in Megatron-LM (Shoeybi et al. 2019, section 5.3).

It keeps deep models stable in training, even without warm-up (Xiong et al. 2020). transformers: `MegatronBertModel`.
"""

from bert_tf.config.encoder_traits import like_bert
from bert_tf.families.base import huggingface
from bert_tf.families.base.name_tables import layers, module

TRAITS = like_bert(may_be_sinusoidal=True, is_pre_norm=True, embedding_options={"is_normalized": False})
HUGGINGFACE = huggingface.Layout(
    model_type="megatron-bert",
    classes="MegatronBert",
    prefix="bert.",
    names={
        **huggingface.TABLES,
        **layers(
            "encoder.layer.{i}",
            **huggingface.BERT_LAYER | {"attention_norm": "attention.ln", "feed_forward_norm": "ln"},
        ),
        **module("encoder/norm", "encoder.ln"),
        **module("encoder/pooler", "pooler.dense"),
        **huggingface.BERT_HEADS,
        **huggingface.TASK_HEADS,
    },
    outside=huggingface.OUTSIDE,
    left_out=huggingface.NARROW,
    defaults={
        "vocab_size": 29056,
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
)
