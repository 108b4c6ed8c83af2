"""An optional signature of an export that attributes its prediction to tokens, using integrated gradients.

B texts, T tokens in a row.
"""

from collections.abc import Callable

import tensorflow as tf

from bert_tf.export.attention_signature import max_tokens, rows_of, tokenize_function
from bert_tf.model.attribution import integrated_gradients
from bert_tf.model.heads import BertModel
from bert_tf.text.tokenizer import Tokenizer

SIGNATURE = "attribution"
EXAMPLES = {"text": ["The fox ran over the [MASK].", "Who ran over it? ||| The fox ran over the hill."]}


def signature(model: BertModel, tokenizer: Tokenizer) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """attribution(text string [B]): attributes the predictions for texts to their tokens.

    A text may be a pair, "first ||| second", and may contain "[MASK]" for a fill-mask model; it is truncated as in
    `attention_signature`.

    Returns:
        A function that returns "tokens" string [B, T], "attributions" float32 [B, T], "lengths" int32 [B], and
        "outputs", "baseline_outputs" and "targets" [B] from `model.attribution.integrated_gradients`; padding is "" and
        0.
    """
    tokenize, length = tokenize_function(model, tokenizer), max_tokens(model.config)
    special = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id, tokenizer.pad_id)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")], autograph=False)
    def attribution(text: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = rows_of(tokenizer, tokenize, text, length)
        used = tf.sequence_mask(inputs["lengths"], tf.shape(inputs["token_ids"])[1])  # [B, T]
        return {
            "tokens": tf.where(used, tokenizer.ids_to_tokens(inputs["token_ids"]), ""),
            "lengths": inputs["lengths"],
            **integrated_gradients(model, inputs, mask_id=tokenizer.mask_id, kept_ids=special),
        }

    return attribution
