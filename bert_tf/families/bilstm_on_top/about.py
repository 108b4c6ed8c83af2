"""BERT with a BiLSTM between it and the head (Devlin et al. 2018, section 5.1, "+ BiLSTM")."""

from bert_tf.config.encoder_traits import EncoderTraits

TRAITS = EncoderTraits(
    has_attention=True,
    needs_even_hidden_size=True,
    extra_layers=1,  # the BiLSTM's last
    initialized_from=("bert",),
)
