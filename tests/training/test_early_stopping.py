"""Evaluation on the way: when, when it stops early, which weights it ends with, and that a killed run decides alike."""

import contextlib
import dataclasses
import json
import os
import signal

import faults
import numpy as np
import pytest
import tensorflow as tf
import tiny
from training_steps import ONE_LAYER, trained

from bert_tf.checkpoints import formats
from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import Interrupted, UserError
from bert_tf.recipes.finetune import open_folder
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.runtime.json_files import read_json
from bert_tf.training import checkpoint_paths
from bert_tf.training.early_stopping import BestWeights, Evaluations, is_due
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.run_directory import RunFolder
from bert_tf.training.train_step import TrainStep

CONFIG = TrainConfig(
    train_batch_size=4,
    eval_batch_size=4,
    learning_rate=0.01,
    num_train_steps=8,
    num_warmup_steps=0,
    save_checkpoints_steps=3,
    eval_steps=2,
    max_eval_steps=1,
    keep_best=False,
)
SCORES = {2: 0.5, 4: 0.7, 6: 0.7, 8: 0.6}  # by step: the best is that of step 4


@pytest.mark.parametrize(
    "options, steps",
    [
        ({"eval_steps": 4}, [4, 8, 12]),
        ({"eval_steps": 0}, [3, 6, 9, 12]),  # when it saves
        ({"eval_steps": 0, "num_train_examples": 10, "save_checkpoints_steps": 100}, [2, 5, 7, 10, 12]),  # 2.5 an epoch
        ({"eval_steps": 0, "num_train_examples": 3, "save_checkpoints_steps": 100}, list(range(1, 13))),
    ],
)
def test_evaluation_steps_follow_flags_checkpoints_and_epochs(options, steps):
    config = dataclasses.replace(CONFIG, **options)
    assert [step for step in range(1, 13) if is_due(config, step)] == steps


@pytest.mark.parametrize(
    "values, without",
    [
        ([(np.nan, 1.0), (0.7, 1.0), (0.7, 1.0), (0.6, 1.0)], 2),  # the first of equals; NaN is worst
        ([(0.7, 0.9), (0.7, 0.8), (0.7, np.nan), (0.6, 0.1)], 3),  # of equals the one with the lower loss
        ([(0.7, 0.9), (0.7, 0.8), (0.7, 0.9), (0.7, 0.9)], 2),  # all are equal: the loss decides
    ],
)
def test_best_evaluation_is_kept(values, without):
    evaluations, again = Evaluations(), Evaluations()
    added = [evaluations.add(step, *each) for step, each in zip((2, 4, 6, 8), values, strict=True)]
    assert added == [True, True, False, False]
    found = evaluations.best_step, evaluations.best_value, evaluations.num_without_improvement, evaluations.last_step
    assert found == (4, 0.7, without, 8)
    again.deserialize(evaluations.serialize())
    np.testing.assert_array_equal(again.values, evaluations.values)


def test_evaluations_of_earlier_versions_have_no_loss():
    evaluations = Evaluations()
    evaluations.deserialize("[[2, 0.5], [4, 0.7], [6, 0.7]]")
    assert (evaluations.best_step, evaluations.last_step) == (4, 6)
    assert not evaluations.add(8, 0.7, 0.1) and evaluations.best_step == 4
    assert evaluations.add(10, 0.8, 0.9) and evaluations.best_step == 10


def test_only_the_best_weights_are_held(tmp_path):
    best = BestWeights({"a": tf.Variable(1.0)}, str(tmp_path / "best"), writes=False)
    for step in (2, 4):
        best.save(step)
        best.remove_others(step)
    assert [name for name in os.listdir(best.scratch) if name.endswith(".index")] == ["ckpt-4.index"]
    best.close()
    assert not os.path.exists(best.scratch) and not (tmp_path / "best").exists()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flags(FineTuningFlags):
    output_dir: str = "out"
    task_name: str = "tiny"


@pytest.mark.parametrize(
    "options, is_free",
    [
        ({"keep_best": False}, True),
        ({}, False),
        ({"early_stop_patience": 2}, False),
        ({"keep_best": True, "early_stop_patience": 2, "eval_steps": 50}, True),
    ],
)
def test_checkpoint_interval_may_change_unless_it_decides_evaluations(tmp_path, options, is_free):
    tiny.touch_checkpoint(tmp_path, 3)
    refusal = pytest.raises(
        UserError, match=r"a different configuration \(save_checkpoints_steps: 1000 there, 300 now\)"
    )
    for interval, expected in (
        (1000, contextlib.nullcontext()),
        (300, contextlib.nullcontext() if is_free else refusal),
    ):
        flags = Flags().replace(**options, save_checkpoints_steps=interval)
        with expected, contextlib.closing(RunFolder(str(tmp_path))) as folder:
            open_folder(folder, flags)


@pytest.fixture
def scripted(monkeypatch):
    """Evaluations that answer SCORES, by the number of steps of the learner that was made last."""
    learners = []
    original_init, called = TrainStep.__init__, Evaluator.__call__

    def remember(self, *arguments):
        original_init(self, *arguments)
        learners.append(self)

    def answer(self):
        return {**called(self), "loss": 1.0, "score": SCORES[int(learners[-1].optimizer.step.numpy())]}

    monkeypatch.setattr(TrainStep, "__init__", remember)
    monkeypatch.setattr(Evaluator, "__call__", answer)


@pytest.fixture
def eager():
    """Without graphs, as runs of few steps are mostly the time to make them."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def run(path, replicas=1, **options):
    """Trains in a folder; returns the step of the weights, and the weights."""
    path.mkdir(exist_ok=True)
    ONE_LAYER.write(str(path / "bert_config.json"))
    config = dataclasses.replace(CONFIG, **options)
    return trained(path, config, tiny.task(criterion="score"), replicas=replicas)


def equal(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one)


def check_best(path, best, last):
    """The last weights are replaced by the best ones, in the folder too, and these are kept by themselves."""
    assert not equal(best, last)
    assert equal(best, formats.read(path / "checkpoints" / "ckpt-8").weights)
    assert sorted(each.name for each in (path / "best").glob("*.index")) == ["ckpt-4.index"]


@pytest.mark.slow
def test_keep_best_ends_with_the_best_weights(eager, scripted, tmp_path, capsys):
    step, best = run(tmp_path / "best", keep_best=True)
    assert step == 4
    assert "Keeping the weights of step 4: the best score, 0.7000." in capsys.readouterr().out
    check_best(tmp_path / "best", best, run(tmp_path / "last")[1])
    again = run(tmp_path / "best", keep_best=True)
    assert again[0] == 4 and equal(again[1], best), "the same command once more"


@pytest.mark.slow
def test_best_weights_are_kept_on_replicas(eager, scripted, tmp_path):
    saved = {}

    def remember(self, step):
        saved[step] = {name: variable.numpy() for name, variable in self.variables.items()}

    with faults.on_call(BestWeights, "save", remember):
        step, best = run(tmp_path, replicas=2, keep_best=True)
    assert step == 4 and list(saved) == [2, 4] and equal(best, saved[4])
    check_best(tmp_path, best, saved[2])


def test_training_stops_early_and_logs_it(eager, scripted, tmp_path, capsys):
    step, stopped = run(tmp_path, early_stop_patience=1)
    assert step == 6
    stdout = capsys.readouterr().out
    assert "Stopped early after step 6 of 8: no better score in 1 evaluations." in stdout
    assert "Step 4, held out: loss " in stdout and " score 0.7000" in stdout
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["eval_score"]) for line in lines if "eval_score" in line] == [
        (2, 0.5),
        (4, 0.7),
        (6, 0.7),
    ]
    assert read_json(tmp_path / "run.json")["selection"] == {
        "last_step": 6, "taken_step": 6, "criterion": "score", "evaluations": [[2, 0.5], [4, 0.7], [6, 0.7]]
    }  # fmt: skip
    assert run(tmp_path, early_stop_patience=1)[0] == 6
    assert equal(formats.read(tmp_path).weights, stopped)


class Killed(BaseException):
    """Ends a process at once, as far as training is concerned."""


WHOLE = {}  # what the run ends with that nobody killed: each of these tests needs it


def stopped(*_, **__):
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("action, error", [
    (Killed(), Killed),  # between the best evaluation and the checkpoint that knows of it
    (stopped, Interrupted),  # saved before an evaluation that is due
])  # fmt: skip
def test_killed_run_stops_at_the_same_step_with_the_same_weights(eager, scripted, tmp_path, action, error):
    options = {"early_stop_patience": 2, "keep_best": True}
    expected = WHOLE.get("run") or WHOLE.setdefault("run", run(tmp_path / "whole", **options))
    with faults.on_call(TrainStep, "step", action, at=6), pytest.raises(error):
        run(tmp_path / "killed", **options)
    resumed = run(tmp_path / "killed", **options)
    assert resumed[0] == expected[0] == 4
    assert equal(resumed[1], expected[1])
    evaluations = read_json(tmp_path / "killed" / "run.json")["selection"]["evaluations"]
    assert evaluations == [list(each) for each in SCORES.items()]


def evaluated(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["eval_score"]) for line in lines if "eval_score" in line]


@pytest.mark.parametrize("keep_best, last", [pytest.param(True, 8, marks=pytest.mark.slow), (False, 6)])
def test_stopped_evaluation_is_made_up_for(eager, scripted, tmp_path, keep_best, last):
    saved = []
    for number, (owner, name, at) in enumerate([(TrainStep, "step", 8), (Evaluator, "_batch_or_stop", 3)]):
        folder = tmp_path / str(number)
        with faults.on_call(owner, name, stopped, at=at), pytest.raises(Interrupted) as stop:
            run(folder, keep_best=keep_best)
        assert stop.value.exit_code == 143 and "is saved; run the same command again" in str(stop.value)
        saved.append(checkpoint_paths.step_of(checkpoint_paths.newest_first(str(folder / "checkpoints"))[0]))
    assert saved == [8, 6]
    runs = [run(tmp_path / name, keep_best=keep_best) for name in ("0", "1", "whole")]
    assert [step for step, _ in runs] == [4 if keep_best else 8] * 3
    assert equal(runs[0][1], runs[2][1]) and equal(runs[1][1], runs[2][1])
    expected = [(step, score) for step, score in SCORES.items() if step <= last]
    assert [evaluated(tmp_path / name) for name in ("0", "1", "whole")] == [expected] * 3


def test_missing_selection_metric_is_refused(tmp_path):
    with pytest.raises(UserError, match="pass do_eval and a task with a development set"):
        run(tmp_path, early_stop_patience=1, evaluates=False)
