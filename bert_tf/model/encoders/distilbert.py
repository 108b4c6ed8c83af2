"""DistilBERT: BERT without segments, half as deep (Sanh et al. 2019; transformers `DistilBertModel`)."""

import keras

from bert_tf.model.encoders.bert import BertEncoder


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder without embeddings of segments.

    It has no pooler of its own; that of a classifier has a ReLU (`pre_classifier` of transformers).
    """

    embedding_options = {"has_segments": False}
    pooler_activation = "relu"
