"""pack against literal results, eagerly and inside Dataset.map."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
import tokenizers
from tokenizer_cases import VOCABULARY, both_ways, tokens_of

from bert_tf.errors import UserError
from bert_tf.export.host import rows
from bert_tf.text import vocabulary
from bert_tf.text.host_tokenizer import create_host_tokenizer
from bert_tf.text.tokenizer import Tokenizer, pack
from bert_tf.text.tokenizer_settings import TokenizerSettings


@pytest.fixture(scope="module")
def uncased():
    return Tokenizer(VOCABULARY)


@both_ways
@pytest.mark.parametrize(
    ("first", "second", "size", "expected"),
    [
        ("the fox", "ran", 8, "[CLS] the fox [SEP] ran [SEP] [PAD] [PAD]"),
        ("the quick fox", "fox", 6, "[CLS] the quick [SEP] fox [SEP]"),
        ("fox", "the quick fox", 6, "[CLS] fox [SEP] the quick [SEP]"),
        ("the quick fox", "over lazy dog", 8, "[CLS] the quick fox [SEP] over lazy [SEP]"),
        ("the quick fox", "over lazy dog", 7, "[CLS] the quick [SEP] over lazy [SEP]"),
        ("the quick fox", "over lazy dog", 4, "[CLS] the [SEP] [SEP]"),
        ("", "dog", 5, "[CLS] [SEP] dog [SEP] [PAD]"),
        ("", "", 5, "[CLS] [SEP] [SEP] [PAD] [PAD]"),
    ],
)
def test_pack_truncates_the_longer_segment_first(run, uncased, first, second, size, expected):
    packed = run(lambda a, b: pack(uncased, [a, b], size), [first], [second])
    assert tokens_of(uncased, packed["token_ids"]) == [expected]
    assert packed["token_ids"].shape[-1] == packed["segment_ids"].shape[-1] == size


def test_pack_numbers_segments_and_counts_used_positions(uncased):
    packed = pack(uncased, [["the fox", ""], ["ran", "dog"]], 8)
    assert packed["segment_ids"].numpy().tolist() == [[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0, 0, 0]]
    assert packed["lengths"].numpy().tolist() == [6, 4]
    assert {value.dtype for value in packed.values()} == {tf.int32}


@both_ways
def test_pack_truncates_a_single_segment_at_its_end(run, uncased):
    packed = run(lambda texts: pack(uncased, [texts], 4), ["the quick brown fox", "dog"])
    assert tokens_of(uncased, packed["token_ids"]) == ["[CLS] the quick [SEP]", "[CLS] dog [SEP] [PAD]"]
    assert packed["lengths"].numpy().tolist() == [4, 3]


def test_pack_accepts_ids_and_strings(uncased):
    packed = pack(uncased, [uncased(["the fox"]), tf.ragged.constant([[0, 1]], tf.int64)], 7)
    assert tokens_of(uncased, packed["token_ids"]) == ["[CLS] the fox [SEP] [PAD] [UNK] [SEP]"]


def test_pack_of_no_texts_has_no_rows(uncased):
    assert pack(uncased, [[], []], 6)["token_ids"].shape == (0, 6)


def test_pack_truncates_like_removing_one_token_at_a_time(uncased):
    lengths = [(a, b) for a in range(9) for b in range(9)]
    segments = [tf.ragged.constant([[9] * pair[i] for pair in lengths], tf.int32) for i in (0, 1)]
    for room in (1, 2, 5, 6):
        segment_ids = pack(uncased, segments, room + 3)["segment_ids"].numpy()
        for row, (first, second) in zip(segment_ids, lengths, strict=True):
            while first + second > room:
                first, second = (first - 1, second) if first > second else (first, second - 1)
            assert row.tolist() == [0] * (first + 2) + [1] * (second + 1) + [0] * (room - first - second)


def test_rows_of_transformers_are_those_of_tokenizers():
    settings = TokenizerSettings(odd_to_longer=True, one_segment=True)
    ours = Tokenizer(vocabulary.with_settings(VOCABULARY, settings))
    on_host = create_host_tokenizer(ours.vocabulary)
    ids = {f"t{number}": number for number in range(30)}
    theirs = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="t0"))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    pairs = [(range(10, 10 + a), range(20, 20 + b)) for a in range(9) for b in range(9)]
    texts = [tuple(" ".join(f"t{number}" for number in text) for text in pair) for pair in pairs]
    for room in range(1, 10):
        theirs.enable_truncation(room)
        packed = pack(ours, [tf.ragged.constant([[*pair[i]] for pair in pairs], tf.int32) for i in (0, 1)], room + 3)
        for number, encoding in enumerate(theirs.encode_batch(texts)):
            parts = [[x for x in encoding.ids if x // 10 == ten] for ten in (1, 2)]
            expected = [ours.cls_id, *parts[0], ours.sep_id, *parts[1], ours.sep_id]
            assert packed["token_ids"][number, : len(expected)].numpy().tolist() == expected, texts[number]
            assert int(packed["lengths"][number]) == len(expected) and not packed["segment_ids"][number].numpy().any()
            row = rows.pack(on_host, [[*text] for text in pairs[number]], room + 3)
            assert row == (expected, [0] * len(expected), ())


def test_pack_of_three_truncates_like_removing_one_token_at_a_time(uncased):
    lengths = list(itertools.product(range(6), repeat=3))
    segments = [tf.ragged.constant([[9] * sizes[i] for sizes in lengths], tf.int32) for i in range(3)]
    for room in (1, 2, 5, 7):
        packed = pack(uncased, segments, room + 4)
        for row, sizes in zip(packed["segment_ids"].numpy(), lengths, strict=True):
            left = list(sizes)
            while sum(left) > room:
                left[max(range(3), key=lambda i: (left[i], i))] -= 1
            used = [0] * (left[0] + 2) + [1] * (left[1] + 1) + [2] * (left[2] + 1)
            assert row.tolist() == used + [0] * (room - sum(left))


@pytest.mark.parametrize(
    "truncation, segments, size, expected",
    [
        ("only_first", ["the quick fox", "over dog"], 7, "[CLS] the quick [SEP] over dog [SEP]"),
        ("only_second", ["the quick fox", "over dog"], 7, "[CLS] the quick fox [SEP] over [SEP]"),
        ("only_second", ["fox", "over"], 7, "[CLS] fox [SEP] over [SEP] [PAD] [PAD]"),
        ("only_first", ["fox", "over lazy dog"], 5, "[CLS] [SEP] over lazy [SEP]"),  # the second fills the row alone
        ("only_second", ["the quick", "over lazy", "fox dog"], 9, "[CLS] the quick [SEP] over [SEP] fox dog [SEP]"),
        ("only_first", ["the quick fox"], 4, "[CLS] the quick [SEP]"),
    ],
)
def test_pack_truncates_the_chosen_segment(uncased, truncation, segments, size, expected):
    packed = pack(uncased, [[segment] for segment in segments], size, truncation=truncation)
    assert tokens_of(uncased, packed["token_ids"]) == [expected]


def test_pack_refuses_an_unknown_truncation(uncased):
    with pytest.raises(UserError, match="truncation=last is unknown; expected one of longest_first, only_first"):
        pack(uncased, [["fox"]], 5, truncation="last")


def test_pack_has_a_static_shape_in_a_dataset(uncased):
    dataset = tf.data.Dataset.from_tensor_slices(["fox", "dog"]).batch(2, drop_remainder=True)
    spec = dataset.map(lambda texts: pack(uncased, [texts], 5)).element_spec
    assert spec["token_ids"].shape == spec["segment_ids"].shape == (2, 5)


def test_pack_takes_single_texts_of_a_dataset(uncased):
    texts = tf.data.Dataset.from_tensor_slices(["fox", "fox fox"])
    single = texts.map(lambda text: pack(uncased, [text, text], 7))
    assert single.element_spec["token_ids"].shape == (7,) and single.element_spec["lengths"].shape == ()
    batched = next(iter(texts.batch(2).map(lambda text: pack(uncased, [text, text], 7))))
    for name, value in next(iter(single.batch(2))).items():
        np.testing.assert_array_equal(value, batched[name])
    with pytest.raises(UserError, match=r"pack takes a list of texts for each segment: pack\(tokenizer, \[\[text\]\]"):
        pack(uncased, ["fox"], 7)


@pytest.mark.parametrize(
    ("segments", "size", "message"), [([["fox"], ["dog"]], 3, "max_seq_length=3"), ([], 8, "0 segments")]
)
def test_pack_refuses_lengths_without_room(uncased, segments, size, message):
    with pytest.raises(UserError, match=message):
        pack(uncased, segments, size)
