"""Models that look to the left only, and what they and other ablations are trained on."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
import tiny
from checkpoint_cases import PIECES

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.train_config import MaskingConfig
from bert_tf.errors import UserError
from bert_tf.heads.masked_lm import mask_filling
from bert_tf.model import heads
from bert_tf.tasks.pretraining import pretraining_task
from bert_tf.tasks.pretraining.pretraining_task import PretrainingTask
from bert_tf.text.tokenizer import Tokenizer

CAUSAL = dataclasses.replace(tiny.CONFIG, is_causal=True)


def model_of(make=heads.Pretrainer, config=CAUSAL):
    return tiny.randomized(make(config))


ROW = [2, 7, 8, 9, 10, 3]
CHANGED = [2, 7, 8, 20, 10, 3]


def test_causal_model_sees_only_preceding_tokens():
    outputs = model_of().encoder(tiny.inputs_of([ROW, CHANGED], [6, 6]))
    tokens = outputs["tokens"].numpy()
    np.testing.assert_allclose(tokens[0, :3], tokens[1, :3], atol=1e-6)
    assert np.abs(tokens[0, 3:] - tokens[1, 3:]).max(-1).min() > 1e-3
    both_ways = model_of(config=tiny.CONFIG).encoder(tiny.inputs_of([ROW, CHANGED], [6, 6]))["tokens"].numpy()
    assert np.abs(both_ways[0] - both_ways[1]).max(-1).min() > 1e-3


def test_causal_model_pools_the_last_token():
    encoder = model_of().encoder
    outputs = encoder(tiny.inputs_of([ROW, [2, 7, 3, 0, 0, 0]], [6, 3]))
    expected = encoder.pooler(tf.stack([outputs["tokens"][0, 5], outputs["tokens"][1, 2]]))
    np.testing.assert_allclose(outputs["pooled"], expected, atol=1e-6)


def test_left_to_right_predicts_each_token_from_the_previous_position():
    pairs = tiny.inputs_of([ROW, [2, 7, 3, 0, 0, 0]], [6, 3])
    targets = pretraining_task.next_token_targets(pairs)
    assert targets["masked_lm_positions"].numpy().tolist() == [[0, 1, 2, 3, 4]] * 2
    assert targets["masked_lm_ids"].numpy().tolist() == [[7, 8, 9, 10, 3], [7, 3, 0, 0, 0]]
    assert targets["masked_lm_weights"].numpy().tolist() == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]


def test_two_directional_lm_predicts_from_both_sides():
    pairs = tiny.inputs_of([[2, 7, 3, 0]], [3])
    targets = pretraining_task.bidirectional_targets(pairs)
    slots, ids, used = (targets[f"masked_lm_{name}"].numpy()[0] for name in ("positions", "ids", "weights"))
    # the left one after [CLS] and 7, the right one before 7 and [SEP]
    assert list(zip(slots[used > 0], ids[used > 0], strict=True)) == [(0, 7), (2, 3), (3, 2), (5, 7)]
    lstm = dataclasses.replace(tiny.CONFIG, encoder="lstm")
    assert mask_filling.predicted_positions(lstm, slots[used > 0]).tolist() == [1, 2, 0, 1]
    assert mask_filling.output_positions(lstm, tf.constant([1, 2])).numpy().tolist() == [0, 2]


def test_causal_model_fills_a_mask_from_the_position_before():
    model, tokenizer = model_of(), Tokenizer(PIECES)
    answers = mask_filling.fill_mask(model, tokenizer)["serving_default"](tf.constant(["c d [MASK]"]))
    inputs = tiny.inputs_of([[2, 7, 8, 4, 3]], [5])
    scores = tf.nn.softmax(model({**inputs, "masked_lm_positions": tf.constant([[2]])})["masked_lm_logits"])[0, 0]
    assert answers["pieces"].numpy()[0, 0, 0].decode() == PIECES[int(tf.argmax(scores))]
    np.testing.assert_allclose(answers["scores"][0, 0, 0], tf.reduce_max(scores), rtol=1e-5)


@pytest.mark.parametrize(("mix", "shown"), [("100/0/0", {4}), ("0/100/0", {7}), ("0/0/100", set(range(30)))])
def test_masking_mix_sets_how_masked_tokens_are_shown(mix, shown):
    masking = MaskingConfig(masking_mix=mix, masked_lm_prob=0.5)
    pairs = {"token_ids": tf.constant([[2] + [7] * 10 + [3]] * 20, tf.int32)}
    seeds = tf.range(20, dtype=tf.int64)
    targets = PretrainingTask({}, Tokenizer(PIECES), masking)._targets(pairs, seeds, None)
    seen = tf.gather(targets["token_ids"], targets["masked_lm_positions"], batch_dims=1)[
        targets["masked_lm_weights"] > 0
    ]
    seen = set(seen.numpy().tolist())
    assert seen <= shown and len(seen) > 0.5 * min(len(shown), 20)


def test_masking_mix_accepts_the_papers_notation():
    assert MaskingConfig(masking_mix="80/20/0").replacement_probs == (0.8, 0.0, 0.2)
    for wrong in ("80/10", "80/10/20", "a/b/c", "110/-10/0"):
        with pytest.raises(UserError, match="three numbers whose sum is 100"):
            MaskingConfig(masking_mix=wrong)


@pytest.mark.parametrize("kind", ["huggingface", "google_tf", "native"])
def test_formats_record_that_a_model_is_causal(tmp_path, kind):
    model = model_of()
    written = Checkpoint(
        config=CAUSAL, weights=tiny.random_weights(model), vocabulary=PIECES, lower_case=True, labels=None
    )
    formats.write(written, str(tmp_path / "written"), kind)
    again = formats.read(str(tmp_path / "written"))
    assert again.config == CAUSAL
    if kind == "huggingface":  # there a text is what stands at its start, if nothing of it has been read
        stored = json.loads((tmp_path / "written" / "config.json").read_text())
        assert (stored["architectures"], stored["is_decoder"]) == (["BertLMHeadModel"], True)
        assert not [name for name in again.weights if name.startswith(("encoder/pooler/", "next_sentence/"))]
    with pytest.raises(UserError, match="cannot be causal"):
        formats.write(written, str(tmp_path / "other"), "keras_hub")
    assert not (tmp_path / "other").exists()
