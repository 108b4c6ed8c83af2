"""XLM-RoBERTa: RoBERTa in a hundred languages, with SentencePiece (Conneau et al. 2020).

transformers: `XLMRobertaModel`.
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
    "tokenizer": "xlm_roberta",
    "padding_id": 1,
    "position_offset": 2,
}


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """As RoBERTa's."""
