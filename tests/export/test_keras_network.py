"""Numbers of a live model: the same for a row by itself, among others, in static shapes and with new weights."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.errors import UserError
from bert_tf.export.host import Row
from bert_tf.export.keras_network import KerasNetwork, saved_functions
from bert_tf.export.tensorflow_network import RowFunctions, TensorFlowNetwork
from bert_tf.heads.masked_lm import lm_kind, mask_filling
from bert_tf.heads.vectors.vector_choice import VectorChoice, choose_layers
from bert_tf.model import heads, weights

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
    model = tiny.randomized(MODELS[stages])
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


def test_many_rows_pass_in_blocks():
    found = network("tags")
    lengths = [4000, 5000, 3000, 3000, 100]
    assert [len(lengths[block]) for block in found._blocks(lengths)] == [1, 1, 2, 1]
    expected, times = found.numbers(ROWS), 300
    assert len(list(found._blocks([len(row.ids) for row in ROWS * times]))) > 1
    assert_same(found.numbers(ROWS * times), {name: [*values] * times for name, values in expected.items()})
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
def test_failures_of_tensorflow_are_one_sentence(kind, message, jit_compile):
    def fail(_):
        raise kind(None, None, "OOM when allocating tensor")

    settings = {"stages": "texts", "pad_id": 0, "max_positions": 16}
    found = TensorFlowNetwork(RowFunctions(fail, fail, fail), "the model", settings, jit_compile)
    with pytest.raises(UserError, match=message):
        found.numbers(ROWS)


def test_positions_of_masks_are_those_of_the_graph():
    from bert_tf.export.host.masks import output_positions

    for encoder, is_causal in (("bert", False), ("bert", True), ("lstm", False)):
        config = dataclasses.replace(CONFIG, encoder=encoder, is_causal=is_causal)
        expected = mask_filling.output_positions(config, tf.constant([0, 1, 4])).numpy().tolist()
        assert output_positions(lm_kind(config), [0, 1, 4]) == expected


@pytest.mark.parametrize("stages", MODELS)
def test_functions_of_an_export_return_the_same_numbers(stages, tmp_path):
    found, settings = network(stages), {"stages": stages, "pad_id": 0, "max_positions": 16}
    choice = VectorChoice(layers=LAYERS, max_seq_length=16) if stages == "vectors" else None
    module = tf.Module()
    module.network = saved_functions(MODELS[stages], settings, choice)
    module.weights = {name: x.value for name, x in weights.variables_by_name(MODELS[stages]).items()}
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    packed = loaded.network["packed"]
    functions = RowFunctions(packed, packed, loaded.network.get("planned"))
    expected = found.numbers(ROWS)
    for jit_compile in ("false", "true"):
        actual = TensorFlowNetwork(functions, "the export", settings, jit_compile)
        assert_same(actual.numbers(ROWS), expected)
        assert_same(actual.numbers(ROWS[:1]), found.numbers(ROWS[:1]))
