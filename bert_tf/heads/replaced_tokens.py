"""Detection of tokens that a generator replaced (Clark et al. 2020, ELECTRA; He et al. 2023); answers no texts."""

from bert_tf.heads.masked_lm import MaskedLm


class ReplacedTokens(MaskedLm):
    """A number for each token, with the generator that replaces tokens if there is one."""

    kind, weights = "replaced_tokens", "replaced_token"
    signature_inputs, signature_outputs = (), frozenset({"is_replaced"})


HEAD = ReplacedTokens
