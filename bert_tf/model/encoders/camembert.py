"""CamemBERT: RoBERTa in French, with SentencePiece (Martin et al. 2020).

transformers: `CamembertModel`.
"""

import keras

from bert_tf.model.encoders.bert import BertEncoder

TRAITS = {"like": "xlm_roberta"}


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """As RoBERTa's."""
