"""From a flag to a Keras dtype policy: which numbers this machine computes fastest with."""

from bert_tf.errors import UserError
from bert_tf.runtime import backend

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


def policy(precision="auto", *, is_trained=True):
    """The name of the dtype policy; "auto" is bfloat16 where the hardware multiplies it, else float32.

    Weights that are trained, LayerNorm, softmax and losses are float32 in any case. The weights of a model that only
    answers are of that precision too: casting all of them in every call takes a good part of the time of a short one.
    """
    if precision == "auto":
        precision = "bfloat16" if backend.has_bfloat16() else "float32"
    if precision not in POLICIES:
        raise UserError(f"There is no precision {precision!r}. Known: auto, {', '.join(POLICIES)}.")
    return POLICIES[precision] if is_trained else precision
