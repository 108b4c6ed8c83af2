"""Long texts in windows: which pieces lie in which row, what becomes of their vectors, and that short texts stay."""

import types

import faults
import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base.text_head import Windows
from bert_tf.heads.base.text_windows import describe, pack_windows
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import MultiLabel
from bert_tf.heads.regression import Regression
from bert_tf.model import heads
from bert_tf.model.packing import PackingSpec, choose_rows
from bert_tf.recipes.finetune import Flags
from bert_tf.tasks.task import FineTuningTask, text_task
from bert_tf.text.tokenizer import Tokenizer, pack

LETTERS = "abcdefghijklmno"
PACKING = PackingSpec()
TOKENIZER = Tokenizer([*tiny.SPECIAL, *LETTERS])


def letters(first, last):
    """Letters from "a" to "c" as "a b c"."""
    return " ".join(LETTERS[LETTERS.index(first) : LETTERS.index(last) + 1])


def rows_of(segments, slots, **windows):
    """Each text's windows as texts, without those it does not have."""
    packed = pack_windows(TOKENIZER, segments, slots, Windows(**windows))
    used = packed["lengths"].numpy() > 0
    assert used.sum(-1).tolist() == packed["window_counts"].numpy().tolist()
    return [
        TOKENIZER.detokenize(ids[here]) for ids, here in zip(packed["token_ids"].numpy(), used, strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text, stride, most, rows",
    [
        ("", 2, 3, [""]),
        ("a b c d", 2, 3, ["a b c d"]),
        ("a b c d e", 2, 3, ["a b c d", "b c d e"]),
        (letters("a", "h"), 2, 3, ["a b c d", "c d e f", "e f g h"]),
        (letters("a", "h"), 4, 3, ["a b c d", "e f g h"]),
        (letters("a", "i"), 4, 3, ["a b c d", "e f g h", "f g h i"]),
        (letters("a", "o"), 2, 3, ["a b c d", "c d e f", "e f g h"]),
        (letters("a", "o"), 9, 9, ["a b c d", "e f g h", "i j k l", "l m n o"]),
    ],
)
def test_windows_overlap_and_the_last_ends_with_the_text(text, stride, most, rows):
    expected = [f"[CLS] {row} [SEP]".replace("  ", " ") for row in rows]
    assert rows_of([[text]], 6, stride=stride, most=most) == [expected]


def test_longer_text_of_a_pair_is_windowed_and_the_other_repeated():
    first, second = ["a b", letters("a", "h"), letters("a", "f")], [letters("c", "i"), "n", letters("h", "m")]
    assert rows_of([first, second], 9, stride=3, most=3) == [
        ["[CLS] a b [SEP] c d e f [SEP]", "[CLS] a b [SEP] f g h i [SEP]"],
        ["[CLS] a b c d e [SEP] n [SEP]", "[CLS] d e f g h [SEP] n [SEP]"],
        ["[CLS] a b c [SEP] h i j [SEP]", "[CLS] a b c [SEP] k l m [SEP]"],
    ]


@pytest.mark.parametrize("segments", [1, 2])
def test_first_window_equals_the_truncated_row(segments):
    texts = [[letters("a", end) for end in "aehko"], [letters("d", end) for end in "okhed"]][:segments]
    packed, cut = pack_windows(TOKENIZER, texts, 9, Windows(stride=2, most=4)), pack(TOKENIZER, texts, 9)
    for name in cut:
        np.testing.assert_array_equal(packed[name][:, 0], cut[name])
    shapes = {name: x.shape.as_list()[1:] for name, x in packed.items()}
    assert shapes == {"token_ids": [4, 9], "segment_ids": [4, 9], "lengths": [4], "window_counts": []}


def texts_of(count, length=11):
    """Four examples of one or two texts, of which the last is longer than a row; string [4, count]."""
    rows = [("a", "b"), ("c d", "e"), ("e", "f"), (LETTERS[:length].replace("", " "), "g")]
    return tf.constant([row[:count] for row in rows])


def inputs_of(goal, texts, **windows):
    windows = Windows(stride=2, **windows) if windows else None
    return goal.configured(max_seq_length=8, windows=windows).training.inputs(TOKENIZER, texts)


def model_of(goal, pooling="mean"):
    windows = Windows(stride=2, most=3, pooling=pooling)
    return tiny.randomized(goal.configured(max_seq_length=8, windows=windows).training.create_model(tiny.CONFIG))


def output(model, batch, packing=None):
    return next(iter(model(batch, packing=packing).values())).numpy()


@pytest.mark.parametrize("goal, texts", [(Classes("xyz"), 2), (MultiLabel("xyz"), 1), (Regression(), 1)])
def test_short_texts_match_truncation_and_long_ones_differ(goal, texts):
    model, texts = model_of(goal), texts_of(texts)
    actual, expected = output(model, inputs_of(goal, texts, most=3)), output(model, inputs_of(goal, texts))
    np.testing.assert_allclose(actual[:3], expected[:3], atol=1e-5)
    assert np.abs(actual[3] - expected[3]).max() > 1e-3


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_windows_are_computed_some_at_a_time_without_empty_rows(pooling):
    model = model_of(Classes("xyz"), pooling)
    batch = inputs_of(Classes("xyz"), tf.repeat(texts_of(1), 12, 0), most=6)
    expected, sizes = output(model, batch), []
    with faults.on_call(model, "_pooled", lambda rows, *_: sizes.append(len(rows["lengths"]))):
        np.testing.assert_allclose(output(model, batch, PACKING), expected, atol=1e-5)
    assert sizes == [32, 32, 20]  # of 288 rows: 36 texts of a window, and twelve of four
    nothing = {name: x[:0] for name, x in batch.items()}
    assert output(model, nothing, PACKING).shape == (0, 3)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_text_vector_is_pooled_over_windows_and_empty_rows_are_skipped(pooling):
    goal = Classes("xyz")
    model, batch = model_of(goal, pooling), inputs_of(goal, texts_of(1), most=6)
    rows = {name: batch[name][3, :4] for name in ("token_ids", "segment_ids", "lengths")}
    pooled = model.encoder(rows)["pooled"].numpy()  # [windows, D]
    vector = pooled.mean(0) if pooling == "mean" else pooled.max(0)
    expected = vector @ model.classifier.kernel.numpy() + model.classifier.bias.numpy()
    assert batch["window_counts"].numpy().tolist() == [1, 1, 1, 4]
    np.testing.assert_allclose(output(model, batch)[3], expected, atol=1e-5)
    np.testing.assert_allclose(output(model, batch, PACKING), output(model, batch), atol=1e-5)
    lengths = tf.reshape(inputs_of(goal, texts_of(1, length=2), most=6)["lengths"], [-1])
    width = choose_rows(lengths, PACKING.costs)[2]
    assert width == 7, "two texts per row; windows without a text are in none"


def test_model_records_its_window_pooling():
    model = heads.Classifier(tiny.CONFIG, 3, window_pooling="max")
    again = heads.Classifier.from_config(model.get_config())
    assert (again.window_pooling, again.classifier.bias.shape) == ("max", (3,))


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_window_gradients_ignore_empty_rows(pooling):
    goal = Classes("xyz")
    model, batch = model_of(goal, pooling), inputs_of(goal, texts_of(1), most=6)

    def gradient(batch, packing=None):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(goal.loss(model(batch, packing=packing), tf.constant([0, 1, 2, 0])))
        return tape.gradient(loss, model.encoder.pooler.kernel.value).numpy()

    np.testing.assert_allclose(gradient(batch), gradient(batch, PACKING), atol=1e-5)
    assert np.abs(gradient(batch)).max() > 1e-3


def test_window_batches_have_static_shapes_and_served_text_is_read_whole():
    rows = [Example(str(number), tuple(map(bytes.decode, row)), "x") for number, row in enumerate(texts_of(1).numpy())]
    tokenizer, windows = tiny.Words(LETTERS), Windows(stride=2, most=3, pooling="max")
    task = FineTuningTask(
        "tiny", {"dev": lambda: rows}, Classes("xyz").configured(max_seq_length=8, windows=windows), tokenizer
    )
    batches = task.eval_batches(4)
    assert all(spec.shape.is_fully_defined() for spec in batches.element_spec.values())
    model = tiny.randomized(task.create_model(tiny.CONFIG))
    assert model.window_pooling == "max"
    served = task.signatures(model, tokenizer)["serving_default"](text_a=texts_of(1)[:, 0])
    np.testing.assert_allclose(served["logits"], output(model, next(iter(batches))), atol=1e-5)


def test_long_text_message_counts_them():
    counts = np.array([[2], [1], [6], [15]])
    assert describe(counts[:3], 8) == "all fit into 8 tokens"
    assert describe(counts, 8) == "1 (25.0%) longer than 8 tokens (the longest: 17), truncated"
    long = "2 (50.0%) longer than 7 tokens (the longest: 17), read in 2 to "
    assert describe(counts, 7, Windows(stride=3, most=5)) == f"{long}5 windows"
    beyond = "1 (25.0%) longer than max_windows 4, truncated there"
    assert describe(counts, 7, Windows(stride=3, most=4)) == f"{long}4 windows; {beyond}"


@pytest.mark.parametrize(
    "given, message",
    [
        ({"doc_stride": -1}, "doc_stride is -1; expected 1 to 126"),
        ({"doc_stride": 127}, "doc_stride is 127; expected 1 to 126"),
        ({"max_windows": 0}, "max_windows is 0; expected 1 or more"),
    ],
)
def test_invalid_windows_are_refused(given, message):
    flags = {
        "max_seq_length": 128,
        "class_weights": "none",
        "criterion": "",
        "truncation": "longest_first",
        "temperature": "1",
        "long_texts": "windows",
        "doc_stride": 64,
    }
    options = types.SimpleNamespace(**{**flags, "max_windows": 8, "window_pooling": "mean", **given})
    with pytest.raises(UserError, match=message):
        text_task("t", {}, Classes("xyz"), lambda _: TOKENIZER, options)


def test_windows_overlap_by_half_by_default():
    flags = Flags(max_seq_length=128, window_pooling="max")
    for long_texts, windows in (("windows", Windows(stride=64, most=8, pooling="max")), ("cut", None)):
        task = text_task("t", {}, Classes("xyz"), lambda _: TOKENIZER, flags.replace(long_texts=long_texts))
        assert (task.head.windows, task.head.max_seq_length) == (windows, 128)


def test_windows_are_refused_for_choices():
    with pytest.raises(UserError, match="long_texts=windows needs texts or pairs"):
        MultipleChoice(2).configured(max_seq_length=8, windows=Windows(stride=2, most=2))
