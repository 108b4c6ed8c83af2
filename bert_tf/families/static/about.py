"""Token embeddings without context: a baseline for encoders that have it."""

from bert_tf.config.encoder_traits import EncoderTraits

TRAITS = EncoderTraits(has_layers=False, initialized_from=("bert", "bilstm_on_top"))
