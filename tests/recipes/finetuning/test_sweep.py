"""Several runs: which they are, what came of them, and which one is taken."""

import contextlib
import json
import signal
import types

import numpy as np
import pytest
import tiny
import warm
from script_runs import TINY

from bert_tf.checkpoints import formats
from bert_tf.errors import UserError
from bert_tf.recipes import finetune
from bert_tf.recipes.finetuning import sweep
from bert_tf.recipes.finetuning.planning import SWEEP, Plan, RunPlan, Setup
from bert_tf.training.metrics_log import Diverged
from bert_tf.training.run_directory import RunFolder


def flags(**changes):
    return finetune.Flags().replace(**{"output_dir": "out", "random_seed": 7, **changes})


def runs_of(options):
    """{name: flags} of the runs."""
    return {name: options.replace(**changes) for name, changes in sweep.variants(options).items()}


def test_without_seeds_and_grids_there_is_one_run():
    assert runs_of(flags()) == {"": flags()}


def test_single_value_grid_is_a_single_run():
    assert runs_of(flags(learning_rate_grid="3e-5")) == {"": flags(learning_rate=3e-5)}


def test_seeds_and_grid_values_are_combined():
    runs = runs_of(flags(num_seeds=2, learning_rate_grid="5e-5, 3e-5", num_train_epochs_grid="2"))
    assert list(runs) == [
        "seed=7,learning_rate=5e-05",
        "seed=8,learning_rate=5e-05",
        "seed=7,learning_rate=3e-05",
        "seed=8,learning_rate=3e-05",
    ]
    assert runs["seed=8,learning_rate=3e-05"] == flags(random_seed=8, learning_rate=3e-5, num_train_epochs=2.0)


def test_repeated_value_is_tried_once():
    assert list(runs_of(flags(train_batch_size_grid="16,32,16"))) == ["train_batch_size=16", "train_batch_size=32"]


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"num_seeds": 0}, "num_seeds is 0; expected 1 or more"),
        ({"learning_rate_grid": ","}, "learning_rate_grid is ','; expected comma-separated numbers"),
        ({"learning_rate_grid": "5e-5;3e-5"}, "learning_rate_grid is '5e-5;3e-5'; expected comma-separated numbers"),
        ({"train_batch_size_grid": "16,3.5"}, "such as 16,32"),
    ],
)
def test_invalid_seeds_and_grids_are_refused(changes, expected):
    with pytest.raises(UserError, match=expected):
        runs_of(flags(**changes))


def outcome(accuracy, collapsed=None):
    return {"results": {"loss": 1 - accuracy, "accuracy": accuracy}, "collapsed": collapsed}


RUNS = runs_of(flags(num_seeds=3, learning_rate_grid="5e-5,3e-5"))
OUTCOMES = dict(
    zip(
        RUNS,
        [outcome(0.9), outcome(0.5, "all the same"), {"failed": "no number"}, outcome(0.6), outcome(0.8), outcome(0.7)],
        strict=True,
    )
)


def test_summary_has_means_with_and_without_collapsed_runs():
    found = sweep.summary(RUNS, OUTCOMES, "accuracy")
    first, second = found["combinations"]
    assert (first["learning_rate"], first["runs"], first["collapsed"], first["failed"]) == (5e-5, 2, 1, 1)
    assert first["scores"]["accuracy"]["mean"] == pytest.approx(0.7)
    assert first["scores"]["accuracy"]["sd"] == pytest.approx(0.2828427)
    assert first["scores_without_collapsed"]["accuracy"] == {"mean": 0.9, "sd": None}
    assert second["scores"]["accuracy"] == {"mean": pytest.approx(0.7), "sd": pytest.approx(0.1)}
    assert second["runs"] == 3 and "scores_without_collapsed" not in second
    assert found["best_run"] == "seed=7,learning_rate=5e-05"
    assert found["runs"]["seed=8,learning_rate=3e-05"] == {
        "random_seed": 8, "learning_rate": 3e-5, "train_batch_size": 32, "num_train_epochs": 3.0, **outcome(0.8)
    }  # fmt: skip
    json.dumps(found)


def test_best_combination_has_the_best_mean():
    better = {**OUTCOMES, "seed=9,learning_rate=3e-05": outcome(0.75)}
    assert sweep.summary(RUNS, better, "accuracy")["best_combination"] == 1
    assert (
        sweep.summary(RUNS, {**better, "seed=9,learning_rate=5e-05": outcome(0.9)}, "accuracy")["best_combination"] == 0
    )


def test_table_has_a_row_per_combination_and_marks_collapsed_runs():
    assert sweep.table(sweep.summary(RUNS, OUTCOMES, "accuracy"), ["accuracy"]) == [
        "learning_rate  runs                      accuracy",
        "5e-05          2, 1 collapsed, 1 failed  0.7000 ± 0.2828",
        "               1 without the collapsed   0.9000",
        "3e-05          3                         0.7000 ± 0.1000",
    ]


def test_folder_holds_one_run_or_a_sweep(tmp_path):
    folder = RunFolder(str(tmp_path))
    sweep.check_free(folder, several=True)
    sweep.check_free(folder, several=False)
    sweep.begin(folder, RUNS)
    with pytest.raises(UserError, match="has several runs: choose another output_dir"):
        sweep.check_free(folder, several=False)
    tiny.touch_checkpoint(tmp_path / "one", 3)
    with pytest.raises(UserError, match="has a single run: choose another output_dir"):
        sweep.check_free(RunFolder(str(tmp_path / "one")), several=True)


def test_run_folder_is_unlocked_after_success_or_failure(tmp_path, monkeypatch):
    backend = types.SimpleNamespace(clear_session=lambda: None)  # other tests have models in this process
    monkeypatch.setattr(finetune, "keras", types.SimpleNamespace(backend=backend))
    told = []

    def run(plan, own):
        own.open(name="trial", flags={}, decisive={})
        own.write_json("eval_results.json", {"accuracy": 0.5})
        if plan.options.training.random_seed == 8:
            raise Diverged("The loss is not a number.")

    monkeypatch.setattr(finetune, "run", run)
    monkeypatch.setattr(sweep, "report_results", lambda folder, runs, outcomes, task: told.append(outcomes))
    setup = Setup(start=None, task=None)
    runs = [
        RunPlan(name=name, options=options.replace(output_dir=str(tmp_path / name)), setup=setup, is_compared=True)
        for name, options in runs_of(flags(num_seeds=2)).items()
    ]
    plan = Plan(options=flags(output_dir=str(tmp_path)), series=SWEEP, runs=runs, step=None)
    with contextlib.closing(RunFolder(str(tmp_path))) as folder:
        finetune.execute(plan, folder)
    assert list(told[0].values()) == [
        {"results": {"accuracy": 0.5}, "collapsed": None}, {"failed": "The loss is not a number."}
    ]  # fmt: skip
    for each in runs:
        RunFolder(each.options.output_dir).open(name="trial", flags={}, decisive={})


def arguments(flags):
    return [f"--{name}={value}" for name, value in flags.items()]


@pytest.mark.slow
def test_killed_sweep_resumes_and_keeps_the_best_run(tmp_path):
    rows = [f"the {'cat' if i % 2 else 'dog'} sat on mat number {i},{i % 2}\n" for i in range(12)]
    (tmp_path / "train.csv").write_text("text,kind\n" + "".join(rows))
    (tmp_path / "dev.csv").write_text("text,kind\n" + "".join(rows[:5]))
    flags = {**TINY, "num_train_epochs": 1, "do_export": False, "num_seeds": 2, "data_dir": tmp_path}
    flags |= {"output_dir": tmp_path / "run"}
    killed = warm.start("run_classifier.py", *arguments(flags), eager=True)
    seen = next(line for line in killed.stdout if line.startswith("Run 2 of 2"))
    killed.send_signal(signal.SIGKILL)
    assert killed.finish()[0] == -signal.SIGKILL
    assert seen == "Run 2 of 2: seed=12346\n"
    first = tmp_path / "run" / "seed=12345" / "run.json"
    finished = json.loads(first.read_text())["finished"]
    again = warm.run("run_classifier.py", *arguments(flags), eager=True)
    assert again.returncode == 0, again.stderr
    assert "Run 1 of 2: seed=12345 is finished\n" in again.stdout
    assert json.loads(first.read_text())["finished"] == finished
    done = warm.run("run_classifier.py", *arguments(flags), eager=True)
    assert done.stdout.endswith(f"This run is finished; its results are in {tmp_path / 'run'}.\n")
    summary = json.loads((tmp_path / "run" / "sweep.json").read_text())
    best = summary["runs"][summary["best_run"]]["results"]
    assert best["accuracy"] == max(each["results"]["accuracy"] for each in summary["runs"].values())
    assert json.loads((tmp_path / "run" / "eval_results.json").read_text()) == best
    taken = formats.read(tmp_path / "run").weights
    expected = formats.read(tmp_path / "run" / summary["best_run"]).weights
    assert taken.keys() == expected.keys()
    assert all(np.array_equal(taken[name], expected[name]) for name in taken)
