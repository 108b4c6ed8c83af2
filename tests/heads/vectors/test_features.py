"""Which vectors to take, how layers and tokens are combined, and the window with the most context of each token."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.errors import UserError
from bert_tf.heads.base.text_head import Windows
from bert_tf.heads.base.text_windows import pack_windows
from bert_tf.heads.vectors import features, vector_choice
from bert_tf.heads.vectors.feature_windows import rows_and_tokens, split_pairs
from bert_tf.text.tokenizer import Tokenizer, pack

LETTERS = "abcdefghijklmnopqrstuvwxy"
TOKENIZER = Tokenizer([*tiny.SPECIAL, *LETTERS])
STATES = [tf.fill([1, 2, 3], float(10**number)) for number in range(5)]  # embeddings and four layers


@pytest.mark.parametrize(
    "text, layers, names",
    [
        ("-1,-2,-3,-4", (4, 3, 2, 1), (-1, -2, -3, -4)),
        ("0, 3", (1, 4), (0, 3)),
        ("embeddings,last", (0, 4), ("embeddings", "last")),
        ("second_to_last", (3,), ("second_to_last",)),
        ("all", (1, 2, 3, 4), (0, 1, 2, 3)),
    ],
)
def test_layers_are_numbered_as_in_the_original(text, layers, names):
    choice = vector_choice.choose_layers(text, 4)
    assert (choice.layers, choice.names, choice.join) == (layers, names, "apart")
    actual = features.layer_vectors(STATES, choice)
    assert actual.shape == (1, 2, len(layers), 3)
    assert actual[0, 1, :, 2].numpy().tolist() == [10.0**layer for layer in layers]


def test_layers_are_summed_weighted_and_concatenated():
    summed = vector_choice.choose_layers("sum_last_four", 4)
    assert features.layer_vectors(STATES, summed).numpy().tolist() == [[[[11110.0] * 3]] * 2]
    weighted = vector_choice.choose_layers("embeddings,-1", 4, "2,0.5")
    assert (weighted.names, features.layer_vectors(STATES, weighted)[0, 0].numpy().tolist()) == (
        ("weighted_sum",),
        [[5002.0] * 3],
    )
    joined = vector_choice.choose_layers("concat_last_four", 4)
    assert (joined.names, joined.width(3)) == (("concat_last_four",), 12)
    assert features.layer_vectors(STATES, joined)[0, 0, 0, ::3].numpy().tolist() == [10.0, 100.0, 1000.0, 10000.0]


@pytest.mark.parametrize(
    "text, weights, message",
    [
        ("4", "", "layers is '4', but the model has 4 layers: 0 to 3, or -4 to -1 from the end"),
        ("-5", "", "the model has 4 layers"),
        ("first", "", "layers is 'first'; expected comma-separated numbers"),
        ("", "", "layers is ''; expected"),
        ("--1", "", "layers is '--1'; expected"),
        ("-1,sum_last_four", "", "sum_last_four cannot be combined"),
        ("-1,-2", "1", "layer_weights are 1 numbers, but layers '-1,-2' are 2"),
        ("concat_last_four", "1,1,1,1", "concat_last_four has its own"),
        ("-1", "x", "layer_weights is 'x'; expected comma-separated"),
        ("-1", "nan", "layer_weights is 'nan'; expected comma-separated"),
        ("-1,0,-1", "", "layers is '-1,0,-1', which names -1 more than once; expected each layer once"),
        ("all,2", "", "names 2 more than once"),
    ],
)
def test_invalid_layers_are_refused(text, weights, message):
    with pytest.raises(UserError, match=message):
        vector_choice.choose_layers(text, 4, weights)


def test_static_encoder_has_no_layers_to_choose():
    assert vector_choice.choose_layers("embeddings", 0).layers == (0,)
    for text in ("last", "all", "0", "embeddings,last", "concat_last_four"):
        with pytest.raises(UserError, match="choose layers=embeddings"):
            vector_choice.choose_layers(text, 0)


VECTORS = tf.constant([[[1.0, 5.0]], [[2.0, 3.0]], [[9.0, 1.0]], [[4.0, -4.0]]])  # four tokens, K = 1, E = 2


@pytest.mark.parametrize(
    "pooling, expected",
    [
        ("cls", [[1, 5], [4, -4]]),
        ("mean", [[4, 3], [4, -4]]),
        ("max", [[9, 5], [4, -4]]),
        ("mean_max", [[4, 3, 9, 5], [4, -4, 4, -4]]),
        ("mean_sqrt_len", [[12 / 3**0.5, 9 / 3**0.5], [4, -4]]),
        ("weighted_mean", [[32 / 6, 14 / 6], [4, -4]]),
        ("last", [[9, 1], [4, -4]]),
    ],
)
def test_tokens_of_a_text_are_pooled_to_one_vector(pooling, expected):
    actual = features.text_vectors(VECTORS, tf.constant([0, 0, 0, 1]), 2, pooling)
    np.testing.assert_allclose(actual[:, 0], expected, rtol=1e-6)


def test_vectors_of_zeros_stay_such():
    actual = features.normalize(tf.constant([[3.0, 4.0], [0.0, 0.0]]))
    np.testing.assert_allclose(actual, [[0.6, 0.8], [0, 0]], rtol=1e-6)


def eagerly(function, *columns):
    return function(*map(tf.constant, columns))


def inside_a_dataset(function, *columns):
    rows = tf.data.Dataset.from_tensors(tuple(map(tf.constant, columns)))
    return next(iter(rows.map(function)))


@pytest.mark.parametrize("run", [eagerly, inside_a_dataset])
def test_last_separator_splits_a_pair(run):
    lines = ["a ||| b c", "a|||b", " ||| b", "a ||| ", "a ||| b ||| c\n", "é\n||| ||| 我", ""]
    first, second, is_pair = run(split_pairs, lines)
    pairs = {0: ("a", "b c"), 4: ("a ||| b", "c"), 5: ("é\n|||", "我")}
    for number, line in enumerate(lines):
        expected = (*pairs[number], True) if number in pairs else (line, "", False)
        assert (first[number].numpy().decode(), second[number].numpy().decode(), bool(is_pair[number])) == expected


def letters(count, start=0):
    return " ".join(LETTERS[start : start + count])


TEXTS = [("", ""), (letters(3), ""), (letters(9), ""), (letters(25), ""), ("a", "")]  # single texts, then pairs
TEXTS += [(letters(3), letters(2, 9)), (letters(14), letters(2, 20)), (letters(2, 20), letters(14))]
TEXTS += [(letters(9), letters(9, 9))]


def rows_of(segments, stride):
    """The rows of some texts or pairs as other functions make them, NumPy [W, S] and [W], each text's together."""
    if not stride:
        return {name: values.numpy() for name, values in pack(TOKENIZER, segments, 9).items()}, [1] * len(segments[0])
    windows = pack_windows(TOKENIZER, segments, 9, Windows(stride=stride, most=25))
    is_used = windows["lengths"].numpy() > 0
    counts = windows.pop("window_counts").numpy().tolist()
    return {name: values.numpy()[is_used] for name, values in windows.items()}, counts


@pytest.mark.parametrize(
    "run, stride",
    [
        (eagerly, 0),
        pytest.param(eagerly, 1, marks=pytest.mark.slow),
        (eagerly, 6),
        pytest.param(inside_a_dataset, 3, marks=pytest.mark.slow),
    ],
)
def test_every_token_comes_from_its_best_window(run, stride):
    def made(*columns):
        return rows_and_tokens(TOKENIZER, *columns, max_seq_length=9, stride=stride)

    rows, tokens = run(made, *zip(*TEXTS, strict=True), [bool(second) for _, second in TEXTS])
    rows = {name: values.numpy() for name, values in rows.items()}
    single = [first for first, second in TEXTS if not second]
    pairs = zip(*(texts for texts in TEXTS if texts[1]), strict=True)
    (ones, counts), (twos, more) = rows_of([single], stride), rows_of([list(texts) for texts in pairs], stride)
    for name, values in rows.items():
        np.testing.assert_array_equal(values, np.concatenate([ones[name], twos[name]]))
    start = 0
    for number, (texts, count) in enumerate(zip(TEXTS, counts + more, strict=True)):
        actual = {name: x[number].numpy() for name, x in tokens.items()}
        check_best(texts, actual, {name: values[start : start + count] for name, values in rows.items()}, start)
        if stride:
            longest = max(texts[::-1], key=len)
            assert f"] {longest} [".replace("  ", " ") in TOKENIZER.detokenize([actual["ids"]])[0]
        start += count
    assert start == len(rows["lengths"])


def check_best(texts, actual, rows, start):
    """Every token is where its source says, and nowhere with more on its poorer side."""
    sources = actual["sources"] - start * rows["token_ids"].shape[1]
    np.testing.assert_array_equal(rows["token_ids"].ravel()[sources], actual["ids"])
    np.testing.assert_array_equal(rows["segment_ids"].ravel()[sources], actual["segments"])
    best = {}
    for ids, segments in zip(rows["token_ids"], rows["segment_ids"], strict=True):
        for segment in (0, 1):
            pieces = ids[(segments == segment) & (ids > 4)].tolist()
            for place, piece in enumerate(pieces):  # no letter twice in a text
                side = min(place, len(pieces) - 1 - place)
                best[segment, piece] = max(side, best.get((segment, piece), -1))
    for piece, segment, first, end, source in zip(*(actual[name] for name in NAMES), sources, strict=True):
        if first < 0:
            assert piece in (TOKENIZER.cls_id, TOKENIZER.sep_id) and end == -1
            continue
        assert texts[segment][first:end] == TOKENIZER.vocabulary[piece]
        row, slot = divmod(source, rows["token_ids"].shape[1])
        inside = np.flatnonzero((rows["segment_ids"][row] == segment) & (rows["token_ids"][row] > 4))
        assert min(slot - inside[0], inside[-1] - slot) == best[segment, piece]


NAMES = ("ids", "segments", "starts", "ends")


def test_offsets_within_a_word_are_characters_of_the_text():
    tokenizer = Tokenizer([*tiny.SPECIAL, "a", "##b", "c", "##é", "e"])
    _, tokens = rows_and_tokens(
        tokenizer, tf.constant(["Éab x"]), tf.constant(["cab"]), tf.constant([True]), max_seq_length=12, stride=0
    )
    assert tokens["starts"].to_list() == [[-1, 0, 4, -1, 0, -1]]
    assert tokens["ends"].to_list() == [[-1, 3, 5, -1, 3, -1]]
    assert tokens["segments"].to_list() == [[0, 0, 0, 0, 1, 1]]


def test_empty_batch_has_no_rows():
    none = tf.constant([], tf.string)
    rows, tokens = rows_and_tokens(TOKENIZER, none, none, tf.constant([], tf.bool), max_seq_length=8, stride=2)
    assert rows["lengths"].shape == (0,) and tokens["ids"].nrows() == 0
