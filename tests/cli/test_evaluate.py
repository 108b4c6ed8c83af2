"""`bert-tf evaluate` on exports that are made in no time: the scores, how files are read, mistakes."""

import json
import re

import numpy as np
import pytest
import quick_exports
import tensorflow as tf

from bert_tf.cli import main
from bert_tf.recipes.finetuning import trained_texts

SHORT, LONG = "123", "123456"  # which the export of single texts finds


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """{kind: folder of an export}, which say what they are."""
    folder = tmp_path_factory.mktemp("exports")
    folders = quick_exports.make(folder)
    for name, kind in {"single": "classes", "pair": "classes", "choice": "choice", "number": "regression"}.items():
        about = {"task": "swag" if name == "choice" else "sizes", "kind": kind}
        about["labels"] = ["0", "1"] if name == "choice" else list(quick_exports.LABELS) if kind == "classes" else []
        (folders[name] / "about.json").write_text(json.dumps(about))
    folders["questions"] = quick_exports.saved(folder / "questions", answer_first_word, CONTEXT, QUESTION)
    about = {"task": "squad/v2.0", "kind": "span", "reads": {"version_2_with_negative": True}}
    (folders["questions"] / "about.json").write_text(json.dumps(about))
    return folders


CONTEXT, QUESTION = ("context", tf.string, ()), ("question", tf.string, ())


def answer_first_word(context, question):
    """Answers the first word of the context, to "nothing?" with one in three, else with three in four."""
    word = tf.strings.split(context)[:, :1].to_tensor()[:, 0]
    share = tf.where(question == "nothing?", 1 / 3, 3 / 4)  # [Q]
    size, none = tf.strings.length(word), tf.zeros_like(word, tf.int32)
    is_given = share > 0.5
    return {
        "answer": tf.where(is_given, word, ""),
        "start": none,
        "end": tf.where(is_given, size, 0),
        "score": share,
        "answers": tf.stack([word, tf.zeros_like(word)], 1),
        "starts": tf.stack([none, none], 1),
        "ends": tf.stack([size, none], 1),
        "probabilities": tf.stack([share, 1 - share], 1),
    }


def scored(capsys, *arguments):
    """What the command prints as JSON; it must end well and complain of nothing."""
    assert main.main(["evaluate", *map(str, arguments), "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return json.loads(captured.out)


def test_classes_have_accuracy_f1_and_confusion_matrix(exports, capsys, tmp_path):
    rows = [(SHORT, "short"), (SHORT, "short"), (LONG, "long"), (LONG, "short")]
    (tmp_path / "a.tsv").write_text("text_a\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"t": t, "kind": k}) + "\n" for t, k in rows))
    actual = scored(capsys, exports["single"], f"--file={tmp_path / 'a.tsv'}", "--batch_size=3")
    assert (actual["task"], actual["kind"], actual["examples"]) == ("sizes", "classes", 4)
    assert actual["scores"] == pytest.approx({"accuracy": 3 / 4, "macro_f1": (4 / 5 + 2 / 3) / 2})
    assert actual["details"]["confusion"] == [[2, 1], [0, 1]]
    others = ["--text_columns=t", "--label_column=kind"]
    assert scored(capsys, exports["single"], f"--file={tmp_path / 'b.jsonl'}", *others)["scores"] == actual["scores"]
    assert main.main(["evaluate", str(exports["single"]), f"--file={tmp_path / 'a.tsv'}"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  accuracy                   0.7500",
        "  macro_f1                   0.7333",
        "  short                      precision 1.000  recall 0.667  F1 0.800  of 3",
        "  long                       precision 0.500  recall 1.000  F1 0.667  of 1",
    ]


def test_rows_that_training_leaves_out_are_left_out_and_spellings_joined(exports, tmp_path, capsys, caplog):
    rows = f"{SHORT},Short \n{LONG},long\n{LONG},\n{LONG},nan\n,long\n{LONG},long,more\n"
    (tmp_path / "a.csv").write_text("text_a,label\n" + rows)
    actual = scored(capsys, exports["single"], f"--file={tmp_path / 'a.csv'}")
    assert (actual["examples"], actual["scores"]["accuracy"]) == (2, 1)
    assert f"4 rows of {tmp_path / 'a.csv'} are skipped: line 7" in caplog.text and "line 4" in caplog.text
    assert "line 6" in caplog.text and "has no text" in caplog.text


@pytest.mark.parametrize("recorded", [True, False])
def test_rows_that_were_trained_on_are_named(exports, tmp_path, caplog, recorded):
    """Whatever file they are in."""
    rows = [SHORT, LONG, f"{SHORT} two", f"{SHORT} three"]
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"{text},short\n" for text in rows))
    run = tmp_path / "run"
    run.mkdir()
    flags = {"train_file": str(tmp_path / "rows.csv"), "text_columns": "text"}
    (run / "run.json").write_text(json.dumps({"flags": flags}))
    (run / "export").symlink_to(exports["single"])
    if recorded:
        np.unique(trained_texts.hashes((text,) for text in rows[:2])).tofile(run / trained_texts.FILE)
    same = [{"text": f" {text}\t", "label": "short"} for text in rows]
    other = [{"text": f"{text} more", "label": "short"} for text in rows]
    for name, content, count in (("same.jsonl", same, 2 if recorded else 4), ("other.jsonl", other, 0)):
        (tmp_path / name).write_text("\n".join(map(json.dumps, content)))
        caplog.clear()
        assert main.main(["evaluate", str(run), f"--file={tmp_path / name}"]) == 0
        expected = f"was trained on rows of {tmp_path / name} ({count} of 4)"
        assert (expected in caplog.text) == bool(count), caplog.text
        assert ("was trained on" in caplog.text) == bool(count)


def test_regression_has_correlations_and_too_many_choices_are_refused(exports, capsys, tmp_path):
    (tmp_path / "n.csv").write_text("text_a,label\n123,1\n123456,2\n123456789,4\n")
    scores = scored(capsys, exports["number"], f"--file={tmp_path / 'n.csv'}")["scores"]
    assert scored(capsys, exports["number"], f"--file={tmp_path / 'n.csv'}", "--label=label")["scores"] == scores
    assert scores == pytest.approx({"pearson": 0.98198, "spearman": 1, "mean_squared_error": 1 / 3}, abs=1e-5)
    header = "sent1,sent2,ending0,ending1,ending2,ending3,label\n"
    (tmp_path / "c.csv").write_text(header + "a,b,long ending,x,y,z,0\n")
    assert main.main(["evaluate", str(exports["choice"]), f"--file={tmp_path / 'c.csv'}"]) == 2
    assert re.search("line 2 of .*c.csv there are 5 texts; the export .*choice takes 3", capsys.readouterr().err)


def test_questions_have_official_scores_with_and_without_answers(exports, capsys, tmp_path):
    entries = [("1", "who?", ["Ann"]), ("2", "who else?", ["Bob"]), ("3", "nothing?", []), ("4", "nothing?", ["Ann"])]
    questions = [
        {"id": name, "question": text, "answers": [{"text": a, "answer_start": 0} for a in answers],
         "is_impossible": not answers}
        for name, text, answers in entries
    ]  # fmt: skip
    paragraphs = [{"context": "Ann sang.", "qas": questions}]
    (tmp_path / "q.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    actual = scored(capsys, exports["questions"], f"--file={tmp_path / 'q.json'}")
    expected = {"exact": 50, "HasAns_exact": 100 / 3, "NoAns_exact": 100, "best_exact": 50, "total": 4}
    assert {name: actual["scores"][name] for name in expected} == pytest.approx(expected)
    counts = {name: actual["details"]["questions"][name] for name in ("right", "partly", "wrong")}
    assert counts == {"right": 2, "partly": 0, "wrong": 2}


@pytest.mark.parametrize(
    "kind, name, content, flags, expected",
    [
        ("single", "a.tsv", "text_a\tlabel\nx\t\n", [], "No row of .*a.tsv has a text and a label"),
        ("single", "a.tsv", "text_a\nx\n", [], "has no column 'label'"),
        (
            "single",
            "a.tsv",
            "text_a\tlabel\nx\thuge\n",
            [],
            "In line 2 of .* the label is 'huge'; expected one of short",
        ),
        ("single", "a.txt", "x\n", [], "a.txt is not a table with labels"),
        ("single", "a.tsv", None, [], "There is no file .*a.tsv: pass a table"),
        ("single", "a", None, [], "There is no file .*a: pass a table"),
        ("single", "a.tsv", "text_a\tlabel\n", ["--tag_column=2"], "tag_column applies to tagged words"),
        ("questions", "a.json", '{"data": []}', [], "no questions"),
        ("mask", "a.tsv", "text\tlabel\n", [], "does not specify the predictions of its head: export its run again"),
    ],
)
def test_user_error_is_one_line(exports, capsys, tmp_path, kind, name, content, flags, expected):
    if content is not None:
        (tmp_path / name).write_text(content)
    assert main.main(["evaluate", str(exports[kind]), f"--file={tmp_path / name}", *flags]) == 2
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1 and re.search(expected, stderr)


@pytest.mark.parametrize(
    ("flag", "missing"), [("--label_column=stars", "stars"), ("--text_columns=body", "body"), ("--json", "review")]
)
def test_columns_are_checked_before_the_model_is_loaded(capsys, tmp_path, flag, missing):
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "saved_model.pb").write_bytes(b"damaged")
    about = {"task": "table", "kind": "classes", "labels": ["a", "b"], "reads": {"text_columns": "review"}}
    (tmp_path / "export" / "about.json").write_text(json.dumps(about))
    header = "text" if missing == "review" else "review"
    (tmp_path / "rows.csv").write_text(f"{header},label\nx,a\n")
    assert main.main(["evaluate", str(tmp_path / "export"), f"--file={tmp_path / 'rows.csv'}", flag]) == 2
    assert f"rows.csv has no column '{missing}'; its columns: {header}, label." in capsys.readouterr().err
