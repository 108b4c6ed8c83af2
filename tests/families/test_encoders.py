"""Encoders that stand in the place of BERT's: what they see, what they learn, what they take from a checkpoint."""

import dataclasses
import pathlib
import re

import numpy as np
import pages
import pytest
import tensorflow as tf
import tiny
from training_steps import learner

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config import encoder_traits
from bert_tf.errors import UserError
from bert_tf.model import heads, weights
from bert_tf.model.packing import PackingSpec

OTHERS = ("bilstm_on_top", "lstm", "static")
ROW, CHANGED = [2, 7, 8, 9, 10, 3], [2, 7, 8, 20, 10, 3]


def model_of(encoder, make=heads.Pretrainer, *arguments):
    return tiny.randomized(make(dataclasses.replace(tiny.CONFIG, encoder=encoder), *arguments))


def changed(tokens):
    """Which tokens of the two rows differ."""
    return (np.abs(tokens[0] - tokens[1]).max(-1) > 1e-6).tolist()


def test_static_encoder_has_no_context():
    tokens = model_of("static").encoder(tiny.inputs_of([ROW, CHANGED], [6, 6]))["tokens"].numpy()
    assert changed(tokens) == [False, False, False, True, False, False]


def test_each_language_model_sees_its_own_side_only():
    inputs, encode = tiny.inputs_of([ROW, CHANGED], [6, 6]), model_of("lstm").encoder
    left, right = (
        encode(inputs, positions=tf.constant([range(side, 12, 2)] * 2))["tokens_at"].numpy() for side in (0, 1)
    )
    assert changed(left) == [False, False, False, True, True, True]
    assert changed(right) == [True, True, True, True, False, False]
    np.testing.assert_allclose(left + right, encode(inputs)["tokens"], atol=1e-6)


def test_bilstm_on_top_connects_all_tokens():
    outputs = model_of("bilstm_on_top").encoder(tiny.inputs_of([ROW, CHANGED], [6, 6]), return_hidden_states=True)
    assert changed(outputs["tokens"].numpy()) == [True] * 6
    assert np.abs(outputs["pooled"][0] - outputs["pooled"][1]).max() > 1e-3


@pytest.mark.parametrize("encoder", ("bert", *OTHERS))
def test_heads_read_the_last_of_the_configured_layers(encoder):
    model = model_of(encoder)
    outputs = model.encoder(tiny.inputs_of([ROW, CHANGED], [6, 6]), return_hidden_states=True)
    np.testing.assert_array_equal(outputs["hidden_states"][-1], outputs["tokens"])
    assert len(outputs["hidden_states"]) == 1 + model.config.layers_with_states


@pytest.mark.parametrize("encoder", OTHERS)
def test_padding_has_no_effect(encoder):
    encode = model_of(encoder).encoder
    short = encode(tiny.inputs_of([[2, 7, 3]], [3]))
    batch = tiny.inputs_of([[2, 7, 3, 0, 0, 0], ROW], [3, 6])
    for long in (encode(batch), tf.function(encode)(batch, packing=PackingSpec())):
        np.testing.assert_allclose(long["pooled"][:1], short["pooled"], atol=1e-5)
        np.testing.assert_allclose(long["tokens"][0, :3], short["tokens"][0], atol=1e-5)


@pytest.mark.parametrize("encoder", OTHERS)
@pytest.mark.parametrize("head", [lambda config: heads.Classifier(config, 3), heads.SpanFinder, heads.Pretrainer])
@pytest.mark.eager
def test_every_head_trains_on_every_encoder(encoder, head):
    model = model_of(encoder, head)
    inputs = {**tiny.inputs_of([ROW, CHANGED], [6, 6]), "masked_lm_positions": tf.constant([[1, 3], [2, 4]])}
    trained = weights.variables(model)

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            outputs = model(inputs, seed=tf.constant([1, 2]), packing=PackingSpec())
            loss = tf.add_n([tf.reduce_sum(tf.nn.log_softmax(x)[..., 0]) for x in outputs.values()])
        return tape.gradient(loss, list(trained.values()))

    gradient_of = dict(zip(trained, gradients(), strict=True))
    assert "encoder/embeddings/token_table" not in gradient_of or encoder != "static"
    of_encoder = [x for name, x in gradient_of.items() if name.startswith("encoder/") and "pooler" not in name]
    assert all(x is not None and float(tf.reduce_max(tf.abs(tf.convert_to_tensor(x)))) > 0 for x in of_encoder)
    assert of_encoder or encoder == "static"


def test_bert_weights_initialize_other_encoders_and_formats_refuse_them(tmp_path):
    bert = model_of("bert")
    arrays = tiny.random_weights(bert)
    for encoder, loaded in (("static", 3), ("bilstm_on_top", len([n for n in arrays if n.startswith("encoder/")]))):
        report = weights.assign(model_of(encoder, heads.Classifier, 2), arrays)
        assert len(report.loaded) == loaded, encoder
    config = dataclasses.replace(tiny.CONFIG, encoder="lstm")
    written = Checkpoint(config=config, weights=tiny.random_weights(model_of("lstm")))
    with pytest.raises(UserError, match="encoder 'lstm'.*native"):
        formats.write(written, str(tmp_path / "other"), "huggingface")
    formats.write(written, str(tmp_path / "native"), "native")
    again = formats.read(str(tmp_path / "native"))
    assert again.config == config and again.weights.keys() == written.weights.keys()


def test_outside_encoder_can_be_trained(tmp_path, monkeypatch):
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab" / "bag.py").write_text(pages.code("adding_an_encoder.md"))
    monkeypatch.syspath_prepend(str(tmp_path))
    config = dataclasses.replace(tiny.CONFIG, encoder="my_lab.bag")
    assert (config.layers_with_states, config.encoder_traits.pretraining) == (0, "masked")
    ours = learner(model_config=config)
    before = {name: variable.numpy() for name, variable in weights.variables(ours.model).items()}
    assert np.isfinite(ours.step(tiny.tensors(tiny.batch()))["gradient_norm"])
    for name in ("encoder/mixer/kernel", "encoder/table", "masked_lm/transform/kernel"):
        assert np.abs(weights.variables(ours.model)[name].numpy() - before[name]).max() > 0
    with pytest.raises(UserError, match="There is no encoder 'my_lab.gone'. Known: albert, bert, .*, static"):
        dataclasses.replace(tiny.CONFIG, encoder="my_lab.gone")


def test_no_module_compares_encoder_names():
    root = pathlib.Path(encoder_traits.__file__).parents[1]
    names = '"(bilstm_on_top|lstm|static)"'
    offenders = [path for path in root.rglob("*.py") if re.search(rf"(==|!=|in) \(?{names}", path.read_text())]
    assert offenders == []
