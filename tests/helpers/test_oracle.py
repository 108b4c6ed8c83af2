"""The oracle is checked on its own: its backward pass against finite differences, its optimizer by hand."""

import types

import numpy as np
import oracle
import oracle_optimizer
import pytest

CONFIG = {
    "vocab_size": 11,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 6,
    "type_vocab_size": 2,
    "hidden_act": "gelu_erf",
    "layer_norm_eps": 1e-12,
}
INPUTS = {
    "token_ids": [[2, 5, 4, 7, 3, 0], [2, 9, 3, 4, 9, 3]],
    "segment_ids": [[0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1]],
    "lengths": [5, 6],
    "masked_lm_positions": [[2, 0, 0], [3, 4, 0]],
}
TARGETS = {
    "masked_lm_ids": [[6, 0, 0], [8, 9, 0]],
    "masked_lm_weights": [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]],
    "next_sentence_labels": [1, 0],
    "next_sentence_weights": [1.0, 1.0],
}


def random_weights(seed=0):
    """Every weight of the tiny model above, far enough from 0 that each matters."""
    shapes = {
        "encoder/embeddings/token_table": (11, 8),
        "encoder/embeddings/position_table": (6, 8),
        "encoder/embeddings/segment_table": (2, 8),
        "encoder/pooler/kernel": (8, 8),
        "encoder/pooler/bias": (8,),
        "masked_lm/transform/kernel": (8, 8),
        "masked_lm/transform/bias": (8,),
        "masked_lm/output_bias": (11,),
        "next_sentence/kernel": (8, 2),
        "next_sentence/bias": (2,),
    }
    norms = ["encoder/embeddings/norm", "masked_lm/norm"]
    for layer in ("encoder/layers/0", "encoder/layers/1"):
        norms += [f"{layer}/attention_norm", f"{layer}/feed_forward_norm"]
        for name, size in {
            "attention/query_key_value": (8, 24),
            "attention/project_out": (8, 8),
            "feed_forward/expand": (8, 12),
            "feed_forward/contract": (12, 8),
        }.items():
            shapes |= {f"{layer}/{name}/kernel": size, f"{layer}/{name}/bias": size[1:]}
    random = np.random.default_rng(seed)
    weights = {name: random.normal(0, 0.5, shape) for name, shape in shapes.items()}
    weights |= {f"{norm}/gamma": random.uniform(0.5, 1.5, 8) for norm in norms}
    return weights | {f"{norm}/beta": random.normal(0, 0.5, 8) for norm in norms}


def total_loss(weights, config):
    return oracle.pretraining_losses(oracle.pretraining_logits(weights, config, INPUTS), TARGETS)["loss"]


@pytest.mark.parametrize("hidden_act", ["gelu_erf", "gelu_tanh", "relu"])
def test_gradients_equal_finite_differences(hidden_act):
    config, weights, random = CONFIG | {"hidden_act": hidden_act}, random_weights(), np.random.default_rng(1)
    losses, gradients = oracle.gradients(weights, config, INPUTS, TARGETS)
    assert losses["loss"] == pytest.approx(total_loss(weights, config), abs=1e-14)
    assert gradients.keys() == weights.keys()
    for name, weight in weights.items():
        direction = random.normal(size=weight.shape)
        higher, lower = (total_loss(weights | {name: weight + sign * 1e-6 * direction}, config) for sign in (1, -1))
        assert (gradients[name] * direction).sum() == pytest.approx((higher - lower) / 2e-6, rel=1e-6, abs=1e-8), name


def test_padding_has_no_effect_and_no_attention():
    weights = random_weights()
    short = oracle.encode(weights, CONFIG, [[2, 5, 3]], [[0, 0, 0]], [3])
    padded = oracle.encode(weights, CONFIG, [[2, 5, 3, 9, 9, 9]], [[0, 0, 0, 1, 1, 1]], [3])
    np.testing.assert_allclose(padded["tokens"][:, :3], short["tokens"], atol=1e-14)
    np.testing.assert_allclose(padded["pooled"], short["pooled"], atol=1e-14)
    assert padded["attention_probabilities"][0][..., 3:].max() == 0.0
    assert len(short["hidden_states"]) == 3 and short["attention_probabilities"][1].shape == (1, 2, 3, 3)


def test_config_may_be_an_object():
    weights = random_weights()
    from_object = oracle.pretraining_logits(weights, types.SimpleNamespace(**CONFIG), INPUTS)
    assert from_object["masked_lm_logits"].shape == (2, 3, 11)
    expected = oracle.pretraining_logits(weights, CONFIG, INPUTS)["next_sentence_logits"]
    np.testing.assert_array_equal(from_object["next_sentence_logits"], expected)


def test_losses_match_hand_computed_values():
    word_logits = np.log([[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]])
    logits = {"masked_lm_logits": word_logits, "next_sentence_logits": np.log([[0.2, 0.8]])}
    targets = {"masked_lm_ids": [[0, 2]], "masked_lm_weights": [[1, 0]], "next_sentence_labels": [1]}
    losses = oracle.pretraining_losses(logits, targets | {"next_sentence_weights": [1]})
    assert losses["masked_lm_loss"] == pytest.approx(np.log(2) / 1.00001)
    assert losses["next_sentence_loss"] == pytest.approx(-np.log(0.8))
    assert losses["loss"] == pytest.approx(losses["masked_lm_loss"] + losses["next_sentence_loss"])
    assert oracle.pretraining_losses(logits, targets | {"next_sentence_weights": [0]})["next_sentence_loss"] == 0


def test_activations_match_published_values():
    x = np.array([-1.0, 0.0, 1.0])
    np.testing.assert_allclose(oracle.activation("gelu_erf", x)[0], [-0.15865525, 0, 0.84134475], atol=1e-8)
    np.testing.assert_allclose(oracle.activation("gelu_tanh", x)[0], [-0.15880801, 0, 0.84119199], atol=1e-8)
    np.testing.assert_allclose(oracle.activation("relu", x)[0], [0, 0, 1])


def one_step(update, **options):
    weights = {"a/kernel": np.array([3.0, 4.0]), "a/bias": np.array([1.0])}
    gradients = {"a/kernel": np.array([0.1, -0.1]), "a/bias": np.array([0.2])}
    return update(weights, gradients, oracle_optimizer.new_state(weights), learning_rate=0.1, **options)


def test_original_adam_has_no_bias_correction_and_no_decay_of_biases():
    weights, state = one_step(oracle_optimizer.adam_weight_decay)
    # 3.1612781 is 0.1 g / (sqrt(0.001 g^2) + 1e-6) for g = 0.1; the decay adds a hundredth of the weight.
    np.testing.assert_allclose(weights["a/kernel"], [3 - 0.1 * (3.1612781 + 0.03), 4 - 0.1 * (-3.1612781 + 0.04)])
    np.testing.assert_allclose(weights["a/bias"], [1 - 0.1 * 3.1617777])
    assert state["step"] == 1
    np.testing.assert_allclose(state["m"]["a/bias"], [0.02])


def test_bias_correction_makes_the_first_step_equal_the_rate():
    weights, _ = one_step(oracle_optimizer.adam_weight_decay, bias_correction=True)
    np.testing.assert_allclose(weights["a/bias"], [0.9], atol=1e-6)


def test_lamb_step_is_rate_times_weight_norm():
    weights, _ = one_step(oracle_optimizer.lamb)
    assert np.linalg.norm(weights["a/kernel"] - [3, 4]) == pytest.approx(0.1 * 5)
    np.testing.assert_allclose(weights["a/bias"], [0.9], atol=1e-6)


def test_lamb_scales_query_key_and_value_separately():
    weights = {"attention/query_key_value/kernel": np.array([[1.0, 2.0, 3.0]])}
    gradients = {"attention/query_key_value/kernel": np.array([[5.0, 5.0, -5.0]])}
    state = oracle_optimizer.new_state(weights)
    moved, _ = oracle_optimizer.lamb(weights, gradients, state, learning_rate=0.1)
    np.testing.assert_allclose(moved["attention/query_key_value/kernel"], [[0.9, 1.8, 3.3]])


def test_clipping_scales_all_gradients_together():
    clipped, norm = oracle_optimizer.clip({"a": np.array([3.0]), "b": np.array([4.0])}, 1.0)
    assert norm == 5.0 and clipped["a"] == pytest.approx(0.6) and clipped["b"] == pytest.approx(0.8)
    assert oracle_optimizer.clip({"a": np.array([0.3])}, 1.0)[0]["a"] == 0.3


@pytest.mark.parametrize(
    ("continuous", "expected"),
    [(False, [0, 0.25, 0.5, 0.75, 0.9, 0.875, 0, 0]), (True, [0, 0.25, 0.5, 0.75, 1, 35 / 36, 0, 0])],
)
def test_learning_rate_drops_after_warmup_unless_continuous(continuous, expected):
    options = {"peak": 1.0, "num_train_steps": 40, "num_warmup_steps": 4, "continuous": continuous}
    rates = [oracle_optimizer.learning_rate(step, **options) for step in (0, 1, 2, 3, 4, 5, 40, 50)]
    assert rates == pytest.approx(expected)
