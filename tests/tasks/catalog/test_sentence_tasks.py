"""GLUE, SWAG and own tables: from files in their layouts to numbered examples, and what is wrong with files."""

import json
import tracemalloc

import numpy as np
import openpyxl
import pyarrow.parquet
import pytest

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base import prediction_files as predictions
from bert_tf.heads.base.text_rows import TextRows
from bert_tf.heads.classes import Classes
from bert_tf.heads.regression import Regression
from bert_tf.recipes.finetune import Flags
from bert_tf.tasks import catalog
from bert_tf.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer("[PAD] [UNK] [CLS] [SEP] [MASK] the fox ran".split())
XNLI = "language\tgold_label\tsentence1\tsentence2\tpairID\n"
FILES = {
    "CoLA/train.tsv": 'gj04\t1\t\tThe fox "ran.\ngj04\t0\t*\tRan fox the.\n',
    "CoLA/dev.tsv": "gj04\t0\t*\tThe the.\n",
    "CoLA/test.tsv": "index\tsentence\n0\tThe fox.\n1\tRan.\n",
    "MRPC/train.tsv": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tThe fox\tA fox\n",
    "STS-B/train.tsv": "index\tgenre\tsentence1\tsentence2\tscore\n0\tnews\ta\tb\t2.500\n1\tnews\tc\td\t5\n",
    "QQP/train.tsv": "id\tquestion1\tquestion2\tis_duplicate\n9\tWho?\tWhy?\t0\n5\tbroken\n8\ta\tb\t1\n",
    "MNLI/train.tsv": "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tb\tneutral\tcontradiction\n",
    "MNLI/dev_matched.tsv": "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tb\tentailment\tneutral\n",
    "MNLI/dev_mismatched.tsv": "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tb\tneutral\tentailment\n",
    "MNLI/test_matched.tsv": "index\tsentence1\tsentence2\n3\ta\tb\n",
    "QNLI/train.tsv": "index\tquestion\tsentence\tlabel\n0\tWho?\tThe fox.\tnot_entailment\n",
    "AX/AX.tsv": "index\tsentence1\tsentence2\n0\ta\tb\n",
    "RTE/train.tsv": "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tmaybe\n",
    "WNLI/train.tsv": "index\tsentence1\tsentence2\tlabel\n0\ta\tb\n",
    "swag/train.csv": ",sent1,sent2,ending0,ending1,ending2,ending3,label\n7,The fox.,It,ran,\"sat, red\",is,was,1\n",
    "own/train.csv": "id,title,body,kind,stars\na,x,y,b,1\nb,z,w,a,2.5\nc,v,u,b,3\n",
    "own/dev.tsv": "title\tbody\tkind\tstars\nx\ty\tc\t2\n",
    "own/test.jsonl": '{"title": "x", "body": "y"}\n',
    "tags/train.jsonl": '{"t": "x", "l": ["b", "a"]}\n{"t": "y", "l": []}\n',
    "ten/train.csv": "t,l\nx,10\ny,9\nz,x\nz,②\n",
    "excel/train.csv": "\ufeffNr ;the text; l ;;\r\n7;\"x; \"\"y\"\"\r\nz\"; a ;;\r\n8;;b;;\r\n9;w;b;;\r\n",
    "excel/dev.csv": "the text;l;Nr;more\r\nx, y;b;12;\r\n",
    "xnli/xnli.dev.tsv": f"{XNLI}de\tneutral\ta\tb\t7\nen\tentailment\tthe\tfox\t7\nde\tcontradiction\tc\td\t8\n",
    "xnli/multinli/multinli.train.de.tsv": 'premise\thypo\tlabel\n"x\ty\tcontradictory\nz\tw\tneutral\n',
    "xnli/multinli/multinli.train.en.tsv": "premise\thypo\tlabel\nthe\tfox\tentailment\n",
    "pawsx/de/translated_train.tsv": "id\tsentence1\tsentence2\tlabel\n3\ta \"b\tc\t1\n4\td\te\t0\n",
    "pawsx/de/dev_2k.tsv": "id\tsentence1\tsentence2\tlabel\n1\tx\ty\t0\n",
    "alike/train.csv": "t,l\nx,a\ny,a\n",
    "empty/train.csv": "t,l\nx,\ny,\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    top = tmp_path_factory.mktemp("data")
    for name, content in FILES.items():
        (top / name).parent.mkdir(exist_ok=True, parents=True)
        (top / name).write_text(content, encoding="utf-8", newline="")
    return top


def task_of(name, data_dir, **flags):
    options = {"max_seq_length": 8, "do_eval": False, "stratify": False, "doc_stride": 2, "max_windows": 2}
    options |= {"label_column": "l", "data_dir": str(data_dir)}
    return catalog.get(name)(Flags(**{**options, **flags}), lambda texts: TOKENIZER)


@pytest.mark.parametrize(
    "name, split, texts, label",
    [
        ("cola", "train", [['The fox "ran.'], ["Ran fox the."]], [1, 0]),
        ("cola", "dev", [["The the."]], [0]),
        ("mrpc", "train", [["The fox", "A fox"]], [1]),
        ("sts-b", "train", [["a", "b"], ["c", "d"]], [2.5, 5.0]),
        ("mnli", "train", [["a", "b"]], [0]),
        ("mnli", "dev_matched", [["a", "b"]], [2]),
        ("mnli", "dev_mismatched", [["a", "b"]], [1]),
        ("qnli", "train", [["Who?", "The fox."]], [1]),
    ],
)
def test_glue_files_are_read(folder, name, split, texts, label):
    examples = task_of(f"glue/{name}", folder).split(split)
    assert (examples.texts.tolist(), examples.labels.tolist(), examples.is_known) == (texts, label, True)


def test_single_task_folder_works_and_test_files_have_no_labels(folder):
    split_data = task_of("glue/cola", folder / "CoLA").split("test")
    assert [example.id for example in split_data.examples] == ["0", "1"] and not split_data.is_known
    assert task_of("glue/mnli", folder).split("test_matched").examples[0].id == "3"


def test_broken_qqp_rows_are_skipped(folder):
    assert [example.id for example in task_of("glue/qqp", folder).split("train").examples] == ["9", "8"]


def test_mnli_has_two_dev_and_test_sets_and_ax_only_a_test_set(folder):
    mnli, ax = task_of("glue/mnli", folder), task_of("glue/ax", folder)
    assert mnli.eval_splits == {"matched_": "dev_matched", "mismatched_": "dev_mismatched"}
    assert mnli.submissions == {"test_matched": "MNLI-m.tsv", "test_mismatched": "MNLI-mm.tsv"}
    assert (ax.eval_splits, ax.test_splits, ax.head.labels) == ({}, ("test",), mnli.head.labels)
    assert ax.split("test").texts.tolist() == [["a", "b"]]


def test_ax_is_found_under_the_name_that_some_copies_give_it(folder, tmp_path):
    (tmp_path / "diagnostic.tsv").write_bytes((folder / "AX" / "AX.tsv").read_bytes())
    assert task_of("glue/ax", tmp_path).split("test").texts.tolist() == [["a", "b"]]


def test_simcse_trains_on_texts_twice_and_is_evaluated_on_scored_pairs(tmp_path):
    (tmp_path / "train.csv").write_text("text,l\nthe fox,1\nruns,2\n")
    (tmp_path / "dev.csv").write_text("a,b,l\nthe fox,the dog,0.5\nruns,runs,1\n")
    task = task_of("vectors/simcse", tmp_path, eval_text_columns="a,b")
    assert [example.texts for example in task.split("train").examples] == [("the fox",) * 2, ("runs",) * 2]
    assert [(example.texts, example.label) for example in task.split("dev").examples] == [
        (("the fox", "the dog"), "0.5"),
        (("runs", "runs"), "1"),
    ]


@pytest.mark.parametrize(
    "name, data_dir, message",
    [
        ("rte", ".", "line 2 of .*the label is 'maybe'; expected one of entailment, not_entailment"),
        ("wnli", ".", "Line 2 of .* has 3 fields; expected 4"),
        ("sst-2", ".", "There is no train.tsv in .*; expected GLUE's SST-2 there"),
        ("cola", "", "Pass the folder"),
    ],
)
def test_invalid_glue_file_is_one_sentence(folder, name, data_dir, message):
    with pytest.raises(UserError, match=message):
        task_of(f"glue/{name}", data_dir and folder / data_dir).split("train")


def test_swag_has_a_context_and_four_endings(folder):
    split_data = task_of("swag", folder / "swag").split("train")
    assert split_data.texts.tolist() == [["The fox.", "It ran", "It sat, red", "It is", "It was"]]
    assert (split_data.labels.tolist(), split_data.examples[0].id) == ([1], "7")
    with pytest.raises(UserError, match="There is no val.csv"):
        task_of("swag", folder / "swag").split("dev")


def test_pair_table_finds_classes_and_refuses_unknown_labels(folder):
    task = task_of("table", folder / "own", text_columns="title, body", label_column="kind")
    assert task.head.labels == ("a", "b")
    assert task.split("train").labels.tolist() == [1, 0, 1]
    assert not task.split("test").is_known
    with pytest.raises(UserError, match="In line 2 of .*dev.tsv the label is 'c'; expected one of a, b"):
        task.split("dev")


def test_held_out_part_of_a_table_shares_no_text_with_training(tmp_path, caplog):
    rows = [f"text {number // 2},{'ab'[number % 2]}" for number in range(400)]  # each text twice
    (tmp_path / "train.csv").write_text("\n".join(["t,l", *rows, "alone,c"]) + "\n")
    task = task_of("table", tmp_path, text_columns="t", do_eval=True, eval_fraction=0.25)
    train, dev = ({example.texts for example in task.split(split).examples} for split in ("train", "dev"))
    assert not train & dev and len(train | dev) == 201 and 30 < len(dev) < 70
    assert task.head.labels == ("a", "b", "c")  # though one of them is on one side only
    assert f"{task.split('dev').count} of the 401 rows of {tmp_path / 'train.csv'} are held out" in caplog.text
    again = task_of("table", tmp_path, text_columns="t", do_eval=True, eval_fraction=0.25)
    assert {example.texts for example in again.split("dev").examples} == dev
    (tmp_path / "dev.csv").write_text("t,l\ntext 1,a\n")
    assert task_of("table", tmp_path, text_columns="t", do_eval=True).split("train").count == 401


def test_rare_spelling_of_a_class_is_joined_with_the_common_one(tmp_path, caplog):
    rows = [*["good"] * 20, "Good", *["GOOD"] * 4, *["bad"] * 5, *["BAD"] * 4, "Bad"]
    (tmp_path / "train.csv").write_text("t,l\n" + "".join(f"text {n},{row}\n" for n, row in enumerate(rows)))
    (tmp_path / "dev.csv").write_text("t,l\nx,GOOD\ny,bad\n")
    task = task_of("table", tmp_path, text_columns="t")
    assert task.head.labels == ("BAD", "Bad", "bad", "good")
    assert np.bincount(task.split("train").labels).tolist() == [4, 1, 5, 25]
    assert task.split("dev").labels.tolist() == [3, 2], "if others are common too, each stays as it is"
    assert "'GOOD' (in 4), 'Good' (in 1) are merged into 'good' (in 20 rows)" in caplog.text
    assert "The labels 'BAD', 'Bad', 'bad' differ only in case or spaces: --normalize_labels" in caplog.text
    assert task_of("table", tmp_path, text_columns="t", join_labels=False).head.size == 6


@pytest.mark.parametrize("label_type, labels", [("classes", "ab"), ("multi_label", ("a,b", "b"))])
def test_stratified_part_has_the_same_share_of_every_label(tmp_path, label_type, labels):
    rows = [{"t": f"text {number}", "l": labels[number % 10 == 0]} for number in range(200)]
    rows += rows[:50]
    rows += [{"t": "alone", "l": "c"}]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = {"text_columns": "t", "label_type": label_type, "do_eval": True, "stratify": True}
    task = task_of("table", tmp_path, **options)
    splits = [[(each.texts, each.label) for each in task.split(name).examples] for name in ("train", "dev")]
    assert not {texts for texts, _ in splits[0]} & {texts for texts, _ in splits[1]}
    assert [[[own for _, own in split].count(label) for label in labels] for split in splits] == [[203, 23], [22, 2]]
    assert ("alone",) in {texts for texts, _ in splits[0]}


@pytest.mark.parametrize(
    "fraction, message",
    [
        (0.0, "eval_fraction is 0.0; expected more than 0 and less than 1, or a table as eval_file"),
        (1.0, "eval_fraction is 1.0; expected"),
        (0.001, "With eval_fraction=0.001, 2 rows of .*train.csv are left to train on and 0 to evaluate on"),
    ],
)
def test_impossible_held_out_fraction_is_refused(tmp_path, fraction, message):
    (tmp_path / "train.csv").write_text("t,l\nx,a\ny,b\n")
    with pytest.raises(UserError, match=message):
        task_of("table", tmp_path, text_columns="t", do_eval=True, eval_fraction=fraction).split("train")


def test_invalid_unicode_in_a_table_is_reported_with_its_line(tmp_path):
    rows = ['{"t": "x", "l": "a"}', '{"t": "\\ud83d", "l": "b"}']
    (tmp_path / "train.jsonl").write_text("\n".join(rows) + "\n")
    with pytest.raises(UserError, match="Line 2 of .*a text in it contains half a surrogate pair"):
        task_of("table", tmp_path, text_columns="t", do_eval=True).split("train")


def test_classes_can_be_given_and_numbers_are_sorted_numerically(folder):
    task = task_of("table", folder / "own", text_columns="title", label_column="kind", labels="c, b, a")
    assert task.head.labels == ("c", "b", "a") and task.split("dev").labels.tolist() == [0]
    assert task_of("table", folder / "ten", text_columns="t").head.labels == ("9", "10", "x", "②")


def test_regression_and_multi_label_tables_are_read(folder):
    numbers = task_of("table", folder / "own", text_columns="title", label_column="stars", label_type="regression")
    assert numbers.split("train").labels.tolist() == [1, 2.5, 3]
    several = task_of("table", folder / "tags", text_columns="t", label_type="multi_label")
    assert several.head.labels == ("a", "b") and several.split("train").labels.tolist() == [[1, 1], [0, 0]]
    task = task_of("table", folder / "tags", text_columns="t", label_type="multi_label", label_threshold="0.25")
    assert several.head.thresholds.tolist() == [0.5, 0.5] and task.head.thresholds.tolist() == [0.25, 0.25]


def test_relevance_table_has_a_query_and_a_text(tmp_path):
    (tmp_path / "train.csv").write_text("q,t,l\nWho?,fox,1\nWhy?,x,0.5\n")
    task = task_of("table", tmp_path, text_columns="q,t", label_type="relevance")
    assert (task.split("train").labels.tolist(), task.head.kind) == ([1, 0.5], "relevance")
    with pytest.raises(UserError, match="label_type=relevance is for pairs: pass text_columns=QUERY,TEXT"):
        task_of("table", tmp_path, text_columns="q", label_type="relevance")


def test_choice_table_has_a_text_and_its_continuations(tmp_path):
    (tmp_path / "train.csv").write_text("q,a,b,c,l\nWho?,fox,dog,cat,2\nWhy?,x,y,z,0\n")
    task = task_of("table", tmp_path, text_columns="q,a,b,c", label_type="choice")
    train = task.split("train")
    assert train.texts.tolist() == [["Who?", "fox", "dog", "cat"], ["Why?", "x", "y", "z"]]
    assert (train.labels.tolist(), task.head.kind, task.head.rows_per_example) == ([2, 0], "choice", 3)
    with pytest.raises(UserError, match="text_columns is 'q,a'; expected FIRST,CHOICE,CHOICE"):
        task_of("table", tmp_path, text_columns="q,a", label_type="choice")
    with pytest.raises(UserError, match="In line 2 of .* the label is '2'; expected one of 0, 1"):
        task_of("table", tmp_path, text_columns="q,a,b", label_type="choice").split("train")


def test_spreadsheet_export_is_read(folder):
    task = task_of("table", folder / "excel", text_columns="the text", id_column="Nr")
    train = task.split("train")
    assert train.texts.tolist() == [['x; "y"\r\nz'], ["w"]]
    assert [(example.id, example.label.strip()) for example in train.examples] == [("7", "a"), ("9", "b")]
    assert (task.head.labels, train.labels.tolist()) == (("a", "b"), [0, 1])
    assert [example.id for example in task.split("dev").examples] == ["12"]


MESSY = "t,l\nx,a\n ,a\ny,\nz,b,c\nw, B\n,\n"


def test_bad_rows_are_left_out_and_named(tmp_path, caplog):
    (tmp_path / "train.csv").write_text(MESSY)
    split = task_of("table", tmp_path, text_columns="t").split("train")
    assert [(example.texts, example.label) for example in split.examples] == [(("x",), "a"), (("w",), " B")]
    (message,) = caplog.messages
    assert message.startswith("4 rows of ") and "line 5 of" in message and "line 4 of" in message
    for reason in ("has too many or too few fields", "has no label", "has no text"):
        assert reason in message
    with pytest.raises(UserError, match=r"Line 5 of .* has 3 fields"):
        task_of("table", tmp_path, text_columns="t", bad_rows="stop").split("train")
    (tmp_path / "train.csv").write_text(MESSY.replace("z,b,c\n", ""))
    with pytest.raises(UserError, match="3 rows are bad: line 3 of .* has no text; line 4 of .* has no label; line 6"):
        task_of("table", tmp_path, text_columns="t", bad_rows="stop").split("train")


NO_VALUES = {
    "train.csv": "t,l\nx,a\ny,NaN\nz,nan\nnan,b\nw,b\nv, \n",
    "train.jsonl": '{"t": "x", "l": "a"}\n{"t": "y", "l": NaN}\n{"t": "z", "l": null}\n{"t": NaN, "l": "b"}\n'
    '{"t": "w", "l": "b"}\n{"t": null, "l": "b"}\n',
    "train.json": '[{"t": "x", "l": "a"}, {"t": "y"}, {"t": "z", "l": NaN}, {"t": "", "l": "b"}, {"t": "w", "l": "b"}, '
    '{"t": null, "l": null}]',
}


@pytest.mark.parametrize("name", [*NO_VALUES, "train.parquet", "train.xlsx"])
@pytest.mark.parametrize("label_type", ["classes", "multi_label"])
def test_rows_whose_label_or_text_is_no_value_are_left_out_and_named(tmp_path, caplog, name, label_type):
    rows = [("x", "a"), ("y", None), ("z", "nan"), (None, "b"), ("w", "b"), ("nan", "b")]
    if name.endswith("parquet"):
        columns = [dict(zip("tl", row, strict=True)) for row in rows]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(columns), tmp_path / name)
    elif name.endswith("xlsx"):
        book = openpyxl.Workbook()
        for row in (("t", "l"), *rows[:2], ("z", "#N/A"), *rows[3:]):
            book.worksheets[0].append(row)
        book.save(tmp_path / name)
    else:
        (tmp_path / name).write_text(NO_VALUES[name])
    task = task_of("table", tmp_path, text_columns="t", label_type=label_type)
    split = task.split("train")
    assert task.head.labels == ("a", "b")
    unlabelled = {"train.csv": ["v"], "train.xlsx": ["y"]}  # in a table of text none of several labels may hold
    kept = ["x", "w"] + unlabelled.get(name, []) * (label_type == "multi_label")
    assert {example.texts[0] for example in split.examples} == set(kept)
    (message,) = caplog.messages
    assert (
        " has no label" in message
        and " has no text" in message
        and message.startswith(f"{6 - len(split.examples)} rows of")
    )


def test_class_that_is_called_nan_is_named_as_label(tmp_path):
    (tmp_path / "train.csv").write_text("t,l\nx,zho\ny,nan\n")
    assert task_of("table", tmp_path, text_columns="t", labels="nan,zho").split("train").labels.tolist() == [1, 0]


HOT = {
    "train.jsonl": '{"t": "x", "l": [1, 0, 1]}\n{"t": "y", "l": [0, 0, 0]}\n{"t": "z", "l": [0, 1, 1]}\n',
    "train.json": '[{"t": "x", "l": [true, false, true]}, {"t": "y", "l": [0.0, 0, 0]}, {"t": "z", "l": [0, 1, 1]}]',
    "train.csv": 't,l\nx,"[1, 0, 1]"\ny,[0 0 0]\nz,"0,1,1"\n',
}


@pytest.mark.parametrize("name", HOT)
def test_multi_hot_lists_are_recognized(tmp_path, caplog, name):
    (tmp_path / name).write_text(HOT[name])
    expected = [[1, 0, 1], [0, 0, 0], [0, 1, 1]]
    task = task_of("table", tmp_path, text_columns="t", label_type="multi_label")
    assert task.head.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert task.split("train").labels.tolist() == expected
    assert "The labels are lists of 0 and 1: the 3 places are called LABEL_0 to LABEL_2" in caplog.text
    task = task_of("table", tmp_path, text_columns="t", label_type="multi_label", labels="toxic,rude,0")
    assert (task.head.labels, task.split("train").labels.tolist()) == (("toxic", "rude", "0"), expected)


@pytest.mark.parametrize(
    "lists, expected",
    [
        ([[0], [1], [0, 1]], [[1, 0], [0, 1], [1, 1]]),  # numbers of labels
        ([[0, 1], [1, 1], []], [[0, 1], [1, 1], [0, 0]]),
        ([[0, 1, 0], [1, 1]], r"In line 2 of .* the labels are \[1, 1\]; expected 3 of 0 and 1, as in line 1 of"),
        ([[0.2, 0.8], [1, 0]], r"In line 1 of .* the labels are \[0.2, 0.8\]; expected names, or 0 and 1"),
        ([{"a": 1}, {"a": 0}], "In line 1 of .* the labels are {'a': 1}; expected a list of names"),
        ([["a", None], ["b"]], r"In line 1 of .* the labels are \['a', None\]; expected a list of names"),
    ],
)
def test_lists_of_numbers_are_labels_or_refused(tmp_path, lists, expected):
    rows = [json.dumps({"t": "x", "l": labels}) for labels in lists]
    (tmp_path / "train.jsonl").write_text("\n".join(rows))
    options = {"text_columns": "t", "label_type": "multi_label"}
    if isinstance(expected, list):
        assert task_of("table", tmp_path, **options).split("train").labels.tolist() == expected
    else:
        with pytest.raises(UserError, match=expected):
            task_of("table", tmp_path, **options)


def test_label_variants_are_named_and_joined_by_a_flag(tmp_path, caplog):
    (tmp_path / "train.csv").write_text("t,l\nx,good\ny,Good\nz, GOOD \nw,bad\n")
    assert task_of("table", tmp_path, text_columns="t").head.labels == ("GOOD", "Good", "bad", "good")
    assert "'GOOD', 'Good', 'good' differ only in case or spaces: --normalize_labels" in caplog.text
    caplog.clear()
    task = task_of("table", tmp_path, text_columns="t", normalize_labels=True)
    assert task.head.labels == ("bad", "good") and task.split("train").labels.tolist() == [1, 1, 1, 0]
    assert not caplog.messages


@pytest.mark.parametrize(
    "name, split, expected",
    [
        ("xnli/de", "train", [("0", ('"x', "y"), "contradiction"), ("1", ("z", "w"), "neutral")]),
        ("xnli/de", "dev", [("7", ("a", "b"), "neutral"), ("8", ("c", "d"), "contradiction")]),
        ("xnli/zero_shot", "train", [("0", ("the", "fox"), "entailment")]),
        ("xnli/zero_shot", "dev_de", [("7", ("a", "b"), "neutral"), ("8", ("c", "d"), "contradiction")]),
        ("pawsx/de", "train", [("3", ('a "b', "c"), "1"), ("4", ("d", "e"), "0")]),
        ("pawsx/zero_shot", "dev_de", [("1", ("x", "y"), "0")]),
    ],
)
def test_language_of_a_multilingual_task_is_read(folder, name, split, expected):
    task = task_of(name, folder / name.partition("/")[0])
    assert [(example.id, example.texts, example.label) for example in task.split(split).examples] == expected


def test_zero_shot_is_evaluated_in_every_language_and_selected_in_english(folder):
    task = task_of("xnli/zero_shot", folder / "xnli")
    assert (len(task.eval_splits), len(task.test_splits), task.criterion) == (15, 15, "en_accuracy")
    assert task_of("xnli/de", folder / "xnli").eval_splits == {"": "dev"}
    with pytest.raises(UserError, match="no xnli.test.tsv in data_dir=.*; pass the folder with the published files"):
        task.split("test_de")
    assert catalog.full_name("PAWS-X/de") == "pawsx/de"


def test_label_that_is_a_list_is_refused_for_classes(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"t": "x", "l": "a"}\n{"t": "y", "l": ["b"]}\n')
    with pytest.raises(UserError, match=r"In line 2 of .* the label is \['b'\]; expected one text or number"):
        task_of("table", tmp_path, text_columns="t")


def test_truncation_of_pairs_reaches_training_and_export(tmp_path):
    (tmp_path / "train.csv").write_text("t,u,l\nthe fox the fox ran,the fox ran the fox,a\nx,y,b\n")
    task = task_of("table", tmp_path, text_columns="t,u", truncation="only_second", max_seq_length=9)
    batch = next(iter(task.eval_batches(1, "train")))
    assert batch["segment_ids"].numpy()[0].tolist().count(1) == 2  # a token and [SEP]
    with pytest.raises(UserError, match="truncation=only_first requires truncated pairs"):
        task_of("table", tmp_path, text_columns="t", truncation="only_first")


def test_flag_with_a_single_label_is_refused_by_its_name(folder):
    with pytest.raises(UserError, match="labels is 'a'; expected two or more names with commas"):
        task_of("table", folder / "alike", text_columns="t", labels="a")


@pytest.mark.parametrize("label", ["1_000", "1e39", "-1e39", "nan", "one"])
def test_label_that_is_no_float32_is_refused(label):
    with pytest.raises(UserError, match=f"In line 2 the label is '{label}'; expected a number, at most 3.4e.38"):
        Regression().encode([Example("0", ("a",), label, "line 2")])


@pytest.mark.parametrize(
    "name, message",
    [
        ("alike", "alike/train.csv has only the label 'a' in its column 'l'; expected two or more"),
        ("empty", "empty/train.csv has no label in its column 'l'; expected two or more"),
    ],
)
@pytest.mark.parametrize("label_type", ["classes", "multi_label"])
def test_table_with_a_single_class_is_refused(folder, name, label_type, message):
    with pytest.raises(UserError, match=message):
        task_of("table", folder / name, text_columns="t", label_type=label_type)


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "Name the columns"),
        ({"text_columns": "a,b,c"}, "Name the columns"),
        ({"text_columns": "title", "label_type": "multi_label", "label_separator": ""}, "label_separator is ''; exp"),
        ({"text_columns": "titel"}, "has no column 'titel', 'l'; its columns: id, title, body, kind, stars"),
        ({"text_columns": "title", "label_column": "kind", "train_file": "nothing.csv"}, "nothing.csv cannot be read"),
    ],
)
def test_invalid_table_is_one_sentence(folder, options, message):
    with pytest.raises(UserError, match=message):
        task_of("table", folder / "own", **options).split("train")


def test_rows_of_many_classes_are_not_in_memory_together(tmp_path):
    goal = Classes([str(number) for number in range(1000)])
    split = TextRows([Example(str(number), ("a",)) for number in range(20)], goal, None)
    answers = dict.fromkeys(("logits", "probabilities"), np.zeros((20, 1000), np.float32))
    rows = predictions.PredictionRows(goal, split, answers)
    tracemalloc.start()
    predictions.write(str(tmp_path), "predictions", rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len((tmp_path / "predictions.jsonl").read_text().splitlines()) == len(rows) == 20
    assert peak < 2**20, peak  # all rows: above 2 MB


def test_predictions_have_id_text_label_and_probabilities(folder, tmp_path):
    task = task_of("glue/cola", folder)
    answers = {"logits": np.log([[0.25, 0.75], [0.9, 0.1]]), "row_numbers": np.array([1, 2])}
    rows = predictions.PredictionRows(task.head, task.split("train"), answers)
    row = next(iter(rows)).fields()
    assert row.pop("probabilities") == pytest.approx({"0": 0.25, "1": 0.75})
    assert row == {"id": "0", "text_a": 'The fox "ran.', "label": "1", "truth": "1"}
    predictions.write(str(tmp_path), "predictions", rows)
    predictions.write_submission(str(tmp_path / "submission"), "CoLA.tsv", rows)
    assert (tmp_path / "predictions.tsv").read_text().splitlines()[:2] == [
        "id\tlabel\ttruth\tprobability 0\tprobability 1\ttext_a",
        '0\t1\t1\t0.250000\t0.750000\tThe fox "ran.',
    ]
    results = np.loadtxt(tmp_path / "test_results.tsv", delimiter="\t")
    np.testing.assert_allclose(results, [[0.25, 0.75], [0.9, 0.1]])
    assert (tmp_path / "submission" / "CoLA.tsv").read_text() == "index\tprediction\n0\t1\n1\t0\n"
