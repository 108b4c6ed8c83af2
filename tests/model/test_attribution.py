"""Integrated gradients: completeness, and the plain sum over a fine path of the Keras model's own gradients."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.errors import UserError
from bert_tf.model import attribution, functional_bert, heads, weights

CONFIG = dataclasses.replace(tiny.CONFIG, num_hidden_layers=1)
CLS, SEP, MASK, PAD = 2, 3, 4, 0
INPUTS = {
    "token_ids": tf.constant([[CLS, 9, MASK, 12, SEP, PAD], [CLS, 8, MASK, 11, 17, SEP]]),
    "segment_ids": tf.constant([[0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1]]),
    "lengths": tf.constant([5, 6]),
}
MODELS = {
    "classes": lambda: heads.Classifier(CONFIG, 3),
    "number": lambda: heads.Regressor(CONFIG),
    "masks": lambda: heads.Pretrainer(CONFIG),
    "questions": lambda: heads.SpanFinder(CONFIG),
}


def model_of(kind):
    return tiny.randomized(MODELS[kind]())


def attributed(model):
    @tf.function(autograph=False)
    def compute():
        return attribution.integrated_gradients(model, INPUTS, mask_id=MASK, kept_ids=(CLS, SEP, MASK, PAD))

    return {name: value.numpy() for name, value in compute().items()}


@pytest.mark.parametrize("kind", MODELS)
def test_attributions_sum_to_the_difference_of_outputs(kind):
    found = attributed(model_of(kind))
    difference = found["outputs"] - found["baseline_outputs"]
    assert (abs(difference) > 0.01).all(), "there is something to explain"
    np.testing.assert_allclose(found["attributions"].sum(1), difference, atol=2e-3, rtol=2e-3)
    is_kept = np.isin(INPUTS["token_ids"], (CLS, SEP, MASK, PAD))
    assert not found["attributions"][is_kept].any() and (found["attributions"][~is_kept] != 0).all()


def test_outputs_are_those_of_the_model_and_of_a_masked_row():
    model = model_of("classes")
    found = attributed(model)
    masked = {
        **INPUTS,
        "token_ids": tf.constant([[CLS, MASK, MASK, MASK, SEP, PAD], [CLS, MASK, MASK, MASK, MASK, SEP]]),
    }
    rows = np.arange(2)
    logits = model(INPUTS)["logits"].numpy()
    assert found["targets"].tolist() == logits.argmax(1).tolist()
    np.testing.assert_allclose(found["outputs"], logits.max(1), atol=1e-5)
    np.testing.assert_allclose(
        found["baseline_outputs"], model(masked)["logits"].numpy()[rows, found["targets"]], atol=1e-5
    )


def test_attributions_match_a_plain_sum_over_a_fine_path():
    model = model_of("classes")
    found = attributed(model)
    params = functional_bert.parameters({n: v.value for n, v in weights.variables_by_name(model).items()})
    table = params["encoder/embeddings/token_table"].numpy()
    ids = INPUTS["token_ids"].numpy()
    end, start = table[ids], table[np.where(np.isin(ids, (CLS, SEP, MASK, PAD)), ids, MASK)]

    @tf.function(autograph=False)
    def gradient(words):
        with tf.GradientTape() as tape:
            tape.watch(words)
            outputs = functional_bert.TEXTS.apply(params, CONFIG, {**INPUTS, "word_vectors": words})
            value = tf.gather(outputs["logits"], found["targets"], batch_dims=1)
        return tape.gradient(value, words)

    points = (np.arange(100) + 0.5) / 100  # the midpoint rule
    total = np.mean([gradient(tf.constant(start + point * (end - start), tf.float32)) for point in points], 0)
    np.testing.assert_allclose(found["attributions"], (total * (end - start)).sum(-1), atol=2e-3)


def test_models_without_a_prediction_to_explain_are_refused():
    tagger = heads.TokenClassifier(CONFIG, 3)
    static = heads.Classifier(dataclasses.replace(CONFIG, encoder="static"), 2)
    for model, name in ((tagger, "TokenClassifier on bert"), (static, "Classifier on static")):
        assert not attribution.explains(model)
        with pytest.raises(UserError, match=f"BERT with a head .*; this model is {name}"):
            attributed(model)
