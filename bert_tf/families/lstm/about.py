"""A forward and a backward LSTM language model whose states are features, as in ELMo (Peters et al. 2018)."""

from bert_tf.config.encoder_traits import EncoderTraits

TRAITS = EncoderTraits(pretraining="both_ways", may_be_causal=False, needs_even_hidden_size=True)
