"""Cross-validation of a table."""

import contextlib
import json
import pathlib

import numpy as np
import pytest
import warm
from script_runs import TINY

from bert_tf.checkpoints import formats
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.recipes.finetune import Flags
from bert_tf.recipes.finetuning import baselines, folds
from bert_tf.reports import report
from bert_tf.tasks import table_splits
from bert_tf.training.run_directory import RunFolder


def test_every_row_is_held_out_once_and_folds_have_the_shares_of_labels():
    rows = [Example(str(n), (f"text {n}",), "rare" if n % 5 == 0 else "common") for n in range(40)]
    rows.append(Example("40", ("text 0",), "rare"))  # the same text is in the same part
    held_out = []
    for fold in range(1, 5):
        parts = table_splits.held_out("rows.csv", lambda: rows, 0.1, is_stratified=True, folds=4, fold=fold)
        train, dev = parts["train"](), parts["dev"]()
        assert len(train) + len(dev) == len(rows) and len(dev) in (10, 11)
        assert sum(row.label == "rare" for row in dev) in (2, 3)
        assert not {row.texts for row in dev} & {row.texts for row in train}
        held_out += dev
    assert sorted(row.id for row in held_out) == sorted(row.id for row in rows)


def test_held_out_share_is_one_of_rows():
    """A survey: most answers are one text, which has more rows than are held out."""

    def parts_of(rows, **options):
        examples = [Example(str(n), (text,), label) for n, (text, label) in enumerate(rows)]
        parts = table_splits.held_out("rows.csv", lambda: examples, 0.2, **options)
        train, dev = ([(row.texts[0], row.label) for row in parts[name]()] for name in ("train", "dev"))
        assert not {text for text, _ in train} & {text for text, _ in dev} and len(train) + len(dev) == len(rows)
        return dev

    survey = [("thanks", "good")] * 160 + [(f"good {n}", "good") for n in range(100)]
    survey += [("so so", "bad")] * 12 + [(f"bad {n}", "bad") for n in range(128)]
    labels = [label for _, label in parts_of(survey, is_stratified=True)]
    assert (labels.count("good"), labels.count("bad")) == (52, 28)
    few = [("good", "1")] * 11 + [("excellent", "1"), ("i love it", "1"), ("bad", "0"), ("rude", "0")]
    assert sorted(label for _, label in parts_of(few, is_stratified=True)) == ["0", "1", "1"]
    unstratified = parts_of(survey)
    assert ("thanks", "good") not in unstratified and 60 <= len(unstratified) <= 100
    spread = [(f"text {n % 40}", "good") for n in range(400)]  # ten rows of each text
    assert len(parts_of(spread, is_stratified=True)) == 80 and 40 <= len(parts_of(spread)) <= 80
    folds_of = [parts_of(survey, folds=4, fold=fold) for fold in range(1, 5)]
    assert sorted(map(len, folds_of)) == [68, 68, 69, 195] and sum(len(fold) for fold in folds_of) == len(survey)


@pytest.mark.parametrize(
    "runs, expected",
    [
        ([[(2, 0.5), (4, 0.7)], [(2, 0.5), (4, 0.7)]], 4),
        ([[(0, 0.9), (2, 0.5)], [(0, 0.9), (2, 0.8), (4, 0.8)]], 0),
        ([[(2, 0.5), (4, 0.4)], [(2, 0.5), (4, 0.5), (6, 0.7)]], 6),  # the first ended early
        ([[(2, 0.7), (4, 0.7)]], 4),  # the last of equals
    ],
)
def test_all_rows_are_trained_for_as_long_as_was_best_on_average(runs, expected):
    assert folds.best_step(runs) == expected


def test_tables_of_all_folds_are_one():
    def table(counts):
        return {"dev": {"per_class": [{"label": "a"}, {"label": "b"}], "confusion": counts}}

    made = folds.pooled([table([[2, 0], [1, 1]]), table([[1, 1], [0, 3]])])
    assert made["confusion"] == [[3, 1], [1, 4]]
    assert [(row["label"], row["count"], row["recall"]) for row in made["per_class"]] == [("a", 4, 0.75), ("b", 5, 0.8)]
    numbers = folds.pooled([{"dev": {"values": [[1.0, 2.0]]}}, {"dev": {"values": [[3.0, 3.5]]}}])
    assert numbers == {"values": [[1.0, 2.0], [3.0, 3.5]]}


def test_baselines_of_all_folds_are_their_means(tmp_path):
    for name, accuracy in (("fold=1", 0.5), ("fold=2", 0.7)):
        (tmp_path / name).mkdir()
        recorded = {"baselines": [{"name": "TF-IDF", "scores": {"accuracy": accuracy}}]}
        (tmp_path / name / "run.json").write_text(json.dumps(recorded))
    with contextlib.closing(RunFolder(tmp_path)) as folder:
        baselines.of_folds([folder.file("fold=1"), folder.file("fold=2")], folder)
    values = {"accuracy": {"mean": 0.8, "sd": 0.1}}
    runs = {"fold=1": {"results": {"accuracy": 0.7}}, "fold=2": {"results": {"accuracy": 0.9}}}
    table = {"combinations": [{"runs": 2, "scores": values}], "runs": runs, "best_run": "all_rows"}
    (tmp_path / "sweep.json").write_text(json.dumps(table))
    page = pathlib.Path(report.write_report(str(tmp_path))).read_text()
    assert report.baselines_of(report.read(str(tmp_path))["run"]) == {"TF-IDF": {"accuracy": "60.0%"}}
    assert "over the folds; the model is trained on all rows" in page and "The best run" not in page


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"folds": 1}, "folds is 1; expected 2 or more"),
        ({"folds": 3, "num_seeds": 2}, "num_seeds makes several runs itself"),
        ({"folds": 3, "do_eval": False}, "do_eval is off"),
    ],
)
def test_flags_that_do_not_go_with_folds_are_refused(flags, message):
    with pytest.raises(UserError, match=message):
        folds.variants(Flags.of_program({"task_name": "table", "output_dir": "run", **flags}))


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"folds": 3}, "folds makes several runs itself"),
        ({"learning_rate_grid": "1e-5,2e-5"}, "learning_rate_grid makes"),
    ],
)
def test_flags_that_do_not_go_with_refit_are_refused(flags, message):
    with pytest.raises(UserError, match=message):
        folds.is_refitted(Flags.of_program({"task_name": "table", "output_dir": "run", "refit": True, **flags}))


@pytest.mark.slow
def test_refit_trains_on_the_held_out_rows_too_and_keeps_their_scores(tmp_path):
    rows = [f"the {animal} sat on mat number {n},{animal}\n" for n in range(8) for animal in ("cat", "dog")]
    (tmp_path / "train.csv").write_text("text,kind\n" + "".join(rows))
    run = tmp_path / "run"
    flags = {
        **TINY,
        "data_dir": tmp_path,
        "output_dir": run,
        "eval_fraction": 0.25,
        "refit": True,
        "temperature": "best",
    }

    def finetune(**more):
        return warm.run(
            "run_classifier.py", *(f"--{name}={value}" for name, value in (flags | more).items()), eager=True
        )

    done = finetune()
    assert done.returncode == 0, done.stderr
    assert "Training on 12 examples" in done.stdout and "The final model is trained on all 16 rows" in done.stdout
    last, first = formats.read(str(run)).weights, formats.read(str(run / "checkpoints")).weights
    again = formats.read(str(run / "all_rows")).weights
    for name, weight in again.items():
        np.testing.assert_array_equal(last[name], weight)
    assert np.abs(last["classifier/kernel"] - first["classifier/kernel"]).max() > 1e-6
    found = [json.loads((run / name / "task.json").read_text())["calibration"] for name in ("", "all_rows")]
    assert (run / "export" / "about.json").exists() and found[0] == found[1] != {"temperature": 1.0}
    assert json.loads((run / "eval_results.json").read_text())["accuracy"] * 4 % 1 == 0  # of 4 rows
    assert (
        "trained on all 16 rows" in (run / "report.html").read_text()
        and "all 16 rows" in (run / "README.md").read_text()
    )
    assert finetune().stdout.endswith(f"This run is finished; its results are in {run}.\n")
    refused = finetune(do_train=False, do_eval=True)
    assert refused.returncode == 2 and "trained on all rows, including the held-out ones" in refused.stderr


@pytest.mark.slow
def test_runs_of_all_folds_and_a_model_of_all_rows(tmp_path):
    rows = [f"the {animal} sat on mat number {n},{animal}\n" for n in range(6) for animal in ("cat", "dog")]
    (tmp_path / "train.csv").write_text("text,kind\n" + "".join(rows))
    flags = {**TINY, "data_dir": tmp_path, "output_dir": tmp_path / "run", "folds": 3}
    command = ["run_classifier.py", *(f"--{name}={value}" for name, value in flags.items())]
    done = warm.run(*command, eager=True)
    assert done.returncode == 0, done.stderr
    assert "Cross-validation, 3 folds" in done.stdout and "Training on 12 examples" in done.stdout
    assert "To beat, mean of the folds:" in done.stdout and "train: 12 examples" in done.stdout
    results = json.loads((tmp_path / "run" / "sweep.json").read_text())
    assert list(results["runs"]) == ["fold=1", "fold=2", "fold=3"]
    scores = json.loads((tmp_path / "run" / "eval_results.json").read_text())
    assert scores["accuracy"] == results["combinations"][0]["scores"]["accuracy"]["mean"]
    assert (tmp_path / "run" / "export" / "about.json").exists()
    again = warm.run(*command, eager=True)
    assert again.stdout.endswith(f"This run is finished; its results are in {tmp_path / 'run'}.\n")
