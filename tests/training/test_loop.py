"""The loop: the same weights however often it is killed, stopped or interrupted by damage."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import tensorflow as tf
import warm

from bert_tf.config.train_config import TrainConfig
from bert_tf.training import loop

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "helpers"


def start(folder, *arguments, environment=None):
    paths = os.pathsep.join([str(HERE), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, str(HERE / "training_process.py"), str(folder), *arguments],
        env={**os.environ, "PYTHONPATH": paths, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder, *arguments):
    done = warm.run("tests/helpers/training_process.py", folder, *arguments)
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


def test_two_worker_processes_equal_two_replicas_and_none_stops_alone(uninterrupted, tmp_path):
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
            *["--stop-at=11"] * index,  # of 12 steps: the second worker is told to stop, and both do after the last
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


def result(**changes):
    """What a step returns, of a task without measures."""
    numbers = {"gradient_norm": 1.0, "diverged": False, "learning_rate": 0.1, "tokens": 8.0, **changes}
    return {"measures": {}, **{name: tf.constant(value) for name, value in numbers.items()}}


def log_into(lines, folder="none"):
    """A log whose lines of metrics go into a list."""
    folder = types.SimpleNamespace(checkpoints=str(folder), log=lambda step, values: lines.append(values))
    return loop._Log(types.SimpleNamespace(objectives={}), folder)


def test_a_step_that_has_diverged_ends_training_and_one_that_float16_overflows_in_does_not(tmp_path):
    (tmp_path / "ckpt-4.index").touch()
    lines = []
    log = log_into(lines, tmp_path)
    log.add(5, result(gradient_norm=float("nan")))
    log.write(5)
    log.add(6, result(gradient_norm=float("nan"), diverged=True))
    with pytest.raises(loop.Diverged, match="not a number in step 6. Kept: ckpt-4"):
        log.write(6)
    assert len(lines) == 1


def test_tokens_a_second_are_those_of_training_without_evaluating_and_saving(monkeypatch):
    clock, lines = [0.0], []
    monkeypatch.setattr(loop, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))

    def pass_by(seconds):
        clock[0] += seconds

    training = object.__new__(loop._Loop)
    training.config = TrainConfig(num_train_steps=9, save_checkpoints_steps=2)
    training.selection = types.SimpleNamespace(is_due=lambda step: step == 3, is_enough=False)
    training._evaluate = training._save = lambda step: pass_by(100)
    training.log = log_into(lines)
    for step in range(1, 6):
        pass_by(1)
        training.log.add(step, result())
        training._after(step, [], lambda *_: None)
    assert [line["tokens_per_second"] for line in lines] == [8] * 5


@pytest.mark.parametrize(
    "received, stops, expected",
    [
        ([], None, []),
        ([2], None, [2]),  # a process alone
        ([], 1.0, [15]),  # another worker was asked to
        ([2], 2.0, [2]),
        ([2], 0.0, []),  # asked while the step ran: the next one says it to all
    ],
)
def test_workers_stop_after_the_step_before_which_one_was_asked_to(received, stops, expected):
    assert loop._agreed(received, result() if stops is None else result(stops=stops)) == expected


def test_a_loop_that_fails_is_closed_all_the_same(monkeypatch):
    closed = []

    class Full(loop._Loop):
        def __init__(self, *arguments):
            pass

        def run(self, stop, report):
            raise loop.TrainingError("The disk is full.")

        def close(self):
            closed.append(True)

    monkeypatch.setattr(loop, "_Loop", Full)
    with pytest.raises(loop.TrainingError, match="The disk is full"):
        loop.train(None, None, TrainConfig(), None, None)
    assert closed == [True]


def test_datasets_are_read_without_the_tuning_for_whose_thread_their_end_would_wait():
    iterator = loop._iterator(tf.data.Dataset.range(3))
    assert iterator._dataset.options().autotune.enabled is False
    assert [int(number) for number in iterator] == [0, 1, 2]
