"""The loop: the same weights however often it is killed, stopped or interrupted by damage."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm

HERE = Path(__file__).parent


def start(folder, *arguments, environment=None):
    paths = os.pathsep.join([str(HERE), str(HERE.parent)])
    return subprocess.Popen(
        [sys.executable, str(HERE / "training_process.py"), str(folder), *arguments],
        env={**os.environ, "PYTHONPATH": paths, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder, *arguments):
    done = warm.run("tests/training_process.py", folder, *arguments)
    return done.returncode, done.stdout, done.stderr


def weights_of(output):
    """The last line, a hash of the weights, without what the first worker says on the way."""
    return output.splitlines()[-1]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """{replicas: weights} of runs that nobody disturbed."""
    outputs = {}
    for replicas in (1, 2):
        code, output, errors = run(tmp_path_factory.mktemp("whole"), f"--replicas={replicas}")
        assert code == 0, errors
        outputs[replicas] = weights_of(output)
        assert outputs[replicas].startswith("hash")
    return outputs


def test_a_killed_run_goes_on_to_bitwise_the_same_weights(uninterrupted, tmp_path):
    code, _, _ = run(tmp_path, "--replicas=2", "--kill-at=9")
    assert code == -9
    assert weights_of(run(tmp_path, "--replicas=2")[1]) == uninterrupted[2]
    steps = [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    training = sorted(set(steps))
    assert training == list(range(1, 13)), "every step is logged, and those done again only once"


def test_sigterm_saves_and_the_same_command_goes_on(uninterrupted, tmp_path):
    code, output, errors = run(tmp_path, "--stop-at=5")
    assert code == 0 and "Stopped after step 5, which is saved" in output, errors
    assert (tmp_path / "checkpoints" / "ckpt-5.index").exists()
    assert weights_of(run(tmp_path)[1]) == uninterrupted[1]


def test_two_worker_processes_equal_two_replicas(uninterrupted, tmp_path):
    import socket

    sockets = [socket.socket() for _ in range(2)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    workers = [
        start(
            tmp_path,
            "--strategy=multi_worker",
            "--dropout=0",
            environment={
                "TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
            },
        )
        for index in range(2)
    ]
    outputs = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    assert weights_of(outputs[0][0]) == weights_of(outputs[1][0]), "both workers end with the same weights"
    _, alone, _ = run(tmp_path / "alone", "--dropout=0")
    assert float(outputs[0][0].split()[-1]) == pytest.approx(float(alone.split()[-1]), rel=1e-6)
    assert (tmp_path / "checkpoints" / "ckpt-12.index").exists()
