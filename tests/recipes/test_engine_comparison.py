"""`bert-tf compare`: the forms of a model on the same rows; task, model and engines are made in no time."""

import json
import types

import pytest
import quick_exports
import tensorflow as tf
import tiny

from bert_tf.checkpoints import formats
from bert_tf.cli import main
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import engine_folders, engine_parity, engines, loaded_model, trained_model
from bert_tf.heads.classes import Classes
from bert_tf.recipes import engine_comparison, recorded_run
from bert_tf.tasks.task import FineTuningTask

WORDS = tiny.Words("the fox ran on a mat".split())
TEXTS = ["a fox", "fox", "the fox ran on a mat", "a mat", "the mat"]


def task_of(labels):
    rows = [
        Example(str(n), (text,), label, f"line {n}") for n, (text, label) in enumerate(zip(TEXTS, labels, strict=True))
    ]
    goal = Classes(quick_exports.LABELS)
    return FineTuningTask("sizes", {"dev": lambda: rows}, goal.configured(max_seq_length=12), WORDS)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run folder whose export finds texts long from six letters on; engine alpha is there, beta is not installed."""
    task = task_of(["short", "short", "long", "short", "short"])
    model = tiny.randomized(task.create_model(tiny.CONFIG))
    finished = trained_model.TrainedModel(task, model, task.tokenizer, {"attention": False})
    length = tf.strings.length
    export = quick_exports.saved(
        tmp_path / "export",
        lambda text_a: quick_exports.shares(5 + 0 * length(text_a), length(text_a)),
        ("text_a", tf.string, ()),
    )

    def write(checkpoint, folder, name, *, quantize):
        if name == "beta":
            raise UserError("beta is missing: pip install beta.")
        return types.SimpleNamespace(size=7_000_000)

    def load(folder):
        def call(inputs):
            assert inputs.keys() == {"token_ids", "segment_ids", "lengths"}
            return {name: x.numpy() for name, x in model({k: tf.constant(v) for k, v in inputs.items()}).items()}

        return call

    (tmp_path / "run.json").write_text(json.dumps({"name": "sizes", "flags": {}}))
    monkeypatch.setattr(recorded_run, "read", lambda path: finished)
    monkeypatch.setattr(trained_model, "check_run", lambda path: {})
    checkpoint = types.SimpleNamespace(kind="classes", weights={"classifier/kernel"})
    monkeypatch.setattr(formats, "read", lambda path: checkpoint)
    monkeypatch.setattr(loaded_model, "find", lambda path: str(export))
    monkeypatch.setattr(
        engine_parity, "median_seconds", lambda functions, inputs: [f(inputs) is not None for f in functions]
    )
    for name, value in (("names", lambda: ["alpha", "beta"]), ("load", load)):
        monkeypatch.setattr(engines, name, value)
    monkeypatch.setattr(engine_folders, "write", write)
    return tmp_path


@pytest.mark.slow
def test_every_form_is_scored_on_the_same_rows_and_written(run, capsys):
    assert main.main(["compare", str(run), "--batch_size=2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result.pop("model"), json.loads((run / "deployments.json").read_text())) == (str(run), result)
    live, exported, *others = result["deployments"]
    assert (result["task"], result["split"], result["rows"], result["criterion"]) == ("sizes", "dev", 5, "accuracy")
    assert [each["name"] for each in others] == ["alpha", "alpha int8", "beta", "beta int8"]
    assert exported["scores"]["accuracy"] == 0.8 and exported["bytes"] > 1000, "the mat is long to it"
    assert live["bytes"] == 4 * recorded_run.read("").model.count_params()
    assert [each["scores"] for each in others[:2]] == [live["scores"]] * 2 and 0 <= live["scores"]["accuracy"] <= 1
    assert [each["error"] for each in others[2:]] == ["beta is missing: pip install beta."] * 2
    page = (run / "report.html").read_text()
    assert "<h2>Deployments</h2>" in page and "7.0 MB" in page and "beta is missing" in page
    assert 0 < exported["start_seconds"] < 60 and exported["memory_bytes"] > 5e7 and live["start_seconds"] is None
    lines = list(engine_comparison.lines(result))
    assert lines[0] == "sizes, 5 of dev; time of one text, median" and lines[1].split()[0] == "accuracy"
    assert lines[3].split() == ["SavedModel", "0.8000", *lines[3].split()[2:]] and "beta: beta is" in lines[-2]


@pytest.mark.slow
def test_fewer_rows_and_engines_on_request(run):
    result = engine_comparison.compare(str(run), max_rows=2, batch_size=2, names=["alpha"])
    assert result["rows"] == 2 and len(result["deployments"]) == 4
    assert result["deployments"][1]["scores"]["accuracy"] == 1
    with pytest.raises(UserError, match="max_rows is 0"):
        engine_comparison.compare(str(run), max_rows=0, batch_size=2)


def test_folder_that_is_no_run_is_refused(tmp_path, capsys):
    assert main.main(["compare", str(tmp_path)]) == 2
    assert "is not a run folder" in capsys.readouterr().err
