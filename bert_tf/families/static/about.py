"""Token embeddings without context, as the baseline that shows what context adds."""

from bert_tf.config.encoder_traits import EncoderTraits

TRAITS = EncoderTraits(has_layers=False, initialized_from=("bert", "bilstm_on_top"))
