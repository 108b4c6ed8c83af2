"""The devices TensorFlow runs on and what they can do; no other module of the package queries them."""

import contextlib
import contextvars
import functools
import logging
from collections.abc import Iterator

from bert_tf.errors import UserError
from bert_tf.runtime import accelerators
from bert_tf.runtime.lazy import module, tf

util_port = module("tensorflow.python.util._pywrap_util_port")
log = logging.getLogger("bert_tf")
BFLOAT16_CPU_FLAGS = {"amx_bf16", "avx512_bf16"}  # in /proc/cpuinfo, of processors that multiply bfloat16

STEPS_PER_CALL = 8
HOST = "/device:CPU:0"

_for_any_device = contextvars.ContextVar("for any device", default=False)
_only_values = contextvars.ContextVar("only values", default=False)


@contextlib.contextmanager
def for_any_device() -> Iterator[None]:
    """`platform` is "any" inside: for tracing graphs that may run on another machine, as those of exports do."""
    token = _for_any_device.set(True)
    try:
        yield
    finally:
        _for_any_device.reset(token)


@contextlib.contextmanager
def only_values() -> Iterator[None]:
    """Leaves out hand-written gradients inside, for predictions: TensorFlow never frees them, nor their graph."""
    token = _only_values.set(True)
    try:
        yield
    finally:
        _only_values.reset(token)


def needs_gradients() -> bool:
    """Returns whether operations should have their hand-written gradients: not in exports or `only_values`."""
    return not (_only_values.get() or _for_any_device.get())


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


def on_host() -> contextlib.AbstractContextManager[None]:
    """Places what is traced inside on the host, where that is not the only place: loops over texts, for one."""
    return contextlib.nullcontext() if platform() == "cpu" else tf.device(HOST)


def gpu_count() -> int:
    """The number of visible GPUs. Does not start TensorFlow's runtime."""
    return len(tf.config.list_physical_devices("GPU"))


def device_names() -> list[str]:
    """The names of the GPUs, or of the CPU devices if there are none: ["CPU:0"]. Starts TensorFlow's runtime."""
    kind = "GPU" if gpu_count() else "CPU"
    return [f"{kind}:{number}" for number in range(len(tf.config.list_logical_devices(kind)))]


def select_device(device: str) -> None:
    """Hides GPUs for "cpu"; UserError for "gpu" where TensorFlow sees none; "auto" warns of a GPU that it does not see.

    Call it before TensorFlow's runtime starts.
    """
    if device == "cpu":
        with contextlib.suppress(RuntimeError):
            tf.config.set_visible_devices([], "GPU")
    elif device == "gpu" and not gpu_count():
        raise UserError(f"device=gpu was given, but TensorFlow sees no GPU; {accelerators.why_unseen()}.")
    elif device == "auto" and not gpu_count() and accelerators.gpus():
        log.warning("TensorFlow sees no GPU and computes on the CPU; %s.", accelerators.why_unseen())


def grow_gpu_memory() -> None:
    """Lets TensorFlow allocate GPU memory on demand, not all at once; before its runtime starts."""
    with contextlib.suppress(RuntimeError):
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)


def allow_tf32(allowed: bool) -> None:
    """Returns whether GPUs multiply float32 in TF32, TensorFlow's default."""
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
    """Returns whether the device multiplies bfloat16 in hardware."""
    kind = platform()
    if kind == "tpu":
        return True
    if kind == "gpu":  # Ampere and later
        gpus = tf.config.list_physical_devices("GPU")
        capabilities = [tf.config.experimental.get_device_details(gpu).get("compute_capability") for gpu in gpus]
        return all(capability is not None and capability >= accelerators.AMPERE for capability in capabilities)
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return not BFLOAT16_CPU_FLAGS.isdisjoint(file.read().split())
    except OSError:
        return False


@functools.cache
def has_onednn() -> bool:
    """Returns whether TensorFlow uses oneDNN on this CPU, which is its default on CPUs with AVX-512."""
    return bool(util_port.IsMklEnabled())


def should_jit(jit_compile: str) -> bool:
    """Returns whether a flag "true", "false" or "auto" means to compile with XLA; auto: on GPUs only."""
    return jit_compile == "true" or (jit_compile == "auto" and bool(gpu_count()))


def steps_per_call() -> int:
    """Number of training steps in a call of the device if nobody says: several where the host would be waited for.

    No accelerator has measured it.
    """
    return 1 if platform() == "cpu" else STEPS_PER_CALL
