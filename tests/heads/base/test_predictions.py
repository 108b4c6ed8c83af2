"""Rows about what a model answered: the hardest examples of a split."""

import csv
import dataclasses
import math

import numpy as np
import pytest

from bert_tf.data import tables
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base import prediction_files as predictions
from bert_tf.heads.base.answering import Answered, answered
from bert_tf.heads.base.answers import Prediction
from bert_tf.heads.base.text_rows import TextRows
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import MultiLabel
from bert_tf.heads.regression import Regression
from bert_tf.tasks import labelled_rows


def hardest(goal, labels, most=12, texts=("a",), **answers):
    split = TextRows([Example(f"n{number}", texts, label) for number, label in enumerate(labels)], goal, None)
    answers = {name: np.array(values, np.float32) for name, values in answers.items()}
    rows = predictions.hardest(goal, split, answers | {"row_numbers": np.arange(len(labels)) + 1}, most)
    return [(row.id, row.answer.shown, row.truth, round(row.loss, 4)) for row in rows]


def test_hardest_examples_have_the_least_probability_of_the_true_label():
    probabilities = [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]
    rows = hardest(Classes(["no", "yes"]), ["no", "no", "yes"], logits=np.log(probabilities))
    assert rows == [("n1", "yes", "no", 1.6094), ("n2", "no", "yes", 0.6931), ("n0", "no", "no", 0.1054)]
    rows = hardest(Classes(["no", "yes"]), ["no", "no", "yes"], 1, logits=np.log(probabilities))
    assert [row[0] for row in rows] == ["n1"]


def test_hardest_multi_label_uses_mean_loss_and_regression_squared_error():
    logits = np.log([[0.9 / 0.1, 0.1 / 0.9], [0.5 / 0.5, 0.8 / 0.2]])
    rows = hardest(MultiLabel(["red", "blue"]), ["red", "red"], logits=logits)
    assert rows == [("n1", "blue", "red", pytest.approx(1.1513)), ("n0", "red", "red", pytest.approx(0.1054))]
    rows = hardest(Regression(), ["1", "2"], values=[3.0, 2.5])
    assert rows == [("n0", "3.000", "1.000", 4.0), ("n1", "2.500", "2.000", 0.25)]


def test_choice_with_zero_probability_has_finite_loss():
    ((_, _, _, loss),) = hardest(MultipleChoice(2), ["1"], texts=("a", "b", "c"), logits=[[100.0, 0.0]])
    assert loss == pytest.approx(27.631)


def test_other_columns_are_kept_and_csv_is_safe_for_spreadsheets(tmp_path):
    example = Example(
        "7",
        ("a, b",),
        None,
        "line 2",
        row={"text": "a, b", "stars": "5", "label": "old", "note": "=1+1", "change": "-3", "=x": ""},
    )
    outputs = {"label": b"good", "probabilities": np.array([0.25, 0.75])}
    row = answered(example, outputs, head=Classes, labels=("bad", "good"), inputs={"text": None})
    others = ["stars", "label (file)", "note", "change", "=x"]
    assert list(row.fields()) == ["text", *others, "label", "probabilities"]
    predictions.write_rows(str(tmp_path / "a.csv"), [row, row])
    with open(tmp_path / "a.csv", encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert first == second and first["text"] == "a, b" and first["label"] == "good"
    assert "'=x" in first
    assert (first["label (file)"], first["note"], first["change"]) == ("old", "'=1+1", "-3")
    assert (first["probability bad"], first["probability good"]) == ("0.250000", "0.750000")


@pytest.mark.parametrize("extension", [".csv", ".tsv", ".jsonl", ".xlsx", ".parquet"])
def test_no_column_of_a_table_is_lost_in_its_predictions(tmp_path, extension):
    """Predictions are read and predicted for again; a column stays, whatever the table calls its columns."""
    table = {"text": "a", "label": "gold", "probability good": "kept", "label (file 3)": "mine", "truth": "t"}
    outputs = {"label": b"good", "probabilities": np.array([0.25, 0.75])}
    for number in range(4):
        example = Example("0", ("a",), None, "line 2", row=table)
        row = answered(example, outputs, head=Classes, labels=("bad", "good"), inputs={"text": None})
        row = dataclasses.replace(row, truth="gold")
        assert {"gold", "kept", "mine", "t"} <= {*map(str, row.fields().values())}
        path = str(tmp_path / f"{number}{extension}")
        predictions.write_rows(path, [row])
        ((_, table),) = tables.read(path)
    assert {"gold", "mine", "t"} <= {*map(str, table.values())}
    names = [name for name in table if name.startswith("label")]
    assert sorted(names) == sorted(["label", "label (file)", *(f"label (file {number})" for number in (2, 3, 4, 5))])
    assert (table["label (file)"], table["label (file 3)"], table["label"]) == ("gold", "mine", "good")


def rows_of_table(*tables):
    """Rows of predictions for rows of a JSONL file."""
    return [Answered(id="0", texts={}, answer=Prediction(label="good"), row=table) for table in tables]


@pytest.mark.parametrize("extension", [".csv", ".tsv", ".xlsx", ".parquet"])
def test_values_are_under_the_name_of_their_column_and_a_missing_one_is_empty(tmp_path, extension):
    path = str(tmp_path / f"a{extension}")
    rows = rows_of_table({"text": "a", "x": 1, "note": None}, {"note": "n2", "text": "b", "x": 2}, {"text": "c"})
    predictions.write_rows(path, rows)
    empty = None if extension == ".parquet" else ""
    expected = [("a", 1, empty), ("b", 2, "n2"), ("c", empty, empty)]
    read = [row for _, row in tables.read(path)]
    assert [list(row) for row in read] == [["text", "x", "note", "label"]] * 3
    if extension != ".parquet":
        expected = [tuple(map(str, values)) for values in expected]
    assert [tuple(row.values()) for row in read] == [(*values, "good") for values in expected]


@pytest.mark.parametrize("extension", [".csv", ".tsv", ".xlsx", ".parquet"])
def test_column_that_the_first_row_lacks_is_refused_and_nothing_is_written(tmp_path, extension):
    rows = rows_of_table({"text": "a"}, {"text": "b"}, {"text": "c", "y": 5})
    with pytest.raises(UserError, match=r"Row 3 of .*'y', which the first row lacks: write .jsonl"):
        predictions.write_rows(str(tmp_path / f"a{extension}"), rows)
    assert not list(tmp_path.iterdir())
    predictions.write_rows(str(tmp_path / "a.jsonl"), rows)
    assert [row.get("y") for _, row in tables.read(str(tmp_path / "a.jsonl"))] == [None, None, 5]


@pytest.mark.parametrize("extension", [".csv", ".tsv", ".xlsx", ".parquet"])
def test_lists_are_json_in_every_table_and_null_is_an_empty_cell(tmp_path, extension):
    path = str(tmp_path / f"a{extension}")
    predictions.write_rows(path, rows_of_table({"a": ["é", None, True], "b": {"c": math.inf}, "d": None, "e": ""}))
    ((_, row),) = tables.read(path)
    empty = None if extension == ".parquet" else ""
    assert row == {"a": '["é", null, true]', "b": '{"c": "Infinity"}', "d": empty, "e": "", "label": "good"}


@pytest.mark.parametrize("extension", [".csv", ".tsv", ".xlsx"])
def test_infinity_is_a_word_in_tables(tmp_path, extension):
    path = str(tmp_path / f"a{extension}")
    predictions.write_rows(path, rows_of_table({"a": math.inf, "b": -math.inf}))
    ((_, row),) = tables.read(path)
    assert (row["a"], row["b"]) == ("inf", "-inf")


def test_number_that_json_lacks_is_a_text_in_json_lines(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"n": 1e400, "m": [-1e400, 1.5], "text": "a"}\n')
    ((_, table),) = tables.read(str(tmp_path / "a.jsonl"))
    predictions.write_rows(str(tmp_path / "b.jsonl"), rows_of_table(table))
    line = (tmp_path / "b.jsonl").read_text()
    assert line.startswith('{"n": "Infinity", "m": ["-Infinity", 1.5], "text": "a", "label": "good"')


@pytest.mark.parametrize("extension", [".csv", ".xlsx"])
def test_label_that_looks_like_a_formula_is_read_back(tmp_path, extension):
    labels = ["=ugly", "+", "-1", "@x", "good", "'s", "'"]
    path = str(tmp_path / f"a{extension}")
    predictions.write_rows(
        path, [Answered(id="0", texts={"text": "a"}, answer=Prediction(label=label)) for label in labels]
    )
    read = [row["label"] for _, row in tables.read(path)]
    assert "'=ugly" in read
    rows = [labelled_rows.with_value(Example("0", ("a",), label, "line 2"), (), Classes) for label in read]
    assert [row.label for row in rows] == labels


def test_csv_with_any_line_ends_is_read_back_and_no_line_is_a_formula(tmp_path):
    texts = ["hello\r=cmd|' /C calc'!A0", "a\n+b\r\n@c", "\r-d", "plain", "-1.5", "e \x1b=f"]
    path = str(tmp_path / "a.csv")
    predictions.write_rows(
        path,
        [
            Answered(id=str(number), texts={"text_a": text}, answer=Prediction(label="x"))
            for number, text in enumerate(texts)
        ],
    )
    content = (tmp_path / "a.csv").read_bytes().decode()
    assert not any(line.startswith(("=", "+", "@", '"=')) for line in content.replace("\r", "\n").split("\n"))
    read = [row["text_a"] for _, row in tables.read(path)]
    assert read == ["hello\r'=cmd|' /C calc'!A0", "a\n'+b\r\n'@c", "'\r'-d", "plain", "-1.5", "e \x1b=f"]


@pytest.mark.parametrize("text", ["a" * 32_768, "form \x0c feed"])
def test_what_excel_cannot_hold_is_refused_and_nothing_is_written(tmp_path, text):
    row = Answered(id="0", texts={"text_a": text}, answer=Prediction(label="x"))
    with pytest.raises(UserError, match="Row 1 of the predictions does not fit into an Excel workbook"):
        predictions.write_rows(str(tmp_path / "a.xlsx"), [row])
    assert not list(tmp_path.iterdir())
