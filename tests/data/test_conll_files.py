"""CoNLL columns: reading, writing one more column, texts of words, and errors in files."""

import json

import pytest

from bert_tf.data.conll_files import ColumnLayout, ConllFile, Sentence
from bert_tf.data.joined_words import join_words
from bert_tf.errors import UserError

FILE = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nsaid  VBD I-VP O\n\n\nParis NNP I-NP I-LOC\n \n"
FILE += "-DOCSTART- -X- O O\n\nJo NNP B I-PER\n"


def read(folder, content, **layout):
    path = folder / "some.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return ConllFile(str(path), ColumnLayout(**layout))


def test_sentences_documents_and_lines_are_read_and_a_column_is_added(tmp_path):
    file = read(tmp_path, FILE)
    assert file.sentences == [
        Sentence(("EU", "said"), ("I-ORG", "O"), 1, 3),
        Sentence(("Paris",), ("I-LOC",), 1, 7),
        Sentence(("Jo",), ("I-PER",), 2, 11),
    ]
    assert (file.scheme, file.exceptions) == ("iob1", [])
    file.write(str(tmp_path / "out.txt"), [["I-A", "O"], ["O"], ["I-B"]])
    assert (tmp_path / "out.txt").read_text() == (
        "-DOCSTART- -X- O O O\n\nEU NNP I-NP I-ORG I-A\nsaid  VBD I-VP O O\n\n\nParis NNP I-NP I-LOC O\n \n"
        "-DOCSTART- -X- O O O\n\nJo NNP B I-PER I-B\n"
    )
    file.write(str(tmp_path / "out.txt"), [["I-A", "O"]])
    assert (tmp_path / "out.txt").read_text().splitlines()[-1] == "said  VBD I-VP O O"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.txt", "some.txt"]


def test_columns_tabs_bom_and_crlf_are_handled(tmp_path):
    file = read(tmp_path, b"\xef\xbb\xbfB-LOC\tNew York\t1\r\nO\tis\t2\r\n", word_column=2, tag_column=1)
    assert file.sentences == [Sentence(("New York", "is"), ("B-LOC", "O"), 0, 1)]
    file.write(str(tmp_path / "out.txt"), [["O", "O"]])
    assert (tmp_path / "out.txt").read_text() == "B-LOC\tNew York\t1\tO\nO\tis\t2\tO\n"


def test_spaces_next_to_tabs_are_stripped(tmp_path):
    file = read(tmp_path, "a \tB-X\nb\tI-X \n")
    assert [(sentence.words, sentence.tags) for sentence in file.sentences] == [(("a", "b"), ("B-X", "I-X"))]


def test_file_of_words_alone_has_no_tags(tmp_path):
    file = read(tmp_path, "a\nb\n\nc\n")
    assert ([s.tags for s in file.sentences], file.scheme) == ([None, None], None)


def test_position_digits_are_removed_from_words_but_kept_in_the_file(tmp_path):
    file = read(tmp_path, "科0\tB-X.NAM\n技1\tI-X.NAM\n\n30\tO\n", position_digits=True)
    assert [s.words for s in file.sentences] == [("科", "技"), ("3",)]
    file.write(str(tmp_path / "out.txt"), [["O", "O"], ["O"]])
    assert (tmp_path / "out.txt").read_text().startswith("科0\tB-X.NAM\tO\n")


def test_words_are_joined_by_spaces_except_ideographs():
    assert join_words(["我", "，", "。", "あ", "a"])[0] == "我，。あ a"
    assert join_words(["我", "爱", "BERT", "", "!"]) == (
        "我爱 BERT  !",
        [(0, 1), (1, 2), (3, 7), (8, 8), (9, 10)],
    )


def test_comments_and_byte_order_marks_between_sentences_are_no_words(tmp_path):
    path = tmp_path / "some.txt"
    content = "# id = 1\n# text = a\n# O\na O\n\ufeff\n# a comment\n#b B-X\n\n# the end\n"
    path.write_text(content, encoding="utf-8")
    file = ConllFile(str(path), ColumnLayout())
    assert [(sentence.words, sentence.line) for sentence in file.sentences] == [(("#", "a"), 3), (("#b",), 7)]
    file.write(str(path), [["O", "O"], ["B-X"]])
    expected = content.replace("# O\na O\n", "# O O\na O O\n").replace("#b B-X", "#b B-X B-X")
    assert path.read_text(encoding="utf-8") == expected


@pytest.mark.parametrize(
    "content, layout, message",
    [
        ("a O\n# no word\n", {}, "Line 2 of .* has 3 columns"),
        ("", {}, r"some.txt contains no words"),
        ("\n-DOCSTART- O\n\n", {}, "contains no words"),
        ("a O\nb\n", {}, r"Line 2 of .*some.txt has 1 columns \('b'\); expected 2, as in line 1"),
        ("\na x O\nb O\n", {}, "Line 3 of .* has 2 columns .* expected 3, as in line 2"),
        ("a O\nb PER\n", {}, "The tag 'PER' in line 2 of .* does not fit IOB1, IOB2, BIOES, BMES or BILOU"),
        (
            "a I-X\nb O\n\nc O\nd B-X\n",
            {},
            "mixes schemes: it begins spans .* as .-X in line [15] and .-X in line [15]",
        ),
        ("a M-X\nb L-X\n", {}, "The tag 'L-X' in line 2 of .* the scheme of the tags before it"),
        ("a B-X\nb I\n", {}, "The tag 'I' in line 2 of"),
        ("a O\n", {"tag_column": 3}, "tag_column is 3, but line 1 of .* has 2 columns"),
        ("a O\n", {"word_column": 0}, "word_column is 0; expected 1 for the first"),
        ("科0 O\n技 O\n", {"position_digits": True}, "In line 2 of .* the word is '技', without a digit at its end"),
        (b"a O\nb\x81 O\n", {}, "not UTF-8: byte 2 of line 2"),
        ("a x O\n", {"word_column": 3}, "word_column 3 and tag_column -1 are the same of the 3 columns of"),
        ("a O\n", {"tag_column": -2}, "word_column 1 and tag_column -2 are the same"),
        ("a O\n\nb O\rc O\r", {}, "Line 3 of .* has a carriage return within"),
    ],
)
def test_error_is_reported_with_its_line(content, layout, message, tmp_path):
    with pytest.raises(UserError, match=message):
        read(tmp_path, content, **layout)


TABLES = {
    "a.jsonl": '{"tokens": ["Ann", "B. Lee", "sings"], "ner_tags": ["B-PER", "L-PER", "O"]}\n'
    '{"tokens": [], "ner_tags": []}\n{"tokens": ["Ulm"], "ner_tags": ["U-LOC"]}\n',
    "a.json": '[{"words": ["Ann", "B. Lee", "sings"], "tags": ["B-PER", "L-PER", "O"]}, {"words": [], "tags": []}, '
    '{"words": ["Ulm"], "tags": ["U-LOC"]}]',
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_words_and_tags_are_read_and_become_columns(tmp_path, name):
    (tmp_path / name).write_text(TABLES[name])
    file = ConllFile(str(tmp_path / name), ColumnLayout())
    assert [(s.words, s.tags, s.line) for s in file.sentences] == [
        (("Ann", "B. Lee", "sings"), ("B-PER", "E-PER", "O"), 1),
        (("Ulm",), ("S-LOC",), 3),
    ]
    assert (file.scheme, file.notation.name_of(file.scheme), file.has_documents) == ("bioes", "BILOU", False)
    assert file.place(file.sentences[1]) == f"row 3 of {file.path}"
    file.write(str(tmp_path / "out.txt"), [["O", "B-PER", "E-PER"], ["S-LOC"]])
    expected = "Ann\tB-PER\tO\nB. Lee\tL-PER\tB-PER\nsings\tO\tL-PER\n\nUlm\tU-LOC\tU-LOC\n\n"
    assert (tmp_path / "out.txt").read_text() == expected
    (tmp_path / "b.jsonl").write_text('{"tokens": ["a", "b"]}\n')
    words = ConllFile(str(tmp_path / "b.jsonl"), ColumnLayout())
    assert (words.scheme, words.sentences[0].tags) == (None, None)


@pytest.mark.parametrize(
    "row, message",
    [
        ({"text": "a b"}, "In line 2 of .* there is no list of words; expected one in tokens or words"),
        ({"tokens": ["a", 3]}, "In line 2 of .* there is no list of words"),
        ({"tokens": ["a"], "tags": [3]}, r"In line 2 of .* the tags are \[3\]; expected a list of names"),
        ({"tokens": ["a"], "tags": ["O", "O"]}, "one for each of the 1 words"),
        ({"tokens": ["a"]}, "In line 2 of .* there are no tags, unlike in the rows before it"),
        ({"tokens": ["a", "b"], "tags": ["O", "X"]}, "The tag 'X' in row 2 of"),
    ],
)
def test_row_without_words_and_tags_is_named(tmp_path, row, message):
    rows = [{"tokens": ["a"], "tags": ["B-X"]}, row]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match=message):
        ConllFile(str(tmp_path / "a.jsonl"), ColumnLayout())


def test_csv_of_a_word_per_row_is_read_by_sentences(tmp_path):
    content = 'Sentence #,Word,POS,Tag\nSentence: 1,Caf\xe9,NN,B-org\n,"""",.,O\nSentence: 2,x,.,O\n'
    (tmp_path / "ner_dataset.csv").write_bytes(content.encode("latin-1"))  # as the data set on Kaggle
    file = ConllFile(str(tmp_path / "ner_dataset.csv"), ColumnLayout())
    assert [(each.words, each.tags, each.line) for each in file.sentences] == [
        (("Café", '"'), ("B-org", "O"), 2),
        (("x",), ("O",), 4),
    ]
    (tmp_path / "no.csv").write_text("Word,Tag\na,O\n")
    with pytest.raises(UserError, match="no.csv needs the columns 'sentence #' and 'word', .* its columns: Word, Tag"):
        ConllFile(str(tmp_path / "no.csv"), ColumnLayout())


def test_predictions_are_written_as_the_file_writes_tags(tmp_path):
    file = read(tmp_path, "a B_X\nb M_X\nc E_X\nd O\n")
    assert (file.sentences[0].tags, file.scheme) == (("B-X", "I-X", "E-X", "O"), "bioes")
    file.write(str(tmp_path / "out.txt"), [["S-X", "O", "B-X", "E-X"]])
    assert (tmp_path / "out.txt").read_text() == "a B_X S_X\nb M_X O\nc E_X B_X\nd O E_X\n"
    (message,) = read(tmp_path, "a B\n\n" * 30 + "b I\n").warnings()
    assert "are not IOB2, the first is I in line 61" in message


def test_named_scheme_reads_mixed_tags(tmp_path):
    file = read(tmp_path, "a I-X\nb O\n\nc O\nd B-X\n", scheme="iob2")
    assert (file.scheme, file.exceptions, file.warnings()) == ("iob2", [], [])
    assert read(tmp_path, "a NN\n", scheme="plain").scheme == "plain"


def test_exceptional_tags_are_a_warning_with_the_first_line(tmp_path):
    file = read(tmp_path, "a B-X\n\n" * 30 + "b I-X\n")
    (message,) = file.warnings()
    assert message.startswith("1 tags of") and "are not IOB2, the first is I-X in line 61: read as conlleval" in message


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_tables_with_a_word_per_row_have_the_columns_of_simpletransformers(tmp_path, name):
    rows = [(0, "Ann", "B-PER"), (0, "sang", "O"), (1, "In", "O"), (1, "Ulm", "B-LOC")]
    names, separator = ("sentence_id", "words", "labels"), "," if name == "a.csv" else "\t"
    lines = [separator.join(map(str, row)) for row in (names, *rows)]
    if name == "a.jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    file = ConllFile(str(tmp_path / name), ColumnLayout())
    assert [(each.words, each.tags) for each in file.sentences] == [
        (("Ann", "sang"), ("B-PER", "O")), (("In", "Ulm"), ("O", "B-LOC"))
    ]  # fmt: skip
    part = file.part([1])
    assert [each.words for each in part.sentences] == [("In", "Ulm")] and len(file.sentences) == 2
    (tmp_path / "b.jsonl").write_text('{"sentence_id": 0, "words": null, "labels": "O"}\n')
    with pytest.raises(UserError, match="In line 1 of .*b.jsonl there is no word: correct or remove the row"):
        ConllFile(str(tmp_path / "b.jsonl"), ColumnLayout())
