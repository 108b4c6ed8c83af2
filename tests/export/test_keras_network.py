"""Numbers of a live model: the same for a row by itself, among others, in static shapes and with new weights."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.errors import UserError
from bert_tf.export.host import Row
from bert_tf.export.keras_network import KerasNetwork, saved_functions
from bert_tf.export.saved_network import SavedNetwork
from bert_tf.export.tensorflow_network import FEW_CALLS
from bert_tf.heads.masked_lm import lm_kind, mask_filling
from bert_tf.heads.vectors.vector_choice import VectorChoice, choose_layers
from bert_tf.model import heads, weights
from bert_tf.model.packing import SHARED

EARLIER = pathlib.Path(__file__).parents[1] / "fixtures" / "networks_of_an_earlier_version.tar.xz"
CONFIG = dataclasses.replace(tiny.CONFIG, max_position_embeddings=16)
RANDOM = np.random.default_rng(0)
ROWS = [Row(RANDOM.integers(5, 30, size).tolist(), [0] * size, [1, size - 1]) for size in (3, 16, 7, 2, 9)]
LAYERS = choose_layers("second_to_last,last", CONFIG.num_hidden_layers)
MODELS = {
    "texts": heads.Classifier(CONFIG, 3),
    "tags": heads.TokenClassifier(CONFIG, 5, crf=True),
    "questions": heads.SpanFinder(CONFIG),
    "masks": heads.Pretrainer(CONFIG),
    "vectors": heads.BertModel(CONFIG),
}


def network(stages, **options):
    """The network of a model with random weights."""
    model = MODELS[stages]
    weights.assign(model, tiny.random_weights(model))
    settings = {"stages": stages, "pad_id": 0, "max_positions": 16, **options.pop("settings", {})}
    if stages == "vectors":
        options["choice"] = VectorChoice(layers=LAYERS, max_seq_length=16)
    return KerasNetwork(model, "the model", settings, **options)


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, rows in expected.items():
        for row, values in zip(actual[name], rows, strict=True):
            np.testing.assert_allclose(row[: len(values)], values, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("stages", MODELS)
def test_rows_share_a_computation_without_effect(stages):
    found = network(stages)
    one_by_one = [found.numbers([row]) for row in ROWS]
    expected = {name: [numbers[name][0] for numbers in one_by_one] for name in one_by_one[0]}
    actual = found.numbers(ROWS)
    assert_same(actual, expected)
    if stages in ("tags", "questions", "vectors"):  # outputs of tokens have no padding
        name = next(name for name in actual if name != "potentials")
        assert [len(values) for values in actual[name]] == [len(row.ids) for row in ROWS]
    if stages != "masks":  # which have as many outputs as masks
        assert_same(network(stages, jit_compile="true").numbers(ROWS), expected)


@pytest.mark.parametrize(("encoder", "planner", "texts"), [("bert", SHARED, [1, 3, 1]), ("lstm", FEW_CALLS, [1, 2, 2])])
def test_many_rows_are_computed_in_several_calls(encoder, planner, texts):
    model = heads.TokenClassifier(dataclasses.replace(CONFIG, encoder=encoder), 5)
    weights.assign(model, tiny.random_weights(model))
    found = KerasNetwork(model, "the model", {"stages": "tags", "pad_id": 0, "max_positions": 16})
    lengths = [len(row.ids) for row in ROWS]
    assert found.planner is planner and len(planner.plan(lengths)) == 1
    expected = found.numbers(ROWS)
    found.planner = dataclasses.replace(planner, max_positions=20)
    assert [len(call.indices) for call in found.planner.plan(lengths)] == texts
    assert_same(found.numbers(ROWS), expected)
    assert found.numbers([]) == {}


def test_weights_are_those_of_the_model_when_it_is_asked():
    found = network("texts")
    before = found.numbers(ROWS[:1])["logits"][0]
    bias = MODELS["texts"].classifier.bias
    bias.assign_add([1.0, 2.0, 3.0])
    np.testing.assert_allclose(found.numbers(ROWS[:1])["logits"][0], before + [1, 2, 3], rtol=1e-5)


def test_the_maximum_of_windows_is_of_vectors():
    found = network("texts", settings={"windows": {"pooling": "max"}})
    numbers = found.numbers(ROWS)
    logits = network("texts").numbers(ROWS)["logits"]
    layer = MODELS["texts"].classifier
    np.testing.assert_allclose(np.stack(numbers["pooled"]) @ layer.kernel + layer.bias, np.stack(logits), atol=1e-5)


@pytest.mark.parametrize("jit_compile", ["false", "true"])
@pytest.mark.parametrize(
    "kind, message",
    [
        (tf.errors.ResourceExhaustedError, "5 rows of 16 tokens.*batch_size"),
        (tf.errors.InternalError, r"TensorFlow cannot compute the model \(OOM"),
    ],
)
def test_failures_of_tensorflow_are_one_sentence(monkeypatch, kind, message, jit_compile):
    found = network("texts", jit_compile=jit_compile)

    def fail(_):
        raise kind(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(found, "_function", fail)
    with pytest.raises(UserError, match=message):
        found.numbers(ROWS)


def test_positions_of_masks_are_those_of_the_graph():
    from bert_tf.export.host.masks import output_positions

    for encoder, is_causal in (("bert", False), ("bert", True), ("lstm", False)):
        config = dataclasses.replace(CONFIG, encoder=encoder, is_causal=is_causal)
        expected = mask_filling.output_positions(config, tf.constant([0, 1, 4])).numpy().tolist()
        assert output_positions(lm_kind(config), [0, 1, 4]) == expected


def saved(folder, functions, model):
    """The folder of a SavedModel with only these functions of a network."""
    module = tf.Module()
    module.network, module.weights = functions, [x.value for x in weights.variables_by_name(model).values()]
    tf.saved_model.save(module, str(folder))
    return str(folder)


@pytest.mark.parametrize("stages", MODELS)
def test_functions_of_an_export_return_the_same_numbers(stages, tmp_path):
    found, settings = network(stages), {"stages": stages, "pad_id": 0, "max_positions": 16}
    choice = VectorChoice(layers=LAYERS, max_seq_length=16) if stages == "vectors" else None
    folder = saved(tmp_path, saved_functions(MODELS[stages], settings, choice), MODELS[stages])
    expected = found.numbers(ROWS)
    for jit_compile in ("false", "true"):
        actual = SavedNetwork(folder, settings, jit_compile)
        assert actual.is_static == (jit_compile == "true" and stages != "masks")
        assert_same(actual.numbers(ROWS), expected)
        assert_same(actual.numbers(ROWS[:1]), found.numbers(ROWS[:1]))
        assert actual.zeros().keys() == expected.keys()


@pytest.mark.parametrize("stages", ["texts", "masks"])
def test_networks_of_an_earlier_version_return_the_same_numbers(stages, tmp_path):
    """fixtures/networks_of_an_earlier_version.tar.xz was written by commit 82a3d0d9: the functions of two exports.

    "packed" packs rows in its graph; of texts, "planned" takes the tables of rows. They returned `numbers.json`.
    """
    shutil.unpack_archive(EARLIER, tmp_path)
    settings = {"stages": stages, "pad_id": 0, "max_positions": 16}
    found = SavedNetwork(str(tmp_path / stages), settings)
    assert found.planner is (SHARED if stages == "texts" else FEW_CALLS)
    expected = json.loads((tmp_path / stages / "numbers.json").read_text())
    rows = [Row(**row) for row in expected.pop("rows")]
    assert_same(found.numbers(rows), expected)
    assert_same(found.numbers(rows[:1]), {name: values[:1] for name, values in expected.items()})
