"""Creates a tf.distribute strategy from flags, and splits batches among replicas.

Every process reads the same stream of global batches, and a replica takes its slice: the data does not depend on the
number of replicas, and a checkpoint needs only one plain iterator (a distributed iterator cannot be saved).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bert_tf.config.device_options import DeviceOptions
from bert_tf.errors import UserError, reason_of
from bert_tf.runtime import backend, stop_signals
from bert_tf.runtime.cluster import check_workers, number_of_workers, worker_number
from bert_tf.runtime.lazy import tf

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")


def strategy_of(devices: DeviceOptions) -> tf.distribute.Strategy:
    """Starts TensorFlow on the devices that a recipe's flags name; repeated calls are free."""
    backend.select_device(devices.device)
    if devices.deterministic:
        tf.config.experimental.enable_op_determinism()
    if devices.gpu_memory_growth and devices.num_logical_devices == 1:
        backend.grow_gpu_memory()
    return create_strategy(
        devices.distribution_strategy,
        num_logical_devices=devices.num_logical_devices,
        gpu_memory_limit=devices.gpu_memory_limit,
        tpu_name=devices.tpu_name,
    )


def create_strategy(
    kind: str = "auto", *, num_logical_devices: int = 1, gpu_memory_limit: int = 0, tpu_name: str = ""
) -> tf.distribute.Strategy:
    """Creates a strategy; call it before anything else uses TensorFlow's devices.

    kind: one of STRATEGIES. auto: multi_worker if TF_CONFIG names several workers, else all GPUs, else one device.
    num_logical_devices: devices to split the CPU (or each GPU) into, to test data parallelism on one machine.
    gpu_memory_limit: MiB per part of a GPU.
    """
    if kind not in STRATEGIES:
        raise UserError(f"There is no distribution strategy {kind!r}. Known: {', '.join(STRATEGIES)}.")
    if num_logical_devices < 1:
        raise UserError(f"num_logical_devices={num_logical_devices}; expected 1 or more.")
    if kind == "auto":
        kind = _best_kind(num_logical_devices)
    if kind == "tpu":
        return _tpu(tpu_name)
    if kind == "multi_worker":
        return _multi_worker()
    devices = _devices(num_logical_devices, gpu_memory_limit)
    shares_gpu = backend.gpu_count() > 0 and num_logical_devices > 1
    return tf.distribute.OneDeviceStrategy(devices[0]) if kind == "one_device" else _mirrored(shares_gpu, *devices)


@functools.cache
def _mirrored(shares_gpu: bool, *devices: str) -> tf.distribute.Strategy:
    """One strategy per process and set of devices: the collectives of two strategies would have colliding keys.

    shares_gpu: some devices are parts of one GPU, where NCCL cannot sum.
    """
    operations = tf.distribute.ReductionToOneDevice() if shares_gpu else None
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=operations)


def _best_kind(num_logical_devices: int) -> str:
    if number_of_workers() > 1:
        return "multi_worker"
    return "mirrored" if num_logical_devices > 1 or backend.gpu_count() > 1 else "one_device"


def _devices(num_logical_devices: int, gpu_memory_limit: int) -> list[str]:
    if num_logical_devices > 1:
        if backend.gpu_count() and gpu_memory_limit < 1:
            raise UserError(
                f"num_logical_devices={num_logical_devices} cuts a GPU into parts: pass their size in MiB as "
                "gpu_memory_limit, so that all fit."
            )
        backend.split_devices(num_logical_devices, gpu_memory_limit)
    names = backend.device_names()
    if len(names) < num_logical_devices:
        raise UserError(
            f"num_logical_devices={num_logical_devices}, but TensorFlow already runs with {len(names)}: create the "
            "strategy before other work, or pass that number."
        )
    return names if backend.gpu_count() else names[:num_logical_devices]


@functools.cache
def _multi_worker() -> tf.distribute.Strategy:
    check_workers()
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.AUTO
    )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    except RuntimeError as error:  # TensorFlow's runtime has started
        raise UserError(
            f"The workers of TF_CONFIG cannot be connected any more ({reason_of(error)}): train before this process "
            "uses TensorFlow for anything else."
        ) from None
    finally:
        stop_signals.reclaim()


@functools.cache
def _tpu(tpu_name: str) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu_name)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        if "No OpKernel was registered" in str(error):
            raise UserError(
                "This TensorFlow was built without support for TPUs: install tensorflow-tpu, "
                'pip install "bert-tf[tpu]" && pip install --no-deps --force-reinstall "tensorflow-tpu==2.20.*".'
            ) from None
        named = f" under the name {tpu_name!r}" if tpu_name else ": pass its name as tpu_name"
        raise UserError(f"No TPU could be reached{named} ({reason_of(error)}).") from None
    return tf.distribute.TPUStrategy(resolver)


def rows_of_process(strategy: tf.distribute.Strategy, size: int) -> range:
    """The rows of a global batch of `size` for the replicas of this process."""
    if not spans_processes(strategy):
        return range(size)
    processes, number = number_of_workers(), worker_number()
    return range(size * number // processes, size * (number + 1) // processes)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process writes the run folder."""
    resolver = strategy.cluster_resolver
    if resolver is None or not getattr(resolver, "task_type", None):
        return True
    return resolver.task_type == "chief" or (resolver.task_type == "worker" and resolver.task_id == 0)


def needs_static_shapes(strategy: tf.distribute.Strategy, jit_compile: str) -> bool:
    """Returns whether XLA compiles the replicas' computation: always on TPUs, elsewhere if jit_compile selects it."""
    return isinstance(strategy, tf.distribute.TPUStrategy) or backend.should_jit(jit_compile)


def spans_processes(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether several processes train together; all of them must stop after the same step."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def shard_batch(strategy: tf.distribute.Strategy, batch: Any, *, axis: int = 0) -> Any:
    """Gives each replica its slice of every tensor [B, ...] in a nested structure. axis: the axis of B, 0 or 1.

    Raises UserError if B is not a multiple of the number of replicas: no row is ever dropped.
    """
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return batch
    rows = tf.nest.flatten(batch)[0].shape[axis]
    if rows % replicas:
        raise UserError(f"{rows} rows cannot be split among {replicas} replicas: choose a multiple of {replicas}.")

    def slice_of(context: tf.distribute.experimental.ValueContext) -> Any:
        def cut(tensor: tf.Tensor) -> tf.Tensor:
            size = tensor.shape[axis] // replicas
            start = context.replica_id_in_sync_group * size
            rows = slice(start, start + size)
            return tensor[:, rows] if axis else tensor[rows]

        return tf.nest.map_structure(cut, batch)

    return strategy.experimental_distribute_values_from_function(slice_of)


def on_replicas(strategy: tf.distribute.Strategy, function: Callable[..., Any]) -> Callable[..., Any]:
    """A tf.function that runs a function on every replica and returns the first replica's result."""
    return tf.function(lambda *args: on_first_replica(strategy, strategy.run(function, args=args)), autograph=False)


def on_first_replica(strategy: tf.distribute.Strategy, values: Any) -> Any:
    """Returns one replica's values, for results that are equal on all replicas."""
    return tf.nest.map_structure(lambda value: strategy.experimental_local_results(value)[0], values)


def all_reduce_sum(values: Any) -> Any:
    """Sums tensors over all replicas; inside `strategy.run`."""
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, _of_this_replica(values))


def all_gather(values: Any) -> Any:
    """Concatenates tensors [B, ...] of all replicas; inside `strategy.run`."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1 or not tf.nest.flatten(values):
        return values
    return context.all_gather(_of_this_replica(values), axis=0)


def _of_this_replica(values: Any) -> Any:
    """Copies of the tensors on the replica's device: arguments have no device, so workers could not send them."""
    return tf.nest.map_structure(tf.identity, values)


def number_of_replicas() -> int:
    """Returns the number of replicas, inside `strategy.run`; 1 outside of it."""
    return int(tf.distribute.get_replica_context().num_replicas_in_sync)


def replica_id() -> tf.Tensor:
    """Returns the index of this replica, an int32 scalar; inside `strategy.run`."""
    return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int32)


def barrier(strategy: tf.distribute.Strategy) -> None:
    """Waits for every replica; a worker that exits early would close the connections of the others."""
    any_process(strategy, False)


def any_process(strategy: tf.distribute.Strategy, value: bool) -> bool:
    """Returns whether the value is true in any of the processes training together; waits for every replica."""
    if strategy.num_replicas_in_sync == 1:
        return value
    count = strategy.run(tf.function(all_reduce_sum, autograph=False), args=(tf.constant(float(value)),))
    return float(on_first_replica(strategy, count).numpy()) > 0
