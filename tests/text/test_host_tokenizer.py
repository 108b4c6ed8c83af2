"""Tokenizers without TensorFlow against those in the graph: ids and offsets of hard, random and assigned characters."""

import host_tokenizer_cases as cases
import linear_time
import numpy as np
import pytest

from bert_tf.text.host_tokenizer import create_host_tokenizer


def assert_alike(case, texts):
    graph, host = cases.tokenizers(case)
    assert cases.differences(graph, host, texts) == []
    ragged = graph.with_offsets(texts)
    continues = graph.continues_word(*(x.values for x in ragged)).numpy()
    joined = [host.with_offsets(text) for text in texts]
    firsts = np.cumsum([0, *(len(tokens.ids) for tokens in joined)])
    for tokens, first, end in zip(joined, firsts, firsts[1:], strict=False):
        np.testing.assert_array_equal(host.continues_word(tokens)[1:], continues[first + 1 : end])
    for inside_text, rows in ((False, graph(texts)), (True, graph.inside_text(texts))):
        ids, counts = graph.on_host(texts, inside_text=inside_text)
        assert (ids.tolist(), counts.tolist()) == (rows.values.numpy().tolist(), rows.row_lengths().numpy().tolist())
        assert [host.inside_text(text) if inside_text else host(text) for text in texts] == rows.to_list()
    assert [each.tolist() for each in graph.on_host([])] == [[], []]
    assert (host.separators, host.mask_token, host.cls_id) == (graph.separators, graph.mask_token, graph.cls_id)


@pytest.mark.parametrize("case", cases.CASES)
def test_ids_and_offsets_are_those_of_the_graph(case):
    assert_alike(case, [*cases.HARD, *cases.TEXTS, *cases.mixtures(100)])


@pytest.mark.slow
@pytest.mark.parametrize("case", cases.CASES)
def test_ids_and_offsets_of_assigned_characters_and_random_strings_are_those_of_the_graph(case):
    assert_alike(case, [f"a{c}b c{c}" for c in cases.ASSIGNED[::7]] + cases.mixtures(5000))


def assert_linear(case, size):
    make, lower_case, special = cases.CASES[case]
    host = create_host_tokenizer(make(), lower_case, special_tokens_in_strings=special)
    for unit in linear_time.UNITS:
        linear_time.check(host.with_offsets, unit, size)


@pytest.mark.parametrize("case", cases.CASES)
def test_time_is_linear_in_the_length_of_a_text(case):
    assert_linear(case, 10_000)


@pytest.mark.slow
@pytest.mark.parametrize("case", cases.CASES)
def test_time_is_linear_up_to_a_megabyte(case):
    assert_linear(case, 250_000)


def test_long_words_are_not_remembered():
    for case in ("uncased", "albert"):
        _, host = cases.tokenizers(case)
        host("fox " + "a" * 10_000)
        assert list(map(len, host._words)) in ([3], [4])
