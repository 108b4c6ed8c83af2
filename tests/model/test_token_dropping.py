"""Token dropping: which tokens are kept, and that the middle layers see them alone."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import UserError
from bert_tf.model import attention, heads, weights
from bert_tf.model.batch_layout import BatchLayout
from bert_tf.model.packing import PackingSpec
from bert_tf.model.token_dropping import KeptTokens

DEEP = dataclasses.replace(tiny.CONFIG, num_hidden_layers=5)
SEED = tf.constant([1, 2])
PACKED = tf.constant([[1, 1, 1, 2, 2, 2, 2, 3, 3, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]])


def layout_of(kind, seed=SEED):
    if kind == "packed":
        return BatchLayout.packed(PACKED, heads=4, dtype="float32", seed=seed)
    return BatchLayout.padded(tf.constant([12, 5]), 12, heads=4, dtype="float32", seed=seed)


def encoder_of(config=DEEP, dropped=0.5):
    model, _ = tiny.pretrainer(config)
    model.encoder.token_dropping = dropped
    return model.encoder


@pytest.mark.parametrize(
    ("layers", "expected"), [(1, []), (2, []), (3, [1]), (4, [1, 2]), (6, [2, 3, 4]), (12, [5, 6, 7, 8, 9, 10])]
)
def test_the_first_layers_and_the_last_one_see_all_tokens(layers, expected):
    assert list(dataclasses.replace(DEEP, num_hidden_layers=layers).middle_layers) == expected


@pytest.mark.eager
@pytest.mark.parametrize("kind", ["padded", "packed"])
def test_needed_tokens_are_kept_first_and_padding_last(kind):
    needed = [1, 4, 7, 12, 15]
    real = np.flatnonzero(layout_of(kind).text_numbers)
    kept = [
        KeptTokens.draw(layout_of(kind, tf.constant([1, number])), tf.constant(needed), 0.4) for number in range(20)
    ]
    for each in kept:
        places = each.places.numpy()
        assert each.layout.width == 8 and places.shape == (16,), "12 positions without int(0.4 * 12)"
        assert (np.diff(places) > 0).all() and (places[:8] < 12).all() and (places[8:] >= 12).all()
        assert set(needed) <= set(places)
        for row in range(2):
            mine, all_mine = ([x for x in each_set if x // 12 == row] for each_set in (places, real))
            assert set(all_mine) <= set(mine) if len(all_mine) <= 8 else set(mine) <= set(all_mine)
        numbers = layout_of(kind).text_numbers.numpy().ravel()[places]
        assert each.layout.text_numbers.numpy().ravel().tolist() == numbers.tolist()
    assert len({each.places.numpy().tobytes() for each in kept}) > 10, "each pass draws others"


@pytest.mark.eager
@pytest.mark.parametrize(
    ("kind", "encoder"), [("padded", "bert"), ("packed", "bert"), ("packed", "pre_ln_bert"), ("padded", "causal")]
)
def test_middle_layers_see_the_kept_tokens_alone(kind, encoder):
    """Against all tokens in all layers, with a mask that hides the dropped ones, which stay as they were."""
    changes = {"is_causal": True} if encoder == "causal" else {"encoder": encoder}
    ours = encoder_of(dataclasses.replace(DEEP, **changes))
    is_causal = ours.config.is_causal
    layout, needed = layout_of(kind), tf.constant([0, 3, 5, 12, 14])
    if is_causal:
        mask = attention.padding_mask(tf.constant([12, 5]), 12, is_causal=True)
        layout = dataclasses.replace(layout, mask=mask)
    x = tf.constant(np.random.default_rng(0).normal(size=(24, 16)).astype(np.float32))
    kept = KeptTokens.draw(layout, needed, 0.5, is_causal=is_causal).places
    is_kept = np.isin(np.arange(24), kept)
    hidden = tf.constant(np.where(is_kept, 0, attention.MASK_BIAS).reshape(2, 1, 1, 12), tf.float32)
    used = [variable.value for layer in ours.layers for variable in layer.trainable_variables]

    def plain(x):
        for number, layer in enumerate(ours.layers):
            is_middle = number in DEEP.middle_layers
            layer_layout = dataclasses.replace(layout, mask=tf.minimum(layout.mask, hidden)) if is_middle else layout
            y = layer(x, layout=layer_layout)[0]
            x = tf.where(is_kept[:, None], y, x) if is_middle else y
        return tf.gather(ours.after_layers(x, layout), needed)

    results = []
    for function in (plain, lambda x: ours._through_layers(x, layout, needed)[0][-1]):
        with tf.GradientTape() as tape:
            tape.watch([x, *used])
            y = function(x)
            loss = tf.reduce_sum(tf.sin(y))
        results.append([y, *map(tf.convert_to_tensor, tape.gradient(loss, [x, *used]))])
    for expected, actual in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, atol=2e-4)


@pytest.mark.parametrize("jit_compile", [None, True])
def test_only_training_drops_and_a_graph_drops_as_eager_mode_does(jit_compile):
    config = dataclasses.replace(DEEP, num_hidden_layers=3)
    model, arrays = tiny.pretrainer(config)
    inputs = tiny.tensors(tiny.batch())
    full = model(inputs)["masked_lm_logits"]
    model.encoder.token_dropping = 0.5
    np.testing.assert_array_equal(model(inputs)["masked_lm_logits"], full)
    dropped = model(inputs, seed=SEED)["masked_lm_logits"]
    assert np.abs(dropped - full).max() > 1e-3
    compiled = tf.function(lambda: model(inputs, seed=SEED), jit_compile=jit_compile, autograph=False)
    np.testing.assert_allclose(compiled()["masked_lm_logits"], dropped, atol=1e-4)
    if not jit_compile:
        again = heads.Pretrainer(config, dtype="mixed_bfloat16")
        weights.assign(again, arrays)
        again.encoder.token_dropping, again.encoder.gradient_checkpointing = 0.5, True
        np.testing.assert_allclose(again(inputs, seed=SEED)["masked_lm_logits"], dropped, atol=0.5)
        assert model(inputs, seed=SEED, packing=PackingSpec())["masked_lm_logits"].shape == full.shape


def test_encoders_without_middle_layers_are_refused():
    for changes in ({"num_hidden_layers": 2}, {"encoder": "static"}):
        encoder = heads.Pretrainer(dataclasses.replace(DEEP, **changes)).encoder
        with pytest.raises(UserError, match="token_dropping needs three or more of BERT's layers"):
            encoder.configure_training(token_dropping=0.5)
    with pytest.raises(UserError, match="token_dropping is 1; expected 0 or more, below 1"):
        TrainConfig(token_dropping=1)
