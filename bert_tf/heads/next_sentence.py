"""Next sentence prediction (Devlin et al. 2018, section 3.1, task 2), trained with masked LM."""

from bert_tf.heads.masked_lm import MaskedLm


class NextSentence(MaskedLm):
    """A two-class head on the pooled vector of a pair; in exports the signature `next_sentence`."""

    kind = weights = "next_sentence"
    signature_inputs = (frozenset({"text_a", "text_b"}),)
    signature_outputs = frozenset({"is_next"})


HEAD = NextSentence
