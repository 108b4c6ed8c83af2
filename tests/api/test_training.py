"""`bert_tf.fine_tune` and `bert_tf.pretrain`: data in every form, options, callbacks, resuming."""

import json
import math

import faults
import numpy as np
import option_types
import pytest
import tensorflow as tf
import tiny

import bert_tf
from bert_tf.api import table
from bert_tf.data.conll_files import ColumnLayout, ConllFile
from bert_tf.errors import UserError
from bert_tf.recipes import finetune, pretrain
from bert_tf.recipes.finetuning import planning

ROWS = [(f"the {'fox' if number % 2 else 'hound'} ran", ["dog", "fox"][number % 2]) for number in range(24)]
SMALL = {"model_size": "tiny", "max_seq_length": 8, "vocab_size": 60, "do_export": False, "precision": "float32"}


@pytest.mark.slow
@pytest.mark.eager
def test_fine_tune_trains_reports_and_resumes(tmp_path):
    logged = []
    options = {
        **SMALL,
        "num_train_epochs": 0.5,
        "train_batch_size": 4,
        "callbacks": [lambda *each: logged.append(each)],
    }
    run = bert_tf.fine_tune(ROWS, output_dir=tmp_path / "run", eval_data=ROWS[:8], **options)
    assert set(run.scores) == {"loss", "cross_entropy", "accuracy", "macro_f1"}
    assert [step for step, values in logged if "learning_rate" in values] == [1, 2, 3]
    assert any("eval_accuracy" in values for _, values in logged)
    recorded = json.loads((tmp_path / "run" / "run.json").read_text())
    assert recorded["flags"]["num_train_epochs"] == 0.5 and recorded["command"][0] == "bert_tf"
    assert set(run.load().predict("the fox ran").probabilities) == {"dog", "fox"}
    count = len(logged)
    again = bert_tf.fine_tune(ROWS, output_dir=tmp_path / "run", eval_data=ROWS[:8], **options)
    assert again.scores == run.scores and not [each for each in logged[count:] if "learning_rate" in each[1]]


@pytest.mark.slow
@pytest.mark.eager
def test_pretrain_takes_texts(tmp_path):
    texts = [f"The fox ran {number}. It saw a hound. The hound slept." for number in range(40)]
    logged = []
    run = bert_tf.pretrain(
        texts=texts,
        output_dir=tmp_path / "run",
        num_train_steps=2,
        train_batch_size=4,
        max_predictions_per_seq=2,
        callbacks=[lambda step, values: logged.append(step)],
        **SMALL,
    )
    assert "masked_lm_loss" in run.scores and {1, 2} <= set(logged)
    assert len(run.load().fill_mask("The [MASK] ran.")) == 1


class Frame:
    """What is used of a pandas DataFrame."""

    columns = ("a", "b", "label")

    def __getitem__(self, name):
        raise NotImplementedError

    def to_dict(self, kind):
        assert kind == "records"
        return [{"a": "x", "b": "y", "label": np.int64(1), "other": 0}]


def test_rows_hold_texts_that_are_split_into_words():
    data = tf.data.Dataset.from_tensors({"text": [["x", "y"]], "label": [1]}).unbatch()
    assert list(table.rows(data, ["text"], ["label"])) == [{"text": ["x", "y"], "label": 1}]


@pytest.mark.parametrize(
    "data",
    [
        [("x", "y", 1)],
        [["x", "y", 1]],
        [{"a": "x", "b": "y", "label": 1, "other": 0}],
        Frame(),
        {"a": ["x"], "b": ["y"], "label": [1], "other": [0]},
        tf.data.Dataset.from_tensor_slices((["x"], ["y"], [1])),
        tf.data.Dataset.from_tensor_slices({"a": ["x"], "b": ["y"], "label": [1]}),
    ],
)
def test_rows_are_read_from_any_data(data):
    assert list(table.rows(data, ["a", "b"], ["label"])) == [{"a": "x", "b": "y", "label": 1}]


class NAType:
    """What pandas calls the type of its NA."""


def test_what_stands_for_no_value_in_numpy_and_pandas_becomes_null():
    rows = [("x", math.nan), (None, NAType()), (np.nan, np.float32("nan"))]
    found = [list(row.values()) for row in table.rows([(*row, [0.5, math.nan]) for row in rows], ["a", "b"], ["label"])]
    assert found == [["x", None, [0.5, None]], [None, None, [0.5, None]], [None, None, [0.5, None]]]


def test_rows_without_text_or_label_are_counted_named_and_left_out(tmp_path, caplog):
    rows = [("a", "x"), ("b", math.nan), (None, "y"), ("c", NAType()), (" ", "y"), ("d", ""), ("e", "y"), (None, None)]
    path = str(tmp_path / "train.jsonl")
    assert table.write(rows, path, (), None, {}) == (["text"], "label")
    with open(path, encoding="utf-8") as file:
        assert [tuple(json.loads(line).values()) for line in file] == [("a", "x"), ("e", "y")]
    assert "6 rows of the data are skipped" in caplog.text
    assert "row 1 has no label; row 2 has no text; row 3 has no label; row 4 has no text; row 5 has" in caplog.text
    with pytest.raises(UserError, match="6 rows are bad: row 1 has no label"):
        table.write(rows, path, (), None, {"bad_rows": "stop"})
    with pytest.raises(UserError, match="No row of eval_data has a text and a label"):
        table.write([("a", None), (math.nan, "x")], str(tmp_path / "none.jsonl"), (), None, {}, "eval_data")
    assert not (tmp_path / "none.jsonl").exists()
    several = [("a", ""), ("b", "x,y"), ("c", None), ("d", [])]  # no label is known to hold
    table.write(several, path, (), None, {"label_type": "multi_label"})
    with open(path, encoding="utf-8") as file:
        assert [json.loads(line)["label"] for line in file] == ["", "x,y", []]


def test_a_frame_of_pandas_with_missing_values(tmp_path, caplog):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"review": ["good", "bad", None, "fine"], "stars": pandas.array([5, 1, 2, None], "Int64")})
    assert table.write(frame, str(tmp_path / "a.jsonl"), (), "stars", {}) == (["review"], "stars")
    assert (tmp_path / "a.jsonl").read_text() == '{"review": "good", "stars": 5}\n{"review": "bad", "stars": 1}\n'
    assert "row 2 has no text; row 3 has no label" in caplog.text
    long = [f"text number {number} which is long enough to be one" for number in range(9)]
    pairs = {"first": long, "second": long[::-1], "sport": [0, 1, 1] * 3, "news": [True, False, None] * 3}
    assert table.write(pairs, str(tmp_path / "c.jsonl"), (), None, {}) == (["first", "second"], "sport,news")
    assert json.loads((tmp_path / "c.jsonl").read_text().splitlines()[0]) == {
        name: each[0] for name, each in pairs.items()
    }
    frame["when"] = pandas.Timestamp("2026-01-01")
    with pytest.raises(UserError, match=r"Row 0 has the label Timestamp\(.*expected a text, a number or a list"):
        table.write(frame, str(tmp_path / "b.jsonl"), ["review"], "when", {})


def test_columns_that_pandas_numbers_are_chosen_and_named_by_their_digits(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[f"A {word} film, number {n}.", n % 2] for n in range(6) for word in ("warm", "dull")])
    path = tmp_path / "a.jsonl"
    for columns, label in (((), None), (["0"], "1")):
        assert table.write(frame, str(path), columns, label, {}) == (["0"], "1")
        assert json.loads(path.read_text().splitlines()[0]) == {"0": "A warm film, number 0.", "1": 0}
    assert table.write(frame.to_dict("records"), str(path), (), None, {}) == (["0"], "1")
    assert table.write({0: list(frame[0]), 1: list(frame[1])}, str(path), (), None, {}) == (["0"], "1")
    with pytest.raises(UserError, match="Row 0 has no '2'; it has 0, 1"):
        table.write(frame, str(path), ["2"], "1", {})
    frame.columns = [1, "1"]
    with pytest.raises(UserError, match="Several columns are called 1"):
        table.write(frame, str(path), (), None, {})


@pytest.mark.parametrize("task", ["", "ner/table"])
def test_tagged_words_are_written_with_their_columns(tmp_path, task):
    """The columns of simpletransformers, or lists; other columns are not read."""
    words = [(0, "Ann", "B-PER"), (0, "sang", "O"), (1, "In", "O"), (1, "Ulm", "B-LOC")]
    rows = [{"sentence_id": n, "words": word, "labels": tag, "other": object()} for n, word, tag in words]
    lists = [{"words": ["Ann", "sang"], "labels": np.array(["B-PER", "O"]), "id": 5}]
    path = tmp_path / "a.jsonl"
    options = {"task_name": task} if task else {}
    for data, columns in ((rows, ["sentence_id", "words", "labels"]), (lists, ["words", "labels"])):
        assert table.write(data, str(path), (), None, options) == ((), None)
        assert list(json.loads(path.read_text().splitlines()[0])) == columns
        assert len(ConllFile(str(path), ColumnLayout()).sentences) == (2 if data is rows else 1)
    meanings = [{"sentence": f"The bank {n} was steep.", "word": "bank", "label": "TF"[n % 2]} for n in range(20)]
    if not task:
        assert table.write(meanings, str(path), (), None, {}) == (["sentence"], "label"), "no tags"


FEEDBACK = [{"id": number, "message": f"{text} {number}", "topic": label} for number, (text, label) in enumerate(ROWS)]


@pytest.mark.parametrize(
    ("data", "arguments", "expected"),
    [
        (ROWS, {}, {"output_dir": "runs/table", "text_columns": "text", "label_column": "label"}),
        (FEEDBACK, {}, {"init_checkpoint": "MiniLM-L12-H384-uncased", "text_columns": "message"}),
        ("feedback.jsonl", {}, {"output_dir": "runs/feedback", "label_column": "topic"}),
        (ROWS, {"init_checkpoint": "runs/own", "output_dir": "run"}, {"output_dir": "run", "task_name": "table"}),
        (ROWS, {"model_size": "tiny"}, {"init_checkpoint": "", "max_seq_length": 128}),
        (ROWS, {"task_name": "table"}, {"init_checkpoint": "", "text_columns": "text", "label_column": "label"}),
    ],
)
def test_what_is_not_given_is_chosen_as_the_command_does_and_said(
    data, arguments, expected, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "feedback.jsonl").write_text("".join(json.dumps(row) + "\n" for row in FEEDBACK))
    started = []

    def make(options, *_):
        started.append(options)
        raise UserError("so far")

    with faults.on_call(planning, "make", make), pytest.raises(UserError, match="so far"):
        bert_tf.fine_tune(data, **arguments)
    assert started[0].values().items() >= expected.items()
    said = capsys.readouterr().out
    chosen = started[0].values()
    start = chosen["init_checkpoint"] or "scratch"
    sentence = f"the run is {chosen['output_dir']}, from {start}, with rows of 128 tokens."
    assert sentence in said or "task_name" in arguments


@pytest.fixture
def untrained(monkeypatch):
    """Runs that end before they train."""
    for recipe in (finetune, pretrain):
        monkeypatch.setattr(recipe, "main", lambda options: None)


def test_other_data_without_a_folder_take_the_next_one(untrained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def tuned(rows, **options):
        run = bert_tf.fine_tune(rows, **options)
        (tmp_path / run.path / "model.safetensors").touch()  # as if it was trained
        return run.path

    assert [tuned(ROWS[first:]) for first in (0, 1, 0, 2, 1, 2)] == [
        "runs/table", "runs/table-2", "runs/table", "runs/table-3", "runs/table-2", "runs/table-3"
    ]  # fmt: skip
    assert capsys.readouterr().out.count("runs/table has a run on other data; this run is runs/table-2.") == 2
    (tmp_path / "runs" / "table" / "data" / "train.jsonl").unlink()  # as if the command had trained there
    assert tuned(ROWS) == "runs/table-4"
    assert len((tmp_path / "runs" / "table-2" / "data" / "train.jsonl").read_text().splitlines()) == len(ROWS) - 1
    with pytest.raises(UserError, match="runs/table-2 .* run on other data: pass another output_dir"):
        tuned(ROWS, output_dir="runs/table-2")
    assert not list(tmp_path.rglob("*.new"))


def test_a_run_goes_on_with_the_data_that_it_began_with(untrained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (
        lambda rows: bert_tf.fine_tune(rows, output_dir="runs/own"),
        lambda rows: bert_tf.pretrain(texts=[text for text, _ in rows]),
    ):
        run = call(ROWS[:3])
        assert call(ROWS) == run  # before it was trained
        tiny.touch_checkpoint(tmp_path / run.path, 3)
        assert call(ROWS) == run
        for rows in (ROWS[1:], ROWS[:-1]):
            with pytest.raises(UserError, match=f"{run.path} .* run on other data: .*, such as {run.path}-2, or"):
                call(rows)
        assert call(ROWS) == run


def test_types_of_the_options_are_those_of_the_flags():
    expected = option_types.render()
    assert option_types.PATH.read_text(encoding="utf-8") == expected, "run python tests/helpers/option_types.py"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("finetune", "bert_tf.fine_tune"),
        ("fineTune", "bert_tf.fine_tune"),
        ("train", "bert_tf.fine_tune"),
        ("pre_train", "bert_tf.pretrain"),
        ("from_pretrained", r"bert_tf.load\(PATH\)"),
        ("fill_mask", r"bert_tf.load\(PATH\).fill_mask"),
    ],
)
def test_near_names_are_hinted_at(name, hint):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'. Did you mean {hint}"):
        getattr(bert_tf, name)
    assert not hasattr(bert_tf, "xyz") and bert_tf.UserError is UserError


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda path: bert_tf.fine_tune(ROWS, output_dir=path, learning_rte=1.0),
            "no option learning_rte. Did you mean",
        ),
        (lambda path: bert_tf.fine_tune(ROWS, output_dir=path, lable="x"), "no option lable. Did you mean label "),
        (
            lambda path: bert_tf.fine_tune(ROWS, output_dir=path, num_train_epochs="3"),
            "'3': expected a finite number",
        ),
        (
            lambda path: bert_tf.fine_tune(ROWS, output_dir=path, learning_rate=float("nan")),
            "learning_rate=nan: expected a finite number",
        ),
        (
            lambda path: bert_tf.fine_tune(ROWS, output_dir=path, do_train=1),
            "do_train=1: expected True or False",
        ),
        (lambda path: bert_tf.fine_tune(ROWS, output_dir=path, precision="int4"), "expected one of auto, float32"),
        (lambda path: bert_tf.fine_tune([("a",)], output_dir=path), r"Row 0 is \('a',\); expected a dictionary"),
        (
            lambda path: bert_tf.fine_tune([{"text": "a"}], output_dir=path),
            "contains the labels\\? none looks like it; its columns: text. Pass label=",
        ),
        (
            lambda path: bert_tf.fine_tune([*ROWS, ("bad \ud83d", "b")], output_dir=path),
            "Row 24 is not Unicode: .*surrogate pair, '.ud83d'",
        ),
        (lambda path: bert_tf.fine_tune([*ROWS, (3, "b")], output_dir=path), "Row 24 has 3 in 'text'; expected text"),
        (lambda path: bert_tf.fine_tune([(b"\xff", "b")], output_dir=path), "Row 0 .*bytes that are not UTF-8"),
        (lambda path: bert_tf.fine_tune(3, output_dir=path), "The data is 3; expected a path, a DataFrame"),
        (lambda path: bert_tf.pretrain(texts=["a", None], output_dir=path), "Text 1 is None; expected a string"),
        (lambda path: bert_tf.pretrain(texts=["a", "\udc80"], output_dir=path), "Text 1 is not Unicode"),
        (lambda path: bert_tf.pretrain(output_dir=path), "Pass either files or texts"),
    ],
)
def test_mistakes_are_one_sentence(call, message, tmp_path):
    with pytest.raises(UserError, match=message):
        call(tmp_path / "run")
    assert not list((tmp_path / "run").rglob("*.json*"))


def test_no_data_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="data is None; expected the path of a table"):
        bert_tf.fine_tune(None)
    assert not list(tmp_path.iterdir())
