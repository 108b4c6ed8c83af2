"""XLM-RoBERTa: RoBERTa in a hundred languages, with SentencePiece (Conneau et al. 2020).

transformers: `XLMRobertaModel`.
"""

import keras

from bert_tf.model.encoders.bert import BertEncoder

TRAITS = {"like": "roberta", "tokenizer": "xlm_roberta"}


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """As RoBERTa's."""
