"""The layer of families that differ from BERT in data only: in their traits, weights and tokenizers."""

import keras

from bert_tf.families.bert.layer import BertEncoder


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder under the name that encoders have in Keras files."""
