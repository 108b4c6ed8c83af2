"""RoBERTa: BERT with byte-level BPE, pre-trained on full sentences with masked LM only (Liu et al. 2019).

transformers: `RobertaModel`. Its position table begins with two unused rows.
"""

from bert_tf.config.encoder_traits import like_bert
from bert_tf.families.base import huggingface, keras_hub
from bert_tf.families.base.name_tables import layers, module

TRAITS = like_bert(
    sentence_pairs="",
    full_sentences=True,
    may_be_sinusoidal=True,
    tokenizer="byte_bpe",
    padding_id=1,
    position_offset=2,  # padding_id + 1, from where fairseq numbers positions
)
HUGGINGFACE = huggingface.Layout(
    model_type="roberta",
    classes="Roberta",
    prefix="roberta.",
    names={
        **huggingface.TABLES,
        **module("encoder/embeddings/norm", "embeddings.LayerNorm"),
        **layers("encoder.layer.{i}", **huggingface.BERT_LAYER),
        **module("encoder/pooler", "pooler.dense"),
        **module("masked_lm/transform", "lm_head.dense"),
        **module("masked_lm/norm", "lm_head.layer_norm"),
        "masked_lm/output_bias": "lm_head.bias",
        **huggingface.TASK_HEADS,
    },
    of_texts={**module("encoder/pooler", "classifier.dense"), **module("classifier", "classifier.out_proj")},
    outside=("lm_head.", "classifier.", "qa_outputs."),
    constants={"pad_token_id": 1},
    written={"bos_token_id": 0, "eos_token_id": 2},
    left_out=huggingface.NARROW,
    defaults={"vocab_size": 50265},
    has_fixed_gelu=True,
)
KERAS_HUB = keras_hub.Layout(
    classes="Roberta",
    names=keras_hub.TOGETHER | keras_hub.MASKED_LM_HEAD | keras_hub.POOLED_CLASSIFIER,
    sizes=keras_hub.SIZES,
    hidden_act="gelu_erf",
    layer_norm_eps=1e-5,
    lacks_segment=True,
)
