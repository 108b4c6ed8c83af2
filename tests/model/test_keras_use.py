"""Models used as Keras users use them: `fit`, `training=True`, inputs of other libraries, `.keras` files."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
import warm

from bert_tf.extras.paper.bilstm_tagger import BiLstmTagger
from bert_tf.heads.vectors.vector_choice import FEATURES
from bert_tf.model import heads
from bert_tf.model.inputs import complete
from bert_tf.training.distribute import create_strategy

DROPPING = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.3}
MODELS = {
    "encoder": lambda config: heads.BertModel(config),
    "pre-training": lambda config: heads.Pretrainer(config),
    "classes": lambda config: heads.Classifier(config, 3, window_pooling="max"),
    "number": lambda config: heads.Regressor(config),
    "choice": lambda config: heads.MultipleChoice(config),
    "span": lambda config: heads.SpanFinder(config),
    "tags": lambda config: heads.TokenClassifier(config, 5),
    "frozen vectors": lambda config: BiLstmTagger(config, 5, list(FEATURES)[-1], 2, 8),
}


def config(**changes):
    return dataclasses.replace(tiny.CONFIG, **changes)


def rows(count=4):
    token_ids = np.arange(1, 1 + 6 * count).reshape(count, 6) % 20 + 5
    token_ids[0, 4:] = 0
    return {"token_ids": token_ids}


def inputs_of(name):
    if name == "choice":
        return {"token_ids": rows()["token_ids"].reshape(2, 2, 6)}
    if name == "frozen vectors":
        return {
            "vectors": np.random.rand(2, 3, 2, tiny.CONFIG.hidden_size).astype("float32"),
            "lengths": np.array([3, 2]),
        }
    return rows()


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_callable_and_round_trips_through_a_keras_file(name, tmp_path):
    model, inputs = MODELS[name](config()), inputs_of(name)
    expected = model(inputs)
    model.encoder.seed_of(None, True)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    keras.tree.map_structure(np.testing.assert_array_equal, loaded(inputs), expected)
    np.testing.assert_array_equal(loaded.encoder.seed_of(None, True), model.encoder.seed_of(None, True))


def test_dropout_is_active_in_training_only():
    model = heads.Classifier(config(**DROPPING), 3)
    first, second = (model(rows(), training=True)["logits"].numpy() for _ in range(2))
    assert np.abs(first - second).max() > 1e-4
    np.testing.assert_array_equal(model(rows())["logits"], model(rows(), training=False)["logits"])
    seed = tf.constant([1, 2])
    np.testing.assert_array_equal(model(rows(), seed=seed, training=True)["logits"], model(rows(), seed=seed)["logits"])
    encoder = model.encoder
    assert np.abs(encoder(rows(), training=True)["pooled"] - encoder(rows())["pooled"]).max() > 1e-4


def test_initial_weights_do_not_depend_on_dropout_seeds():
    keras.utils.set_random_seed(3)
    expected = keras.random.normal([2], seed=keras.random.SeedGenerator())
    keras.utils.set_random_seed(3)
    heads.BertModel(config(num_hidden_layers=0)).encoder.seed_of(None, True)
    keras.utils.set_random_seed(3)
    np.testing.assert_array_equal(keras.random.normal([2], seed=keras.random.SeedGenerator()), expected)


def test_huggingface_names_and_missing_inputs_give_the_same_outputs():
    ids = rows()["token_ids"]
    lengths = np.array([4, 6, 6, 6])
    mask = (np.arange(6) < lengths[:, None]).astype(np.int64)
    model = heads.BertModel(config())
    expected = model({"token_ids": ids, "segment_ids": np.zeros_like(ids), "lengths": lengths})["pooled"]
    for inputs in (
        ids,
        {"token_ids": ids},
        {"input_ids": ids, "token_type_ids": np.zeros_like(ids), "attention_mask": mask},
        {"token_ids": ids, "padding_mask": mask},
        {"token_ids": ids, "lengths": lengths},
    ):
        np.testing.assert_array_equal(model(inputs)["pooled"], expected)
    segments = np.tile([0, 0, 1, 1, 1, 1], (4, 1))
    other = model({"input_ids": ids, "token_type_ids": segments})["pooled"]
    assert np.abs(other - expected).max() > 1e-5


def test_inputs_without_token_ids_are_refused():
    with pytest.raises(ValueError, match=r"Got the inputs ids, lengths; expected token_ids \(or input_ids\)"):
        complete({"ids": [[1]], "lengths": [1]})


def test_all_positions_are_predicted_without_masked_positions():
    model = heads.Pretrainer(config())
    everywhere = model(rows())["masked_lm_logits"]
    some = model({**rows(), "masked_lm_positions": tf.constant([[1, 3]] * 4)})["masked_lm_logits"]
    np.testing.assert_allclose(tf.gather(everywhere, [1, 3], axis=1), some, atol=1e-5)


def fitted(strategy, policy="float32", validates=True, **options):
    with strategy.scope():
        keras.utils.set_random_seed(5)
        model = heads.Classifier(config(num_hidden_layers=1, **DROPPING), 2, dtype=policy)
        loss = {"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
        model.compile(keras.optimizers.Adam(1e-2), loss=loss, metrics={"logits": "accuracy"}, **options)
    labels = rows(8)["token_ids"][:, 1] % 2
    data = tf.data.Dataset.from_tensor_slices((rows(8), {"logits": labels})).batch(4)
    history = model.fit(data, epochs=6, verbose=0, validation_data=data if validates else None)
    return model, data, history.history["loss"]


@pytest.mark.slow
def test_compiled_fit_trains():
    _, _, losses = fitted(tf.distribute.get_strategy(), validates=False, jit_compile=True)
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_fit_trains_with_dropout_and_evaluate_and_predict_without():
    model, data, losses = fitted(tf.distribute.get_strategy(), jit_compile=False)
    assert losses[-1] < losses[0]
    assert model.evaluate(data, verbose=0, return_dict=True) == model.evaluate(data, verbose=0, return_dict=True)
    predictions = model.predict(data, verbose=0)["logits"]
    np.testing.assert_allclose(predictions, model(rows(8))["logits"], atol=1e-5)


@pytest.mark.slow
def test_fit_works_under_a_strategy_in_mixed_precision():
    strategy = create_strategy("mirrored", num_logical_devices=2)
    model, _, losses = fitted(strategy, "mixed_bfloat16", validates=False, jit_compile=False)
    assert strategy.num_replicas_in_sync == 2
    assert np.isfinite(losses).all() and losses[-1] < losses[0]
    assert model.encoder.seed_of(None, True).shape == [2]


def test_keras_file_loads_after_importing_the_models(tmp_path):
    model = heads.Classifier(config(), 2)
    model.save(tmp_path / "model.keras")
    program = (
        "import keras, sys; import bert_tf.model.heads; print(type(keras.models.load_model(sys.argv[1])).__name__)"
    )
    assert warm.run("-c", program, tmp_path / "model.keras").stdout == "Classifier\n"
