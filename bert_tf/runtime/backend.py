"""The devices that TensorFlow runs on and their capabilities; no other module queries them."""

import contextlib
import contextvars
import functools
import logging
from collections.abc import Iterator

from bert_tf.errors import UserError
from bert_tf.runtime import machine
from bert_tf.runtime.lazy import module, tf

util_port = module("tensorflow.python.util._pywrap_util_port")
log = logging.getLogger("bert_tf")
BFLOAT16_CPU_FLAGS = {"amx_bf16", "avx512_bf16"}  # in /proc/cpuinfo, for processors that multiply bfloat16

STEPS_PER_CALL = 8
HOST = "/device:CPU:0"

_for_any_device = contextvars.ContextVar("for any device", default=False)
_only_values = contextvars.ContextVar("only values", default=False)


@contextlib.contextmanager
def for_any_device() -> Iterator[None]:
    """Sets `platform` to "any" inside: for tracing graphs that may run on other machines, such as exports."""
    token = _for_any_device.set(True)
    try:
        yield
    finally:
        _for_any_device.reset(token)


@contextlib.contextmanager
def only_values() -> Iterator[None]:
    """Omits hand-written gradients inside, for predictions: TensorFlow never frees them or their graph."""
    token = _only_values.set(True)
    try:
        yield
    finally:
        _only_values.reset(token)


def needs_gradients() -> bool:
    """Returns whether operations should have hand-written gradients: not in exports or `only_values`."""
    return not (_only_values.get() or _for_any_device.get())


def platform() -> str:
    """The kind of device in use: "tpu", "gpu" or "cpu"; "any" in `for_any_device`.

    Starts TensorFlow's runtime on a machine without GPU.
    """
    if _for_any_device.get():
        return "any"
    if tf.config.list_physical_devices("TPU"):
        return "tpu"
    if gpu_count():
        return "gpu"
    return "tpu" if tf.config.list_logical_devices("TPU") else "cpu"  # a remote TPU has logical devices only


def on_host() -> contextlib.AbstractContextManager[None]:
    """Places operations traced inside, such as loops over texts, on the host if there are other devices."""
    return contextlib.nullcontext() if platform() == "cpu" else tf.device(HOST)


def gpu_count() -> int:
    """The number of visible GPUs, without starting TensorFlow's runtime."""
    return len(tf.config.list_physical_devices("GPU"))


def device_names() -> list[str]:
    """The names of the GPUs or, without GPUs, the CPU devices: ["CPU:0"]. Starts TensorFlow's runtime."""
    kind = "GPU" if gpu_count() else "CPU"
    return [f"{kind}:{number}" for number in range(len(tf.config.list_logical_devices(kind)))]


def select_device(device: str) -> None:
    """Hides GPUs for "cpu"; UserError for "gpu" if TensorFlow sees none; "auto" warns about GPUs it does not see.

    Call it before TensorFlow's runtime starts.
    """
    if device == "cpu":
        with contextlib.suppress(RuntimeError):
            tf.config.set_visible_devices([], "GPU")
    elif device == "gpu" and not gpu_count():
        raise UserError(f"device=gpu: TensorFlow sees no GPU; {machine.why_unseen()}.")
    elif device == "auto" and not gpu_count() and machine.gpus():
        log.warning("TensorFlow sees no GPU and computes on the CPU; %s.", machine.why_unseen())


def grow_gpu_memory() -> None:
    """Lets TensorFlow allocate GPU memory on demand, not all at once; before its runtime starts."""
    with contextlib.suppress(RuntimeError):
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)


def allow_tf32(allowed: bool) -> None:
    """Sets whether GPUs multiply float32 in TF32, TensorFlow's default."""
    tf.config.experimental.enable_tensor_float_32_execution(allowed)


def split_devices(count: int, memory_limit: int = 0) -> None:
    """Splits the CPU, or each GPU, into `count` logical devices; no effect once the runtime has started.

    memory_limit: MiB per part of a GPU, required by TensorFlow.
    """
    parts = [tf.config.LogicalDeviceConfiguration(memory_limit if gpu_count() else None)] * count
    with contextlib.suppress(RuntimeError):
        for device in tf.config.list_physical_devices("GPU" if gpu_count() else "CPU"):
            tf.config.set_logical_device_configuration(device, parts)


def has_bfloat16() -> bool:
    """Returns whether the device multiplies bfloat16 in hardware."""
    kind = platform()
    if kind == "tpu":
        return True
    if kind == "gpu":  # Ampere and later
        gpus = tf.config.list_physical_devices("GPU")
        capabilities = [tf.config.experimental.get_device_details(gpu).get("compute_capability") for gpu in gpus]
        return all(capability is not None and capability >= machine.AMPERE for capability in capabilities)
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return not BFLOAT16_CPU_FLAGS.isdisjoint(file.read().split())
    except OSError:
        return False


@functools.cache
def has_onednn() -> bool:
    """Returns whether TensorFlow uses oneDNN on this CPU, the default on CPUs with AVX-512."""
    return bool(util_port.IsMklEnabled())


def should_jit(jit_compile: str) -> bool:
    """Returns whether to compile with XLA for a flag "true", "false" or "auto" (on GPUs only)."""
    return jit_compile == "true" or (jit_compile == "auto" and bool(gpu_count()))


def steps_per_call() -> int:
    """The default number of training steps per device call: several on devices that would wait for the host.

    Not measured on an accelerator.
    """
    return 1 if platform() == "cpu" else STEPS_PER_CALL
