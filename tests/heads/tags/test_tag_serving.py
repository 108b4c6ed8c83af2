"""The export of a tagger: given words as in a predicted file, entities of raw texts as slices of them, in C too."""

import device_graphs
import numpy as np
import pytest
import tensorflow as tf
from tagging_cases import FILE, TAG_SET, TOKENIZER, model_of, predicted_by, task_of

from bert_tf.data import tag_schemes
from bert_tf.data.examples import Example
from bert_tf.export import opening
from bert_tf.export.saved_model import export

pytestmark = pytest.mark.slow

TEXTS = [
    "The fox saw Jo-Anna, from PARIS.",
    "",
    "  new york -- 科技, \u200b ",
    " ".join(["we met Joanna in new York ."] * 9),
    "\u200b",
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The task and the folder of its export."""
    folder = tmp_path_factory.mktemp("tagging")
    (folder / "some.txt").write_text(FILE)
    task, folder = task_of(str(folder / "some.txt")), str(folder / "export")
    model = model_of(task)
    export(
        task,
        model,
        TOKENIZER,
        folder,
        examples=task.head.training.serving_examples(task.split("dev")),
        about={"labels": TAG_SET.labels},
    )
    return task, folder


def test_export_runs_on_any_device(exported):
    device_graphs.assert_runs_anywhere(exported[1])


def test_export_tags_given_words_like_file_prediction(exported):
    task, folder = exported
    (words,) = task.head.training.serving_examples(task.split("dev"))["words"].values()
    served = tf.saved_model.load(folder).signatures["words"](words=tf.constant([*words, [""] * len(words[0])]))
    tags = [[tag.decode() for tag in row] for row in served["tags"].numpy()]
    labels, probabilities = task.head.word_predictions(predicted_by(task)[1], task.split("dev"))
    for row, (sentence, numbers, scores) in enumerate(zip(words, labels, probabilities, strict=True)):
        assert tags[row] == [TAG_SET.labels[n] for n in numbers] + [""] * (len(sentence) - len(numbers))
        np.testing.assert_allclose(served["scores"][row, : len(scores)], scores, atol=1e-5)
    assert tags[3][0] == "O" and set(tags[-1]) == {""}


def entities(answers, row):
    names = ("texts", "labels", "starts", "ends")
    return list(zip(*(np.array(answers[name][row])[: answers["counts"][row]].tolist() for name in names), strict=True))


def test_export_finds_entities_as_slices_of_texts_of_any_length(exported):
    _, folder = exported
    signatures = tf.saved_model.load(folder).signatures
    served = {name: x.numpy() for name, x in signatures["serving_default"](text=tf.constant(TEXTS)).items()}
    words = ["the", "fox", "saw", "Jo-Anna", ",", "from", "PARIS", "."]
    tags = [tag.decode() for tag in signatures["words"](words=tf.constant([words]))["tags"].numpy()[0]]
    text, positions = TEXTS[0], [(0, 3), (4, 7), (8, 11), (12, 19), (19, 20), (21, 25), (26, 31), (31, 32)]
    expected = [
        (
            text[positions[first][0] : positions[end - 1][1]].encode(),
            kind.encode(),
            positions[first][0],
            positions[end - 1][1],
        )
        for kind, first, end in tag_schemes.tags_to_spans(tags)
    ]
    assert entities(served, 0) == expected and expected
    assert served["counts"][[1, 4]].tolist() == [0, 0] and served["counts"][3] > 9
    for row, text in enumerate(TEXTS):
        for entity, kind, start, end in entities(served, row):
            assert entity == text[start:end].encode() != b"" and kind in (b"LOC", b"PER")
    in_static_shapes = opening.open_model(folder, "tensorflow", jit_compile="true")
    actual = in_static_shapes.predict([Example("0", (text,)) for text in TEXTS])
    assert actual["texts"].tolist() == [[text.decode() for text in row] for row in served["texts"]]
    np.testing.assert_allclose(actual["scores"], served["scores"], atol=1e-5)
    (tags,) = in_static_shapes.word_tagger.predict([Example("0", ("\u200b", ""))])["tags"]
    assert tags[0] == "O"
    nothing = signatures["serving_default"](text=tf.constant([], tf.string))
    assert nothing["counts"].shape == nothing["texts"].shape[:1] == (0,)
