"""The passages of Python's manual, and the task of telling which chapter they are from."""

import collections

import pytest
import tiny

from bert_tf.recipes.finetune import Flags
from bert_tf.tasks import catalog
from bert_tf.tasks.catalog.python_manual import CHAPTERS, read
from bert_tf.text import demo_corpus

SENTENCE = "The {} statement is made of nine words here."
TOPICS = {
    "if": "\n\n".join(SENTENCE.format(name) for name in ("first", "second", "third")),
    "while": "\n\n".join(SENTENCE.format(name) for name in ("first", "fourth")),
    "debugger": "x = 3\n\nThis sentence about code is the only prose.",
}


def test_passages_end_with_paragraphs_and_share_no_sentence():
    assert list(demo_corpus.passages(TOPICS, words=9)) == [
        ("debugger", "This sentence about code is the only prose."),
        *[("if", SENTENCE.format(name)) for name in ("first", "second", "third")],
        ("while", SENTENCE.format("fourth")),
    ]


@pytest.mark.parametrize("words, sizes", [(10, [3]), (5, [1, 1, 1]), (19, [3]), (100, [3])])
def test_rest_of_a_topic_is_appended_to_its_last_passage(words, sizes):
    texts = [text for topic, text in demo_corpus.passages({"if": TOPICS["if"]}, words=words)]
    assert [text.count("statement") for text in texts] == sizes


def test_documents_are_the_sentences_of_the_passages():
    documents = [" ".join(sentences) for sentences in demo_corpus.python_manual()]
    passages = collections.defaultdict(list)
    for topic, text in demo_corpus.passages():
        passages[topic].append(text)
    assert [" ".join(texts) for texts in passages.values()] == documents


MODULE = '''"""The module says what its functions are for.

    >>> code that is no prose
"""
# A comment of two lines is one sentence
# that ends with a full stop.
x = 3  # a remark beside code
def f():
    r"""Return the :class:`Path` of the ``file`` that was read."""
    return """This string is not a docstring but a value."""
'''


def test_library_documents_are_docstrings_and_comments(tmp_path):
    (tmp_path / "pathlib").mkdir()
    (tmp_path / "pathlib" / "a.py").write_text(MODULE)
    (tmp_path / "b.py").write_text(
        '"""The module says what its functions are for."""\n\n"""And then no more than that."""\n'
    )
    for name in ("test", "site-packages", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "test" / "c.py").write_text('"""No test is part of the corpus here."""\n')
    (tmp_path / "site-packages" / "d.py").write_text('"""No other package is part of it either."""\n')
    manual = list(demo_corpus.python_manual())
    assert list(demo_corpus.installed_python(tmp_path))[len(manual) :] == [
        ["The module says what its functions are for.", "And then no more than that."],
        [
            "A comment of two lines is one sentence that ends with a full stop.",
            "Return the Path of the file that was read.",
        ],
    ]
    assert list(demo_corpus.installed_python(tmp_path / "empty")) == manual


@pytest.mark.slow
def test_library_is_several_times_as_long_as_the_manual():
    words = [sum(len(sentence.split()) for sentence in document) for document in demo_corpus.installed_python()]
    manual = [sum(len(sentence.split()) for sentence in document) for document in demo_corpus.python_manual()]
    assert sum(words) > 4 * sum(manual) and len(words) > 300


def test_splits_share_no_passage_and_have_every_chapter():
    train, dev = read("train"), read("dev")
    assert {example.label for example in train} == {example.label for example in dev} == set(CHAPTERS)
    assert not {example.texts for example in train} & {example.texts for example in dev}
    assert len({example.id for example in train + dev}) == len(train) + len(dev) > 450
    assert 0.15 < len(dev) / len(train + dev) < 0.2
    most = collections.Counter(example.label for example in dev).most_common(1)[0][1]
    assert most / len(dev) < 0.4


def test_every_fifth_passage_is_held_out_and_new_topics_are_ignored():
    topics = {f"topic {number}": SENTENCE.format(f"number {number}") for number in range(3)}
    topics |= {name: SENTENCE.format(name) for name in CHAPTERS["expressions"].split()[:7]}
    assert [len(read(split, topics)) for split in ("train", "dev")] == [6, 1]
    (held_out,) = read("dev", topics)
    assert (held_out.id, held_out.label) == ("expressions 5", "expressions")
    assert held_out.location == "passage expressions 5 of Python's manual"


def test_task_has_chapters_as_classes_and_no_test_split():
    options = Flags(max_seq_length=16)
    tokenizer = tiny.Words(["the"])
    task = catalog.get("python_manual")(options, lambda texts: tokenizer if next(texts()) else None)
    assert (task.head.labels, task.test_splits) == (tuple(sorted(CHAPTERS)), ())
    assert (task.criterion, task.eval_splits) == ("accuracy", {"": "dev"})
