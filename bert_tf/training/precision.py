"""From a flag to a Keras dtype policy: which numbers this machine computes fastest with."""

import tensorflow as tf

from bert_tf.errors import UserError

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
CPU_FLAGS = {"amx_bf16", "avx512_bf16"}  # what a processor that multiplies bfloat16 says of itself


def policy(precision="auto", *, is_trained=True):
    """The name of the dtype policy; "auto" is bfloat16 where the hardware multiplies it, else float32.

    Weights that are trained, LayerNorm, softmax and losses are float32 in any case. The weights of a model that only
    answers are of that precision too: casting all of them in every call takes a good part of the time of a short one.
    """
    if precision == "auto":
        precision = "bfloat16" if _has_bfloat16() else "float32"
    if precision not in POLICIES:
        raise UserError(f"There is no precision {precision!r}. Known: auto, {', '.join(POLICIES)}.")
    return POLICIES[precision] if is_trained else precision


def _has_bfloat16():
    if tf.config.list_physical_devices("TPU"):
        return True
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:  # Ampere and later
        capabilities = [tf.config.experimental.get_device_details(gpu).get("compute_capability") for gpu in gpus]
        return all(capability is not None and capability >= (8, 0) for capability in capabilities)
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return not CPU_FLAGS.isdisjoint(file.read().split())
    except OSError:
        return False
