"""From a flag to a Keras dtype policy, and to TensorFlow's setting for products of float32."""

import logging

from bert_tf.errors import UserError
from bert_tf.runtime import backend

log = logging.getLogger("bert_tf")
POLICIES = {"float32": "float32", "tf32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


def policy(precision: str = "auto", *, is_trained: bool = True) -> str:
    """Returns the name of the dtype policy; "auto" is bfloat16 where the hardware supports it, else float32.

    Trained weights, LayerNorm, softmax and losses are float32 in any case. The weights of a model for inference have
    the compute precision too: casting all of them in every call takes a large part of the time of a short one.

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

    On GPUs, products of float32 are computed in float32, and in TF32 (10 bits of precision) for "tf32" only. Logs what
    "auto" means there.

    Raises UserError as `policy` does.
    """
    chosen = policy(precision)
    if backend.gpu_count():
        backend.allow_tf32(precision == "tf32")
        if precision == "auto":
            log.info("precision=auto is %s here.", chosen.removeprefix("mixed_"))
    return chosen
