"""Windows over long contexts: the original's cuts, the offsets of every token, the window with the most context."""

import numpy as np
import oracle_squad
import pytest
import tensorflow as tf
import tiny

from bert_tf.data.questions import Question
from bert_tf.errors import UserError
from bert_tf.heads.span.question_rows import QuestionRows
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.text.tokenizer import Tokenizer

LETTERS = [chr(code) for code in range(97, 123)]
TOKENIZER = Tokenizer([*tiny.SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS), "é"])


def eagerly(function, *arguments):
    return function(*map(tf.constant, arguments))


def inside_a_dataset(function, *arguments):
    return next(iter(tf.data.Dataset.from_tensors(tuple(map(tf.constant, arguments))).map(function)))


def random_text(rng, words):
    return " ".join("".join(rng.choice(LETTERS, rng.integers(1, 4))) for _ in range(words))


@pytest.mark.parametrize("run", [eagerly, pytest.param(inside_a_dataset, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stride, query", [(5, 4), (3, 3), (1, 2), (40, 5)])
def test_windows_match_the_original(run, stride, query):
    rng = np.random.default_rng(stride)
    questions = [random_text(rng, words) for words in (1, 3, 0, 6, 2, 4)]
    contexts = [random_text(rng, words) for words in (0, 1, 5, 12, 30, 17)]
    sizes = {"max_seq_length": 16, "doc_stride": stride, "max_query_length": query}
    windows = QuestionWindows(**sizes)
    rows = run(lambda q, c: windows.all_rows(TOKENIZER, q, c), questions, contexts)
    is_best = windows.is_max_context(rows, tf.tile(tf.range(16)[None], [len(rows["owners"]), 1])).numpy()
    rows = {name: x.numpy() for name, x in rows.items()}
    row = 0
    for owner, (question, context) in enumerate(zip(questions, contexts, strict=True)):
        ids = [TOKENIZER([text]).to_list()[0] for text in (question, context)]
        expected = oracle_squad.windows(*ids, **sizes)
        spans = [(start, len(context_ids)) for _, context_ids, start in expected]
        for number, (question_ids, context_ids, start) in enumerate(expected):
            row_ids = [2, *question_ids, 3, *context_ids, 3]
            assert rows["owners"][row] == owner
            assert rows["token_ids"][row].tolist() == row_ids + [0] * (16 - len(row_ids))
            assert rows["lengths"][row] == len(row_ids)
            assert rows["segment_ids"][row].sum() == len(context_ids) + 1
            best = [oracle_squad.is_max_context(spans, number, start + i) for i in range(len(context_ids))]
            first = len(question_ids) + 2
            assert is_best[row].tolist() == [False] * first + best + [False] * (16 - first - len(best))
            row += 1
    assert row == len(rows["owners"])


@pytest.mark.parametrize("run", [eagerly, pytest.param(inside_a_dataset, marks=pytest.mark.slow)])
def test_offsets_are_characters_of_the_context(run):
    context = "éa 😀 b\u0301c, é"
    rows = run(lambda q, c: QuestionWindows(12, 4, 1).all_rows(TOKENIZER, q, c), ["x"], [context])
    starts, ends = rows["starts"][0].numpy(), rows["ends"][0].numpy()
    cut = [context[a:b] for a, b in zip(starts, ends, strict=True) if a >= 0]
    assert cut == ["é", "a", "😀", "b\u0301", "c", ",", "é"]
    assert starts[:3].tolist() == [-1, -1, -1] and starts[10:].tolist() == [-1, -1]


@pytest.mark.parametrize("run", [eagerly, inside_a_dataset])
def test_single_question_windows_equal_those_of_a_batch(run):
    windows, questions, contexts = QuestionWindows(12, 3, 4), ["a b", "c"], ["a b c d e f g h i j k l m", "z y x"]
    everything = windows.all_rows(TOKENIZER, tf.constant(questions), tf.constant(contexts))

    def some(q, c, numbers):
        return windows.rows(TOKENIZER, windows.tokenize(TOKENIZER, q, c), [1, 0], [1, 0], numbers)

    chosen = run(some, questions, contexts, [0, 2])
    last = int(tf.reduce_sum(tf.cast(everything["owners"] == 0, tf.int32)))
    for name, x in chosen.items():
        np.testing.assert_array_equal(x, tf.gather(everything[name], [last, 2]))


def positions_of(context, answer, window=0, **sizes):
    windows = QuestionWindows(**{"max_seq_length": 12, "doc_stride": 3, "max_query_length": 2, **sizes})
    answers = ((answer, context.index(answer)),) if answer else ()
    split = QuestionRows([Question("x", "q r", context, answers, bool(answer))], TOKENIZER, windows)
    rows = windows.rows(TOKENIZER, split.tokens, tf.constant([0]), tf.constant([0]), tf.constant([window]))
    positions = windows.targets(rows, *split.answer_tokens())
    return [int(position[0]) for position in positions]


@pytest.mark.parametrize(
    "context, answer, window, expected",
    [
        ("a b c d", "b c", 0, [5, 6]),
        ("a bcd e", "cd", 0, [6, 7]),  # begins inside a word
        ("a b c d e f g h i j", "g", 0, [10, 10]),  # the last token of the first window
        ("a b c d e f g h i j", "g h", 0, [0, 0]),  # half of it is in the next
        ("a b c d e f g h i j", "g h", 1, [7, 8]),
        ("a b c d e f g h i j", "b", 1, [0, 0]),  # before this window
        ("a 😀 é b", "b", 0, [7, 7]),
        ("a b", "", 0, [0, 0]),
        ("a   b", "  ", 0, [0, 0]),  # no token at all
    ],
)
def test_answer_tokens_overlap_the_answer_characters(context, answer, window, expected):
    assert positions_of(context, answer, window) == expected


@pytest.mark.parametrize(
    "sizes, message",
    [((67, 128, 64), "leaves no room for the text"), ((384, 0, 64), "doc_stride is 0"), ((99, 1, -1), "max_query")],
)
def test_windows_without_room_are_refused(sizes, message):
    with pytest.raises(UserError, match=message):
        QuestionWindows(*sizes)
