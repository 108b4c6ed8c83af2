"""The loop: the same weights however often it is killed, stopped or interrupted by damage."""

import contextlib
import json
import math
import os
import signal
import types

import faults
import pytest
import tensorflow as tf
import warm
from training_steps import trained

from bert_tf.config.train_config import TrainConfig
from bert_tf.data import pipeline
from bert_tf.runtime import cluster, stop_signals
from bert_tf.training import distribute, loop, metrics_log
from bert_tf.training.budget import Budget
from bert_tf.training.evaluator import Evaluator

PROCESS = "tests/helpers/training_process.py"


def run(folder, *arguments):
    done = warm.run(PROCESS, folder, *arguments)
    return done.returncode, done.stdout, done.stderr


def weights_of(output):
    """The last line, a hash of the weights, without what the first worker says on the way."""
    return output.splitlines()[-1]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The weights of a run on two replicas that nobody disturbed."""
    code, output, errors = run(tmp_path_factory.mktemp("whole"), "--replicas=2")
    assert code == 0 and weights_of(output).startswith("hash"), errors
    return weights_of(output)


@pytest.mark.slow
def test_stopped_and_killed_run_resumes_bitwise(uninterrupted, tmp_path):
    code, output, errors = run(tmp_path, "--replicas=2", "--stop-at=5")
    assert code == 0 and "Stopped after step 5, which is saved" in output, errors
    assert (tmp_path / "checkpoints" / "ckpt-5.index").exists()
    code, _, _ = run(tmp_path, "--replicas=2", "--kill-at=9")
    assert code == -9
    assert weights_of(run(tmp_path, "--replicas=2")[1]) == uninterrupted
    steps = [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    training = sorted(set(steps))
    assert training == list(range(1, 13)), "every step is logged, and those done again only once"


def two_workers(folder, *arguments_of_the_second):
    """What two workers print."""
    addresses = [f"127.0.0.1:{port}" for port in cluster.free_ports(2)]
    workers = [
        warm.start(
            PROCESS,
            folder,
            "--strategy=multi_worker",
            "--dropout=0",
            *arguments_of_the_second * index,
            env={"TF_CONFIG": cluster.tf_config(addresses, index)},
        )
        for index in range(2)
    ]
    codes, outputs, errors = zip(*[worker.finish() for worker in workers], strict=True)
    assert codes == (0, 0), errors
    return outputs


@pytest.mark.slow
def test_two_workers_equal_one_replica_and_stop_together(tmp_path):
    for step in (11, 12):  # of 12: the second worker is told to stop, and both do after the last
        outputs = two_workers(tmp_path / str(step), f"--stop-at={step}")
        assert ["Stopped after step 12, which is saved" in output for output in outputs] == [True, True]
    outputs = two_workers(tmp_path / "11")
    assert weights_of(outputs[0]) == weights_of(outputs[1]), "both workers end with the same weights"
    _, alone, _ = run(tmp_path / "alone", "--dropout=0")
    assert float(outputs[0].split()[-1]) == pytest.approx(float(alone.split()[-1]), rel=1e-6)
    assert (tmp_path / "11" / "checkpoints" / "ckpt-12.index").exists()


def result(**changes):
    """The result of a step of a task without metrics."""
    numbers = {"gradient_norm": 1.0, "diverged": False, "learning_rate": 0.1, "tokens": 8.0, **changes}
    return {"metrics": {}, **{name: tf.constant(value) for name, value in numbers.items()}}


def test_divergence_ends_training_but_float16_overflow_does_not():
    lines = []
    folder = types.SimpleNamespace(log=lambda step, values: lines.append(values))
    log = metrics_log.MetricsLog(types.SimpleNamespace(objectives={}), folder, "Step {} is not finite.".format)
    log.add(5, result(gradient_norm=float("nan")))
    log.write(5)
    log.add(6, result(gradient_norm=float("nan"), diverged=True))
    log.add(7, result(gradient_norm=float("nan"), diverged=True))
    with pytest.raises(metrics_log.Diverged, match="Step 6 is not finite"):
        log.write(7)
    assert len(lines) == 1


def test_first_steps_are_reported_before_anything_is_logged():
    training = loop.TrainingLoop.__new__(loop.TrainingLoop)
    training.config = TrainConfig(num_train_steps=10_000)
    training.early_stopping = types.SimpleNamespace(is_due=lambda step: False, should_stop=False)
    training.budget = Budget(0)
    training.log = metrics_log.MetricsLog(None, None, None)
    training.early = 2 + loop.EARLY_STEPS  # continues after step 2
    reported = []
    for step in range(3, 20):
        training.log.add(step, result())
        training._after(step, step - 1, lambda step, text="": reported.append((step, text)), is_stopping=False)
    assert reported == [(step, "") for step in range(3, 8)] and len(training.log.pending) == 17


def test_checkpoint_is_due_by_the_clock_too_but_not_of_several_processes(replicas_are_processes):
    training, saved = loop.TrainingLoop.__new__(loop.TrainingLoop), []
    training.config, training.budget, training.early = TrainConfig(num_train_steps=10_000), Budget(0), 0
    training.early_stopping = types.SimpleNamespace(is_due=lambda step: False, should_stop=False)
    several = distribute.create_strategy("mirrored", num_logical_devices=2)
    training.log = types.SimpleNamespace(write=str, restart_clock=lambda: None)
    training._save = lambda step, **_: saved.append(step)
    for step, strategy, late in ((11, None, False), (12, None, True), (13, several, True)):
        training.train_step = types.SimpleNamespace(strategy=strategy)
        training.saves_at = 0 if late else math.inf
        training._after(step, step - 1, lambda *_: None, is_stopping=False)
    assert saved == [12]


@pytest.mark.eager
def test_tokens_per_second_exclude_evaluation_and_saving(tmp_path, clock):
    tokens = []

    def takes_a_little(_, batch, **__):
        clock.now += 2
        tokens.append(int(tf.reduce_sum(batch["lengths"])))

    def takes_long(*_):
        clock.now += 100

    sizes = {"train_batch_size": 4, "eval_batch_size": 4, "max_eval_steps": 1}
    config = TrainConfig(num_train_steps=5, num_warmup_steps=0, save_checkpoints_steps=2, eval_steps=3, **sizes)
    with (
        faults.on_call(loop.TrainStep, "step", takes_a_little),
        faults.on_call(Evaluator, "__call__", takes_long),
        faults.on_call(loop.TrainState, "save", takes_long),
    ):
        trained(tmp_path, config)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    rates = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
    assert rates == [number / 2 for number in tokens] and len(rates) == 5
    assert clock.now == 5 * 2 + 100 + 5 * 100, "steps, the first evaluation, checkpoints: 2, before and after it, 4, 5"


@pytest.mark.parametrize(
    "received, requests, expected",
    [
        ([], None, []),
        ([2], None, [2]),  # a process alone
        ([], 1.0, [15]),  # another worker received a signal
        ([2], 2.0, [2]),
        ([2], 0.0, []),  # received while the step ran: the next step tells the others
    ],
)
def test_workers_stop_after_the_same_step_on_a_signal(received, requests, expected):
    assert loop._agree_to_stop(received, result() if requests is None else result(stop_requests=requests)) == expected


@pytest.fixture
def loop_alone(tmp_path):
    """A loop of one process without anything to train, and what it has done: steps and saves, by their step."""
    training, done = loop.TrainingLoop.__new__(loop.TrainingLoop), []

    def save(step, **_):
        training.saved = step
        done.append(f"save {step}")

    strategy = types.SimpleNamespace(num_replicas_in_sync=1, extended=None)
    training.config, training.budget = TrainConfig(num_train_steps=9), Budget(0)
    training.state = types.SimpleNamespace(restore=lambda: 0)
    training.early_stopping = types.SimpleNamespace(was_interrupted=lambda step: False, should_stop=False)
    training.folder = types.SimpleNamespace(run={}, forget_metrics_after=id, is_chief=True, file=tmp_path.joinpath)
    training.train_step = types.SimpleNamespace(strategy=strategy, micro_batches=1, unfreeze=id, active={})
    training.log = types.SimpleNamespace(restart_clock=lambda: None, add=lambda step, result: done.append(step))
    training._report_all_reduce, training._save = lambda: None, save
    training._steps = lambda step, count, stop_requested: [result()]
    return training, done


@pytest.mark.parametrize("is_saved", [True, False])
def test_signal_after_a_step_stops_before_the_next(loop_alone, is_saved):
    """As while a checkpoint is saved, which is not saved again."""
    (training, done), signals = loop_alone, []

    def after(step, before, report, *, is_stopping):
        signals.append(15)
        return is_saved

    training._after = after
    with pytest.raises(loop.Interrupted, match="Stopped after step 1, which is saved") as stop:
        training.run(signals, lambda step: None)
    assert stop.value.exit_code == 143 and done == [1] + ["save 1"] * (not is_saved)


@pytest.mark.parametrize("of_evaluation", [True, False])
def test_signal_while_something_is_compiled_stops_at_once(loop_alone, of_evaluation):
    """As after layers were unfrozen, or in the first evaluation: the step before is saved first."""
    training, done = loop_alone

    def compile_(*_, **__):
        if training.train_step.active or of_evaluation:
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("compiled")
        return [result()]

    def after(step, before, report, *, is_stopping):
        if step == 2 and of_evaluation:
            training._evaluate(step)
        return False

    training._after, training.evaluate = after, compile_
    training.train_step.average = types.SimpleNamespace(in_model=contextlib.nullcontext)
    if not of_evaluation:
        training._steps = compile_
        training.train_step.unfreeze = lambda step: training.train_step.active.update({"layer": 0} if step == 2 else {})
    with (
        pytest.raises(loop.Interrupted, match="Stopped after step 2, which is saved"),
        stop_signals.deferred() as signals,
    ):
        training.run(signals, lambda step: None)
    assert done == [1, 2, "save 2"]


def test_failing_loop_is_closed(monkeypatch):
    closed = []

    class Full(loop.TrainingLoop):
        def __init__(self, *arguments):
            pass

        def run(self, signals, report):
            raise loop.TrainingError("The disk is full.")

        def close(self):
            closed.append(True)

    monkeypatch.setattr(loop, "TrainingLoop", Full)
    with pytest.raises(loop.TrainingError, match="The disk is full"):
        loop.train(None, None, TrainConfig(), None, None, evaluator=object())
    assert closed == [True]


def test_datasets_do_not_use_autotuning():
    iterator = pipeline.iterate(tf.data.Dataset.range(3))
    assert iterator._dataset.options().autotune.enabled is False
    assert [int(number) for number in iterator] == [0, 1, 2]
