"""Preprocessed examples: those written equal what the task makes of its data, bit for bit; other files are refused."""

import json
import math
import types

import numpy as np
import pytest
import tensorflow as tf
import tiny
from tagging_cases import FILE
from tagging_cases import task_of as tag_task

from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.data import preprocessed_examples
from bert_tf.data.examples import Example
from bert_tf.data.questions import Question
from bert_tf.errors import UserError
from bert_tf.heads.base.text_head import Windows
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import MultiLabel
from bert_tf.heads.regression import Regression
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.span.answering import Answering
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.heads.vectors.goals import Positives, Similarities, TwoDropouts
from bert_tf.recipes.finetune import Flags
from bert_tf.recipes.finetuning import preprocessed
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer

WORDS = "the fox dog ran sat on a mat and cat red big ?".split()
TOKENIZER = Tokenizer([*tiny.SPECIAL, *WORDS])
LONG = "a cat sat on a mat and a dog ran and a fox sat on a big red mat"
KINDS = {
    "classes": (Classes(["cat", "dog"]), [(("a cat sat",), "cat"), ((LONG,), "dog"), (("",), "dog")], {}),
    "pairs": (Classes(["no", "yes"]), [(("the fox", LONG), "no"), ((LONG, "ran"), "yes"), (("a", ""), "no")], {}),
    "windows": (
        Classes(["no", "yes"]),
        [((LONG,), "no"), (("ran",), "yes")],
        {"windows": Windows(stride=4, most=3), "class_weights": "balanced"},
    ),
    "several": (MultiLabel(["fox", "mat"]), [(("the fox",), "fox"), (("fox on mat",), "fox,mat")], {}),
    "number": (Regression(), [(("the fox", "sat"), "1.25"), (("the fox", "ran"), "-5")], {}),
    "choice": (MultipleChoice(2), [(("the fox", "ran", "red"), "0"), (("a fox", LONG, "ran"), "1")], {}),
}
OPTIONS = {"task_name": "table", "max_seq_length": 12, "doc_stride": 0, "labels": "", "text_columns": "text"}


def options_of(folder="", **changes):
    return Flags(**{**OPTIONS, "write_examples": str(folder), **changes})


def start_of(**changes):
    return types.SimpleNamespace(**{"lowers_case": True, "vocabulary": TOKENIZER.vocabulary, **changes})


def text_task(kind, splits=None):
    goal, rows, options = KINDS[kind]
    examples = [Example(str(i), *rows[i % len(rows)]) for i in range(7)]
    splits = {"train": lambda: examples, "dev": lambda: examples[:5]} if splits is None else splits
    texts = len(rows[0][0])
    return FineTuningTask(kind, splits, goal.configured(max_seq_length=12, texts=texts, **options), TOKENIZER)


def assert_same(actual, expected, names=None):
    """The same batches, bit for bit."""
    for ours, theirs in zip(actual, expected, strict=True):
        assert (names or theirs.keys()) == ours.keys()
        for name in ours:
            assert ours[name].dtype == theirs[name].dtype
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_trained_on_and_evaluated_as_from_their_table(kind, tmp_path):
    source = text_task(kind)
    preprocessed.write(source, options_of(tmp_path), start_of(), ["train", "dev"])
    task = text_task(kind, {})
    files = {"train_file": f"{tmp_path}/train.tf_record", "eval_file": f"{tmp_path}/dev.tf_record"}
    task = preprocessed.attach(task, options_of(**files), start_of())
    for grouped in (False, True):
        source.groups_by_length = task.groups_by_length = grouped
        assert_same(task.train_batches(4, 3).take(4), source.train_batches(4, 3).take(4))
    assert_same(task.eval_batches(4, "dev"), source.eval_batches(4, "dev"))
    assert task.split("train").statistics() == source.split("train").statistics()
    assert [example.label is not None for example in task.head.training.demo_examples(task.split("dev"))] == [True] * 3
    if kind == "pairs":
        assert task.split("dev").texts[:2].tolist() == [
            ["the fox", "a cat sat on a mat and"],
            ["a cat sat on a mat and a", "ran"],
        ]
        assert task.head.training.serving_examples(task.split("dev"))["serving_default"]["text_a"][0] == "the fox"


VECTORS = SentenceVectors("mean", True)
VECTOR_KINDS = {
    "pairs": (Positives(VECTORS), [(("the fox", LONG), None), ((LONG, "ran"), None), (("a", "mat"), None)]),
    "triplets": (Positives(VECTORS, 3), [(("the fox", LONG, "ran"), None), ((LONG, "ran", "a"), None)]),
    "sts": (Similarities(VECTORS), [(("the fox", "sat"), "1.2345"), ((LONG, "ran"), "0")]),
    "simcse": (TwoDropouts(VECTORS), [(("the fox",) * 2, None), ((LONG,) * 2, None)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", VECTOR_KINDS)
def test_texts_for_vectors_are_trained_on_as_from_their_table(kind, tmp_path):
    goal, rows = VECTOR_KINDS[kind]
    examples = [Example(str(i), *rows[i % len(rows)]) for i in range(7)]
    source, task = (
        FineTuningTask(kind, splits, goal.configured(max_seq_length=12, texts=goal.rows_per_example), TOKENIZER)
        for splits in ({"train": lambda: examples}, {})
    )
    preprocessed.write(source, options_of(tmp_path), start_of(), ["train"])
    task = preprocessed.attach(task, options_of(train_file=f"{tmp_path}/train.tf_record"), start_of())
    assert_same(task.train_batches(4, 3).take(4), source.train_batches(4, 3).take(4))
    with pytest.raises(UserError, match="lack the fields"):
        task = preprocessed.attach(task, options_of(eval_file="dev.tf_record"), start_of())


@pytest.mark.slow
def test_tags_and_questions_are_trained_on_as_from_their_files(tmp_path):
    (tmp_path / "some.txt").write_text(FILE)
    questions = [
        Question("a", "fox ?", LONG, (("a big red", LONG.index("a big red")),), True),
        Question("b", "dog ?", LONG, (("not there", 0),), True),
        Question("c", "cat", LONG, (), False),
    ]

    def question_task():
        windows = QuestionWindows(max_seq_length=12, doc_stride=3, max_query_length=2)
        return FineTuningTask("q", {"train": lambda: questions}, Answering(windows, Search(has_null=True)), TOKENIZER)

    for name, make in (("tags", lambda: tag_task(str(tmp_path / "some.txt"))), ("questions", question_task)):
        source, task = make(), make()
        split = "dev" if name == "tags" else "train"  # the file of the tagger's cases
        source = source.replaced(source={"train": source.source[split]})
        preprocessed.write(source, options_of(tmp_path / name), start_of(), ["train"])
        task = preprocessed.attach(task, options_of(train_file=f"{tmp_path}/{name}/train.tf_record"), start_of())
        expected, stored = (list(ours.train_batches(4, 3).take(6)) for ours in (source, task))
        for batch in (*expected, *stored):  # of whole batches
            assert np.all(batch.pop("row_weights", np.ones(1)) == 1)
        assert_same(stored, expected)
        assert (
            task.split("train").count == source.split("train").count
            and "preprocessed examples of" in task.split("train").describe("train")[0]
        )
        with pytest.raises(UserError, match="lack the fields"):
            task = preprocessed.attach(task, options_of(predict_file="dev.tf_record"), start_of())


def test_files_have_the_features_of_the_original(tmp_path):
    preprocessed.write(text_task("pairs"), options_of(tmp_path), start_of(), ["train"])
    record = next(iter(tf.data.TFRecordDataset(str(tmp_path / "train.tf_record")))).numpy()
    features = tf.train.Example.FromString(record).features.feature
    values = {name: list(feature.int64_list.value) for name, feature in features.items()}
    assert {"input_ids", "input_mask", "segment_ids", "label_ids", "is_real_example"} <= values.keys()
    assert values["input_mask"] == [1] * 12 and values["segment_ids"] == [0] * 4 + [1] * 8
    assert values["label_ids"] == [0] and values["input_ids"][:4] == [2, 5, 6, 3]


@pytest.mark.parametrize(
    ("kind", "changes", "start", "message"),
    [
        ("classes", {"max_seq_length": 16}, {}, "was written with max_seq_length=12, and max_seq_length is 16"),
        ("pairs", {}, {}, "was written for a different task"),
        ("classes", {}, {"lowers_case": False}, "was written with a different do_lower_case"),
    ],
)
def test_files_made_with_something_else_are_refused(kind, changes, start, message, tmp_path):
    preprocessed.write(text_task("classes"), options_of(tmp_path), start_of(), ["train"])
    with pytest.raises(UserError, match=message):
        task = text_task(kind, {})
        task = preprocessed.attach(
            task, options_of(train_file=f"{tmp_path}/train.tf_record", **changes), start_of(**start)
        )


def test_places_of_answers_lie_within_the_row(tmp_path):
    specs = {
        "token_ids": tf.TensorSpec([4], tf.int32),
        "lengths": tf.TensorSpec([], tf.int32),
        "start_positions": tf.TensorSpec([], tf.int32),
        "end_positions": tf.TensorSpec([], tf.int32),
    }

    def rows(end):
        path = str(tmp_path / f"{end}.tf_record")
        values = {"input_ids": [2, 5, 6, 3], "input_mask": [1] * 4, "start_positions": [0], "end_positions": [end]}
        features = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=x)) for name, x in values.items()}
        example = tf.train.Example(features=tf.train.Features(feature=features))
        with tf.io.TFRecordWriter(path) as writer:
            writer.write(example.SerializeToString())
        return preprocessed_examples.ReadyRows(path, specs, TOKENIZER.size)

    assert rows(3).count == 1
    for end in (4, -1):
        with pytest.raises(UserError, match=f"has the number {end} in end_positions of record 1; expected 0 to 3"):
            rows(end)


def test_files_of_other_vocabularies_tasks_and_lengths_are_refused_without_notes(tmp_path):
    preprocessed.write(text_task("classes"), options_of(tmp_path), start_of(), ["train"])
    path = tmp_path / "train.tf_record"
    about = json.loads((tmp_path / "train.tf_record.json").read_text())
    assert about["count"] == 7 and preprocessed.default_flags(str(path))[0]["labels"] == ["cat", "dog"]
    (tmp_path / "train.tf_record.json").write_text(json.dumps({**about, "vocabulary": "x"}))
    with pytest.raises(UserError, match="was written with a different vocabulary"):
        preprocessed.attach(text_task("classes", {}), options_of(train_file=str(path)), start_of())
    (tmp_path / "train.tf_record.json").unlink()
    specs = text_task("classes").head.training.row_specs(TOKENIZER)
    assert preprocessed_examples.ReadyRows(str(path), specs, TOKENIZER.size).labels.tolist() == [0, 1, 1, 0, 1, 1, 0]
    with pytest.raises(UserError, match="was written with a different vocabulary: it contains the token id"):
        preprocessed_examples.ReadyRows(str(path), specs, 10)
    longer = {**specs, "token_ids": tf.TensorSpec([16], tf.int32)}
    for other in (longer, {**specs, "start_positions": tf.TensorSpec([], tf.int32)}):
        with pytest.raises(UserError, match="does not fit this task"):
            preprocessed_examples.ReadyRows(str(path), other, TOKENIZER.size)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(UserError, match="no readable TFRecords"):
        preprocessed_examples.ReadyRows(str(path), specs, TOKENIZER.size)
    with pytest.raises(UserError, match="pass their vocabulary"):
        preprocessed.check_vocabulary(options_of(train_file=str(path)), start_of(vocabulary=None))


WRONG_NUMBERS = [
    ("input_ids", [2, 2**40, 3], "a different vocabulary: it contains the token id 1099511627776 in record 2"),
    ("input_ids", [2, 2**32 + 5, 3], "a different vocabulary: it contains the token id 4294967301 in record 2"),
    ("input_ids", [2, -1, 3], "a different vocabulary: it contains the token id -1 in record 2"),
    ("segment_ids", [0, 9, 0], "has the number 9 in segment_ids of record 2; expected 0 to 1"),
    ("segment_ids", [0, -1, 0], "has the number -1 in segment_ids of record 2"),
    ("input_mask", [1, 7, 1], "has the number 7 in input_mask of record 2"),
    ("input_mask", [1, 0, 1], "input_mask has holes in record 2; expected 1 for each token, then 0"),
    ("input_mask", [0, 1, 1], "input_mask has holes in record 2"),
    ("input_mask", [0, 0, 0], "input_mask is 0 throughout in record 2"),
    ("input_mask", [-1, -1, -1], "has the number -1 in input_mask of record 2"),
    ("label_ids", [2**32], "has the number 4294967296 in label_ids of record 2; expected 0 to 1"),
    ("label_ids", [-1], "has the number -1 in label_ids of record 2"),
    ("label_ids", [2], "has the number 2 in label_ids of record 2"),
    ("label_ids", [math.nan], "has the number nan in label_ids of record 2"),
]


@pytest.mark.parametrize("feature, numbers, message", WRONG_NUMBERS, ids=range(len(WRONG_NUMBERS)))
def test_record_with_numbers_that_no_task_writes_is_named(tmp_path, feature, numbers, message):
    is_float = isinstance(numbers[0], float)
    specs = {"token_ids": [3], "segment_ids": [3], "lengths": [], "labels": []}
    specs = {name: tf.TensorSpec(shape, tf.int32) for name, shape in specs.items()}
    specs["labels"] = tf.TensorSpec([], tf.float32 if is_float else tf.int32)
    path = str(tmp_path / "a.tf_record")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(3):
            values = {"input_ids": [2, 5, 3], "segment_ids": [0, 0, 1], "input_mask": [1, 1, 0], "label_ids": [1]}
            values |= {feature: numbers} if number == 1 else {}
            record = tf.train.Example()
            for name, each in values.items():
                is_label = is_float and name == "label_ids"
                field = record.features.feature[name]
                (field.float_list if is_label else field.int64_list).value.extend(each)
            writer.write(record.SerializeToString())
    with pytest.raises(UserError, match=message):
        preprocessed_examples.ReadyRows(path, specs, 10, labels=(0, 1))


@pytest.mark.parametrize(
    "about, message",
    [
        ({"labels": 5}, "labels 5; expected a list of names"),
        ({"labels": [["a"], ["b"]]}, "labels .*; expected a list of names"),
        ({"labels": {"a": 0}}, "labels .*; expected a list of names"),
        ({"flags": [1]}, "flags .*; expected a JSON object"),
    ],
)
def test_notes_of_another_kind_are_refused(tmp_path, about, message):
    (tmp_path / "a.tf_record.json").write_text(json.dumps(about))
    with pytest.raises(UserError, match=f"a.tf_record.json has {message}"):
        preprocessed.default_flags(str(tmp_path / "a.tf_record"))
