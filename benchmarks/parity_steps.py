"""Repeats recorded pre-training steps of the reference from the same weights on the same batches.

pretraining_steps.json holds both losses, gradient norm and learning rate of each step, and the norm of every weight
after the last; pretraining_steps.npz holds the batches. The reference ran in float64, without dropout, with the
original's optimizer.

B texts, T positions per text, P masked positions.
"""

import json
import pathlib

import numpy as np
import tensorflow as tf

from bert_tf.checkpoints.formats.huggingface import NAMES
from bert_tf.config.train_config import MaskingConfig, TrainConfig
from bert_tf.families.base.name_tables import expand
from bert_tf.tasks.pretraining.pretraining_task import PretrainingTask
from bert_tf.training.metric_sums import averages
from bert_tf.training.train_step import TrainStep

RELATIVE = 1e-4
# A key bias adds the same to all scores of a query, which softmax takes away again: its gradient is 0, what moves it is
# decay-free Adam on rounding errors, and its size is tiny. So it is compared by its size, not in proportion to it.
KEY_BIAS, ABSOLUTE = "attention.self.key.bias", 1e-7


def compare(folder, model):
    """Trains `model`, whose dropout must be 0, for the recorded steps; yields (what, largest difference, tolerance)."""
    recorded = json.loads(pathlib.Path(folder, "pretraining_steps.json").read_text(encoding="utf-8"))
    arrays = dict(np.load(pathlib.Path(folder, "pretraining_steps.npz")))
    learner = new_learner(model)
    differences = {}
    for number, expected in enumerate(recorded["steps"]):
        for name, value in take_step(learner, batch_of_step(arrays, number)).items():
            difference = abs(value - expected[name]) / max(abs(expected[name]), 1e-12)
            differences.setdefault(name, []).append(difference)
    for name, values in differences.items():
        yield f"{name} of {len(recorded['steps'])} steps, relative", float(np.max(values)), RELATIVE
    norms = norms_under_their_names(learner.variables, model.config.num_hidden_layers)
    pairs = {
        name: (norms[name.removeprefix("bert.")], norm)
        for name, norm in recorded["final_l2_norm_of_each_variable"].items()
    }
    others = [abs(ours - theirs) / theirs for name, (ours, theirs) in pairs.items() if not name.endswith(KEY_BIAS)]
    biases = [abs(ours - theirs) for name, (ours, theirs) in pairs.items() if name.endswith(KEY_BIAS)]
    yield f"norm of {len(others)} weights after them, relative", float(np.max(others)), RELATIVE
    yield f"norm of {len(biases)} key biases after them, absolute", float(np.max(biases)), ABSOLUTE


def new_learner(model):
    """What run_pretraining.py trains with, set up as the reference was."""
    task = PretrainingTask({}, None, MaskingConfig())
    config = TrainConfig(
        train_batch_size=7,
        learning_rate=1e-4,
        num_train_steps=40,
        num_warmup_steps=4,
        continuous_schedule=False,
    )
    return TrainStep(task, model, config, tf.distribute.get_strategy())


def take_step(learner, batch):
    """Trains for one step; what the reference recorded of it, under the reference's names."""
    done = learner.step(batch)
    rates = {"grad_norm": float(done["gradient_norm"]), "learning_rate": float(done["learning_rate"])}
    losses = averages(learner.task, done["metrics"])
    return rates | {name: losses[name] for name in ("masked_lm_loss", "next_sentence_loss", "loss")}


def batch_of_step(arrays, number):
    """The recorded batch of one step, as the model and its losses take it."""
    batch = {
        "token_ids": arrays[f"input_ids_{number}"],  # [B, T]
        "segment_ids": arrays["token_type_ids"],
        "lengths": arrays["attention_mask"].sum(1).astype(np.int32),  # [B]
        "next_sentence_labels": arrays[f"next_sentence_labels_{number}"],
        "next_sentence_weights": np.ones(len(arrays["attention_mask"]), np.float32),
    }
    for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
        batch[name] = arrays[f"{name}_{number}"]  # [B, P]
    return {name: tf.constant(array) for name, array in batch.items()}


def norms_under_their_names(variables, num_hidden_layers):
    """{the reference's name: Euclidean norm} of our variables; query, key and value are one variable of ours."""
    norms = {}
    for ours, theirs in expand(NAMES, num_hidden_layers).items():
        if ours not in variables:  # of a head that pre-training has none of
            continue
        parts = np.split(variables[ours].numpy(), len(theirs), -1)
        norms |= {name: float(np.linalg.norm(part)) for name, part in zip(theirs, parts, strict=True)}
    return norms
