"""A small checkpoint with every head, and what must be equal when it is read back."""

import dataclasses
import pathlib

import numpy as np
import tiny

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.families.base.name_tables import expand
from bert_tf.model import heads

FORMATS = formats.writable_names()
PIECES = [*tiny.SPECIAL, *"abcdefghijklmnopqrstuvwxy"]
CONFIG = dataclasses.replace(tiny.CONFIG, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3)


def checkpoint(**changes):
    """A whole checkpoint of a tiny BERT with random weights; `changes` are of its configuration."""
    config = dataclasses.replace(CONFIG, **changes)
    _, arrays = tiny.pretrainer(config)
    return Checkpoint(config=config, weights=arrays, vocabulary=PIECES, lower_case=True)


def write(folder, model, labels=None, kind=None, layout="native"):
    """Writes a model as a checkpoint with random weights; returns its folder."""
    values = {"vocabulary": PIECES, "lower_case": True, "labels": labels, "kind": kind}
    formats.write(Checkpoint(config=model.config, weights=tiny.random_weights(model), **values), folder, layout)
    return folder


def assert_equal(actual, expected):
    """Bit for bit, and nothing more or less."""
    assert actual.weights.keys() == expected.weights.keys()
    for name, array in expected.weights.items():
        assert actual.weights[name].dtype == np.float32
        np.testing.assert_array_equal(actual.weights[name], array, err_msg=name)
    assert (actual.config, actual.vocabulary, actual.lower_case) == (
        expected.config,
        expected.vocabulary,
        expected.lower_case,
    )


def assert_covers_every_weight(name):
    """The table of a format names every weight of a real model, and none twice."""
    model, arrays = tiny.pretrainer()
    for other in (heads.TokenClassifier(CONFIG, 3, crf=True), heads.SpanFinder(CONFIG)):
        arrays = arrays | tiny.random_weights(other)
    table = expand(formats.load(name).NAMES, model.config.num_hidden_layers)
    assert table.keys() == arrays.keys()
    theirs = [part for parts in table.values() for part in parts]
    assert len(set(theirs)) == len(theirs) == len(arrays) + 2 * 2 * model.config.num_hidden_layers


def cut_short(file):
    """Leaves the first half of a file."""
    data = pathlib.Path(file).read_bytes()
    pathlib.Path(file).write_bytes(data[: len(data) // 2])
