"""DeBERTa's relative positions in every form, and what its files may say."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
import tiny
from safetensors.numpy import load_file, save_file

from bert_tf.checkpoints import formats, pretrained
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.huggingface_layouts import LAYOUTS
from bert_tf.errors import UserError
from bert_tf.families.deberta_v2 import layer as deberta_v2
from bert_tf.model import functional_bert, heads, replaced_tokens, weights
from bert_tf.model.packing import PackingSpec
from bert_tf.runtime.settings import Settings

OWN = {"share_att_key": False, "norm_rel_ebd": "none", "position_buckets": 0, "max_relative_positions": 5}
NEAR = {"conv_kernel_size": 5, "position_buckets": 4, "max_relative_positions": 9}
CASES = {
    "own vectors, no logarithms": OWN | {"position_biased_input": True},
    "queries alone": OWN | {"pos_att_type": "c2p"},
    "keys alone, near tokens": NEAR | {"pos_att_type": "p2c"},
}


def config_of(**settings):
    return dataclasses.replace(tiny.CONFIG, encoder="deberta_v2", num_hidden_layers=3, settings=settings)


def model_of(make=heads.BertModel, **settings):
    return tiny.randomized(make(config_of(**settings)))


def inputs(lengths=(11, 3, 7, 1)):
    ids = tf.random.stateless_uniform([len(lengths), 12], [1, 2], 5, 30, tf.int32)
    return {"token_ids": ids, "segment_ids": tf.zeros_like(ids), "lengths": tf.constant(lengths)}


def test_rows_by_distance_are_those_of_transformers():
    rows = deberta_v2.rows_by_distance(256, 512, 600)  # of every published model
    assert rows[600 + np.array([0, 1, 128, 129, 200, 300, 400, 511, 600])].tolist() == [
        256, 257, 384, 385, 425, 463, 489, 511, 511,
    ]  # fmt: skip
    assert (rows[600 - np.arange(500)] + rows[600 + np.arange(500)] == 512).all()
    assert deberta_v2.rows_by_distance(0, 3, 5).tolist() == [0, 0, 0, 1, 2, 3, 4, 5, 5, 5, 5]


@pytest.mark.parametrize("case", [*CASES][:1] + [pytest.param(case, marks=pytest.mark.slow) for case in [*CASES][1:]])
def test_packed_recomputed_and_textbook_forms_are_the_same_function(case):
    model = model_of(**CASES[case])
    used = tf.sequence_mask(inputs()["lengths"], 11, tf.float32)[:, :, None]

    def run(compute):
        with tf.GradientTape() as tape:
            tokens = compute()[:, :11] * used
            loss = tf.reduce_sum(tf.sin(tokens))
        gradients = tape.gradient(loss, list(weights.variables(model.encoder).values()))
        return [tokens, *(tf.convert_to_tensor(each) for each in gradients if each is not None)]

    plain = run(lambda: model(inputs())["tokens"])
    packed = tf.function(lambda: run(lambda: model(inputs(), packing=PackingSpec())["tokens"]))()
    model.encoder.gradient_checkpointing = True
    recomputed = run(lambda: model.encoder(inputs(), seed=tf.constant([1, 2]))["tokens"])
    for others in (packed, recomputed):
        for actual, expected in zip(others, plain, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)
    params = functional_bert.parameters({n: v.value for n, v in weights.variables_by_name(model).items()})
    for each in (inputs(), inputs() | tiny.in_one_row([11, 3, 7, 1], 12)):
        textbook = functional_bert.encode(params, model.config, each)[:, :11] * used
        np.testing.assert_allclose(textbook, plain[0], atol=1e-4)


def test_replaced_tokens_are_found_by_token_and_first_token(tmp_path):
    model = model_of(replaced_tokens.Discriminator)
    arrays = {name: value.numpy() for name, value in weights.variables(model).items()}
    tokens = model.encoder(inputs())["tokens"].numpy()
    x = tokens + tokens[:, :1]
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + tiny.CONFIG.layer_norm_eps)
    head = {name.removeprefix("replaced_token/"): array for name, array in arrays.items()}
    x = (x * head["norm/gamma"] + head["norm/beta"]) @ head["transform/kernel"] + head["transform/bias"]
    x = tf.nn.gelu(x, approximate=tiny.CONFIG.hidden_act == "gelu_tanh").numpy()
    expected = (x @ head["output_layer/kernel"] + head["output_layer/bias"])[..., 0]
    np.testing.assert_allclose(model(inputs())["replaced_token_logits"], expected, atol=1e-4)
    config = dataclasses.replace(model.config, hidden_act="gelu_erf")
    formats.write(Checkpoint(config=config, weights=arrays), tmp_path / "theirs", "huggingface")
    again = formats.read(tmp_path / "theirs")
    assert isinstance(pretrained.model_of(again), replaced_tokens.Discriminator)
    assert json.loads((tmp_path / "theirs" / "config.json").read_text())["architectures"] == ["DebertaV2Model"]
    np.testing.assert_array_equal(again.weights["replaced_token/norm/gamma"], head["norm/gamma"])


def published(folder, arrays, **settings):
    """A folder as its makers publish it."""
    folder.mkdir()
    values = LAYOUTS["deberta_v2"].config_values(config_of(**settings))
    (folder / "config.json").write_text(json.dumps({"model_type": "deberta-v2", **values}))
    save_file(arrays, folder / "model.safetensors")
    return formats.read(folder)


def test_heads_have_the_names_of_their_makers_and_are_left_out_where_they_compute_more(tmp_path):
    model = model_of(heads.Pretrainer)
    arrays = {name: value.numpy() for name, value in weights.variables(model).items()}
    formats.write(Checkpoint(config=model.config, weights=arrays), tmp_path / "legacy", "huggingface")
    theirs = load_file(tmp_path / "legacy" / "model.safetensors")
    theirs = {n.replace("cls.predictions.transform.", "lm_predictions.lm_head."): x for n, x in theirs.items()}
    theirs["lm_predictions.lm_head.bias"] = theirs.pop("cls.predictions.bias")
    named = published(tmp_path / "named", theirs)
    assert {n for n in named.weights if n.startswith("masked_lm/")} == {n for n in arrays if n.startswith("masked_lm/")}
    positions = {"deberta.embeddings.position_embeddings.weight": np.zeros([12, 16], np.float32)}
    enhanced = published(tmp_path / "enhanced", {**theirs, **positions})
    assert not any(n.startswith("masked_lm/") for n in enhanced.weights) and "enhanced" in enhanced.left_out[0]
    finder = {"mask_predictions.dense.weight": np.zeros([16, 16], np.float32)}
    assert "replaced tokens" in published(tmp_path / "finder", {**theirs, **finder}).left_out[0]


@pytest.mark.parametrize(
    "values, message",
    [
        ({"relative_attention": False}, "relative_attention is False"),
        ({"pos_att_type": "p2p"}, "pos_att_type is 'p2p'"),
        ({"conv_kernel_size": 4}, "conv_kernel_size is 4"),
        ({"attention_head_size": 3}, "attention_head_size is 3"),
        ({"pooler_hidden_size": 3}, "pooler_hidden_size is 3"),
    ],
)
def test_what_would_give_other_outputs_is_refused_by_name(values, message):
    known = {"vocab_size": 40, "hidden_size": 16, "num_attention_heads": 4, "relative_attention": True}
    given = Settings({**known, "pos_att_type": ["c2p", "p2c"], **values}, "config.json")
    with pytest.raises(UserError, match=f"{message}.*not supported"):
        LAYOUTS["deberta_v2"].config("deberta_v2", given)


def test_tokens_are_not_dropped_and_buckets_must_hold_all_distances():
    for buckets, most in ((1, 9), (8, 5)):
        with pytest.raises(UserError, match=f"position_buckets is {buckets} .* max_relative_positions {most}"):
            model_of(position_buckets=buckets, max_relative_positions=most)
    with pytest.raises(UserError, match="token_dropping .* encoder=deberta_v2"):
        model_of().encoder.configure_training(token_dropping=0.5)
