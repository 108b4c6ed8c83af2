"""RoBERTa: BERT with byte-level BPE, pre-trained on full sentences by masked LM alone (Liu et al. 2019).

transformers: `RobertaModel`.
"""

import keras

from bert_tf.model.encoders.bert import BertEncoder

TRAITS = {
    "is_functional": True,
    "has_attention": True,
    "pretraining": "masked",
    "sentence_pairs": "",
    "full_sentences": True,
    "may_be_sinusoidal": True,
    "tokenizer": "byte_bpe",
    "padding_id": 1,
    "position_offset": 2,  # padding_id + 1: fairseq numbers positions from there
}


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder whose table of positions begins with two rows that no position has."""
