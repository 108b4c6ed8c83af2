"""Which tokens a generator has replaced (Clark et al. 2020, ELECTRA); it answers no text by itself."""

from collections.abc import Mapping
from typing import Any

from bert_tf.heads.masked_lm import MaskedLm


class ReplacedTokens(MaskedLm):
    """A number for each token, with the generator that replaces tokens if it is there."""

    kind, weights = "replaced_tokens", "replaced_token"
    form = ""
    architecture, functional_form = "ForPreTraining", "VECTORS"
    signature_inputs, signature_outputs = (), frozenset({"is_replaced"})

    @classmethod
    def model(cls, config: Any, size: int, weights: Mapping[str, Any], **options: Any) -> Any:
        """See `Head`."""
        from bert_tf.model import replaced_tokens

        has_generator = replaced_tokens.is_generator(config, weights)
        return (replaced_tokens.ReplacedTokenModel if has_generator else replaced_tokens.Discriminator)(config)


HEAD = ReplacedTokens
