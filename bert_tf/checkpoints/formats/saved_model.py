"""Exports: the SavedModel that a run leaves behind, with `assets.extra` beside its graph. Read alone.

Weights are float32, those of an export in bfloat16 rounded to it.

`bert_tf.export.saved_model` writes them: the weights under their canonical names, and what they are in `assets.extra`.
"""

import os

import numpy as np

from bert_tf.checkpoints.checkpoint_files import read_task_side, read_tensors, read_text_side
from bert_tf.checkpoints.formats import Checkpoint, native
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError

EXTRA, CONFIG = "assets.extra", "bert_config.json"  # the folder is TensorFlow's own place for what its loaders ignore


def recognizes(path):
    """A folder with a SavedModel."""
    return os.path.isfile(os.path.join(path, "saved_model.pb"))


def read(path):
    """Reads weights, configuration, vocabulary and labels; UserError where the SavedModel does not tell them."""
    extra = os.path.join(path, EXTRA)
    if not os.path.isfile(os.path.join(extra, CONFIG)):
        raise UserError(
            f"The export {path} does not say what its weights are, as older ones and those of others: give the folder "
            "of its run, or write it again with `bert-tf export RUN --overwrite`."
        )
    found = read_tensors(os.path.join(path, "variables", "variables"), native.SAVED.fullmatch)
    vocabulary, lower_case = read_text_side(extra)
    labels, kind = read_task_side(extra)
    return Checkpoint(
        config=BertConfig.from_json_file(os.path.join(extra, CONFIG)),
        weights={
            native.SAVED.fullmatch(name)["name"].replace(".S", "/"): np.asarray(array, np.float32)
            for name, array in found.items()
        },
        vocabulary=vocabulary,
        lower_case=lower_case,
        labels=labels,
        kind=kind,
    )


def labels(path):
    """The names of the labels of a fine-tuned model."""
    return read_task_side(os.path.join(path, EXTRA))[0]
