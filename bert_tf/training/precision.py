"""Maps the precision flag to a Keras dtype policy and to TensorFlow's setting for float32 products."""

import logging

from bert_tf.errors import UserError
from bert_tf.runtime import backend

log = logging.getLogger("bert_tf")
POLICIES = {"float32": "float32", "tf32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


def policy(precision: str = "auto", *, is_trained: bool = True) -> str:
    """Returns the name of the dtype policy; "auto" is bfloat16 if the hardware supports it, else float32.

    Trained weights, LayerNorm, softmax and losses are always float32. For inference, weights have the compute
    precision, too: casting all of them in every call takes much of the time of a short one.

    Raises:
        UserError: the precision is unknown, or the GPU has no instructions for bfloat16.
    """
    if precision == "auto":
        precision = "bfloat16" if backend.has_bfloat16() else "float32"
    if precision not in POLICIES:
        raise UserError(f"There is no precision {precision!r}. Known: auto, {', '.join(POLICIES)}.")
    if precision == "bfloat16" and backend.gpu_count() and not backend.has_bfloat16():
        raise UserError("precision=bfloat16 needs a GPU of compute capability 8.0: pass float16, float32 or auto.")
    return POLICIES[precision] if is_trained else precision.replace("tf32", "float32")


def configure(precision: str) -> str:
    """Sets up the process for training in a precision and returns the name of its dtype policy.

    On GPUs, float32 products are computed in float32, or in TF32 (10 bits of precision) for "tf32" only. Logs the
    choice for "auto".

    Raises UserError like `policy`.
    """
    chosen = policy(precision)
    if backend.gpu_count():
        backend.allow_tf32(precision == "tf32")
        if precision == "auto":
            log.info("precision=auto is %s here.", chosen.removeprefix("mixed_"))
    return chosen
