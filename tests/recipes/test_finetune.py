"""run_classifier.py as its user meets it: training from scratch on a table, predicting with what it left, mistakes."""

import functools
import json

import numpy as np
import pytest
import script_runs
import tensorflow as tf
from script_runs import TINY

from bert_tf.cli import main
from bert_tf.export import loaded_model

CELLS = [["cat"], ["dog"], ["cat", "dog"], [], ["fox", "cat"]]


script = functools.partial(script_runs.script, "run_classifier.py")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of the table, the run folder and what the script said."""
    folder = tmp_path_factory.mktemp("classifier")
    animals = ["cat", "dog"]
    rows = [f"the {animals[i % 2]} sat on mat number {i},{animals[i % 2]}\n" for i in range(12)]
    (folder / "train.csv").write_text("text,kind\n" + "".join(rows))
    (folder / "dev.csv").write_text("text,kind\n" + "".join(rows[:5]))
    (folder / "new.tsv").write_text('text\nthe "cat sat\n')
    code, stdout, stderr = script(
        eager=False, **TINY, data_dir=folder, output_dir=folder / "run", export_attention=True
    )
    assert code == 0, stderr
    return folder, folder / "run", stdout


def test_run_writes_results_and_a_readable_checkpoint(trained):
    _, run, stdout = trained
    assert "Training on 12 examples, 2 epochs, 6 steps, adamw_corrected" in stdout and "of 3" in stdout
    assert "adamw_corrected (Adam with bias correction for fewer than 10,000 examples)" in stdout
    assert "Step 3, held out: loss " in stdout, "the end of an epoch"
    about = json.loads((run / "run.json").read_text())
    assert about["training"]["optimizer"] == "adamw_corrected"
    results = json.loads((run / "eval_results.json").read_text())
    assert set(results) == {"loss", "cross_entropy", "accuracy", "macro_f1"}
    recorded = json.loads((run / "task.json").read_text())
    assert (recorded["task"], recorded["labels"], recorded["kind"]) == ("table", ["cat", "dog"], "classes")
    assert (recorded["host"]["stages"], recorded["host"]["texts"], recorded["host"]["windows"]) == ("texts", 1, None)
    assert json.loads((run / "export" / "about.json").read_text())["labels"] == ["cat", "dog"]
    signatures = loaded_model.signatures(str(run / "export"))
    assert set(signatures) == {"serving_default", "tf_example", "attention", "attribution"}
    tokens = signatures["attention"](text=tf.constant(["the cat ||| dog"]))["tokens"].numpy()[0].tolist()
    assert tokens[0] == b"[CLS]" and tokens[-1] == b"[SEP]" and tokens.count(b"[SEP]") == 2
    examples = json.loads((run / "examples.json").read_text())["export"]
    assert examples[0] == {"inputs": {"text_a": "the cat sat on mat number 0"}} and len(examples) == 3
    assert {"vocab.txt", "bert_config.json", "report.html", "eval_details.json"} <= {
        path.name for path in run.iterdir()
    }


def test_finished_run_does_nothing_until_a_result_is_missing(trained):
    folder, run, _ = trained
    flags = {**TINY, "data_dir": folder, "output_dir": run, "export_attention": True}
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for fewer in ({}, {"do_export": False}):
        code, stdout, stderr = script(**flags, **fewer)
        assert code == 0, stderr
        assert stdout.endswith(f"This run is finished; its results are in {run}.\n")
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    results = run / "eval_results.json"
    results.unlink()
    code, stdout, stderr = script(**flags, do_export=False)
    assert code == 0, stderr
    assert "This run is finished" not in stdout and "Results are in" in stdout
    assert json.loads(results.read_text()) == pytest.approx(json.loads(before[results]))
    phases = [json.loads(text)["phases"] for text in (before[run / "run.json"], (run / "run.json").read_text())]
    assert phases[0] == phases[1], "nothing was trained"


def test_trained_model_predicts_unlabeled_file_with_its_labels(trained):
    folder, run, _ = trained
    flags = {**TINY, "do_train": False, "do_eval": False, "do_export": False, "do_predict": True}
    before = json.loads((run / "run.json").read_text())
    code, stdout, stderr = script(**flags, predict_file=folder / "new.tsv", output_dir=run)
    assert code == 0, stderr
    after = json.loads((run / "run.json").read_text())
    assert all(after[name] == before[name] for name in ("flags", "training", "data", "selection", "baselines"))
    assert after["text_statistics"].items() > before["text_statistics"].items()
    assert "0 newly initialized, 0 unused, 0 mismatched" in stdout
    (row,) = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    assert row["text_a"] == 'the "cat sat' and row["label"] in ("cat", "dog")
    assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_frozen_encoder_with_a_linear_head_is_kept_if_training_does_not_beat_it(trained, tmp_path):
    folder, run, _ = trained
    flags = {name: value for name, value in TINY.items() if name not in ("model_size", "vocab_size")}
    flags |= {"init_checkpoint": run, "labels": "cat,dog,fox", "learning_rate": 0.0, "do_export": False}
    code, stdout, stderr = script(**flags, start="best", data_dir=folder, output_dir=tmp_path / "run")
    assert code == 0, stderr
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    frozen = {each["name"]: each["scores"] for each in about["baselines"]}["frozen vectors with a linear model"]
    results = json.loads((tmp_path / "run" / "eval_results.json").read_text())
    assert about["selection"]["evaluations"][0] == [0, frozen["accuracy"]] and about["selection"]["taken_step"] == 0
    assert results["accuracy"] == frozen["accuracy"] and "Keeping the encoder as it was, with the linear" in stdout
    assert "The head starts as the linear model on frozen embeddings." in stdout


@pytest.mark.slow
def test_export_scores_match_and_can_be_rewritten(trained, capsys, tmp_path):
    folder, run, _ = trained
    assert main.main(["evaluate", str(run), f"--file={folder / 'dev.csv'}", "--json"]) == 0
    scores, results = json.loads(capsys.readouterr().out)["scores"], json.loads((run / "eval_results.json").read_text())
    assert scores == pytest.approx({name: results[name] for name in ("accuracy", "macro_f1")})
    assert main.main(["export", str(run), str(tmp_path / "export")]) == 0
    first, second = (path / "export" for path in (run, tmp_path))
    assert (first / "about.json").read_text() == (second / "about.json").read_text()
    before, after = (tf.train.load_checkpoint(str(path / "variables" / "variables")) for path in (first, second))
    shapes = before.get_variable_to_shape_map()
    assert after.get_variable_to_shape_map() == shapes and len(shapes) > 30
    for name in shapes.keys() - {"_CHECKPOINTABLE_OBJECT_GRAPH"}:
        np.testing.assert_array_equal(before.get_tensor(name), after.get_tensor(name))


@pytest.mark.slow
def test_label_thresholds_are_calibrated_per_label(tmp_path, capsys):
    """They go from the evaluation to predictions, export and the scores of that; a number given goes before them."""
    rows = [f'the {" ".join(words)} sat on mat number {i},"{",".join(words)}"\n' for i, words in enumerate(CELLS * 3)]
    (tmp_path / "train.csv").write_text("text,kind\n" + "".join(rows))
    (tmp_path / "dev.csv").write_text("text,kind\n" + "".join(rows[::2]))
    run = tmp_path / "run"
    flags = {**TINY, "data_dir": tmp_path, "output_dir": run, "label_type": "multi_label"}
    code, stdout, stderr = script(**flags, label_threshold="best", do_predict=True, predict_file=tmp_path / "dev.csv")
    assert code == 0, stderr
    actual = json.loads((run / "task.json").read_text())["calibration"]["thresholds"]
    assert list(actual) == ["cat", "dog", "fox"] and "Thresholds: cat 0." in stdout
    predicted = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    for row in predicted:
        assert row["label"] == ",".join(name for name, share in row["probabilities"].items() if share > actual[name])
    results = json.loads((run / "eval_results.json").read_text())
    labels, predictions = ([{*row[name].split(",")} - {""} for row in predicted] for name in ("truth", "label"))
    right = sum(len(a & b) for a, b in zip(labels, predictions, strict=True))
    assert results["micro_f1"] == pytest.approx(2 * right / (sum(map(len, labels)) + sum(map(len, predictions))))
    assert main.main(["evaluate", str(run), f"--file={tmp_path / 'dev.csv'}", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert scores == pytest.approx({name: results[name] for name in ("micro_f1", "macro_f1", "accuracy")})
    assert main.main(["export", str(run), str(tmp_path / "anew"), "--engine=none"]) == 0
    abouts = [json.loads((path / "about.json").read_text()) for path in (run / "export", tmp_path / "anew")]
    assert abouts[0] == abouts[1] and abouts[0]["thresholds"] == list(actual.values())
    again = {"do_train": False, "do_export": False, "label_threshold": 0.999}
    code, _, stderr = script(**flags | again)
    assert code == 0, stderr
    assert json.loads((run / "eval_results.json").read_text())["micro_f1"] == 0


MISTAKES = {
    "nothing to learn": ({"task_name": ""}, "Pass a task"),
    "unknown task": ({"task_name": "mrcp"}, "There is no task 'mrcp' to fine-tune on. Did you mean mrpc? Known: "),
    "a pre-training task": ({"task_name": "pretraining/mlm"}, "There is no task 'pretraining/mlm' to fine-tune on"),
    "nothing trained": ({"do_train": False}, "train first, or pass init_checkpoint"),
    "a threshold of one class": ({"label_threshold": "best"}, "label_threshold needs label_type=multi_label"),
    "a share of more than all": (
        {"label_type": "multi_label", "label_threshold": "2", "labels": "a,b"},
        "label_threshold is 2; expected a number between 0 and 1, or best",
    ),
    "no such file": ({"eval_file": "nope.csv"}, "There is no file nope.csv, which eval_file names"),
    "no epochs": ({"num_train_epochs": 0}, "num_train_epochs is 0.0; expected more than 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_user_error_is_one_line_and_leaves_no_files(mistake, tmp_path):
    flags, expected = MISTAKES[mistake]
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n")
    code, _, stderr = script(**{**TINY, "vocab_file": vocabulary, "output_dir": tmp_path / "run", **flags})
    assert (code, len(stderr)) == (2, 1)
    assert expected.replace("--", "") in stderr[0].replace("--", "")  # with and without dashes
    assert sorted(tmp_path.iterdir()) == [vocabulary]


@pytest.mark.parametrize("name", ["SST-2", "sst2", "glue/sst-2", "GLUE/sst2"])
def test_glue_tasks_are_found_by_their_aliases(name, tmp_path):
    code, _, stderr = script(task_name=name, data_dir=tmp_path, output_dir=tmp_path / "run", model_size="tiny")
    assert code == 2 and "SST-2" in stderr[0] and "train.tsv" in stderr[0]
