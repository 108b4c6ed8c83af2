"""ELECTRA in pre-training: what the generator draws, what is shared, what each loss trains."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.checkpoints import formats, pretrained
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.train_config import MaskingConfig
from bert_tf.model import replaced_tokens, weights
from bert_tf.model.replaced_tokens import Discriminator, ReplacedTokenModel
from bert_tf.model.sequence_packing import PackingSpec
from bert_tf.tasks.pretraining.pretraining_task import PretrainingTask

CONFIG = dataclasses.replace(tiny.CONFIG, encoder="electra", embedding_size=8)


@pytest.fixture(scope="module")
def model():
    electra = ReplacedTokenModel(CONFIG)
    weights.assign(electra, tiny.random_weights(electra))
    return electra


@pytest.fixture(scope="module")
def batch():
    return tiny.tensors(tiny.batch())


@pytest.fixture(scope="module")
def outputs(model, batch):
    return model(batch, seed=tf.constant([1, 2]), packing=PackingSpec.dynamic())


def test_labels_say_where_a_drawn_token_is_not_the_original_one(model, batch, outputs):
    """The discriminator reads what the generator drew at the masks, and nothing else is labelled."""
    labels, used = outputs["replaced_token_labels"].numpy(), batch["masked_lm_weights"].numpy() > 0
    masked = np.zeros_like(labels, bool)
    for row, positions in enumerate(batch["masked_lm_positions"].numpy()):
        masked[row, positions[used[row]]] = True
    assert labels.sum() > 0 and not labels[~masked].any()
    assert outputs["replaced_token_logits"].shape == labels.shape and labels.shape[1] == max(batch["lengths"].numpy())


def test_tokens_are_drawn_with_the_probabilities_of_the_generator():
    probabilities = np.float32([0.5, 0.3, 0.2, 0.0])
    logits = tf.broadcast_to(tf.math.log(probabilities + 1e-30), [1, 20000, 4])
    drawn = replaced_tokens._draw(logits, tf.constant([3, 4])).numpy()
    np.testing.assert_allclose(np.bincount(drawn[0], minlength=4) / 20000, probabilities, atol=0.015)


def test_generator_is_a_quarter_as_wide_and_has_the_embeddings_of_the_encoder(model):
    names = weights.variables(model)
    assert names["generator/layers/0/attention/project_out/kernel"].shape == (4, 4)
    assert names["generator/embeddings/projection/kernel"].shape == (8, 4)
    assert not [name for name in names if name.startswith("generator/") and name.endswith("_table")]
    assert model.generator.token_table.shape == model.encoder.token_table.shape == (30, 8)
    assert len({id(variable) for variable in names.values()}) == len(names)


def test_masks_are_filled_without_labels(model, batch):
    inputs = {name: batch[name] for name in ("token_ids", "lengths", "masked_lm_positions")}
    assert set(model(inputs)) == {"masked_lm_logits"}


def test_each_loss_trains_its_model_and_a_step_of_training_both(batch):
    task = tiny.task()
    electra = PretrainingTask({}, task.tokenizer, MaskingConfig(), next_sentence_weight=0.0, finds_replaced=True)
    assert {name: objective.factor for name, objective in electra.objectives.items()} == {
        "masked_lm_loss": 1.0,
        "replaced_token_loss": 50,
    }
    model = electra.create_model(CONFIG)
    weights.assign(model, tiny.random_weights(model))
    variables = weights.variables(model)

    with tf.GradientTape(persistent=True) as tape:
        metrics = electra.metrics(model(batch, seed=tf.constant([1, 2])), batch)
        losses = [tf.reduce_sum(metrics[name][0] * metrics[name][1]) for name in electra.objectives]
    of_generator, of_encoder = (tape.gradient(loss, variables) for loss in losses)
    trained = [
        {name.split("/")[0] for name, value in each.items() if value is not None} for each in (of_generator, of_encoder)
    ]
    assert trained == [{"encoder", "generator", "masked_lm"}, {"encoder", "replaced_token"}]
    assert {name for name, value in of_generator.items() if value is not None and name.startswith("encoder")} <= {
        f"encoder/embeddings/{part}"
        for part in ("token_table", "position_table", "segment_table", "norm/gamma", "norm/beta")
    }
    assert float(tf.reduce_sum(metrics["replaced_token_loss"][1])) == float(tf.reduce_sum(batch["lengths"]))


def test_checkpoints_of_pre_training_and_published_ones_have_their_models(model, tmp_path):
    arrays = {name: variable.numpy() for name, variable in weights.variables(model).items()}
    whole = Checkpoint(config=CONFIG, weights=arrays)
    assert type(pretrained.model_of(whole)) is ReplacedTokenModel
    left_out = formats.write(whole, tmp_path / "theirs", "huggingface")
    assert left_out and all(name.startswith(("generator/", "masked_lm/")) for name in left_out)
    assert type(pretrained.model_of(formats.read(tmp_path / "theirs"))) is Discriminator
    native = tmp_path / "native"
    assert formats.write(whole, native, "native") == [] and formats.read(native).weights.keys() == arrays.keys()
    published = {name: array for name, array in arrays.items() if name.startswith(("encoder/", "replaced_token/"))}
    assert type(pretrained.model_of(Checkpoint(config=CONFIG, weights=published))) is Discriminator
