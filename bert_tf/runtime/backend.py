"""The devices TensorFlow runs on and what they can do; no other module of the package queries them."""

import contextlib
import contextvars
import functools
from collections.abc import Iterator

import tensorflow as tf

from bert_tf.errors import UserError

BFLOAT16_CPU_FLAGS = {"amx_bf16", "avx512_bf16"}  # in /proc/cpuinfo, of processors that multiply bfloat16

_for_any_device = contextvars.ContextVar("for any device", default=False)


@contextlib.contextmanager
def for_any_device() -> Iterator[None]:
    """`platform` is "any" inside: for tracing graphs that may run on another machine, as those of exports do."""
    token = _for_any_device.set(True)
    try:
        yield
    finally:
        _for_any_device.reset(token)


def platform() -> str:
    """The kind of device that computes: "tpu", "gpu" or "cpu"; "any" in `for_any_device`.

    Starts TensorFlow's runtime on a machine without GPU.
    """
    if _for_any_device.get():
        return "any"
    if tf.config.list_physical_devices("TPU"):
        return "tpu"
    if gpu_count():
        return "gpu"
    return "tpu" if tf.config.list_logical_devices("TPU") else "cpu"  # a remote TPU has logical devices only


def gpu_count() -> int:
    """The number of visible GPUs. Does not start TensorFlow's runtime."""
    return len(tf.config.list_physical_devices("GPU"))


def device_names() -> list[str]:
    """The names of the GPUs, or of the CPU devices if there are none: ["CPU:0"]. Starts TensorFlow's runtime."""
    kind = "GPU" if gpu_count() else "CPU"
    return [f"{kind}:{number}" for number in range(len(tf.config.list_logical_devices(kind)))]


def select_device(device: str) -> None:
    """Hides GPUs for "cpu"; raises UserError for "gpu" where there is none. Before TensorFlow's runtime starts."""
    if device == "cpu":
        with contextlib.suppress(RuntimeError):
            tf.config.set_visible_devices([], "GPU")
    elif device == "gpu" and not gpu_count():
        is_built = "is" if tf.test.is_built_with_cuda() else "is not"
        raise UserError(
            f"device=gpu was given, but TensorFlow, which {is_built} built with CUDA, sees no GPU: see whether "
            "nvidia-smi lists it, and install its libraries with `pip install tensorflow[and-cuda]`."
        )


def grow_gpu_memory() -> None:
    """Lets TensorFlow take memory of GPUs as it is needed, not all at once; before its runtime starts."""
    with contextlib.suppress(RuntimeError):
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)


def allow_tf32(allowed: bool) -> None:
    """Whether GPUs multiply float32 in TF32, TensorFlow's default."""
    tf.config.experimental.enable_tensor_float_32_execution(allowed)


def split_devices(count: int, memory_limit: int = 0) -> None:
    """Splits the CPU, or each GPU, into `count` logical devices; without effect once the runtime has started.

    memory_limit: MiB of each part of a GPU, which TensorFlow must be told.
    """
    parts = [tf.config.LogicalDeviceConfiguration(memory_limit if gpu_count() else None)] * count
    with contextlib.suppress(RuntimeError):
        for device in tf.config.list_physical_devices("GPU" if gpu_count() else "CPU"):
            tf.config.set_logical_device_configuration(device, parts)


def has_bfloat16() -> bool:
    """Whether the device multiplies bfloat16 in hardware."""
    kind = platform()
    if kind == "tpu":
        return True
    if kind == "gpu":  # Ampere and later
        gpus = tf.config.list_physical_devices("GPU")
        capabilities = [tf.config.experimental.get_device_details(gpu).get("compute_capability") for gpu in gpus]
        return all(capability is not None and capability >= (8, 0) for capability in capabilities)
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return not BFLOAT16_CPU_FLAGS.isdisjoint(file.read().split())
    except OSError:
        return False


@functools.cache
def has_onednn() -> bool:
    """Whether TensorFlow uses oneDNN on this CPU, which is its default on CPUs with AVX-512."""
    from tensorflow.python.util import _pywrap_util_port

    return bool(_pywrap_util_port.IsMklEnabled())


def should_jit(jit_compile: str) -> bool:
    """Whether a flag "true", "false" or "auto" means to compile with XLA; auto: on GPUs, as it is slower on CPUs."""
    return jit_compile == "true" or (jit_compile == "auto" and bool(gpu_count()))
