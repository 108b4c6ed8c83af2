"""`bert-tf predict` on exports that are made in no time: what it reads, writes, prints and refuses."""

import contextlib
import io
import json
import os
import shutil
import sys
import threading
import time

import openpyxl
import pytest
import quick_exports
import tensorflow as tf

from bert_tf.cli import main
from bert_tf.cli.commands import predict
from bert_tf.data import tables
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import batches, loaded_model, prediction_inputs
from bert_tf.export.batches import predict_in_order
from bert_tf.heads.base.answering import answered


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """{kind: folder of an export}."""
    folder = tmp_path_factory.mktemp("exports")
    return quick_exports.make(folder) | quick_exports.for_the_page(folder)


def answers(capsys, *arguments):
    """What the command prints, as lines; it must end well and complain of nothing."""
    assert main.main(["predict", *map(str, arguments)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.removesuffix("\n").split("\n")  # splitlines would cut at U+2028 too


@pytest.mark.parametrize(
    "kind, flags, expected",
    [
        ("single", ["--text=123456"], ["long", "   60.0%  long", "   40.0%  short"]),
        ("pair", ["--text=", "--text_b=123"], ["short", "   80.0%  short", "   20.0%  long"]),
        ("choice", ["--text=", "--choice=", "--choice=12"], ["long", "   75.0%  long", "   25.0%  short"]),
        ("number", ["--text=1234"], ["1.333"]),
        ("mask", ["--text=x [MASK]"], [" 75.0%  a", " 25.0%  b"]),
        ("mask", ["--text=x"], ["no [MASK] in the text\tx"]),
        ("question", ["--text=Ann sings", "--question=Who?"], ["Ann", " 75.0%  Ann  0-3", " 25.0%  no answer  0-0"]),
        ("question", ["--text=", "--question=Who?"], ["no answer", " 75.0%  no answer  0-0", " 25.0%  no answer  0-0"]),
    ],
)
def test_single_text_is_printed_for_reading(exports, capsys, kind, flags, expected):
    assert answers(capsys, exports[kind], *flags) == expected


@pytest.mark.parametrize(
    "kind, flags, expected",
    [
        ("single", ["--text=1234"], {"text_a": "1234", "label": "short", "probabilities": {"short": 0.5, "long": 0.5}}),
        ("number", ["--text=12"], {"text_a": "12", "label": "0.667", "value": pytest.approx(0.667, abs=1e-3)}),
        (
            "choice",
            ["--text=a", "--choice=", "--choice=12"],
            {"text_a": "a", "choices": ["", "12"], "label": "long", "probabilities": {"short": 0.25, "long": 0.75}},
        ),
        (
            "mask",
            ["--text=[MASK]"],
            {
                "text": "[MASK]",
                "label": "a",
                "answers": [[{"piece": "a", "score": 0.75}, {"piece": "b", "score": 0.25}]],
            },
        ),
    ],
)
def test_json_has_id_texts_label_and_probabilities(exports, capsys, kind, flags, expected):
    (line,) = answers(capsys, exports[kind], *flags, "--json")
    assert json.loads(line) == {"id": "0", **expected}


def test_text_file_gives_one_output_line_per_line(exports, capsys, tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeff12\r\n\n123456\u2028".encode())
    lines = answers(capsys, exports["single"], "--file", tmp_path / "a.txt", "--json", "--batch_size=2")
    assert [json.loads(line)["text_a"] for line in lines] == ["12", "", "123456\u2028"]
    assert answers(capsys, exports["single"], "--file", tmp_path / "a.txt") == [
        "short\t66.7%\t12",
        "short\t100.0%\t",
        "long\t69.2%\t123456",
    ]


@pytest.mark.parametrize(
    "name, content, flags",
    [
        ("a.tsv", 'text_b\ttext_a\tlabel\n12\t"x\tno\n\t\tyes\n', []),
        ("a.csv", 'text_a,text_b\n"""x",12\n,""\n', []),
        ("a.jsonl", '{"one": "\\"x", "two": "12"}\n{"one": "", "two": ""}\n', ["--text_columns", "one, two"]),
        ("words.jsonl", '{"text_a": ["\\"x"], "text_b": "12"}\n{"text_a": [], "text_b": ""}\n', []),
        ("a.JSONL", '{"text_a": "\\"x", "text_b": "12"}\n{"text_a": "", "text_b": ""}\n', []),
    ],
)
def test_columns_are_found_by_input_names_or_flags(exports, capsys, tmp_path, name, content, flags):
    (tmp_path / name).write_text(content)
    rows = [json.loads(row) for row in answers(capsys, exports["pair"], "--file", tmp_path / name, "--json", *flags)]
    given = [
        {f"{column} (file)" if column == "label" else column: value for column, value in row.items()}
        for _, row in tables.read(str(tmp_path / name))
    ]
    assert [dict(list(row.items())[: len(given[0])]) for row in rows] == given, "the columns of the file come first"
    assert [row["label"] for row in rows] == ["short", "short"]


def test_single_text_is_read_from_a_column_text(exports, capsys, tmp_path, caplog):
    (tmp_path / "a.csv").write_text("text,label\none,no\n ,no\n")
    expected = json.loads(answers(capsys, exports["single"], "--text=one", "--json")[0])
    row = json.loads(answers(capsys, exports["single"], "--file", tmp_path / "a.csv", "--json")[0])
    assert caplog.messages == [
        f"1 row without text (the first in line 3 of {tmp_path / 'a.csv'}): ignore the predictions there."
    ]
    assert (row["text"], row["probabilities"]) == ("one", expected["probabilities"])
    caplog.clear()
    answers(capsys, exports["single"], "--text= ")
    assert caplog.messages == ["1 row without text (the first in the flags): ignore the predictions there."]


@pytest.mark.parametrize(
    "name, content, flags",
    [
        ("a.jsonl", '{"text_a": "x", "choices": ["", "12"]}\n', []),
        ("a.tsv", "text_a\tchoice 0\tchoice 1\nx\t\t12\n", []),
        ("a.csv", "s,e0,e1\nx,,12\n", ["--text_columns=s,e0,e1"]),
    ],
)
def test_choices_are_a_list_or_columns(exports, capsys, tmp_path, name, content, flags):
    (tmp_path / name).write_text(content)
    (row,) = answers(capsys, exports["choice"], "--file", tmp_path / name, "--json", *flags)
    assert json.loads(row)["label"] == "long" and list(json.loads(row).values())[0] == "x"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_predictions_begin_with_a_byte_order_mark_if_the_table_does(exports, capsys, tmp_path, mark):
    (tmp_path / "a.csv").write_bytes(mark + "text\nM\u00fcller\n".encode())
    for name in ("b.csv", "b.tsv"):
        answers(capsys, exports["single"], "--file", tmp_path / "a.csv", "--output", tmp_path / name)
        header = b"text,label," if name == "b.csv" else b"text\tlabel\t"
        assert (tmp_path / name).read_bytes().startswith((mark if name == "b.csv" else b"") + header)
    again = ["--file", tmp_path / "b.csv", "--text_columns=text", "--json"]
    assert json.loads(answers(capsys, exports["single"], *again)[0])["text"] == "M\u00fcller"


def test_pairs_for_a_model_of_single_texts_are_an_error(exports, capsys, tmp_path):
    (tmp_path / "a.csv").write_text("text_a,text_b\n12,123\n")
    command = ["predict", str(exports["single"]), "--file", str(tmp_path / "a.csv"), "--json"]
    assert main.main(command) == 2
    advice = "--text_columns=text_a to use only that, or export the model again with --num_texts=2"
    assert advice in capsys.readouterr().err
    assert main.main([*command, "--text_columns=text_a"]) == 0


def test_output_is_tsv_or_jsonl_and_can_be_read_again(exports, capsys, tmp_path):
    (tmp_path / "a.tsv").write_text("number\ttext_a\ttext_b\nq7\t1\t123\nq8\t\t\n")
    arguments = ["--file", tmp_path / "a.tsv", "--id_column=number"]
    for name in ("b.tsv", "b.jsonl", "b.xlsx", "b.parquet"):
        output = answers(capsys, exports["pair"], *arguments, "--output", tmp_path / name)
        assert output == [f"The predictions are in {tmp_path / name}."]
    assert (tmp_path / "b.tsv").read_text() == (
        "number\ttext_a\ttext_b\tlabel\tprobability short\tprobability long\n"
        "q7\t1\t123\tshort\t0.666667\t0.333333\n"
        "q8\t\t\tshort\t0.500000\t0.500000\n"
    )
    rows = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert [row["number"] for row in rows] == ["q7", "q8"]
    for name in ("b.tsv", "b.xlsx", "b.parquet"):
        again = answers(capsys, exports["pair"], "--file", tmp_path / name, "--json")
        assert [json.loads(line)["label"] for line in again] == ["short", "short"]
        assert [float(json.loads(line)["probability long"]) for line in again] == [pytest.approx(1 / 3, abs=1e-6), 0.5]
    assert sorted(os.listdir(tmp_path)) == ["a.tsv", "b.jsonl", "b.parquet", "b.tsv", "b.xlsx"]


def test_numbers_of_a_workbook_stay_numbers_in_one(exports, capsys, tmp_path):
    book = openpyxl.Workbook()
    rows = [("id", "text_a", "text_b"), (7, "", "123"), (0.5, "", "1"), ("007", "", "x"), (True, "", "y")]
    for row in rows:
        book.worksheets[0].append(row)
    book.save(tmp_path / "a.xlsx")
    answers(capsys, exports["pair"], "--file", tmp_path / "a.xlsx", "--output", tmp_path / "b.xlsx")
    written = [row[0] for row in openpyxl.load_workbook(tmp_path / "b.xlsx").worksheets[0].iter_rows(values_only=True)]
    assert written == [row[0] for row in rows] and type(written[4]) is bool


def test_run_folder_is_accepted_for_its_export(exports, capsys, tmp_path):
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "export").symlink_to(exports["number"])
    assert answers(capsys, tmp_path, "--text=123") == ["1.000"]


def test_order_is_kept_across_windows_and_memory_is_bounded(exports):
    read = []

    def texts():
        for number in range(1000):
            read.append(number)
            yield Example(str(number), ("x" * (number * 7919 % 50),))

    export, far = loaded_model.on_strings(str(exports["number"])), 0
    for number, (example, outputs) in enumerate(predict_in_order(export, texts(), batch_size=16, window=64)):
        far = max(far, len(read) - number)
        assert (example.id, outputs["values"]) == (str(number), pytest.approx(len(example.texts[0]) / 3))
    assert number == 999 and far <= 64


def test_texts_of_similar_length_share_a_batch():
    class Recorder:
        seen = []

        def predict(self, examples):
            self.seen.append([len(example.texts[0]) for example in examples])
            return {"values": [0] * len(examples)}

    examples = [Example("", ("x" * length,)) for length in (1, 9, 2, 8, 1, 9)]
    list(predict_in_order(Recorder(), examples, batch_size=2, window=6))
    assert sorted(Recorder.seen, reverse=True) == [[9, 9], [8, 2], [1, 1]]


def test_batches_are_computed_in_parallel():
    at_once = batches.parallel_batches()
    together = threading.Barrier(at_once, timeout=60)

    class Waiting:
        def predict(self, examples):
            together.wait()  # passes when as many are here
            return {"values": [examples[0].texts[0]]}

    texts = [str(number) for number in range(100, 100 + 2 * at_once)]
    examples = [Example("", (text,)) for text in texts]
    actual = list(predict_in_order(Waiting(), examples, batch_size=1, window=len(texts)))
    assert [outputs["values"] for _, outputs in actual] == texts


def test_failing_batch_stops_the_others():
    seen = []

    class Failing:
        def predict(self, examples):
            seen.append(examples)
            time.sleep(0.01)
            raise UserError("not this one")

    with pytest.raises(UserError, match="not this one"):
        list(predict_in_order(Failing(), [Example("", ("a",))] * 500, batch_size=1, window=500))
    assert len(seen) < 100


def test_long_texts_are_held_in_small_windows():
    held, size = [], batches.MAX_CHARACTERS // 10 + 1

    class Recorder:
        def predict(self, examples):
            held.append([len(text) // size for example in examples for text in example.texts])
            return {"values": [0] * len(examples)}

    examples = [Example("", ("x" * size * length, "y" * size)) for length in (2, 3, 4, 12, 1)]
    actual = list(predict_in_order(Recorder(), examples, batch_size=2000, window=9))
    assert held == [[4, 1, 3, 1, 2, 1], [12, 1], [1, 1]] and [example for example, _ in actual] == examples


def test_standard_input_has_one_text_per_line(exports, capsys, monkeypatch, tmp_path):
    (tmp_path / "given").write_text("123\n123456\n")
    with open(tmp_path / "given") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert answers(capsys, exports["number"], "--file=-") == ["1.000\t123", "2.000\t123456"]


def test_rate_is_shown_on_a_terminal_only(exports, clock, tmp_path):
    (tmp_path / "a.txt").write_text("a\nb\n")
    lines, clock.tick = [], 1.0

    class Terminal(io.StringIO):
        def isatty(self):
            return True

        def write(self, text):
            lines.append(text)

    with contextlib.redirect_stderr(Terminal()):
        main.main(["predict", str(exports["number"]), f"--file={tmp_path}/a.txt", f"--output={tmp_path}/b.tsv"])
    assert "predicting" in "".join(lines) and "texts/s" in "".join(lines) and "2/2" in "".join(lines)


def test_texts_of_a_file_are_counted_by_line_ends(tmp_path):
    for name, expected in (("a.txt", 3), ("a.tsv", 2), ("a.jsonl", 3), ("a.csv", None), ("a.json", None)):
        (tmp_path / name).write_text("a\nb\nc\n")
        assert prediction_inputs.count(str(tmp_path / name)) == expected
    assert prediction_inputs.count("-") is None


def test_squad_and_table_questions_get_answers_with_offsets(exports, capsys, tmp_path):
    qas = [{"id": "q7", "question": "Who?"}, {"id": "q8", "question": "Where?"}]
    content = {"data": [{"paragraphs": [{"context": "Änn sings", "qas": qas}]}]}
    (tmp_path / "a.json").write_text(json.dumps(content))
    (tmp_path / "a.csv").write_text("question,context\nWho?,Änn sings\nWhere?,Änn sings\n", encoding="utf-8")
    best = [("Änn", 0, 3, 0.75), ("", 0, 0, 0.25)]
    n_best = [dict(zip(("text", "start", "end", "probability"), one, strict=True)) for one in best]
    expected = {"answer": "Änn", "start": 0, "end": 3, "score": 0.75, "null_score": -0.25, "n_best": n_best}
    for name, ids in (("a.json", ["q7", "q8"]), ("a.csv", [None, None])):
        rows = [json.loads(row) for row in answers(capsys, exports["question"], "--file", tmp_path / name, "--json")]
        assert [row.pop("id", None) for row in rows] == ids
        asked_for = [{"context": "Änn sings", "question": question} for question in ("Who?", "Where?")]
        assert rows == [{**one, **expected} for one in asked_for]
        lines = answers(capsys, exports["question"], "--file", tmp_path / name)
        assert lines == [f"Änn\t75.0%\t{question}\tÄnn sings" for question in ("Who?", "Where?")]
    answers(capsys, exports["question"], "--file", tmp_path / "a.json", "--output", tmp_path / "b.tsv")
    head, row, _ = (tmp_path / "b.tsv").read_text(encoding="utf-8").splitlines()
    assert head == "id\tanswer\tstart\tend\tscore\tnull_score\tquestion\tcontext"
    assert row == "q7\tÄnn\t0\t3\t0.75\t-0.25\tWho?\tÄnn sings"


def test_unknown_outputs_are_kept_as_they_are():
    outputs = {"vector": tf.constant([1.5]).numpy(), "name": b"a"}
    row = answered(Example("7", ("x",)), outputs, head=None, labels=(), inputs={"text_a": None})
    assert row.fields() == {"id": "7", "text_a": "x", "vector": [1.5], "name": "a"}


@pytest.fixture
def nli(tmp_path):
    """Two exports of others, with texts whose names are not ours: one says their order, one does not."""
    inputs = [(name, tf.string, ()) for name in ("premise", "hypothesis")]
    folders = []
    for name, about in (("told", {"inputs": {"premise": None, "hypothesis": None}}), ("untold", {})):
        folders.append(quick_exports.saved(tmp_path / name, lambda premise, hypothesis: {"label": premise}, *inputs))
        (tmp_path / name / "about.json").write_text(json.dumps(about))
    return folders


def test_texts_by_place_need_an_export_that_says_their_order(nli, capsys, tmp_path):
    told, untold = nli
    pair = "--text=Ann sings", "--text_b=She is silent", "--json"
    expected = {"premise": "Ann sings", "hypothesis": "She is silent", "label": "Ann sings"}
    assert json.loads(answers(capsys, told, *pair)[0]) == {"id": "0", **expected}
    (tmp_path / "a.csv").write_text("x,y,premise,hypothesis\np,h,Ann sings,She is silent\n")
    table = "--file", tmp_path / "a.csv", "--json"
    for folder in (told, untold):
        row = json.loads(answers(capsys, folder, *table)[0])
        assert (row["label"], row["premise"], row["hypothesis"]) == ("Ann sings", "Ann sings", "She is silent")
    assert json.loads(answers(capsys, told, *table, "--text_columns=x,y")[0])["label"] == "p"
    for arguments in (pair, (*table, "--text_columns=x,y")):
        assert main.main(["predict", str(untold), *map(str, arguments)]) == 2
        assert "order of hypothesis and premise" in capsys.readouterr().err


def test_columns_of_questions_are_named_in_the_order_of_the_inputs(exports, capsys, tmp_path):
    (tmp_path / "a.csv").write_text("q,passage\nWho?,Ann sings\n")
    flags = "--file", tmp_path / "a.csv", "--text_columns=q,passage", "--json"
    assert json.loads(answers(capsys, exports["question"], *flags)[0])["answer"] == "Ann"


def test_exports_without_a_model_for_an_engine_say_how_to_start_sooner(exports, tmp_path, capsys):
    export = tmp_path / "export"
    shutil.copytree(exports["single"], export)
    (export / "assets.extra").mkdir(exist_ok=True)
    (export / "assets.extra" / "bert_config.json").write_text("{}")
    for flags, count in (([], 1), (["--engine=tensorflow"], 0), (["--jit_compile=false"], 0)):
        assert main.main(["predict", str(export), "--text=a", *flags]) == 0
        assert capsys.readouterr().err.count("`bert-tf export RUN --overwrite`") == count
    (export / "engines").mkdir()
    for name in ("host.json", "other"):
        (export / "engines" / name).write_text("{}")
    predict._say_how_to_start_sooner(str(export))
    assert capsys.readouterr().err == ""
