"""Ablations: their runs, and the tables and figure of the results."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest
from ablation_runs import finish, finish_all, flags, plan_of, sweep_of

from bert_tf.errors import UserError
from bert_tf.extras.paper import ablation, ablation_plan, ablation_results, ablations
from bert_tf.runtime import folder_lock


def test_tables_have_mean_deviation_difference_perplexity_and_paper_scores(tmp_path):
    plan = plan_of(tmp_path, "objectives")
    finish(tmp_path, "pretraining/bert", eval_results={"masked_lm_loss": 3.0})
    finish(tmp_path, "tasks/bert/sst_2", sweep=sweep_of("accuracy", (0.5, 0.02), (0.75, 0.01)))
    one = {"run": {"finished": "now", "criterion": "accuracy", "collapsed": "why"}, "eval_results": {"accuracy": 0.7}}
    finish(tmp_path, "tasks/keep_pairs_true_next_sentence_weight_0/sst_2", **one)
    text = ablation.write_results(plan)
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines[0].startswith("|  | perplexity | SST-2, accuracy | paper: MNLI |")
    assert lines[2].startswith("| BERT | 20.1 | 75.0 ± 1.0 | 84.4 |")
    assert lines[3].startswith("| no NSP |  | 70.0 (-5.0), 1 collapsed | 83.9 |")
    assert lines[4].startswith("| LTR & no NSP |  | - |")
    assert (tmp_path / "ablation.md").read_text() in text
    assert json.loads((tmp_path / "ablation.json").read_text())["objectives"]["rows"][0]["paper"]["SST-2"] == 92.7
    assert (tmp_path / "ablation.png").read_bytes().startswith(b"\x89PNG") and "ablation.png" in text


def test_published_sizes_are_listed_with_paper_scores(tmp_path):
    text = ablation_results.markdown(ablation.results(plan_of(tmp_path, "sizes")))
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines[0] == "|  | SST-2 | paper: perplexity | paper: MNLI | paper: MRPC accuracy | paper: SST-2 |"
    assert lines[1] == "| --- | ---: | ---: | ---: | ---: | ---: |"
    assert lines[2] == "| 1 layer, 64 wide, 1 head | - |  |  |  |  |"
    assert lines[4] == "| 3 layers, 768 wide, 12 heads |  | 5.84 | 77.9 | 79.8 | 88.4 |"
    known = ablations.tables([(12, 768, 12)])["sizes"]
    assert known.variants[0].paper["MRPC accuracy"] == 86.7 and len(known.published) == 5


def test_steps_are_plotted_as_a_curve_per_model(tmp_path, monkeypatch):
    from matplotlib import pyplot

    for share, score in (("__share_0_125", 0.5), ("__share_0_5", 0.6), ("", 0.7)):
        finish(tmp_path, f"tasks/bert{share}/sst_2", sweep=sweep_of("accuracy", (score, 0.01)))
    monkeypatch.setattr(pyplot, "close", lambda figure: None)
    ablation.write_results(plan_of(tmp_path, "masking", "steps"))
    points, curves = pyplot.gcf().axes
    lines = [line.get_xydata().round(6).tolist() for line in curves.containers[0].lines[:1]]
    assert lines == [[[100, 50], [400, 60], [800, 70]]] and len(curves.containers) == 1
    assert [text.get_text() for text in curves.get_legend().get_texts()] == ["masked LM"]
    assert [text.get_text() for text in curves.get_xticklabels()] == ["100", "200", "400", "800"]
    assert points.get_yticklabels()[1].get_text() == "100/0/0"


def test_squad_scores_are_percentages(tmp_path):
    plan = plan_of(tmp_path, "objectives", task="squad --train_file=a.json")
    one = {"run": {"finished": "now", "criterion": "f1"}, "eval_results": {"f1": 77.5}}
    finish(tmp_path, "tasks/bert/squad", **one)
    sweep = sweep_of("f1", (75.0, 1.5), failed=1)
    finish(tmp_path, "tasks/keep_pairs_true_next_sentence_weight_0/squad", sweep=sweep)
    rows = ablation.results(plan)["objectives"]["rows"]
    assert rows[0]["tasks"]["squad"] == {"score": "f1", "mean": 0.775, "sd": None, "collapsed": 0, "failed": 0}
    assert rows[1]["tasks"]["squad"] == {"score": "f1", "mean": 0.75, "sd": 0.015, "collapsed": 0, "failed": 1}


def test_mrpc_shows_accuracy_as_in_the_paper(tmp_path):
    plan = plan_of(tmp_path, "objectives", task="mrpc --data_dir=glue")
    run = {"finished": "now", "criterion": "f1"}
    finish(tmp_path, "tasks/bert/mrpc", run=run, eval_results={"f1": 0.8, "accuracy": 0.7})
    row = ablation.results(plan)["objectives"]["rows"][0]["tasks"]["mrpc"]
    assert (row["score"], row["mean"]) == ("accuracy", 0.7)


def test_unknown_task_is_reported_before_anything_runs(tmp_path, started):
    with pytest.raises(
        UserError, match="There is no task 'SST-3' to fine-tune on. Did you mean sst-2 or sts-b\\? Known: "
    ):
        ablation.run(plan_of(tmp_path, "objectives", task="SST-3"))
    assert not started and ablation_plan.parse_task("SQuAD --train_file=a").command == "squad"


def test_missing_matplotlib_skips_the_figure_with_a_message(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert "bert-tf[plots]" in ablation_results.plot({}, str(tmp_path / "ablation.png"))


class Ended:
    """A run that has ended as soon as it is started; `codes` {part of its folder: its exit code}, else 0."""

    codes, started = {}, []

    def __init__(self, command, **_):
        folder = flags(command)["output_dir"]
        self.pid, self.returncode = os.getpid(), next((c for part, c in self.codes.items() if part in folder), 0)
        self.started.append("/".join(folder.split("/")[-3 if "/tasks/" in folder else -2 :]))

    def poll(self):
        return self.returncode


@pytest.fixture
def started(monkeypatch):
    """The names of the runs that are started, in their order."""
    monkeypatch.setattr(subprocess, "Popen", Ended)
    Ended.started, Ended.codes = [], {}
    return Ended.started


def test_only_unfinished_runs_start_and_failures_name_their_log(tmp_path, started):
    plan = plan_of(tmp_path, "masking")
    (first, command), *_ = ablation_plan.commands(plan)
    finish(tmp_path, first, run={"finished": "now", "command": ["bert-tf", *command[3:]]})
    Ended.codes = {"masking": 1}
    with pytest.raises(UserError, match=r"pretraining.masking_mix_100_0_0 failed with exit code 1: see .*\.log"):
        ablation.run(plan)
    assert started == ["tasks/bert/sst_2", "pretraining/masking_mix_100_0_0"]
    assert "-m bert_tf pretrain --" in (tmp_path / "logs" / "pretraining-masking_mix_100_0_0.log").read_text()


def test_more_tables_and_seeds_resume(tmp_path, started):
    finish_all(plan_of(tmp_path, "masking"), tmp_path, sweep={})
    ablation.run(plan_of(tmp_path, "masking", "steps"))
    left_to_right = "keep_pairs_true_left_to_right_true_next_sentence_weight_0"
    assert started[:4] == [f"tasks/bert__share_{share}/sst_2" for share in ("0_125", "0_25", "0_5")] + [
        f"pretraining/{left_to_right}"
    ]
    finish_all(plan_of(tmp_path / "other", "steps"), tmp_path / "other", sweep={})
    started.clear()
    ablation.run(plan_of(tmp_path / "other", "objectives"))
    assert started == [
        "pretraining/keep_pairs_true_next_sentence_weight_0",
        "tasks/keep_pairs_true_next_sentence_weight_0/sst_2",
        "tasks/keep_pairs_true_left_to_right_true_next_sentence_weight_0__encoder_bilstm_on_top/sst_2",
    ]
    started.clear()
    ablation.run(plan_of(tmp_path / "other", "steps", seeds=3))
    assert len(started) == 8 and all(name.startswith("tasks/") for name in started)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fine_tuning": {}}, r"tasks.bert.sst_2 was run with other flags \(learning_rate was 1e-4, now not set"),
        ({"input_file": "others"}, r"pretraining.bert was .*\(input_file was texts, now others\)"),
        ({"pretraining": {"num_train_steps": "80", "vocab_size": "500"}}, "num_train_steps was 800, now 80"),
        ({"num_seeds": 3}, r"\(num_seeds was 2, now 3\)"),  # it is a single run, as it left no sweep.json
    ],
)
def test_runs_with_other_flags_are_refused(tmp_path, changes, words):
    plan = plan_of(tmp_path, "objectives")
    finish_all(plan, tmp_path)
    ablation.run(plan)
    with pytest.raises(UserError, match=words):
        ablation.run(dataclasses.replace(plan, **changes))


def test_run_that_survived_its_ablate_is_waited_for(tmp_path, started, capsys):
    plan = plan_of(tmp_path, "objectives")
    (tmp_path / "pretraining/bert").mkdir(parents=True)
    lock = folder_lock.FolderLock(tmp_path / "pretraining/bert")

    def end():
        finish_all(plan, tmp_path / "survivor")
        for name in os.listdir(tmp_path / "survivor"):
            shutil.copytree(tmp_path / "survivor" / name, tmp_path / name, dirs_exist_ok=True)
        lock.release()

    threading.Timer(0.2, end).start()
    ablation.run(plan)
    assert "Waiting for another process that is using" in capsys.readouterr().out
    assert "pretraining/bert" not in started


SAVES_WHEN_STOPPED = """
import pathlib, signal, sys, time

def stop(*_):
    time.sleep(0.5)
    pathlib.Path("saved").touch()
    sys.exit(143)

signal.signal(signal.SIGTERM, stop)
pathlib.Path("ready").touch()
time.sleep(60)
"""


def test_interruption_lets_runs_save_their_state(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / name).mkdir()
    with pytest.raises(KeyboardInterrupt), ablation._Jobs(str(tmp_path), 2) as working:
        for name in "ab":
            monkeypatch.chdir(tmp_path / name)
            working.start(f"tasks/{name}", [sys.executable, "-c", SAVES_WHEN_STOPPED], shares=1)
        while not all((tmp_path / name / "ready").exists() for name in "ab"):
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert all((tmp_path / name / "saved").exists() for name in "ab")


WAITS_FOR_THE_OTHER = """
import os, pathlib, sys, time

pathlib.Path(sys.argv[1]).write_text(str(sorted(os.sched_getaffinity(0))))
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.01)
"""


def test_jobs_run_concurrently_on_their_own_cores_after_their_inputs(tmp_path, monkeypatch):
    """Two runs wait for each other, so they end only if they run concurrently. The first has all cores."""
    path = f"{tmp_path}/pretraining/x"
    runs = {
        "pretraining/x": ["-c", WAITS_FOR_THE_OTHER, "first", ".", f"--output_dir={path}"],
        "tasks/a": ["-c", f"open('first'){WAITS_FOR_THE_OTHER}", "a", "b", f"--init_checkpoint={path}"],
        "tasks/b": [
            "-c",
            f"open('first'){WAITS_FOR_THE_OTHER}",
            "b",
            "a",
            f"--init_checkpoint={path}/checkpoints/ckpt-8",
        ],
    }
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        ablation_plan, "commands", lambda plan: [(name, [sys.executable, *c]) for name, c in runs.items()]
    )
    ablation.run(plan_of(f"{tmp_path}/", "objectives"), jobs=2)  # as a shell completes it
    alone, first, second = (set(json.loads((tmp_path / name).read_text())) for name in ("first", "a", "b"))
    cores = os.sched_getaffinity(0)
    assert alone == cores
    assert first | second == cores and (len(cores) == 1 or not first & second)
