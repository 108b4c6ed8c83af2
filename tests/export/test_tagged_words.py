"""Sentences that are split into words, by the command: files of them, and the rows of their tags."""

import json

import pytest
import quick_exports
import tensorflow as tf

from bert_tf.cli import main
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import prediction_inputs, tagged_words

LABELS = ("O", "B-LOC", "I-LOC")


def capitals(words):
    """The signature of a tagger: words that begin with a capital are places; the probability is 0.5."""
    is_place = tf.strings.regex_full_match(words, "[A-Z].*")
    tags = tf.where(is_place, "I-LOC", tf.where(words == "", "", "O"))
    return {"tags": tags, "scores": tf.where(words == "", 0.0, tf.fill(tf.shape(words), 0.5))}


def test_rows_have_tags_and_whole_words_as_entities():
    sentences = [["in", "New", "York", "."], [], ["", "n't", "Rome-born"]]
    examples = [Example(str(number), tuple(words)) for number, words in enumerate(sentences)]
    outputs = tagged_words.WordTagger(capitals).predict(examples)
    rows = [
        tagged_words.answered(example, {name: values[number] for name, values in outputs.items()}, LABELS).fields()
        for number, example in enumerate(examples)
    ]
    assert [row["tags"] for row in rows] == [["O", "I-LOC", "I-LOC", "O"], [], ["O", "O", "I-LOC"]]
    assert rows[0]["entities"] == [{"text": "New York", "label": "LOC", "start": 3, "end": 11, "score": 0.5}]
    assert rows[2]["scores"] == [1.0, 0.5, 0.5] and rows[2]["label"] == "Rome-born LOC"


def test_predict_tags_the_words_of_files(tmp_path, capsys):
    folder = tmp_path / "export"
    quick_exports.saved(folder, quick_exports.names, ("text", tf.string, []), labels=LABELS, words=capitals)
    (tmp_path / "a.jsonl").write_text('{"text": ["do", "n\'t", "Rome"], "n": 1}\n{"text": "in Ulm"}\n')
    (tmp_path / "a.txt").write_text("in Ulm\n\n")
    command = ["predict", str(folder), "--is_split_into_words"]
    for name, expected in (("a.jsonl", [["O", "O", "I-LOC"], ["O", "I-LOC"]]), ("a.txt", [["O", "I-LOC"], []])):
        assert main.main([*command, f"--file={tmp_path / name}", "--json"]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["tags"] for row in rows] == expected
    assert main.main([*command, "--text=in Ulm", f"--output={tmp_path / 'b.tsv'}"]) == 0
    assert (tmp_path / "b.tsv").read_text().splitlines()[1].split("\t")[1:3] == ["Ulm LOC", "O I-LOC"]


def test_a_number_is_no_word(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": ["a", 1]}\n')
    with pytest.raises(UserError, match=r"line 1 of .*a.jsonl there is \['a', 1\]; expected a list of words"):
        list(prediction_inputs.read_words(str(tmp_path / "a.jsonl"), "text"))
