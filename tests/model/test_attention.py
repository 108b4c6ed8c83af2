"""Scaled dot-product attention: against NumPy, its masks, and that another kernel can take its place."""

import dataclasses

import numpy as np
import oracle
import pytest
import tensorflow as tf
import tiny

from bert_tf.model import attention, functional_bert

pytestmark = pytest.mark.optimized_graphs

LENGTHS = np.array([4, 2, 6], np.int32)


def numpy_attention(query, key, value, visible, scale):
    """Attention query by query, in float64."""
    context, probabilities = np.zeros(query.shape), np.zeros([*query.shape[:3], key.shape[2]])
    for index in np.ndindex(*query.shape[:3]):
        row, head, position = index
        scores = scale * key[row, head].astype(np.float64) @ query[index]
        seen = visible[row, position]
        probabilities[index][seen] = oracle.softmax(scores[seen])
        context[index] = probabilities[index] @ value[row, head]
    return context, probabilities


@pytest.mark.parametrize("scale_scores", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_is_a_softmax_over_unmasked_keys(is_causal, scale_scores):
    query, key, value = np.random.default_rng(0).normal(size=(3, 3, 2, 6, 5)).astype(np.float32)
    positions = np.arange(6)
    visible = np.broadcast_to(positions < LENGTHS[:, None, None], [3, 6, 6])
    if is_causal:
        visible = visible & (positions <= positions[:, None])
    mask = attention.padding_mask(tf.constant(LENGTHS), 6, is_causal=is_causal)
    actual = attention.dot_product_attention(query, key, value, mask, scale=0.3, scale_scores=scale_scores)
    for ours, theirs in zip(actual, numpy_attention(query, key, value, visible, 0.3), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert not actual[1].numpy()[~np.broadcast_to(visible[:, None], [3, 2, 6, 6])].any()


def test_packed_texts_do_not_attend_to_each_other():
    mask = attention.packing_mask(tf.constant([[1, 1, 2, 0]]), 4).numpy()[0, 0] == 0
    assert mask.astype(int).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    causal = attention.packing_mask(tf.constant([[1, 1, 2, 0]]), 4, is_causal=True).numpy()[0, 0] == 0
    assert (causal == np.tril(mask)).all()


def test_dropout_is_applied_to_attention_probabilities():
    query, key, value = (tf.random.stateless_normal([1, 2, 3, 4], [seed, 0]) for seed in range(3))
    mask = tf.zeros([1, 1, 1, 3])
    context, probabilities = attention.dot_product_attention(query, key, value, mask, scale=0.5, dropout=tf.zeros_like)
    assert not context.numpy().any()
    np.testing.assert_allclose(tf.reduce_sum(probabilities, -1), tf.ones([1, 2, 3]), atol=1e-6)


def test_custom_kernel_replaces_attention_in_every_model(monkeypatch):
    calls = []

    def kernel(query, key, value, mask, *, scale, dropout=None, training=False, scale_scores=False):
        calls.append(query.shape)
        probabilities = tf.nn.softmax(tf.einsum("bhqk,bhtk->bhqt", query, key) * scale + mask)
        return tf.einsum("bhqt,bhtk->bhqk", probabilities, value), probabilities

    model, arrays = tiny.pretrainer(dataclasses.replace(tiny.CONFIG, num_hidden_layers=3))
    inputs = tiny.tensors(tiny.batch())
    params = functional_bert.parameters(arrays)
    run = lambda: (model.encoder(inputs)["tokens"], functional_bert.encode(params, model.config, inputs))  # noqa: E731
    expected = run()
    monkeypatch.setattr(attention, "dot_product_attention", kernel)
    actual = run()
    assert calls == [(4, 4, 12, 4)] * 6, "three layers of the encoder, three of the functional path"
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
