"""From scores to answers: the original's n best and choice, on random scores, and what it crashes on."""

import memory
import numpy as np
import oracle_squad
import pytest
import tensorflow as tf
import tiny

from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.heads.span.spans import GraphSearch
from bert_tf.text.tokenizer import Tokenizer

LETTERS = "abcdefg"
TOKENIZER = Tokenizer([*tiny.SPECIAL, *LETTERS])
WINDOWS = QuestionWindows(14, 4, 3)


def scored(seed, contexts):
    """Rows of all windows and random scores; scores are fractions without rounding, no two sums alike by chance."""
    questions = ["a b"] * len(contexts)
    rows = WINDOWS.all_rows(TOKENIZER, tf.constant(questions), tf.constant(contexts))
    rng = np.random.default_rng(seed)
    shape = rows["token_ids"].shape
    return rows, *(rng.permutation(shape[0] * shape[1]).reshape(shape).astype(np.float32) / 16 for _ in range(2))


def expected_of(rows, start_logits, end_logits, contexts, owner, **options):
    windows, positions = [], tf.range(rows["token_ids"].shape[1])[None]
    is_best = WINDOWS.is_max_context(rows, tf.repeat(positions, len(rows["lengths"]), 0)).numpy()
    for row in np.flatnonzero(rows["owners"].numpy() == owner):
        length = int(rows["lengths"][row])
        places = {
            i: (int(rows["starts"][row, i]), int(rows["ends"][row, i]))
            for i in range(length)
            if rows["starts"][row, i] >= 0
        }
        windows.append(
            {
                "start_logits": start_logits[row, :length].tolist(),
                "end_logits": end_logits[row, :length].tolist(),
                "places": places,
                "max_context": {i: bool(is_best[row, i]) for i in places},
            }
        )
    return oracle_squad.answers(windows, contexts[owner], **options)


def texts_of(answers, owner):
    is_answer = answers["probabilities"].numpy()[owner] > 0
    return [text.decode() for text in answers["texts"].numpy()[owner][is_answer]]


@pytest.mark.parametrize("has_null", [False, True])
@pytest.mark.parametrize("n_best_size, max_answer_length", [(20, 30), (3, 2), (6, 1)])
def test_answers_match_the_original(has_null, n_best_size, max_answer_length):
    rng = np.random.default_rng(n_best_size)
    contexts = [" ".join(rng.choice(list(LETTERS), size)) for size in (1, 4, 9, 15, 30, 22)]
    options = {"n_best_size": n_best_size, "max_answer_length": max_answer_length, "has_null": has_null}
    options["threshold"] = 5.0
    for seed in range(3):
        rows, start_logits, end_logits = scored(seed, contexts)
        search = GraphSearch(**options)
        answers = search.answers(
            search.candidates(start_logits, end_logits, rows, WINDOWS), rows["owners"], tf.constant(contexts)
        )
        chosen = search.choose(answers).numpy()
        for owner in range(len(contexts)):
            listed, answer, difference = expected_of(rows, start_logits, end_logits, contexts, owner, **options)
            count = len(listed)
            assert texts_of(answers, owner) == [text for text, *_ in listed if _[-1] > 1e-38]
            np.testing.assert_allclose(answers["start_scores"][owner, :count], [one[1] for one in listed])
            np.testing.assert_allclose(answers["end_scores"][owner, :count], [one[2] for one in listed])
            np.testing.assert_allclose(answers["probabilities"][owner, :count], [one[3] for one in listed], atol=1e-6)
            assert answers["texts"].numpy()[owner, chosen[owner]].decode() == answer
            if difference is not None:
                assert float(answers["score_differences"][owner]) == pytest.approx(difference)


def test_answer_is_an_exact_slice_of_the_context():
    contexts = ["a 😀 é\u0301b, c", "d"]
    rows, start_logits, end_logits = scored(0, contexts)
    search = GraphSearch()
    answers = search.answers(
        search.candidates(start_logits, end_logits, rows, WINDOWS), rows["owners"], tf.constant(contexts)
    )
    for context, texts, starts, ends in zip(
        contexts, *(answers[n].numpy() for n in ("texts", "starts", "ends")), strict=True
    ):
        assert [text.decode() for text in texts] == [context[a:b] for a, b in zip(starts, ends, strict=True)]


@pytest.mark.parametrize("words", [1, 8])
def test_memory_of_answers_in_long_words_is_not_that_of_their_bytes_one_by_one(words):
    context = " ".join(["é" + "x" * (120_000 // words)] * words)
    rows, start_logits, end_logits = scored(0, [context])
    answers = []

    def find():
        search = GraphSearch()
        candidates = search.candidates(start_logits, end_logits, rows, WINDOWS)
        answers.append(search.answers(candidates, rows["owners"], tf.constant([context])))

    assert memory.growth(find) < 100  # a hundred texts of a context, byte by byte, would take 700 MB
    found = [answers[0][name].numpy()[0] for name in ("texts", "starts", "ends", "probabilities")]
    assert all(text.decode() == context[start:end] for text, start, end, _ in zip(*found, strict=True))
    assert (found[3] > 0).sum() >= words


@pytest.mark.parametrize("has_null", [False, True])
def test_question_without_candidates_gets_an_empty_answer(has_null):
    contexts = ["", "a b"]
    rows, start_logits, end_logits = scored(1, contexts)
    search = GraphSearch(has_null=has_null)
    answers = search.answers(
        search.candidates(start_logits, end_logits, rows, WINDOWS), rows["owners"], tf.constant(contexts)
    )
    chosen = search.choose(answers)
    assert answers["texts"].numpy()[0, chosen[0]] == b""
    assert bool(tf.reduce_all(tf.math.is_finite(answers["probabilities"])))
    assert texts_of(answers, 1) != []


def test_rows_trimmed_to_the_longest_give_the_same_answers():
    contexts = ["a b c", "b c"]
    rows, start_logits, end_logits = scored(2, contexts)
    longest = int(tf.reduce_max(rows["lengths"]))
    short = {name: x[:, :longest] if len(x.shape) == 2 else x for name, x in rows.items()}
    search = GraphSearch(has_null=True)
    whole = search.candidates(start_logits, end_logits, rows, WINDOWS)
    cut = search.candidates(start_logits[:, :longest], end_logits[:, :longest], short, WINDOWS)
    for name, x in whole.items():
        np.testing.assert_array_equal(x, cut[name])


def test_probabilities_are_those_of_scores_divided_by_the_temperature():
    contexts = ["a b c d e"]
    rows, start_logits, end_logits = scored(0, contexts)
    found = {}
    for temperature in (1.0, 40.0):
        search = GraphSearch(n_best_size=5, max_answer_length=3, temperature=temperature)
        candidates = search.candidates(start_logits, end_logits, rows, WINDOWS)
        found[temperature] = search.answers(candidates, rows["owners"], tf.constant(contexts))
    answers = found[40.0]
    totals = (answers["start_scores"] + answers["end_scores"]).numpy()[0]
    shares = np.exp((totals - totals[0]) / 40)
    np.testing.assert_allclose(answers["probabilities"][0], shares / shares.sum(), rtol=1e-5)
    np.testing.assert_array_equal(answers["texts"], found[1.0]["texts"])
