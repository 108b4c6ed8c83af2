"""The layer of families that differ from BERT only in data: in their traits, weights and tokenizers."""

import keras

from bert_tf.families.bert.layer import BertEncoder


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder under the name of encoders in Keras files."""
