"""Runs and exports of an earlier version go on, are read, and answer as they did.

fixtures/runs_of_an_earlier_version.tar.xz was written by commit 1a19204 of 2026-11-22: the data; the folders of a
pre-training run after 4 of 8 steps and of a classifier, a tagger and a model for questions with their exports; and in
`expected` the metrics and scores of all 8 steps and the output of `bert-tf predict --json` (without n_best). The
kind of the classifier and flags have the names that they have today.
"""

import json
import pathlib
import shutil

import pytest
import warm

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.cli import main
from bert_tf.errors import UserError
from bert_tf.model import heads

ARCHIVE = pathlib.Path(__file__).parent / "fixtures" / "runs_of_an_earlier_version.tar.xz"
PRETRAINING = """
--input_file=text.txt --eval_file=text.txt --bert_config_file=config.json --vocab_size=120
--output_dir=runs/pretraining --max_seq_length=24 --max_predictions_per_seq=4 --num_warmup_steps=1
--save_checkpoints_steps=4 --dupe_factor=2 --num_workers=1 --precision=float32 --train_batch_size=4
--learning_rate=1e-2 --do_export=false --num_train_steps=8 --continuous_schedule=false
""".split()
TAGS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
PREDICTED = {"classifier": "texts.csv", "tagger": "texts.txt", "squad": "squad.json"}  # files of `expected`
LABELLED = {"classifier": "table/dev.csv", "tagger": "tags/dev.txt", "squad": "squad.json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The unpacked archive."""
    folder = tmp_path_factory.mktemp("earlier")
    shutil.unpack_archive(ARCHIVE, folder)
    return folder


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def predicted_as_before(folder, run):
    """What an earlier version predicted; rows of tables had numbers as ids, which are left out since."""
    rows = read_lines(folder / "expected" / f"{run}.jsonl")
    is_table = PREDICTED[run].endswith(".csv")
    return [{name: value for name, value in row.items() if name != "id" or not is_table} for row in rows]


def assert_close(actual, expected):
    """Equal, numbers to 1e-4."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            assert_close(actual[name], value)
    elif isinstance(expected, list):
        assert len(actual) == len(expected)
        for pair in zip(actual, expected, strict=True):
            assert_close(*pair)
    else:
        assert actual == (pytest.approx(expected, abs=1e-4) if isinstance(expected, float) else expected)


@pytest.mark.parametrize(
    "run, model, labels, kind",
    [
        ("pretraining", heads.Pretrainer, None, None),
        ("classifier", heads.Classifier, ["animal", "water"], "classes"),
        ("tagger", heads.TokenClassifier, TAGS, "tags"),
        ("squad", heads.SpanFinder, None, "span"),
    ],
)
def test_runs_and_exports_are_checkpoints(folder, run, model, labels, kind):
    checkpoint = formats.read(folder / "runs" / run)
    assert (checkpoint.labels, checkpoint.kind) == (labels, kind)
    assert (len(checkpoint.vocabulary), checkpoint.lower_case, checkpoint.config.hidden_size) == (88, True, 8)
    loaded = bert_tf.load(folder / "runs" / run)
    assert type(loaded.model) is model
    assert not loaded.report.newly_initialized and not loaded.report.unused and not loaded.report.shape_mismatch
    if run != "pretraining":
        export = formats.read(folder / "runs" / run / "export")
        assert (export.config, export.labels, export.kind) == (checkpoint.config, labels, kind)
        assert export.weights.keys() == checkpoint.weights.keys()


@pytest.mark.slow
@pytest.mark.parametrize("run", PREDICTED)
def test_export_predicts_as_before(folder, run, capsys):
    assert main.main(["predict", str(folder / "runs" / run), "--file", str(folder / PREDICTED[run]), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for row in rows:
        row.pop("n_best", None)
    assert_close(rows, predicted_as_before(folder, run))


@pytest.mark.slow
def test_run_answers_from_python_as_its_export_did(folder, tmp_path, monkeypatch):
    """It does not record how it answers: its command without training does."""
    shutil.copytree(folder, tmp_path / "earlier")
    monkeypatch.chdir(tmp_path / "earlier")
    with pytest.raises(UserError, match="earlier version wrote it: run its command again with do_train=False"):
        bert_tf.load("runs/squad").answer("Who?", "Ann.")
    recorded = json.loads(pathlib.Path("runs/squad/run.json").read_text())["command"]
    flags = ["--do_train=false", "--do_export=false", "--do_predict=false"]
    done = warm.run(*recorded, *flags, cwd=tmp_path / "earlier", eager=True)
    assert done.returncode == 0, done.stderr
    model = bert_tf.load("runs/squad")
    paragraph = json.loads((folder / PREDICTED["squad"]).read_text())["data"][0]["paragraphs"][0]
    question, text = paragraph["qas"][0]["question"], paragraph["context"]
    answer = model.answer(question, text)
    row = read_lines(folder / "expected" / "squad.jsonl")[0]
    assert (answer.text, answer.start, answer.end) == (row["answer"], row["start"], row["end"])
    assert answer.probability == pytest.approx(row["score"], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("run", LABELLED)
def test_export_has_the_scores_of_its_run(folder, run, capsys):
    assert main.main(["evaluate", str(folder / "runs" / run), "--file", str(folder / LABELLED[run]), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    expected = json.loads((folder / "runs" / run / "eval_results.json").read_text())
    assert scores and scores.keys() <= expected.keys()
    assert_close(scores, {name: expected[name] for name in scores})


@pytest.mark.slow
def test_run_is_exported_again_and_predicts_the_same(folder, tmp_path, capsys):
    run = tmp_path / "classifier"
    shutil.copytree(folder / "runs" / "classifier", run, ignore=shutil.ignore_patterns("export"))
    assert main.main(["export", str(run), "--engine=none"]) == 0
    capsys.readouterr()
    assert main.main(["predict", str(run), "--file", str(folder / "texts.csv"), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert_close(rows, predicted_as_before(folder, "classifier"))


@pytest.mark.slow
def test_pretraining_run_resumes(folder, tmp_path):
    for name in ("text.txt", "config.json"):
        shutil.copy(folder / name, tmp_path)
    shutil.copytree(folder / "runs" / "pretraining", tmp_path / "runs" / "pretraining")
    done = warm.run("run_pretraining.py", *PRETRAINING, cwd=tmp_path, optimizes_graphs=True)
    assert done.returncode == 0, done.stderr
    lines = read_lines(tmp_path / "runs" / "pretraining" / "metrics.jsonl")
    expected = read_lines(folder / "expected" / "metrics.jsonl")
    assert [line["step"] for line in expected][-2:] == [8, 8]
    for line in (*lines, *expected):
        line.pop("tokens_per_second", None)
    assert_close(lines, expected)
    assert_close(
        json.loads((tmp_path / "runs" / "pretraining" / "eval_results.json").read_text()),
        json.loads((folder / "expected" / "eval_results.json").read_text()),
    )
