"""The place of a process in a job, from what starts it, and what of its machine it gets."""

import json

import pytest

from bert_tf.errors import UserError
from bert_tf.runtime import cluster
from bert_tf.runtime.cluster import Place

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "first", "MASTER_PORT": "29500"}
SLURM = {"SLURM_PROCID": "1", "SLURM_NTASKS": "3", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2"}


@pytest.mark.parametrize(
    "environ, expected",
    [
        ({}, None),
        (TORCHRUN, Place(3, 4, "first:29500")),
        (
            TORCHRUN | {"TORCHELASTIC_RUN_ID": "none", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
            Place(3, 4, "first:29501", (1, 2)),
        ),
        (SLURM | {"SLURM_JOB_NODELIST": "node[007-009,12]-ib,other"}, Place(1, 3, "node007-ib:20009")),
        (SLURM | {"SLURM_STEP_NODELIST": "gpu12,gpu13", "SLURM_JOB_NODELIST": "cpu1"}, Place(1, 3, "gpu12:20009")),
        (SLURM | {"SLURM_JOB_NODELIST": "node[7,9]"}, Place(1, 3, "node7:20009")),
        ({"SLURM_JOB_ID": "7"}, None),  # in `salloc`, outside a step
    ],
)
def test_schedulers_give_the_place(environ, expected):
    assert cluster.from_environment(environ) == expected


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: cluster.from_environment(TORCHRUN | {"RANK": "4"}), "worker is 4 of 4"),
        (lambda: cluster.from_environment(TORCHRUN | {"RANK": "x"}), "variables of the scheduler are not numbers"),
        (lambda: Place(0, 0, "first"), "worker is 0 of 0"),
        (lambda: Place(0, 1, "first:port"), "'first:port'; expected HOST"),
        (lambda: Place(0, 1, ":1"), "expected HOST:PORT"),
    ],
)
def test_impossible_place_is_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()


def test_addresses_become_tf_config(monkeypatch):
    from bert_tf.runtime import cluster

    monkeypatch.setenv("TF_CONFIG", cluster.tf_config(["a:1", "b:2"], 1))
    assert (cluster.number_of_workers(), cluster.worker_number()) == (2, 1)
    assert json.loads(cluster.tf_config(["a:1"], 0))["task"] == {"type": "worker", "index": 0}
    assert cluster.split_address("first") == ("first", 2222) and cluster.split_address("[::1]:8") == ("::1", 8)


def test_workers_of_a_machine_share_what_it_has():
    assert [cluster.share(range(5), number, 2) for number in range(2)] == [[0, 1], [2, 3, 4]]
    assert cluster.share([0], 1, 2) == [0], "too few to divide"
    assert len(set(cluster.free_ports(3))) == 3
