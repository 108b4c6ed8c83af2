"""PreprocessingLayer and EncoderLayer in models as TensorFlow Hub's tutorial builds them."""

import checkpoint_cases
import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.model import heads

TEXTS = np.array(["a b", "c d e", "f", ""])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    arrays = tiny.random_weights(heads.BertModel(tiny.CONFIG))
    stored = Checkpoint(config=tiny.CONFIG, weights=arrays, vocabulary=checkpoint_cases.PIECES, lower_case=True)
    path = tmp_path_factory.mktemp("layers") / "encoder"
    formats.write(stored, path, "native")
    return path


def test_texts_in_any_form(path):
    layer = bert_tf.PreprocessingLayer(path, seq_length=6)
    expected = {
        "input_word_ids": [[2, 5, 6, 3, 0, 0], [2, 7, 8, 9, 3, 0], [2, 10, 3, 0, 0, 0], [2, 3, 0, 0, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]],
        "input_type_ids": np.zeros([4, 6]),
    }
    for texts in (TEXTS, list(TEXTS), tuple(map(str, TEXTS)), tf.constant(TEXTS), tf.constant(TEXTS)[:, None]):
        keras.tree.map_structure(
            np.testing.assert_array_equal, layer(texts), {k: np.array(v) for k, v in expected.items()}
        )
    assert layer("a b")["input_word_ids"].shape == [6]
    pairs = layer([["a", "b c d e"], ["f", "g"]])
    assert pairs["input_word_ids"].numpy().tolist() == [[2, 5, 3, 10, 3, 0], [2, 6, 7, 3, 11, 3]]
    assert pairs["input_type_ids"].numpy().tolist() == [[0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1]]


@pytest.mark.slow
def test_the_model_of_the_tutorial_trains_and_is_saved_with_its_vocabulary(path, tmp_path):
    text_input = keras.Input((), dtype="string", name="text")
    encoder_inputs = bert_tf.PreprocessingLayer(path, seq_length=8, name="preprocessing")(text_input)
    outputs = bert_tf.EncoderLayer(path, trainable=True, name="BERT_encoder")(encoder_inputs)
    net = keras.layers.Dropout(0.1)(outputs["pooled_output"])
    model = keras.Model(text_input, keras.layers.Dense(1, name="classifier")(net))
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-3), loss, metrics=[keras.metrics.BinaryAccuracy()])
    before = model.predict(tf.constant(TEXTS), verbose=0)
    labels = np.array([0, 1, 1, 0], np.float32)
    model.fit(tf.data.Dataset.from_tensor_slices((TEXTS, labels)).batch(2), verbose=0)
    expected = model.predict(tf.constant(TEXTS), verbose=0)
    assert np.abs(expected - before).max() > 1e-4
    model.save(tmp_path / "first.keras")
    keras.models.load_model(tmp_path / "first.keras").save(tmp_path / "second.keras")
    again = keras.models.load_model(tmp_path / "second.keras")
    np.testing.assert_allclose(again.predict(tf.constant(TEXTS), verbose=0), expected, atol=1e-6)
    again.export(str(tmp_path / "exported"), verbose=False)
    exported = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_allclose(exported.serve(tf.constant(TEXTS)), expected, atol=1e-6)
    bert = bert_tf.load(tmp_path / "second.keras")  # its encoder
    assert bert.tokenizer.vocabulary[5] == "a"
    found = bert.model.encoder(bert_tf.PreprocessingLayer(bert, seq_length=8)(TEXTS))["pooled"]
    layer = again.get_layer("BERT_encoder")
    np.testing.assert_allclose(found, layer(again.get_layer("preprocessing")(TEXTS))["pooled_output"], atol=1e-6)


def test_outputs_have_the_names_of_tensorflow_hub(path):
    bert = bert_tf.load(path)
    rows = bert_tf.PreprocessingLayer(bert, seq_length=8)(TEXTS)
    expected = bert.model.encoder(rows, return_hidden_states=True)
    for layer in (bert_tf.EncoderLayer(bert), bert_tf.EncoderLayer(path)):
        found = layer(rows)
        assert found.keys() == {"default", "pooled_output", "sequence_output", "encoder_outputs"}
        np.testing.assert_allclose(found["pooled_output"], expected["pooled"], atol=1e-6)
        np.testing.assert_allclose(found["default"], expected["pooled"], atol=1e-6)
        np.testing.assert_allclose(found["sequence_output"], expected["tokens"], atol=1e-6)
        assert len(found["encoder_outputs"]) == 2
        np.testing.assert_allclose(found["encoder_outputs"][0], expected["hidden_states"][1], atol=1e-6)
    frozen = bert_tf.EncoderLayer(path, trainable=False)
    assert not frozen.trainable_variables and frozen.non_trainable_variables


def test_a_layer_without_its_source_is_an_error(path):
    layer = bert_tf.PreprocessingLayer.from_config(bert_tf.PreprocessingLayer(path).get_config())
    with pytest.raises(UserError, match="has no vocabulary"):
        layer(["a"])
    with pytest.raises(UserError, match="needs a path or a loaded model"):
        bert_tf.EncoderLayer()
