"""`bert_tf.load`: the methods of a loaded model against the commands and the heads it has."""

import dataclasses

import checkpoint_cases
import numpy as np
import pytest
import tensorflow as tf
import tiny
from tensorflow.python.framework import ops as registry

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.cli import main
from bert_tf.errors import UserError
from bert_tf.heads.base.answers import Tag
from bert_tf.model import heads

TEXTS = ["a b c", "d e f g h i j k l m n o", "", "x"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Checkpoints with the heads of each task."""
    folder = tmp_path_factory.mktemp("api")
    checkpoint_cases.write(folder / "pretrained", heads.Pretrainer(tiny.CONFIG))
    checkpoint_cases.write(folder / "classes", heads.Classifier(tiny.CONFIG, 3), ["x", "y", "z"], "classes")
    checkpoint_cases.write(folder / "tags", heads.TokenClassifier(tiny.CONFIG, 3), ["O", "B-LOC", "I-LOC"], "tags")
    checkpoint_cases.write(folder / "span", heads.SpanFinder(tiny.CONFIG), kind="span")
    checkpoint_cases.write(folder / "several", heads.Classifier(tiny.CONFIG, 3), ["x", "y", "z"], "multi_label")
    checkpoint_cases.write(folder / "number", heads.Regressor(tiny.CONFIG), kind="regression")
    return folder


def test_encoder_without_a_head_embeds(folder):
    checkpoint_cases.write(folder / "encoder", heads.Pretrainer(tiny.CONFIG))
    checkpoint = formats.read(folder / "encoder")
    weights = {name: array for name, array in checkpoint.weights.items() if name.startswith("encoder/")}
    formats.write(dataclasses.replace(checkpoint, weights=weights), folder / "bare", "native")
    np.testing.assert_array_equal(
        bert_tf.load(folder / "bare").embed(TEXTS), bert_tf.load(folder / "encoder").embed(TEXTS)
    )


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("classes", lambda bert: bert.predict(TEXTS)),
        ("tags", lambda bert: bert.entities(TEXTS)),
        ("span", lambda bert: bert.answer("a b", "c d e")),
        ("pretrained", lambda bert: bert.fill_mask("a [MASK] b")),
        ("pretrained", lambda bert: bert.embed(TEXTS)),
    ],
)
def test_answers_leave_nothing_behind_that_tensorflow_keeps_for_good(folder, name, ask):
    before = set(registry.gradient_registry.list())
    ask(bert_tf.load(folder / name))
    assert set(registry.gradient_registry.list()) == before


@pytest.mark.slow
def test_embed_equals_the_extract_command(folder, capsys):
    source = folder / "pretrained"
    model = bert_tf.load(source)
    for options, flags in (({}, []), ({"pooling": "cls", "layers": "-1,-2", "normalize": True}, ["--pooling=cls"])):
        vectors = model.embed(TEXTS, **options)
        (folder / "texts.txt").write_text("\n".join(TEXTS) + "\n")
        if flags:
            flags += ["--layers=-1,-2", "--normalize"]
        command = [
            "extract",
            str(source),
            "--unit=sentence",
            f"--file={folder}/texts.txt",
            "--max_seq_length=12",
            *flags,
        ]
        assert main.main([*command, f"--output={folder}/vectors.npz", "--overwrite"]) == 0
        with np.load(folder / "vectors.npz") as arrays:
            expected = next(array for array in arrays.values() if array.ndim > 1)
        np.testing.assert_allclose(vectors, expected.reshape(len(TEXTS), -1), atol=1e-5)
    count = model._source.extractor.cache_info().currsize
    np.testing.assert_allclose(model.embed("x"), model.embed(TEXTS)[3], atol=1e-5)
    assert model._source.extractor.cache_info().currsize <= count + 1, "each traces a graph anew"
    assert model.embed([]).shape == (0, tiny.CONFIG.hidden_size)
    capsys.readouterr()


def test_fill_mask_returns_tokens_for_each_mask(folder):
    first, second = bert_tf.load(folder / "pretrained").fill_mask("a [MASK] b [MASK]")
    assert len(first) == len(second) == 10
    assert [token.probability for token in first] == sorted((token.probability for token in first), reverse=True)
    assert {token.token for token in first} <= set(checkpoint_cases.PIECES)


def test_predict_returns_labels_in_the_order_of_the_texts(folder):
    model = bert_tf.load(folder / "classes")
    predictions = model.predict(TEXTS, batch_size=2)
    for text, prediction in zip(TEXTS, predictions, strict=True):
        assert set(prediction.probabilities) == {"x", "y", "z"}
        assert sum(prediction.probabilities.values()) == pytest.approx(1, abs=1e-5)
        assert prediction.label == max(prediction.probabilities, key=prediction.probabilities.get)
        assert model.predict(text).probabilities == pytest.approx(prediction.probabilities, abs=1e-5)
    assert isinstance(bert_tf.load(folder / "number").predict("a b").value, float)


def test_each_of_several_labels_has_the_sigmoid_of_its_logit(folder):
    model = bert_tf.load(folder / "several")
    prediction = model.predict("a b c")
    ids = np.array([model.tokenizer.encode("a b c")])
    expected = 1 / (1 + np.exp(-model.model({"token_ids": ids})["logits"].numpy()[0]))
    assert list(prediction.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
    assert prediction.label == ",".join(np.array(["x", "y", "z"])[expected > 0.5])


@pytest.mark.slow
def test_attributions_sum_to_the_difference_of_logits(folder):
    classifier = bert_tf.load(folder / "classes")
    explained = classifier.attribute(("a b c", "d e"))
    assert explained.tokens == ["[CLS]", "a", "b", "c", "[SEP]", "d", "e", "[SEP]"]
    assert sum(explained.scores) == pytest.approx(explained.output - explained.baseline, abs=3e-3)
    assert [score == 0 for score in explained.scores] == [token[0] == "[" for token in explained.tokens]
    assert explained.target == classifier.predict(("a b c", "d e")).label
    with pytest.raises(UserError, match="BERT with a head for classes"):
        bert_tf.load(folder / "tags").attribute("a b")


def test_attributions_of_a_list_are_those_of_each_text(folder):
    classifier = bert_tf.load(folder / "classes")
    found = classifier.attribute(["a b", "d"])
    assert [each.tokens for each in found] == [["[CLS]", "a", "b", "[SEP]"], ["[CLS]", "d", "[SEP]"]]
    assert [each.target for each in found] == [each.label for each in classifier.predict(["a b", "d"])]
    (pair,) = classifier.attribute([("a", "d")])
    assert pair.tokens == ["[CLS]", "a", "[SEP]", "d", "[SEP]"]
    assert classifier.attribute([]) == []


def test_labels_without_names_are_numbered_everywhere(folder, tmp_path):
    path = checkpoint_cases.write(tmp_path / "unnamed", heads.Classifier(tiny.CONFIG, 3))
    names = ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert main.main(["export", str(path), str(tmp_path / "export"), "--engine=onnx"]) in (None, 0)
    for model in (
        bert_tf.load(path),
        *(bert_tf.load(tmp_path / "export", engine=name) for name in ("tensorflow", "onnx")),
    ):
        prediction = model.predict("a b c")
        assert list(prediction.probabilities) == list(prediction.fields()["probabilities"]) == model.labels == names
        assert prediction.label == max(prediction.probabilities, key=prediction.probabilities.get)
        frame = model.predict(["a b c"], as_frame=True)
        assert list(frame.columns) == ["label", *(f"probability {name}" for name in names)]
    assert bert_tf.load(folder / "number").labels is None


def test_labels_that_are_set_name_answers_and_files(folder, tmp_path):
    model, before = bert_tf.load(folder / "classes"), bert_tf.load(folder / "classes").predict("a b c")
    model.labels = ["one", "two", "three"]
    found = model.predict("a b c")
    assert (
        found.label
        == model.labels[["x", "y", "z"].index(before.label)]
        == max(found.probabilities, key=found.probabilities.get)
    )
    assert list(found.probabilities) == ["one", "two", "three"]
    model.save(tmp_path / "saved")
    model.export(tmp_path / "export", engines="none")
    for path in ("saved", "export"):
        assert bert_tf.load(tmp_path / path).predict("a b c").label == found.label
    (before,) = {each.label for each in bert_tf.load(folder / "tags").entities("a b c d")}
    tagger = bert_tf.load(folder / "tags")
    tagger.labels = ["O", "B-PLACE", "I-PLACE"]
    assert before == "LOC" and {each.label for each in tagger.entities("a b c d")} == {"PLACE"}
    assert {each.tag for each in tagger.tags(["a", "b"])} <= {*tagger.labels}
    for labels in (["a", "b"], ["a", "a", "b"], []):
        model.labels = labels
        with pytest.raises(UserError, match="has 3: set as many different names"):
            model.predict("a")


def test_path_of_another_kind_of_file_is_an_error(folder, tmp_path):
    with pytest.raises(UserError, match="m.h5; expected the path of a folder, or of a .keras file"):
        bert_tf.load(folder / "classes").save(tmp_path / "m.h5")
    assert not (tmp_path / "m.h5").exists()


def test_methods_use_the_current_weights(folder):
    model = bert_tf.load(folder / "classes")
    model.predict("a")
    model.model.classifier.kernel.assign(0 * model.model.classifier.kernel)
    model.model.classifier.bias.assign([0.0, 9.0, 0.0])
    assert model.predict("a").label == "y"


def test_entities_and_answers_are_slices_of_the_text(folder):
    text = "a b c d e f"
    tagger = bert_tf.load(folder / "tags")
    single, (several, _) = tagger.entities(text), tagger.entities([text, "x"])
    assert single == several
    assert all(text[entity.start : entity.end] == entity.text and entity.label == "LOC" for entity in single)
    answer = bert_tf.load(folder / "span").answer("x y z w v", text)
    assert answer.text and set(answer.text) & set("xyzwv") == set(), "not a part of the question"
    assert text[answer.start : answer.end] == answer.text == answer.n_best[0].text
    assert sum(each.probability for each in answer.n_best) == pytest.approx(1, abs=1e-4)


def test_several_questions_or_texts_have_several_answers(folder):
    reader = bert_tf.load(folder / "span")
    for questions, texts in ((["a", "b"], "c d"), ("a", ["c d", "e"]), (["a", "b"], np.array(["c d", "e"]))):
        pairs = zip(
            ["a", "a"] if questions == "a" else questions, ["c d"] * 2 if isinstance(texts, str) else texts, strict=True
        )
        alone = [reader.answer(question, str(text)).text for question, text in pairs]
        assert [answer.text for answer in reader.answer(questions, texts)] == alone


def test_any_iterable_of_texts_is_several(folder):
    classifier, tagger = bert_tf.load(folder / "classes"), bert_tf.load(folder / "tags")
    texts = ["a b", "c d"]
    expected = classifier.predict(texts)
    for several in (np.array(texts), tf.data.Dataset.from_tensor_slices(texts), (text for text in texts)):
        assert classifier.predict(several) == expected
    assert len(tagger.entities(np.array(texts))) == len(tagger.tags(np.array([["a", "b"], ["c", "d"]]))) == 2
    assert bert_tf.load(folder / "pretrained").embed(iter(texts)).shape == (2, tiny.CONFIG.hidden_size)
    assert len(bert_tf.load(folder / "pretrained").fill_mask(np.array(["[MASK]", "a"]))) == 2


def test_frames_have_the_index_of_the_texts(folder):
    pandas = pytest.importorskip("pandas")
    texts = pandas.Series(["a b c", "d e f"], index=[7, 9], name="review")
    classifier, tagger = bert_tf.load(folder / "classes"), bert_tf.load(folder / "tags")
    frame, expected = classifier.predict(texts, as_frame=True), classifier.predict(list(texts))
    assert list(frame.index) == [7, 9]
    assert list(frame.columns) == ["label", "probability x", "probability y", "probability z"]
    assert list(frame["probability y"]) == [each.probabilities["y"] for each in expected]
    assert list(classifier.predict("a", as_frame=True).index) == [0]
    assert list(bert_tf.load(folder / "number").predict(texts, as_frame=True).columns) == ["label", "value"]
    entities, found = tagger.entities(texts, as_frame=True), tagger.entities(texts)
    assert list(entities.index) == [number for number, each in zip(texts.index, found, strict=True) for _ in each]
    assert list(entities["text"]) == [entity.text for each in found for entity in each]
    levels = pandas.MultiIndex.from_tuples([("p", 1), ("q", 2)], names=["page", "line"])
    of_levels = tagger.entities(pandas.Series(list(texts), index=levels), as_frame=True)
    assert of_levels.index.names == ["page", "line"] and len(of_levels) == len(entities)
    assert list(of_levels.index.get_level_values("line")) == [{7: 1, 9: 2}[number] for number in entities.index]
    assert list(tagger.entities([], as_frame=True).columns) == list(entities.columns)
    vectors = classifier.embed(texts, as_frame=True)
    np.testing.assert_array_equal(vectors.loc[9], classifier.embed(texts)[1])
    answers = bert_tf.load(folder / "span").answer("a", texts, as_frame=True)
    assert list(answers.columns) == ["text", "start", "end", "probability"] and list(answers.index) == [7, 9]


def test_repr_is_short(folder):
    model = bert_tf.load(folder / "classes")
    assert repr(model) == f"<Bert {folder / 'classes'}: Classifier of x, y, z; bert, 2 layers of 16, 30 tokens>"


def test_words_that_are_split_are_tagged_one_by_one(folder):
    tagger = bert_tf.load(folder / "tags")
    sentences = [["a", "b-c", "d"], [], ["", "e"], ["f"] * 30]
    several = tagger.tags(sentences, batch_size=2)
    assert [[tag.word for tag in tags] for tags in several] == sentences
    for words, tags in zip(sentences, several, strict=True):
        assert not words or [tag.tag for tag in tagger.tags(words)] == [tag.tag for tag in tags]
    assert several[2][0] == Tag(word="", tag="O", probability=1.0)
    entities = tagger.entities(sentences, is_split_into_words=True)
    for words, tags, found in zip(sentences, several, entities, strict=True):
        covered = " ".join(words[i] for i, tag in enumerate(tags) if tag.tag != "O")
        assert covered == " ".join(entity.text for entity in found)
        assert all(" ".join(words)[entity.start : entity.end] == entity.text for entity in found)


@pytest.mark.slow
def test_words_that_are_split_give_what_their_text_gives(folder):
    classes, span = bert_tf.load(folder / "classes"), bert_tf.load(folder / "span")
    rows = [["a", "b"], ["c"], []]
    assert classes.predict(rows, is_split_into_words=True) == classes.predict(["a b", "c", ""])
    assert classes.predict(["a", "b"], is_split_into_words=True).label == classes.predict("a b").label
    np.testing.assert_array_equal(classes.embed(rows, is_split_into_words=True), classes.embed(["a b", "c", ""]))
    assert span.answer(["a"], ["b", "c"], is_split_into_words=True) == span.answer("a", "b c")
    with pytest.raises(UserError, match="lists of words; got 'a b'"):
        classes.predict("a b", is_split_into_words=True)


@pytest.mark.parametrize(
    ("name", "call", "message"),
    [
        ("pretrained", lambda model: model.predict("a"), r"does not support predict: use fill_mask\(text\)"),
        ("classes", lambda model: model.fill_mask("a"), r"does not support fill_mask: use predict\(texts\)"),
        ("tags", lambda model: model.answer("a", "b"), r"use entities\(text\)"),
        ("classes", lambda model: model.entities("a"), r"does not support entities: use predict\(texts\)"),
        ("classes", lambda model: model.tags(["a"]), r"does not support tags: use predict\(texts\)"),
        ("tags", lambda model: model.zero_shot("a", ["b"]), r"does not support zero_shot: use entities\(text\)"),
        ("classes", lambda model: model.predict(("a", "b", "c")), "3 texts were given .* takes 1 to 2"),
        ("classes", lambda model: model.predict(["a", ("b", "c")]), "Text 1 has 2 texts, the first has"),
        ("classes", lambda model: model.predict(["a", None]), "Text 1 is None; expected a string"),
        ("classes", lambda model: model.predict(3), "The text is 3; expected a string, or several"),
        ("classes", lambda model: model.embed(["a", "\ud83d"]), "Text 1 is not Unicode"),
        ("tags", lambda model: model.entities(["a", float("nan")]), "Text 1 is nan; expected a string"),
        ("tags", lambda model: model.tags([["a"], None]), "'None' as text 1"),
        ("span", lambda model: model.answer(["a", None], "b"), "Question 1 is None; expected a string"),
        ("span", lambda model: model.answer(["a", "b", "c"], ["d", "e"]), "3 questions and 2 texts; expected"),
        ("classes", lambda model: model.embed("a", pooling="best"), "pooling is 'best'; expected one of cls"),
    ],
)
def test_wrong_calls_are_explained(folder, name, call, message):
    with pytest.raises(UserError, match=message):
        call(bert_tf.load(folder / name))


def test_checkpoint_without_head_or_vocabulary_says_so(folder, tmp_path):
    headless = checkpoint_cases.write(tmp_path / "headless", heads.BertModel(tiny.CONFIG))
    with pytest.raises(UserError, match=r"has no head: use embed\(texts\)"):
        bert_tf.load(headless).predict("a")
    assert bert_tf.load(headless).embed("a").shape == (tiny.CONFIG.hidden_size,)
    assert bert_tf.load(headless).embed([]).shape == (0, tiny.CONFIG.hidden_size)
    (headless / "vocab.txt").unlink()
    with pytest.raises(UserError, match="has no vocab.txt"):
        bert_tf.load(headless).embed("a")
