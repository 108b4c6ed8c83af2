"""RoBERTa: BERT with byte-level BPE, pre-trained on full sentences by masked LM alone (Liu et al. 2019).

transformers: `RobertaModel`.
"""

import keras

from bert_tf.model.encoders.bert import BertEncoder


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder whose table of positions begins with two rows that no position has."""
