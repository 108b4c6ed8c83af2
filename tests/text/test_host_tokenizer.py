"""Tokenizers without TensorFlow against those in the graph: ids and offsets of hard, random and assigned characters."""

import host_tokenizer_cases as cases
import numpy as np
import pytest


def assert_alike(case, texts):
    graph, host = cases.tokenizers(case)
    assert cases.differences(graph, host, texts) == []
    ragged = graph.with_offsets(texts)
    continues = graph.continues_word(*(x.values for x in ragged)).numpy()
    joined = [host.with_offsets(text) for text in texts]
    firsts = np.cumsum([0, *(len(tokens.ids) for tokens in joined)])
    for tokens, first, end in zip(joined, firsts, firsts[1:], strict=False):
        np.testing.assert_array_equal(host.continues_word(tokens)[1:], continues[first + 1 : end])
    assert [host.inside_text(text) for text in texts] == graph.inside_text(texts).to_list()
    assert (host.separators, host.mask_token, host.cls_id) == (graph.separators, graph.mask_token, graph.cls_id)


@pytest.mark.parametrize("case", cases.CASES)
def test_ids_and_offsets_are_those_of_the_graph(case):
    assert_alike(case, [*cases.HARD, *cases.TEXTS, *cases.mixtures(100)])


@pytest.mark.slow
@pytest.mark.parametrize("case", cases.CASES)
def test_ids_and_offsets_of_assigned_characters_and_random_strings_are_those_of_the_graph(case):
    assert_alike(case, [f"a{c}b c{c}" for c in cases.ASSIGNED[::7]] + cases.mixtures(5000))
