"""ELECTRA and DeBERTa-v3 in pre-training: what the generator draws, what is shared, what each loss trains."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
import tiny
from training_steps import trained

from bert_tf.checkpoints import formats, pretrained
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.train_config import MaskingConfig, TrainConfig
from bert_tf.errors import NoEngine
from bert_tf.export import engine_models
from bert_tf.export.trained_model import TrainedModel
from bert_tf.model import replaced_tokens, weights
from bert_tf.model.packing import PackingSpec
from bert_tf.model.replaced_tokens import Discriminator, ReplacedTokenModel
from bert_tf.recipes import engine_comparison
from bert_tf.tasks.pretraining.pretraining_task import PretrainingTask

CONFIG = dataclasses.replace(tiny.CONFIG, encoder="electra", embedding_size=8)
DEBERTA = dataclasses.replace(tiny.CONFIG, encoder="deberta_v2", num_hidden_layers=3)


@pytest.fixture(scope="module", params=[CONFIG, DEBERTA], ids=["electra", "deberta_v2"])
def model(request):
    whole = ReplacedTokenModel(request.param)
    weights.assign(whole, tiny.random_weights(whole))
    return whole


@pytest.fixture(scope="module")
def batch():
    return tiny.tensors(tiny.batch())


@pytest.fixture(scope="module")
def outputs(model, batch):
    return model(batch, seed=tf.constant([1, 2]), packing=PackingSpec())


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


def test_generator_is_narrow_or_shallow_and_has_the_embeddings_of_the_encoder(model):
    names = weights.variables(model)
    is_narrow = model.config.encoder == "electra"
    assert len(model.generator.layers) == 2 and len(model.encoder.layers) == (2 if is_narrow else 3)
    width, embedded = (4, 8) if is_narrow else (16, 16)
    assert names["generator/layers/0/attention/project_out/kernel"].shape == (width, width)
    own = {name for name in names if name.startswith("generator/embeddings/")}
    assert own == ({f"generator/embeddings/projection/{part}" for part in ("kernel", "bias")} if is_narrow else set())
    assert model.generator.token_table.shape == model.encoder.token_table.shape == (30, embedded)
    assert len({id(variable) for variable in names.values()}) == len(names)


@pytest.mark.parametrize(("heads", "expected"), [(3, 1), (7, 1), (8, 2), (12, 3), (15, 3), (16, 4)])
def test_generator_of_electra_has_a_quarter_of_the_heads_and_at_least_one(heads, expected):
    wide = dataclasses.replace(CONFIG, num_attention_heads=heads, hidden_size=64 * heads, intermediate_size=3072)
    small = replaced_tokens.generator_config(wide)
    assert (small.num_attention_heads, small.hidden_size) == (expected, 64 * expected)
    assert (small.intermediate_size, small.embedding_width) == (768, 8)


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
    model = tiny.randomized(electra.create_model(CONFIG))
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
    whole = Checkpoint(config=model.config, weights=arrays)
    assert type(pretrained.model_of(whole)) is ReplacedTokenModel
    left_out = formats.write(whole, tmp_path / "theirs", "huggingface")
    assert left_out and all(name.startswith(("generator/", "masked_lm/")) for name in left_out)
    assert type(pretrained.model_of(formats.read(tmp_path / "theirs"))) is Discriminator
    native = tmp_path / "native"
    assert formats.write(whole, native, "native") == [] and formats.read(native).weights.keys() == arrays.keys()
    published = {name: array for name, array in arrays.items() if name.startswith(("encoder/", "replaced_token/"))}
    assert type(pretrained.model_of(Checkpoint(config=model.config, weights=published))) is Discriminator


def test_a_model_with_a_generator_is_compared_by_the_masks_it_fills(model):
    """Labels of replaced tokens exist in training only, and other engines have no generator."""
    rows = tiny.task([tiny.batch()])
    task = PretrainingTask({}, rows.tokenizer, MaskingConfig(), next_sentence_weight=0.0, finds_replaced=True)
    task.eval_batches = rows.eval_batches
    run = TrainedModel(task, model, tiny.Words("the fox ran".split()), {})
    held = engine_comparison.Held(task=task.of_answers(), split="eval", most=4, batch_size=4)
    found = held.scores_of(engine_comparison._live(run, ""))
    batch = next(iter(task.eval_batches(4, "eval")))
    losses, used = task.of_answers().metrics(model(batch), batch)["masked_lm_loss"]
    expected = float(tf.reduce_sum(losses * used) / tf.reduce_sum(used))
    assert found.keys() == {"loss", "masked_lm_loss", "masked_lm_accuracy"}
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    with pytest.raises(NoEngine, match="the generator that fills the masks"):
        engine_models.form_of("replaced_tokens", {"replaced_token/kernel"}, task.host_settings)


@pytest.mark.slow
@pytest.mark.eager
def test_losses_fall_and_a_run_that_was_killed_goes_on_bitwise(tmp_path):
    def train(folder, steps):
        rows = tiny.task([tiny.batch()])
        task = PretrainingTask({}, rows.tokenizer, MaskingConfig(), next_sentence_weight=0.0, finds_replaced=True)
        task.train_batches, task.eval_batches = rows.train_batches, rows.eval_batches
        config = TrainConfig(train_batch_size=4, learning_rate=0.02, num_train_steps=8, num_warmup_steps=0)
        config = dataclasses.replace(config, save_checkpoints_steps=steps)

        def create_model():
            return tiny.randomized(task.create_model(dataclasses.replace(DEBERTA, num_hidden_layers=1)))

        return trained(folder, config, task, create_model=create_model)[1]

    whole = train(tmp_path / "whole", steps=8)
    train(tmp_path / "killed", steps=4)
    (tmp_path / "killed/checkpoints/ckpt-8.index").unlink()
    resumed = train(tmp_path / "killed", steps=4)
    assert all(np.array_equal(array, resumed[name]) for name, array in whole.items())
    lines = [json.loads(line) for line in (tmp_path / "whole/metrics.jsonl").read_text().splitlines()]
    losses = [line for line in lines if "loss" in line]
    for name in ("masked_lm_loss", "replaced_token_loss"):
        assert losses[-1][name] < losses[0][name] / 2
