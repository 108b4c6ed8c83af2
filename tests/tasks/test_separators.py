"""Rows of tokenizers with two separators between segments, as RoBERTa has: <s> a </s></s> b </s>."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.export import trained_model
from bert_tf.heads.base.text_head import Windows
from bert_tf.heads.base.text_windows import pack_windows
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.heads.vectors.feature_windows import rows_and_tokens
from bert_tf.text.tokenizer import Tokenizer, pack

LETTERS = "abcdefghijklmnopqrstuvwxyz"
START, END = 2, 3


@pytest.fixture(scope="module")
def tokenizer():
    made = Tokenizer([*tiny.SPECIAL, *LETTERS])
    made.separators = 2
    return made


def ids(text):
    return [5 + LETTERS.index(letter) for letter in text.split()]


def spaced(count):
    return " ".join(LETTERS[:count])


def test_windows_of_a_context_have_both_separators(tokenizer):
    windows = QuestionWindows(max_seq_length=13, doc_stride=4, max_query_length=3, separators=2)
    question, context = "x y", spaced(17)
    rows = windows.all_rows(tokenizer, tf.constant([question]), tf.constant([context]))
    positions = tf.tile(tf.range(13)[None], [len(rows["owners"]), 1])
    is_best = windows.is_max_context(rows, positions).numpy()
    best = []
    for number, (row, length) in enumerate(zip(rows["token_ids"].numpy(), rows["lengths"].numpy(), strict=True)):
        window = ids(context)[4 * number : 4 * number + 7]
        assert row.tolist() == ([START, *ids(question), END, END, *window, END] + [0] * 13)[:13] and length == 6 + len(
            window
        )
        starts = rows["starts"][number].numpy()
        assert [context[start] for start in starts if start >= 0] == [LETTERS[i - 5] for i in window]
        assert (starts >= 0).tolist() == [False] * 5 + [True] * len(window) + [False] * (8 - len(window))
        best += row[is_best[number]].tolist()
    assert sorted(best) == ids(context)  # each token in one window
    first, last = (
        x.numpy().tolist() for x in windows.targets(rows, *(tf.fill(tf.shape(rows["owners"]), at) for at in (6, 8)))
    )
    assert first == [0, 7, 0, 0] and last == [0, 9, 0, 0]  # the answer g h i is whole in the second window alone


def test_windows_are_those_of_the_tokenizer(tokenizer):
    with pytest.raises(ValueError, match="separators is 1; the tokenizer has 2"):
        QuestionWindows(13, 4, 3).all_rows(tokenizer, tf.constant(["x"]), tf.constant(["y"]))
    config = dataclasses.replace(tiny.CONFIG, max_position_embeddings=16)
    report = types.SimpleNamespace(loaded=["span/bias"])
    found = {"config": config, "report": report, "host_tokenizer": tokenizer}
    said = {"kind": "span", "new_head": 0, "answers": {}, "labels": None}
    loaded = types.SimpleNamespace(model=None, **said, **found)
    assert trained_model.task_of("a checkpoint", loaded, tokenizer=tokenizer).head.windows.separators == 2


@pytest.mark.parametrize("stride", (0, 2))
def test_tokens_of_pairs_and_texts_are_found_in_their_rows(tokenizer, stride):
    first, second = tf.constant(["a b", spaced(9), "c"]), tf.constant([spaced(11), "", "d"])
    rows, tokens = rows_and_tokens(
        tokenizer, first, second, tf.constant([True, False, True]), max_seq_length=12, stride=stride
    )
    found = tf.gather(tf.reshape(rows["token_ids"], [-1]), tokens["sources"].values)
    np.testing.assert_array_equal(found, tokens["ids"].values)
    expected = pack(tokenizer, [["c"], ["d"]], 12)["token_ids"][0, :6].numpy().tolist()
    assert tokens["ids"].to_list()[2] == expected == [START, 7, END, END, 8, END]
    assert tokens["segments"].to_list()[2] == [0, 0, 0, 0, 1, 1] and tokens["starts"].to_list()[2][2:4] == [-1, -1]
    whole = [START, *ids("a b"), END, END, *ids(spaced(11)), END]
    assert tokens["ids"].to_list()[0] == (whole if stride else [*whole[:11], END])


def test_first_window_of_a_pair_is_its_row(tokenizer):
    segments = [["a b"], [spaced(15)]]
    windows = pack_windows(tokenizer, segments, 12, Windows(stride=3, most=4, pooling="mean"))
    np.testing.assert_array_equal(windows["token_ids"][:, 0], pack(tokenizer, segments, 12)["token_ids"])
    assert windows["window_counts"].numpy().tolist() == [4] and tokenizer.special_count(3) == 6
