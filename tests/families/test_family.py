"""BERT's relatives against `transformers`: outputs, gradients, steps of training, and both ways of their checkpoints.

tests/goldens/make_family.py writes the numbers that are compared with.
"""

import dataclasses
import json
import pathlib

import golden_weights
import numpy as np
import pytest
import tensorflow as tf
import tiny
from safetensors.numpy import load_file, save_file

from bert_tf.checkpoints import formats, huggingface_layouts, pretrained
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.export import engine_models
from bert_tf.families.base.name_tables import expand
from bert_tf.model import base_encoder, functional_bert, heads, weights
from bert_tf.model.packing import PackingSpec

FOLDER = pathlib.Path(__file__).parents[1] / "goldens"
GOLDENS = np.load(FOLDER / "family.npz")
ABOUT = json.loads(str(GOLDENS["about"]))
INPUTS = ABOUT["inputs"]
ENCODERS = sorted(ABOUT.keys() - {"inputs", "versions"})
CLASSES = [(encoder, name) for encoder in ENCODERS for name in ABOUT[encoder]["classes"]]
PRETRAINED = [(encoder, name) for encoder, name in CLASSES if "losses" in ABOUT[encoder]["classes"][name]]
OUTPUTS = {  # of transformers -> ours
    "last_hidden_state": "tokens",
    "pooler_output": "pooled",
    "prediction_logits": "masked_lm_logits",
    "seq_relationship_logits": "next_sentence_logits",
    "sop_logits": "next_sentence_logits",
    "start_logits": "start_logits",
    "end_logits": "end_logits",
}


def theirs(encoder, name):
    """{their name: array} of a class."""
    shapes = ABOUT[encoder]["classes"][name]["weights"]
    return {weight: golden_weights.weight(weight, shape) for weight, shape in shapes.items()}


def load(folder, encoder, name):
    """The model of a folder as transformers would write it."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**ABOUT[encoder]["config"], "architectures": [name]}))
    save_file(theirs(encoder, name), folder / "model.safetensors")
    return formats.read(folder)


def model_of(checkpoint):
    model = pretrained.model_of(checkpoint)
    report = weights.assign(model, checkpoint.weights)
    assert not report.unused and not report.shape_mismatch
    assert all("pooler" in weight for weight in report.newly_initialized)
    return model


def inputs(**more):
    names = {"token_ids": "ids", "segment_ids": "segments", "lengths": "lengths"}
    return {ours: tf.constant(INPUTS[name]) for ours, name in names.items()} | more


@pytest.mark.parametrize("encoder, name", CLASSES)
def test_outputs_are_those_of_transformers_and_checkpoints_return(encoder, name, tmp_path):
    checkpoint = load(tmp_path / "theirs", encoder, name)
    model, is_choice = model_of(checkpoint), name.endswith("MultipleChoice")
    outputs = model({key: value[None] if is_choice else value for key, value in inputs().items()})
    ending = name.removeprefix(huggingface_layouts.LAYOUTS[encoder].classes)
    expected = {key.split("/")[2]: GOLDENS[key] for key in GOLDENS.files if key.startswith(f"{encoder}/{ending}/")}
    assert expected
    for key, value in expected.items():
        of_class = {"ForMaskedLM": "masked_lm_logits", "ForPreTraining": "replaced_token_logits"}
        default = of_class.get(ending, "logits")
        actual = outputs[OUTPUTS.get(key, default)].numpy()
        if actual.shape[1] == 8:
            used = np.arange(8) < np.array(INPUTS["lengths"])[:, None]
            actual, value = actual[used], value[used]
        np.testing.assert_allclose(actual, value, atol=2e-5, err_msg=key)
    written = dataclasses.replace(checkpoint, weights={n: v.numpy() for n, v in weights.variables(model).items()})
    assert formats.write(written, tmp_path / "ours", "huggingface") == []
    ours = load_file(tmp_path / "ours" / "model.safetensors")
    for weight, array in theirs(encoder, name).items():
        np.testing.assert_array_equal(ours[weight], array, err_msg=weight)
    values = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert values["architectures"] == [name]
    assert {key: values.get(key) for key in ABOUT[encoder]["config"]} == ABOUT[encoder]["config"] or "distil" in encoder
    again = formats.read(tmp_path / "ours")
    assert again.config == checkpoint.config and again.weights.keys() == written.weights.keys()


@pytest.mark.parametrize("encoder", ENCODERS)
def test_other_engines_get_the_same_function(encoder, tmp_path):
    """The classifier and the masked LM in the textbook form that other engines are given."""
    classes, prefix = ABOUT[encoder]["classes"], huggingface_layouts.LAYOUTS[encoder].classes
    pretrained_on = {
        "ForMaskedLM": ("masked_lm_logits", "logits"),
        "ForPreTraining": ("masked_lm_logits", "prediction_logits"),
        "ForTokenClassification": ("logits", "logits"),
    }
    masked_lm = next(ending for ending in pretrained_on if prefix + ending in classes)
    for ending, output, golden in (
        ("ForSequenceClassification", "logits", "logits"),
        (masked_lm, *pretrained_on[masked_lm]),
    ):
        checkpoint = load(tmp_path / ending, encoder, prefix + ending)
        head = engine_models.functional_form(checkpoint.kind, checkpoint.weights)
        every = {"masked_lm_positions": tf.tile(tf.range(8)[None], [2, 1])}
        params = functional_bert.parameters(checkpoint.weights)
        expected = GOLDENS[f"{encoder}/{ending}/{golden}"]
        used = np.arange(8) < np.array(INPUTS["lengths"])[:, None] if expected.shape[1] == 8 else slice(None)
        for tables in ({}, tiny.in_one_row(INPUTS["lengths"], 8)):
            actual = head.apply(params, checkpoint.config, inputs(**every, **tables))[output].numpy()
            np.testing.assert_allclose(actual[used], expected[used], atol=3e-5)


def masked_lm_inputs():
    labels = np.array(INPUTS["labels"])
    positions = [np.flatnonzero(row >= 0) for row in labels]
    table = np.array([np.pad(row, (0, 3 - len(row))) for row in positions])
    used = np.array([np.arange(3) < len(row) for row in positions])
    return table, np.where(used, np.take_along_axis(labels, table, 1), 0), used.astype(np.float32)


@pytest.mark.parametrize("encoder, name", PRETRAINED)
def test_gradients_and_steps_are_those_of_transformers(encoder, name, tmp_path):
    model = model_of(load(tmp_path / "theirs", encoder, name))
    golden, (positions, ids, used) = ABOUT[encoder]["classes"][name], masked_lm_inputs()
    trained = weights.variables(model)
    if hasattr(model, "dropout"):
        model.dropout.rate = 0.0

    def step():
        with tf.GradientTape() as tape:
            outputs = model(inputs(masked_lm_positions=tf.constant(positions, tf.int32)), seed=tf.constant([1, 2]))
            logits = outputs.get("masked_lm_logits")
            logits = tf.gather(outputs["logits"], positions, batch_dims=1) if logits is None else logits
            labels = ids % logits.shape[-1]
            loss = tf.reduce_sum(used * tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)) / used.sum()
            if "next_sentence_logits" in outputs:
                pairs = tf.constant(INPUTS["pair_labels"])
                pair_losses = tf.nn.sparse_softmax_cross_entropy_with_logits(pairs, outputs["next_sentence_logits"])
                loss += tf.reduce_mean(pair_losses)
        gradients = tape.gradient(loss, trained)
        gradients = {key: tf.convert_to_tensor(value) for key, value in gradients.items() if value is not None}
        for key, value in gradients.items():
            trained[key].assign_sub(INPUTS["rate"] * value)
        return loss, gradients

    first, gradients = step()
    losses = [float(first), *(float(step()[0]) for _ in golden["losses"][1:])]
    np.testing.assert_allclose(losses, golden["losses"], rtol=1e-5)
    names = expand(huggingface_layouts.LAYOUTS[encoder].names, model.config.num_hidden_layers)
    prefix = huggingface_layouts.LAYOUTS[encoder].prefix
    for key, value in gradients.items():
        norms = [golden["gradients"].get(prefix + n, golden["gradients"].get(n)) for n in names[key]]
        assert float(tf.norm(value)) == pytest.approx(np.linalg.norm(norms), rel=1e-3, abs=1e-5), key


def test_sinusoidal_positions_are_a_table_for_other_formats(tmp_path):
    config = dataclasses.replace(tiny.CONFIG, position_embedding_type="sinusoidal")
    model = heads.BertModel(config)
    arrays = tiny.random_weights(model)
    weights.assign(model, arrays)
    assert "encoder/embeddings/position_table" not in arrays
    formats.write(Checkpoint(config=config, weights=arrays), tmp_path / "theirs", "huggingface")
    again = formats.read(tmp_path / "theirs")
    table = again.weights["encoder/embeddings/position_table"]
    assert table[3, :2] == pytest.approx([np.sin(3), np.cos(3)]) and again.config == tiny.CONFIG
    packed = model.encoder(inputs(), packing=PackingSpec())["pooled"]
    np.testing.assert_allclose(packed, model_of(again)(inputs())["pooled"], atol=1e-5)
    with pytest.raises(UserError, match="The encoder lstm has no sinusoidal positions"):
        dataclasses.replace(config, encoder="lstm")
    with pytest.raises(UserError, match="embedding_size is 8, but the embeddings of the encoder bert are as wide"):
        dataclasses.replace(config, embedding_size=8)


def test_layers_that_share_weights_drop_other_numbers():
    config = dataclasses.replace(tiny.CONFIG, encoder="albert", num_hidden_layers=4, num_hidden_groups=2)
    encoder = base_encoder.create_encoder(config)
    layout = encoder.layout(inputs(), seed=tf.constant([1, 2]))
    layers, layouts = zip(*(encoder.layer_at(number, layout) for number in range(4)), strict=True)
    assert [encoder.layers.index(layer) for layer in layers] == [0, 0, 1, 1]
    assert len({tuple(each.seed.numpy().tolist()) for each in layouts}) == 4
    with pytest.raises(UserError, match="num_hidden_groups is 5; expected a whole number from 1 to 4"):
        dataclasses.replace(config, num_hidden_groups=5)


@pytest.mark.parametrize(
    "kind, message",
    [
        ("longformer", "nearest supported checkpoint is ModernBERT-base"),
        ("jina_bert", "nearest supported checkpoint is gte-modernbert-base"),
        ("other", "expected one of albert, .*roberta"),
    ],
)
def test_unknown_architecture_names_the_nearest_or_those_that_are_known(kind, message, tmp_path):
    jina = {"model_type": "bert", "architectures": ["JinaBertForMaskedLM"]}
    (tmp_path / "config.json").write_text(json.dumps(jina if kind == "jina_bert" else {"model_type": kind}))
    save_file({"a": np.zeros(2, np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=f"a model of type '{kind}', which is not supported: .*{message}"):
        formats.read(tmp_path)


def test_bias_by_distance_holds_in_packed_rows_and_is_trained_where_layers_are_computed_again():
    config = dataclasses.replace(
        tiny.CONFIG, encoder="mpnet", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    encoder = base_encoder.create_encoder(config)
    padded = encoder(inputs())["tokens"]
    packed = encoder(inputs(), packing=PackingSpec())["tokens"]
    used = np.arange(8) < np.array(INPUTS["lengths"])[:, None]
    np.testing.assert_allclose(padded.numpy()[used], packed.numpy()[used], atol=1e-5)

    def gradient():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(encoder(inputs(), seed=tf.constant([1, 2]))["tokens"][:, 0] ** 3)
        return tf.convert_to_tensor(tape.gradient(loss, encoder.relative_attention_bias.value))

    plain = gradient()
    encoder.gradient_checkpointing = True
    np.testing.assert_allclose(plain, gradient(), atol=1e-5)
    assert np.abs(plain).max() > 1e-4
    encoder.token_dropping = 0.5
    assert np.isfinite(gradient()).all()
