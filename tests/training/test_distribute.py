"""From the flag to the strategy, and the slice of a batch that each replica gets. The CPU is two logical devices."""

import json

import faults
import numpy as np
import pytest
import tensorflow as tf
import warm
from tensorflow.python.framework import config

from bert_tf.config.device_options import DeviceOptions
from bert_tf.errors import UserError
from bert_tf.runtime import cluster
from bert_tf.training import distribute
from bert_tf.training.distribute import (
    all_reduce_sum,
    create_strategy,
    is_chief,
    on_first_replica,
    replica_id,
    shard_batch,
)


@pytest.fixture
def two_replicas():
    return create_strategy("mirrored", num_logical_devices=2)


@pytest.mark.parametrize(
    "kind, devices, expected, replicas",
    [
        ("auto", 1, tf.distribute.OneDeviceStrategy, 1),
        ("auto", 2, tf.distribute.MirroredStrategy, 2),
        ("one_device", 1, tf.distribute.OneDeviceStrategy, 1),
        ("one_device", 2, tf.distribute.OneDeviceStrategy, 1),
        ("mirrored", 2, tf.distribute.MirroredStrategy, 2),
    ],
)
def test_strategy_is_created_by_name_and_auto_fits_the_devices(monkeypatch, kind, devices, expected, replicas):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    strategy = create_strategy(kind, num_logical_devices=devices)
    assert isinstance(strategy, expected) and strategy.num_replicas_in_sync == replicas


@pytest.mark.parametrize("workers", [["a:1", "b:1"], ["a:1"], None])
def test_auto_uses_several_workers_from_tf_config(monkeypatch, workers):
    cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": 0}} if workers else {}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    tf.constant(0)  # TensorFlow runs: it cannot connect to other workers any more
    if workers and len(workers) > 1:
        with pytest.raises(UserError, match="The workers of TF_CONFIG cannot be connected any more"):
            create_strategy()
    else:
        assert isinstance(create_strategy(), tf.distribute.OneDeviceStrategy)


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"kind": "horovod"},
            "no distribution strategy 'horovod'. Known: auto, one_device, mirrored, multi_worker, tpu",
        ),
        ({"kind": "multi_worker"}, "multi_worker needs TF_CONFIG in the environment"),
        ({"num_logical_devices": 3}, "num_logical_devices=3, but TensorFlow already runs with 2"),
        ({"num_logical_devices": 0}, "num_logical_devices=0; expected 1 or more"),
        ({"kind": "tpu", "tpu_name": "nowhere"}, r"under the name 'nowhere' \(nowhere is not known\)\.$"),
    ],
)
def test_impossible_strategy_is_refused(monkeypatch, options, message):
    def unreachable(tpu):
        raise ValueError(f"{tpu} is not known\n\t [[a node of a graph]]")

    monkeypatch.delenv("TF_CONFIG", raising=False)
    without_tpu = faults.on_call(tf.distribute.cluster_resolver, "TPUClusterResolver", unreachable)
    with without_tpu, pytest.raises(UserError, match=message):
        create_strategy(**options)


def test_tensorflow_without_tpu_support_is_named():
    reason = "TPUs not found in the cluster. Failed in initialization: No OpKernel was registered to support Op "
    error = tf.errors.NotFoundError(None, None, f"{reason} 'ConfigureDistributedTPU'\nRegistered devices: [CPU]")
    with (
        faults.on_call(tf.distribute.cluster_resolver, "TPUClusterResolver", error),
        pytest.raises(UserError, match="built without support for TPUs: install tensorflow-tpu"),
    ):
        create_strategy("tpu", tpu_name="local")


@pytest.mark.parametrize("content", ['{"cluster": ', "[]", '{"cluster": 3}', '{"cluster": {"worker": 3}}'])
@pytest.mark.parametrize("kind", ["auto", "multi_worker"])
def test_invalid_tf_config_is_refused(monkeypatch, content, kind):
    monkeypatch.setenv("TF_CONFIG", content)
    with pytest.raises(UserError, match="TF_CONFIG is .*; expected JSON such as"):
        create_strategy(kind)


@pytest.mark.parametrize(
    "cluster, task, message",
    [
        ({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": 2}, "is worker 2, but its cluster has 2 of these"),
        ({"worker": ["a:1"]}, {"type": "worker", "index": -1}, "is worker -1, but its cluster has 1 of these"),
        ({"chief": ["a:1"]}, {"type": "worker", "index": 0}, "is worker 0, but its cluster has 0 of these"),
        ({"worker": ["a:1"]}, {"type": "evaluator", "index": 0}, "the type 'evaluator'; expected chief or worker"),
        ({"worker": ["a:1"]}, {"index": 0}, "the type None; expected chief or worker"),
        ({"worker": ["a:1"], "ps": ["b:1"]}, {"type": "ps", "index": 0}, "cluster in TF_CONFIG has parameter servers"),
        ({"worker": ["a:1"]}, {"type": "worker", "index": 0.5}, "TF_CONFIG is .*; expected JSON such as"),
        ({"worker": ["a:1"]}, {"type": "worker", "index": True}, "TF_CONFIG is .*; expected JSON such as"),
        ({"worker": ["a:1", 2]}, {"type": "worker", "index": 0}, "TF_CONFIG is .*; expected JSON such as"),
        ({"worker": ["a:1"]}, {"type": ["worker"], "index": 0}, "the type .'worker'.; expected chief or worker"),
    ],
)
def test_task_that_is_not_in_the_cluster_is_refused(monkeypatch, cluster, task, message):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    with pytest.raises(UserError, match=message):
        create_strategy()


@pytest.mark.parametrize("deterministic", [True, False])
def test_deterministic_operations_are_asked_for_by_the_flag(monkeypatch, deterministic):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    options = DeviceOptions(deterministic=deterministic, num_logical_devices=2)
    try:
        assert distribute.strategy_of(options).num_replicas_in_sync == 2
        assert config.is_op_determinism_enabled() == deterministic
    finally:
        config.disable_op_determinism()


def test_each_replica_gets_its_slice_in_order(two_replicas):
    batch = {"ids": tf.reshape(tf.range(12), [6, 2]), "nested": {"weights": tf.range(6.0)}}
    shared = shard_batch(two_replicas, batch)
    slices = [two_replicas.experimental_local_results(shared[name]) for name in ("ids",)][0]
    np.testing.assert_array_equal(slices[0], [[0, 1], [2, 3], [4, 5]])
    np.testing.assert_array_equal(slices[1], [[6, 7], [8, 9], [10, 11]])
    second = two_replicas.experimental_local_results(shared["nested"]["weights"])[1]
    np.testing.assert_array_equal(second, [3.0, 4.0, 5.0])


def test_single_replica_gets_the_batch_unchanged():
    batch = {"ids": tf.range(3)}
    assert shard_batch(create_strategy("one_device"), batch) is batch


def test_batch_not_divisible_by_replicas_is_refused(two_replicas):
    with pytest.raises(UserError, match="5 rows cannot be split among 2 replicas"):
        shard_batch(two_replicas, {"ids": tf.range(5)})


def test_replicas_are_numbered_and_summed(two_replicas):
    def on_replica(values):
        return replica_id(), all_reduce_sum({"sum": tf.reduce_sum(values)})

    numbers, sums = two_replicas.run(tf.function(on_replica), args=(shard_batch(two_replicas, tf.range(4.0)),))
    assert [int(number) for number in two_replicas.experimental_local_results(numbers)] == [0, 1]
    assert float(on_first_replica(two_replicas, sums)["sum"]) == 6.0


@pytest.mark.parametrize(
    "kind, number, expected", [("worker", 0, True), ("worker", 1, False), ("chief", 0, True), ("evaluator", 0, False)]
)
def test_chief_is_the_first_worker_or_named_chief(kind, number, expected):
    resolver = type("Resolver", (), {"task_type": kind, "task_id": number})
    assert is_chief(type("Strategy", (), {"cluster_resolver": resolver})) is expected


@pytest.mark.parametrize("replicas", [1, 2])
def test_single_process_is_the_chief(replicas):
    assert is_chief(create_strategy("auto", num_logical_devices=replicas))


CONNECTED = """
import os, signal, time
numbers = []
signal.signal(signal.SIGTERM, lambda number, frame: numbers.append(number))
from bert_tf.training import distribute
strategy = distribute.create_strategy("multi_worker")
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.1)
print(numbers)
"""


def test_stop_signals_are_heard_after_workers_are_connected():
    worker = {"type": "worker", "index": 0}
    addresses = [f"127.0.0.1:{port}" for port in cluster.free_ports(1)]
    environ = {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": worker})}
    done = warm.run("-c", CONNECTED, env=environ)
    assert done.stdout == "[15]\n", done.stderr
