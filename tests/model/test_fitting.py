"""`compile`, `fit`, `evaluate` and `predict` of the models as users of Keras and of transformers call them."""

import collections
import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.model import crf, heads, weights

IDS = np.array([[2, 7, 8, 9, 3], [2, 10, 3, 0, 0], [2, 11, 12, 3, 0], [2, 13, 3, 0, 0]])
MASK = (IDS > 0).astype(int)
INPUTS = {"input_ids": IDS, "token_type_ids": np.zeros_like(IDS), "attention_mask": MASK}
CLASSES = np.array([0, 2, 1, 2])
TAGS = np.where(MASK > 0, IDS % 3, -100)


def made(model):
    weights.assign(model, tiny.random_weights(model))
    return model


def softmax_losses(logits, labels):
    shifted = logits - logits.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return -np.take_along_axis(logs, labels[..., None], -1)[..., 0]


def log1p_losses(logits, labels):
    return np.logaddexp(0, logits) - labels * logits


MULTI = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0], [0, 1, 0]])
NUMBERS = np.array([0.5, -1.0, 2.0, 0.0], np.float32)
SPANS = np.array([[1, 2], [1, 1], [0, 2], [1, 1]])


def span_loss(found):
    logits = [np.where(MASK > 0, found[f"{side}_logits"], -1e9) for side in ("start", "end")]
    return np.mean([softmax_losses(each, SPANS[:, side]).mean() for side, each in enumerate(logits)])


def crf_loss(found):
    likelihood = [
        crf.log_likelihood(row[None, :n], tags[None, :n], tf.constant([n], tf.int32), found["potentials"][0]).numpy()[0]
        for row, tags, n in zip(found["logits"], np.int32(TAGS), MASK.sum(-1), strict=True)
    ]
    return -np.sum(likelihood) / MASK.sum()


CASES = {  # model, labels, loss of its outputs
    "classes": (
        lambda: heads.Classifier(tiny.CONFIG, 3),
        CLASSES,
        lambda found: softmax_losses(found["logits"], CLASSES).mean(),
    ),
    "multi_label": (
        lambda: heads.Classifier(tiny.CONFIG, 3, kind="multi_label"),
        MULTI,
        lambda found: log1p_losses(found["logits"], MULTI).mean(),
    ),
    "regression": (
        lambda: heads.Regressor(tiny.CONFIG),
        NUMBERS,
        lambda found: ((found["values"] - NUMBERS) ** 2).mean(),
    ),
    "relevance": (
        lambda: heads.Regressor(tiny.CONFIG, kind="relevance"),
        np.array([0, 1, 1, 0]),
        lambda found: log1p_losses(found["values"], np.array([0, 1, 1, 0])).mean(),
    ),
    "tags": (
        lambda: heads.TokenClassifier(tiny.CONFIG, 3),
        TAGS,
        lambda found: softmax_losses(found["logits"], IDS % 3)[MASK > 0].mean(),
    ),
    "crf": (lambda: heads.TokenClassifier(tiny.CONFIG, 3, crf=True), TAGS, crf_loss),
    "span": (lambda: heads.SpanFinder(tiny.CONFIG), SPANS, span_loss),
    "masked_lm": (
        lambda: heads.Pretrainer(tiny.CONFIG),
        np.where(MASK > 0, IDS, -100),
        lambda found: softmax_losses(found["masked_lm_logits"], IDS)[MASK > 0].mean(),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_compile_without_arguments_has_the_loss_of_the_head(name):
    create, labels, loss = CASES[name]
    model = made(create())
    model.compile()
    expected = loss(model.predict(INPUTS, verbose=0))
    scores = model.evaluate(INPUTS, labels, verbose=0, return_dict=True)
    np.testing.assert_allclose(scores["loss"], expected, rtol=1e-4)
    history = model.fit(INPUTS, labels, batch_size=2, epochs=1, verbose=0).history
    assert history["loss"][0] > 0
    assert model.evaluate(INPUTS, labels, verbose=0, return_dict=True)["loss"] != scores["loss"]


def test_metrics_of_heads():
    names = {}
    for name, (create, labels, _) in CASES.items():
        model = made(create())
        model.compile()
        scores = model.evaluate(INPUTS, labels, verbose=0, return_dict=True)
        names[name] = sorted(scores.keys() - {"loss"})
        if name == "tags":
            best = model.predict(INPUTS, verbose=0).logits.argmax(-1)
            np.testing.assert_allclose(scores["accuracy"], (best == TAGS)[MASK > 0].mean(), rtol=1e-5)
    one = dict.fromkeys(("classes", "multi_label", "relevance", "tags", "crf"), ["accuracy"])
    assert names == {
        **one,
        "regression": ["mean_absolute_error"],
        "span": ["end_logits_accuracy", "start_logits_accuracy"],
        "masked_lm": [],
    }


def test_choices_are_fitted():
    ids = IDS.reshape(2, 2, 5)
    model = made(heads.MultipleChoice(tiny.CONFIG))
    model.compile()
    inputs = {"input_ids": ids, "attention_mask": MASK.reshape(2, 2, 5)}
    expected = softmax_losses(model.predict(inputs, verbose=0).logits, np.array([1, 0])).mean()
    np.testing.assert_allclose(model.evaluate(inputs, np.array([1, 0]), verbose=0)[0], expected, rtol=1e-4)


def test_labels_and_inputs_may_come_in_any_form():
    model, loss = made(heads.Classifier(tiny.CONFIG, 3)), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    rows = {**INPUTS, "labels": CLASSES}
    one_hot = np.eye(3, dtype="float32")[CLASSES]
    found = []
    for options, inputs, labels in [
        ({"loss": loss}, INPUTS, CLASSES),
        ({"loss": loss}, collections.UserDict(INPUTS), CLASSES[:, None]),
        ({"loss": {"logits": loss}}, {name: value.tolist() for name, value in INPUTS.items()}, CLASSES.tolist()),
        ({"loss": loss}, INPUTS, {"logits": CLASSES}),
        ({}, INPUTS, {"labels": CLASSES}),
        ({}, rows, None),
        ({}, tf.data.Dataset.from_tensor_slices((INPUTS, CLASSES)).batch(2), None),
        ({}, INPUTS, one_hot),
    ]:
        model.compile(**options, metrics=["accuracy"])
        found.append(model.evaluate(inputs, labels, verbose=0))
    np.testing.assert_allclose(found, [found[0]] * len(found), rtol=1e-5)


def test_weights_of_classes_and_rows_change_the_loss():
    model = made(heads.Classifier(tiny.CONFIG, 3))
    model.compile(optimizer=keras.optimizers.SGD(0.0))
    model.dropout.rate = 0.0
    losses = softmax_losses(model.predict(INPUTS, verbose=0).logits, CLASSES)
    by_class = {0: 3.0, 1: 2.0, 2: 0.5}
    found = model.fit(INPUTS, CLASSES, class_weight=by_class, verbose=0).history["loss"][0]
    np.testing.assert_allclose(found, (losses * [by_class[label] for label in CLASSES]).mean(), rtol=1e-4)
    rows = np.array([0, 1, 2, 3])
    scores = model.evaluate(INPUTS, CLASSES, sample_weight=rows, verbose=0)
    np.testing.assert_allclose(scores[0], (losses * rows).sum() / 3, rtol=1e-4)
    tagger = made(heads.TokenClassifier(tiny.CONFIG, 3))
    tagger.compile()
    losses = softmax_losses(tagger.predict(INPUTS, verbose=0).logits, IDS % 3)
    expected = (losses * MASK * rows[:, None]).sum() / MASK[1:].sum()
    scores = tagger.evaluate(INPUTS, TAGS, sample_weight=rows, verbose=0)
    np.testing.assert_allclose(scores[0], expected, rtol=1e-4)


def test_labels_of_spans_may_have_the_names_of_transformers():
    model = made(heads.SpanFinder(tiny.CONFIG))
    model.compile()
    expected = model.evaluate(INPUTS, SPANS, verbose=0)
    sides = {"start_positions": SPANS[:, 0], "end_positions": SPANS[:, 1]}
    for inputs, labels in [({**INPUTS, **sides}, None), (INPUTS, sides), (INPUTS, (SPANS[:, 0], SPANS[:, 1]))]:
        np.testing.assert_allclose(model.evaluate(inputs, labels, verbose=0), expected, rtol=1e-5)


def test_a_keras_file_keeps_kind_and_compilation(tmp_path):
    model = made(heads.Classifier(tiny.CONFIG, 3, kind="multi_label"))
    model.compile()
    model.fit(INPUTS, MULTI, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert (loaded.kind, type(loaded.optimizer).__name__) == ("multi_label", "AdamW")
    assert int(loaded.optimizer.iterations) == 1
    np.testing.assert_allclose(
        loaded.evaluate(INPUTS, MULTI, verbose=0), model.evaluate(INPUTS, MULTI, verbose=0), rtol=1e-6
    )


def test_texts_are_an_error_with_advice():
    model = heads.Classifier(dataclasses.replace(tiny.CONFIG, num_hidden_layers=1), 3)
    model.compile()
    for inputs, labels in [(["a text"], [0]), (INPUTS, ["x", "y", "z", "x"])]:
        with pytest.raises(TypeError, match="PreprocessingLayer"):
            model.fit(inputs, labels)
    with pytest.raises(AttributeError, match="returns logits, not hidden_states"):
        _ = model.predict(INPUTS, verbose=0).hidden_states


def test_callbacks_and_mixed_precision(tmp_path):
    model = made(heads.Classifier(tiny.CONFIG, 3, dtype="mixed_bfloat16"))
    model.compile(metrics=["accuracy"])
    best = keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="val_accuracy", save_best_only=True)
    stop = keras.callbacks.EarlyStopping("val_accuracy", patience=1, restore_best_weights=True)
    held_out = ({name: value.tolist() for name, value in INPUTS.items()}, CLASSES.tolist())
    history = model.fit(INPUTS, CLASSES, validation_data=held_out, epochs=2, callbacks=[best, stop], verbose=0).history
    assert {"loss", "val_loss", "accuracy", "val_accuracy"} == history.keys()
    found = keras.models.load_model(tmp_path / "best.keras").predict(INPUTS, verbose=0)["logits"]
    assert found.shape == (4, 3)
