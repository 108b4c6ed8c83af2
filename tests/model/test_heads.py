"""The encoder and its heads against the NumPy statement of BERT."""

import dataclasses

import keras
import numpy as np
import oracle
import pytest
import tensorflow as tf
import tiny

from bert_tf.errors import UserError
from bert_tf.model import functional_bert, weights
from bert_tf.model.heads import Classifier, SpanFinder, TokenClassifier
from bert_tf.model.packing import CPU_COSTS, PackingSpec


@pytest.mark.parametrize("activation", ["gelu_erf", "gelu_tanh", "relu"])
def test_hidden_states_and_attention_match_reference(activation):
    config = dataclasses.replace(tiny.CONFIG, hidden_act=activation)
    model, arrays = tiny.pretrainer(config)
    batch = tiny.batch()
    expected = oracle.encode(arrays, config, batch["token_ids"], batch["segment_ids"], batch["lengths"])
    actual = model.encoder(tiny.tensors(batch), return_hidden_states=True, return_attention=True)
    used = np.arange(12) < batch["lengths"][:, None]  # [B, T]
    assert len(actual["hidden_states"]) == 3 and len(actual["attention_probabilities"]) == 2
    for ours, theirs in zip(actual["hidden_states"], expected["hidden_states"], strict=True):
        np.testing.assert_allclose(ours.numpy()[used], theirs[used], atol=1e-5)
    for ours, theirs in zip(actual["attention_probabilities"], expected["attention_probabilities"], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    np.testing.assert_allclose(actual["pooled"], expected["pooled"], atol=1e-5)


@pytest.mark.parametrize("packing", [None, PackingSpec(CPU_COSTS)])
def test_head_on_means_reads_the_mean_of_all_tokens_without_a_pooler(packing):
    config = dataclasses.replace(tiny.CONFIG, pooling="mean")
    model = Classifier(config, 2)
    arrays = tiny.random_weights(Classifier(tiny.CONFIG, 2))
    unread = {"encoder/pooler/kernel", "encoder/pooler/bias"}
    assert set(weights.assign(model, arrays).unused) == unread
    batch = {name: x for name, x in tiny.batch().items() if name in ("token_ids", "segment_ids", "lengths")}
    tokens = oracle.encode(arrays, tiny.CONFIG, *batch.values())["hidden_states"][-1]
    used = np.arange(12)[:, None] < batch["lengths"][:, None, None]  # [B, T, 1]
    expected = (tokens * used).sum(1) / batch["lengths"][:, None] @ arrays["classifier/kernel"]
    expected += arrays["classifier/bias"]
    inputs = tiny.tensors(batch)
    plain = functional_bert.TEXTS.apply(functional_bert.parameters(arrays), config, inputs)["logits"]
    np.testing.assert_allclose(plain, expected, atol=1e-5)
    np.testing.assert_allclose(model(inputs, packing=packing)["logits"], expected, atol=1e-5)
    with pytest.raises(UserError, match="encoder lstm has its own pooling: choose pooling=cls"):
        dataclasses.replace(config, encoder="lstm")


@pytest.mark.parametrize("padding", [0, 7])
def test_padding_content_has_no_effect(padding):
    model, _ = tiny.pretrainer()
    batch = tiny.tensors(tiny.batch(rows=1, seed=3))
    length = int(batch["lengths"][0])
    assert length < 12
    ids = {name: batch[name][:, :length] for name in ("token_ids", "segment_ids")}
    wide = {"token_ids": padding, "segment_ids": padding % 2}
    padded = {name: tf.pad(x, [[0, 0], [0, 12 - length]], constant_values=wide[name]) for name, x in ids.items()}
    expected, actual = model({**batch, **ids}), model({**batch, **padded})
    for name in ("masked_lm_logits", "next_sentence_logits"):
        np.testing.assert_allclose(actual[name], expected[name], atol=1e-5)
    longer = model({**batch, **padded, "lengths": tf.constant([12])})
    assert np.abs(longer["masked_lm_logits"] - expected["masked_lm_logits"]).max() > 1e-3, "tokens, not padding"


def test_mismatched_weights_are_refused_and_nothing_is_assigned():
    model, arrays = tiny.pretrainer()
    other = {**arrays, "encoder/embeddings/token_table": np.zeros((31, 16), np.float32)}
    other["encoder/pooler/bias"] = np.full(16, 9, np.float32)
    with pytest.raises(UserError, match="vocabulary of 31 tokens and the model one of 30"):
        weights.assign(model, other)
    np.testing.assert_array_equal(model.encoder.pooler.bias, arrays["encoder/pooler/bias"])
    with pytest.raises(UserError, match=r"encoder/pooler/bias has the shape \(3,\) in the checkpoint and \(16,\)"):
        weights.assign(model, {"encoder/pooler/bias": np.zeros(3)})


def test_load_report_names_new_and_unused_weights():
    model, arrays = tiny.pretrainer()
    del arrays["next_sentence/bias"]
    report = weights.assign(model, {**arrays, "adapter/kernel": np.zeros(2)})
    assert report.newly_initialized == ["next_sentence/bias"] and report.unused == ["adapter/kernel"]
    assert len(report.loaded) == 37 and "newly initialized  next_sentence/bias" in str(report)


def test_head_is_loaded_completely_or_not_at_all():
    model = TokenClassifier(tiny.CONFIG, 3)
    kernel, bias = np.ones((16, 3), np.float32), np.ones(3, np.float32)
    encoder = {"encoder/pooler/bias": np.zeros(16, np.float32)}
    for head in (
        {"classifier/kernel": np.ones((8, 3), np.float32), "classifier/bias": bias},  # of other vectors
        {"classifier/kernel": kernel, "classifier/bias": bias, "lstm/forwards/0/kernel": kernel},  # on a BiLSTM
        {"classifier/kernel": kernel},
    ):
        report = weights.compared(model, {**encoder, **head})
        assert report.loaded == ["encoder/pooler/bias"]
    report = weights.compared(model, {**encoder, "classifier/kernel": kernel, "classifier/bias": bias})
    assert len(report.loaded) == 3
    another = {"span/kernel": np.ones((16, 2), np.float32)}  # a head of its own beside it
    report = weights.compared(model, {**encoder, **another, "classifier/kernel": kernel, "classifier/bias": bias})
    assert len(report.loaded) == 3 and report.unused == ["span/kernel"]


def test_initial_weights_follow_the_original():
    keras.utils.set_random_seed(1)
    from bert_tf.config.bert_config import BertConfig
    from bert_tf.model.heads import Pretrainer

    for name, variable in weights.variables_by_name(Pretrainer(BertConfig.of_size("tiny", vocab_size=3000))).items():
        values = np.asarray(variable)
        if name.endswith(("kernel", "table")):
            assert np.abs(values).max() <= 0.04 + 1e-6, "cut off at two deviations"
            if values.size > 10000:
                assert values.std() == pytest.approx(0.02 * 0.88, rel=0.05)  # what is left of 0.02 by the cut
        else:
            assert np.all(values == (1 if name.endswith("gamma") else 0))


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16"])
def test_head_outputs_are_float32(policy):
    model = tiny.randomized(SpanFinder(tiny.CONFIG, dtype=policy))
    inputs = {"token_ids": tf.fill([2, 9], 7), "segment_ids": tf.zeros([2, 9], tf.int32), "lengths": tf.fill([2], 9)}
    logits = model(inputs)["start_logits"].numpy()
    assert (logits != tf.cast(tf.cast(logits, tf.bfloat16), tf.float32).numpy()).all()
