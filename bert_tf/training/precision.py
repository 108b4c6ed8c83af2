"""From a flag to a Keras dtype policy."""

from bert_tf.errors import UserError
from bert_tf.runtime import backend

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


def policy(precision: str = "auto", *, is_trained: bool = True) -> str:
    """Returns the name of the dtype policy; "auto" is bfloat16 where the hardware supports it, else float32.

    Trained weights, LayerNorm, softmax and losses are float32 in any case. The weights of a model for inference have
    the compute precision too: casting all of them in every call takes a large part of the time of a short one.
    """
    if precision == "auto":
        precision = "bfloat16" if backend.has_bfloat16() else "float32"
    if precision not in POLICIES:
        raise UserError(f"There is no precision {precision!r}. Known: auto, {', '.join(POLICIES)}.")
    return POLICIES[precision] if is_trained else precision
