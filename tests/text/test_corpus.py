"""Files to documents: layouts, languages, and errors of users."""

import gzip
import json
import os
import random
import textwrap

import faults
import pytest

from bert_tf.errors import UserError
from bert_tf.text import corpus
from bert_tf.text.corpus import find_sources
from bert_tf.text.demo_corpus import python_manual
from bert_tf.text.documents import MAX_DOCUMENT, group_documents, read_documents
from bert_tf.text.sentence_splitting import detect_layout, iterate_sentences

SENTENCES = "The rain had ceased.\nHe rose early.\n\nGold, surely!\nIt glittered in the pool; he stopped.\n"
PARAGRAPHS = (
    "The rain had ceased. He rose early, as men do. Nobody saw him.\n"
    "It was cold. The fire was out. He left.\n\nGold, surely! It glittered. He stopped and looked.\n"
)
WRAPPED = (
    "The rain had only ceased with the gray streaks of morning at\n"
    "Blazing Star, and the settlement awoke to a moral sense of\n"
    "cleanliness. Indeed, it was recorded that a fortunate early\n"
    "riser had once picked up a lump of gold.\n\n"
    "Possibly this may have been the reason why early risers in\n"
    "that locality walked with their eyes cast down.\n"
)
PROSE = " ".join(WRAPPED.split())
MARKDOWN = (
    f"# Data\n\n{textwrap.fill(PROSE, 128)}\n\n```sh\nbert-tf finetune table.csv\nls runs\n```\n\n"
    f"{textwrap.fill('- ' + PROSE, 128)}\n{textwrap.fill('- ' + PROSE, 128, subsequent_indent='  ')}\n"
)
SPACED = "The rain had ceased. He rose.\n\nIt was cold. He left.\n\nGold! It glittered.\n\nHe stopped. He looked.\n"
CHINESE = "在UCLA读博是什么感受？\n很好奇，陶是公认的天才。\n\n据悉，线路不变。\n以上三条线路调整。\n"


def documents(tmp_path, text, name="a.txt", **options):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (source,) = find_sources(path, **options)
    return list(read_documents(source))


def test_folder_without_permission_is_not_taken_for_an_empty_one(tmp_path):
    (tmp_path / "a.txt").write_text("A sentence.")

    with faults.on_call(os, "scandir", PermissionError(13, "Permission denied")), pytest.raises(PermissionError):
        corpus.find_sources(tmp_path)


@pytest.mark.parametrize(
    "text, expected",
    [
        (SENTENCES, "sentences"),
        (PARAGRAPHS, "paragraphs"),
        (PARAGRAPHS.replace("\n\n", "\n"), "lines"),
        (WRAPPED, "wrapped"),
        (WRAPPED.replace("\n\n", "\n"), "wrapped"),
        (MARKDOWN, "wrapped"),
        (MARKDOWN.lower(), "paragraphs"),
        (SPACED, "files"),
        ("One speech on one line. It has two sentences.\n", "files"),
        (CHINESE, "sentences"),
        ("", "files"),
    ],
)
def test_layout_is_detected_from_the_lines(text, expected):
    assert detect_layout(text) == expected


def test_one_sentence_per_line_with_blank_lines_between_documents(tmp_path):
    assert documents(tmp_path, SENTENCES) == [
        ["The rain had ceased.", "He rose early."],
        ["Gold, surely!", "It glittered in the pool; he stopped."],
    ]


def test_paragraphs_are_split_into_sentences(tmp_path):
    first, second = documents(tmp_path, PARAGRAPHS)
    assert first[:2] == ["The rain had ceased.", "He rose early, as men do."] and len(first) == 6
    assert second == ["Gold, surely!", "It glittered.", "He stopped and looked."]


def test_paragraphs_without_blank_lines_are_the_documents_of_a_single_file(tmp_path):
    text = PARAGRAPHS.replace("\n\n", "\n")
    assert [len(document) for document in documents(tmp_path, text)] == [3, 3, 3]
    (tmp_path / "b.txt").write_text(text)
    assert [len(list(read_documents(source))) for source in find_sources(tmp_path)] == [1, 1]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("He had seen\n- so he said\n2) two birds.\n", ["He had seen - so he said 2) two birds."]),
        ("There are two:\n- one that\n  is long\n- another\n", ["There are two:", "- one that is long", "- another"]),
        ("# A heading\n- one\n\nA text\n- with a dash.\n", ["# A heading", "- one", "A text - with a dash."]),
    ],
)
def test_a_list_begins_after_a_sentence_and_not_inside_it(tmp_path, text, expected):
    assert [sentence for each in documents(tmp_path, text, text_layout="wrapped") for sentence in each] == expected


def test_wrapped_lines_are_joined_and_the_file_is_the_document(tmp_path):
    (document,) = documents(tmp_path, WRAPPED)
    assert len(document) == 3
    assert document[0].endswith("morning at Blazing Star, and the settlement awoke to a moral sense of cleanliness.")
    (document,) = documents(tmp_path, MARKDOWN)
    assert document[0] == "# Data" and len(document) == 12
    assert document[6].startswith("- The rain") and document[8].endswith("eyes cast down.")


def test_blank_line_after_each_line_divides_a_single_file_but_not_each_of_several(tmp_path):
    assert documents(tmp_path, SPACED)[:2] == [["The rain had ceased.", "He rose."], ["It was cold.", "He left."]]
    for name in ("b.txt", "c.txt"):
        (tmp_path / name).write_text(SPACED)
    first, second = find_sources(f"{tmp_path / 'b.txt'},{tmp_path / 'c.txt'}")
    (document,) = read_documents(first)
    assert document[:3] == ["The rain had ceased.", "He rose.", "It was cold."] and len(document) == 8
    assert first.layout == second.layout == "files"


def test_given_layout_is_used(tmp_path):
    assert documents(tmp_path, SPACED, text_layout="sentences")[0] == ["The rain had ceased. He rose."]
    assert len(documents(tmp_path, SENTENCES, text_layout="files")) == 1


def test_chinese_is_detected_and_split_at_its_own_full_stops(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("你好。我是谁？今天很好！再见。")
    (source,) = find_sources(path)
    assert source.language == "zh"
    assert list(read_documents(source)) == [["你好。", "我是谁？", "今天很好！", "再见。"]]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.replace(b"\n", b" \t \n"),
        lambda text: text.rstrip(b"\n"),
        lambda text: b"\n\n" + text.replace(b"\n\n", b"\n\n \n\n"),
    ],
)
def test_bom_line_ends_and_spaces_are_harmless(tmp_path, change):
    assert documents(tmp_path, change(SENTENCES.encode())) == documents(tmp_path, SENTENCES)


def test_unicode_line_separator_does_not_end_a_line(tmp_path):
    assert documents(tmp_path, "One\u2028line here.\nTwo.\nThree.\n", text_layout="sentences") == [
        ["One\u2028line here.", "Two.", "Three."]
    ]


def test_gzip_and_jsonl_are_read(tmp_path):
    packed = gzip.compress(SENTENCES.encode())
    assert documents(tmp_path, packed, "a.txt.gz") == documents(tmp_path, SENTENCES)
    lines = "".join(json.dumps({"text": text}) + "\n" for text in ("It rains. He left.\nGold!", "", "Two."))
    expected = [["It rains.", "He left.", "Gold!"], ["Two."]]
    assert documents(tmp_path, lines, "a.jsonl") == expected
    assert documents(tmp_path, gzip.compress(lines.encode()), "a.jsonl.gz") == expected
    assert documents(tmp_path, lines.replace("text", "body"), "b.jsonl", text_field="body") == expected


def test_folders_globs_and_lists_give_each_file_once_in_order(tmp_path):
    for name in ("b.txt", "a.txt", "deep/c.txt", ".hidden/d.txt", "LICENSE"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("A line.\n")
    paths = [source.path for source in find_sources(f"{tmp_path}/b.txt, {tmp_path},{tmp_path}/*.txt")]
    assert paths == [f"{tmp_path}/{name}" for name in ("b.txt", "a.txt", "deep/c.txt")]
    assert corpus.left_out(f"{tmp_path}/b.txt,{tmp_path}") == [f"{tmp_path}/LICENSE"]


def test_long_document_is_split_at_a_sentence():
    first, second = (letter * (MAX_DOCUMENT // 2) for letter in "xy")
    assert list(group_documents([first, second, "abc", None, None, "d"])) == [[first, second], ["abc"], ["d"]]


@pytest.mark.parametrize("layout", ["sentences", "paragraphs", "wrapped", "files"])
def test_very_long_line_is_read_in_chunks_without_loss(tmp_path, layout):
    generator = random.Random(1)
    words = [generator.choice(["rain", "gold.", "Star", "he", "left!"]) for _ in range(40_000)]
    result = documents(tmp_path, " ".join(words), text_layout=layout)
    if layout == "sentences":  # chunks may split a word
        assert "".join("".join(result[0]).split()) == "".join(words)
    else:
        assert " ".join(sentence for document in result for sentence in document).split() == words
        assert max(len(sentence) for document in result for sentence in document) < 2000


def test_text_without_sentence_ends_is_split():
    chunks = [("x" * 1000, False)] * 100 + [("", True)]
    sentences = list(iterate_sentences(chunks, layout="files"))
    assert sum(map(len, sentences)) == 100_000 and max(map(len, sentences)) <= 20_000


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.txt", b"fine\n" * 9 + b"a\0b", "byte 46 is NUL"),
        ("a.txt", b"fine\xff\xfe", "byte 4 is 0xff"),
        ("a.txt", b"x" * 70000 + b"\xe9t\xe9", "byte 70000 is 0xe9"),
        ("a.txt", b"cut off \xe6\x97", "byte 8"),
        ("a.txt", "text".encode("utf-16"), "UTF-16"),
        ("a.txt.gz", b"not gzip", "not a whole gzip file"),
        ("a.txt.gz", gzip.compress(b"word " * 9000, mtime=0)[:-20], "not a whole gzip file"),
        ("a.txt.gz", gzip.compress(b"word \xff" + b"word " * 9000, mtime=0)[:-20], "not a whole gzip file"),
        ("a.jsonl", b'{"text": "a"}\n{"text": \n', "line 2 is not JSON"),
        ("a.jsonl", b"[" * 100_000, r"line 1 is not JSON .it is nested too deeply."),
        ("a.jsonl", b'{"text": "a"}\n' + b"[" * 100_000, r"line 2 is not JSON .it is nested too deeply."),
        ("a.jsonl", b'{"body": "a", "id": 3}\n', r"line 1 .*its fields: body, id"),
        ("a.jsonl", b'["a"]\n', "it is a list"),
    ],
)
def test_invalid_file_is_named_with_the_position_of_the_error(tmp_path, name, content, message):
    with pytest.raises(UserError, match=message) as error:
        documents(tmp_path, content, name)
    assert str(tmp_path / name) in str(error.value)


@pytest.mark.parametrize(
    "pattern, message",
    [
        ("missing.txt", "No file matches"),
        ("missing/*.txt", "No file matches"),
        ("a.pdf", "unsupported extension"),
        ("*.pdf", "contains no .txt"),
        ("empty", "contains no .txt"),
    ],
)
def test_pattern_without_text_files_is_named(tmp_path, pattern, message):
    (tmp_path / "a.pdf").write_text("x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=message):
        find_sources(tmp_path / pattern)


def test_missing_input_and_unknown_layout_are_refused(tmp_path):
    with pytest.raises(UserError, match="no input"):
        find_sources(" , ")
    with pytest.raises(UserError, match="expected one of auto, sentences"):
        find_sources(tmp_path, text_layout="pages")


TOPIC = """The "if" statement
******************

The "if" statement is used for conditional execution of `suites`:

   if_stmt ::= "if" assignment_expression ":" suite
               ["else" ":" suite]

It selects exactly one of the suites by evaluating the expressions one
by one until one is true [2].  Then that suite is *executed*.

   >>> if x: print("A line of code, not of prose.")

+-----------+----------------------------------------------+
| Operator  | Description of the operator in a table here. |
+-----------+----------------------------------------------+

* A list item is prose too, when it is a sentence.
"""


def test_manual_keeps_prose_and_drops_code_grammar_tables_and_headings():
    assert list(python_manual({"if": TOPIC})) == [
        [
            'The "if" statement is used for conditional execution of suites:',
            "It selects exactly one of the suites by evaluating the expressions one by one until one is true.",
            "Then that suite is executed.",
            "A list item is prose too, when it is a sentence.",
        ]
    ]


def test_manual_of_this_python_has_no_duplicates():
    topics = list(python_manual())
    sentences = [sentence for topic in topics for sentence in topic]
    assert len(topics) > 40 and len(sentences) > 2000
    assert len(set(sentences)) == len(sentences)
    assert not any("::=" in sentence or ">>>" in sentence for sentence in sentences)
