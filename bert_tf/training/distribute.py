"""From a flag to a tf.distribute strategy, and what each replica gets of a batch.

Every process sees the same stream of global batches, and a replica takes its slice: so the data do not depend on the
number of replicas, and one plain iterator can be saved in a checkpoint (a distributed iterator cannot).
"""

import functools

import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.runtime import backend
from bert_tf.runtime.process import keep_freed_memory
from bert_tf.runtime.tf_config import expect_workers, number_of_workers

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")


def create_strategy(kind="auto", *, num_logical_devices=1, tpu_name=""):
    """The strategy of that name; call it before anything else touches TensorFlow's devices.

    auto: several workers if TF_CONFIG names them, else every GPU there is, else one device. `num_logical_devices` cuts
    the CPU (or each GPU) into that many devices: a rehearsal of replicas on one machine.
    """
    if kind not in STRATEGIES:
        raise UserError(f"There is no distribution strategy {kind!r}. Known: {', '.join(STRATEGIES)}.")
    if num_logical_devices < 1:
        raise UserError(f"num_logical_devices={num_logical_devices} was given; expected 1 or more.")
    keep_freed_memory()
    if kind == "auto":
        kind = _best_kind(num_logical_devices)
    if kind == "tpu":
        return _tpu(tpu_name)
    if kind == "multi_worker":
        return _multi_worker()
    devices = _devices(num_logical_devices)
    return tf.distribute.OneDeviceStrategy(devices[0]) if kind == "one_device" else _mirrored(*devices)


@functools.cache
def _mirrored(*devices):
    """One strategy for the same devices in a process: two would count their collectives alike, and meet in them."""
    return tf.distribute.MirroredStrategy(devices)


def _best_kind(num_logical_devices):
    if number_of_workers() > 1:
        return "multi_worker"
    several = num_logical_devices > 1 or backend.gpu_count() > 1
    return "mirrored" if several else "one_device"


def _devices(num_logical_devices):
    if num_logical_devices > 1:
        backend.split_devices(num_logical_devices)
    names = backend.device_names()
    if len(names) < num_logical_devices:
        raise UserError(
            f"num_logical_devices={num_logical_devices} was asked for when {len(names)} were already set up."
        )
    return names if backend.gpu_count() else names[:num_logical_devices]


def _multi_worker():
    expect_workers()
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.AUTO
    )
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def _tpu(tpu_name):
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu_name)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        raise UserError(f"No TPU could be reached under the name {tpu_name!r} ({error}).") from None
    return tf.distribute.TPUStrategy(resolver)


def is_chief(strategy):
    """Whether this process is the one that writes the run folder."""
    resolver = strategy.cluster_resolver
    if resolver is None or not getattr(resolver, "task_type", None):
        return True
    return resolver.task_type == "chief" or (resolver.task_type == "worker" and resolver.task_id == 0)


def spans_processes(strategy):
    """Whether processes train together, of which none may stop at a step where the others go on."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def shard_batch(strategy, batch):
    """Gives each replica its slice of every tensor [B, ...].

    Raises UserError where B is no multiple of the number of replicas: no row is ever left out.
    """
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return batch
    rows = tf.nest.flatten(batch)[0].shape[0]
    if rows % replicas:
        raise UserError(f"{rows} rows cannot be shared out among {replicas} replicas: choose a multiple of {replicas}.")

    def slice_of(context):
        def cut(tensor):
            each = tensor.shape[0] // replicas
            first = context.replica_id_in_sync_group * each
            return tensor[first : first + each]

        return tf.nest.map_structure(cut, batch)

    return strategy.experimental_distribute_values_from_function(slice_of)


def on_first_replica(strategy, values):
    """The values of one replica, for results that are equal on all."""
    return tf.nest.map_structure(lambda value: strategy.experimental_local_results(value)[0], values)


def all_reduce_sum(values):
    """Sums tensors over all replicas; inside `strategy.run`."""
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)


def all_gather(values):
    """Lays the rows of tensors [B, ...] on all replicas one after another; inside `strategy.run`."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1 or not tf.nest.flatten(values):
        return values
    return context.all_gather(values, axis=0)


def replica_id():
    """The number of this replica among all, as an int32 tensor; inside `strategy.run`."""
    return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int32)


def barrier(strategy):
    """Waits until every replica is here; otherwise a worker that ends first takes the others' connections with it."""
    if strategy.num_replicas_in_sync > 1:
        strategy.run(tf.function(lambda: all_reduce_sum(tf.ones([])), autograph=False))
