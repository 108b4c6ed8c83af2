"""Files in SQuAD's layout: what is read, and what is wrong with them in one sentence."""

import json

import pyarrow.parquet
import pytest

from bert_tf.data import questions
from bert_tf.data.questions import Question, answer_span
from bert_tf.errors import UserError
from bert_tf.heads.span import original_alignment
from bert_tf.tasks.catalog import squad as squad_task


def squad(*entries, context="The Normans came to France."):
    return {
        "version": "v2.0",
        "data": [{"title": "Normans", "paragraphs": [{"context": context, "qas": list(entries)}]}],
    }


def written(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def test_questions_with_without_and_with_unknown_answers_are_read(tmp_path):
    path = written(
        tmp_path,
        squad(
            {"id": "1", "question": "Who?", "answers": [{"text": "The Normans", "answer_start": 0}]},
            {"id": "2", "question": "Why?", "answers": [], "is_impossible": True, "plausible_answers": []},
            {"id": 3, "question": "Where?"},
        ),
    )
    actual = questions.read(path)
    assert [(q.id, q.answers, q.is_answerable) for q in actual] == [
        ("1", (("The Normans", 0),), True),
        ("2", (), False),
        ("3", (), None),
    ]
    assert actual[0].title == "Normans" and actual[0].context.endswith("France.")


FLAT = [
    {
        "id": "1",
        "context": "The Normans came.",
        "question": "Who?",
        "answers": {"text": ["The Normans"], "answer_start": [0]},
    },
    {"id": "2", "context": "They came.", "question": "Why?", "answers": {"text": [], "answer_start": []}},
    {"id": "3", "context": "They came.", "question": "Where?"},
]
PARAGRAPHS = [
    {
        "context": "The Normans came.",
        "qas": [{"id": "1", "question": "Who?", "answers": [{"text": "The Normans", "answer_start": 0}]}],
    },
    {
        "context": "They came.",
        "qas": [{"id": "2", "question": "Why?", "answers": []}, {"id": "3", "question": "Where?"}],
    },
]


@pytest.mark.parametrize(
    "layout", ["data.json", "list.json", "lines.json", "lines.jsonl", "a.parquet", "paragraphs.json"]
)
def test_questions_are_read_from_other_layouts(tmp_path, layout):
    path = str(tmp_path / layout)
    contents = {
        "data.json": json.dumps({"version": 1, "data": FLAT}, indent=2),
        "list.json": json.dumps(FLAT),
        "paragraphs.json": json.dumps(PARAGRAPHS),
    }
    if layout == "a.parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(FLAT), path)
    else:
        (tmp_path / layout).write_text(contents.get(layout) or "\n".join(map(json.dumps, FLAT)))
    assert [(q.id, q.context, q.answers, q.is_answerable) for q in questions.read(path)] == [
        ("1", "The Normans came.", (("The Normans", 0),), True),
        ("2", "They came.", (), False),
        ("3", "They came.", (), None),
    ]


ENTRY = {"id": "1", "question": "Who?", "answers": []}
WRONG = {
    "no JSON": ("{", "is not valid JSON"),
    "no data": ({"paragraphs": []}, "is not in SQuAD's layout"),
    "no questions": (squad(), "no questions"),
    "twice": (squad(ENTRY, ENTRY), "two questions with the id '1'"),
    "no question": (squad({"id": "1", "answers": []}), r"data\[0\].paragraphs\[0\].qas\[0\].question is None"),
    "no id": (squad({"question": "x"}), r"qas\[0\].id is None"),
    "question no object": (squad(None), r"qas\[0\] is None; expected a question as an object"),
    "question a number": (squad(3), r"qas\[0\] is 3; expected a question as an object"),
    "no start": (squad({**ENTRY, "answers": [{"text": "x"}]}), r"answers\[0\].answer_start is None"),
    "answers no list": (squad({**ENTRY, "answers": "x"}), "has no list 'answers'"),
    "answers without starts": (
        squad({**ENTRY, "answers": {"text": ["x"]}}),
        r"qas\[0\].answers has no list 'answer_start'",
    ),
    "fewer starts": (
        squad({**ENTRY, "answers": {"text": ["x"], "answer_start": []}}),
        "answers has 1 texts and 0 answer_start",
    ),
    "list without questions": (
        [{"title": "x"}],
        r"data\[0\] has no list 'paragraphs'; expected a file in SQuAD's layout",
    ),
    "damaged lines": ('{"id": "1"}\n{"id"', "is not valid JSON"),
    "impossible as a text": (squad({**ENTRY, "is_impossible": "false"}), "is_impossible is 'false'; expected true or"),
    "half a surrogate pair": (squad({**ENTRY, "question": "\ud800"}), r"half a surrogate pair, '\\ud800'"),
    "nested too deeply": ("[" * 100_000, "nested too deeply"),
    "paragraph no object": ({"data": [{"paragraphs": ["x"]}]}, r"paragraphs\[0\].context is None"),
}


@pytest.mark.parametrize(
    "answers, reason",
    [
        ({}, "have no answers; expected some to train on"),
        ({"answers": [{"text": "Vikings", "answer_start": 0}]}, "the first is 'Vikings', of the question '1'"),
    ],
)
def test_file_without_an_answer_to_learn_is_refused(answers, reason, tmp_path):
    path = written(tmp_path, squad({"id": "1", "question": "Who?", **answers}))
    assert len(squad_task.read("predict_file", path)) == 1
    with pytest.raises(UserError, match=reason):
        squad_task.read("train_file", path)


@pytest.mark.parametrize("kind", WRONG)
def test_invalid_file_is_one_sentence(kind, tmp_path):
    content, message = WRONG[kind]
    with pytest.raises(UserError, match=message):
        questions.read(written(tmp_path, content))
    with pytest.raises(UserError, match="cannot be read"):
        questions.read(str(tmp_path / "nothing.json"))


@pytest.mark.parametrize(
    "text, start, expected",
    [("b", 2, (2, 3)), ("b", 3, (2, 3)), ("a", 5, (4, 5)), ("x", 0, None), ("", 1, None), ("é", 6, (6, 7))],
)
def test_answer_is_taken_from_its_offset(text, start, expected):
    assert answer_span(Question("1", "", "a b a é"), (text, start)) == expected


@pytest.mark.parametrize(
    "text, start, expected",
    [
        ("Gustave Eiffel", 32, "Gustave  Eiffel"),
        ("1889 by Gustave", 24, "1889\nby Gustave"),
        ("1889 by", 0, "1889\nby"),
        (" tall.  It ", 0, "tall.\u202fIt"),
        ("tower was", 0, "tower was"),
        ("was tall", 0, None),
        ("It is", 0, None),  # a no-break space divides no words there
    ],
)
def test_answer_is_found_across_other_white_space(text, start, expected):
    context = "The tower was built in 1889\nby Gustave  Eiffel and is tall.\u202fIt\u00a0is."
    span = answer_span(Question("1", "", context), (text, start))
    assert (span and context[slice(*span)]) == expected


@pytest.mark.parametrize(
    "context, answer, tokens, expected",
    [
        ("It was Steve Smith's.", "Steve Smith", "steve smith", "Steve Smith"),  # cut inside a word
        ("in (1066) here", "1066", "1066", "1066"),
        ("the naïve\tman", "naïve", "naive", "naïve"),
        ("a ½-mile walk", "½", "½", "½"),
        ("Straße x", "Straße", "st ##raße", "Straße"),
        ("a İstanbul, b", "İstanbul", "i ##stanbul", "İstanbul"),
        ("x [UNK]y z", "[UNK]y", "[UNK]", "[UNK]y"),
    ],
)
def test_original_alignment_cuts_answers_by_words(context, answer, tokens, expected):
    start = context.index(answer)
    actual = original_alignment.original_answer(context, start, start + len(answer), tokens.split(), lower_case=True)
    assert actual == expected


def test_unalignable_answer_is_whole_words():
    assert original_alignment.align("x", "(a b)", lower_case=True) == "(a b)"
    assert (
        original_alignment.align("ab", "e\u0301ab,", lower_case=True) == "e\u0301ab,"
    )  # one character less normalized
    assert original_alignment.split_words(" a\u202fb c") == (["a", "b", "c"], [0, 0, 0, 1, 1, 2])
