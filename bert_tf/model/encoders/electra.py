"""ELECTRA: a BERT that tells replaced tokens from original ones (Clark et al. 2020; transformers `ElectraModel`).

In pre-training a small generator fills masks, and the encoder tells which tokens it replaced: see
`model.replaced_tokens`.
"""

import keras

from bert_tf.model.encoders.bert import BertEncoder


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder whose embeddings a dense layer widens, where they are narrower than its layers.

    It has no pooler of its own; that of a classifier has a GELU.
    """

    pooler_activation = "gelu_erf"
