"""Tagged sentences, their task and a model of it."""

import dataclasses

import tiny

from bert_tf.config.train_config import TrainConfig
from bert_tf.data import conll_files
from bert_tf.data.tag_schemes import TagSet
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.heads.tags.tagging import Tagging
from bert_tf.model import weights
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training import distribute
from bert_tf.training.evaluator import Evaluator

WORDS = "the fox saw jo ##ann ##a from paris in - . , new york u s 科 技 we met".split()
TOKENIZER = Tokenizer([*tiny.SPECIAL, *WORDS])
TAG_SET = TagSet.of_types({"LOC", "PER"}, "iob2")
CONFIG = TrainConfig(
    train_batch_size=4,
    eval_batch_size=2,
    learning_rate=0.003,
    num_train_steps=60,
    num_warmup_steps=0,
    max_eval_steps=99,
)
MODEL = dataclasses.replace(tiny.CONFIG, num_hidden_layers=1)
FILE = """-DOCSTART- O

the O
fox O
saw O
Joanna B-PER
from O
\u200b O
Paris B-LOC
. O

New B-LOC
York I-LOC
met O
Jo B-PER
Anna B-PER

we O
saw O
New B-LOC
York I-LOC
in O
the O
new B-LOC
Paris I-LOC
, O
and O
the O
fox O
from O
York B-LOC
saw O
Jo-Anna B-PER
. O

-DOCSTART- O

\u200b O

科 B-LOC
技 I-LOC
"""


def task_of(path, *, context=False, length=12, stride=4, crf=False):
    windows = TagWindows(max_seq_length=length, stride=stride, document_context=context)
    files = dict.fromkeys(("train", "dev", "test"), lambda: conll_files.ConllFile(path, conll_files.ColumnLayout()))
    return FineTuningTask("tiny", files, Tagging(TAG_SET, windows, crf=crf), TOKENIZER)


def model_of(task, strategy=None):
    with (strategy or distribute.create_strategy("one_device")).scope():
        model = task.create_model(MODEL)
        weights.assign(model, tiny.random_weights(model, seed=1))
    return model


def predicted_by(task, strategy=None):
    """What a model of random weights finds in the development set, and its predictions."""
    strategy = strategy or distribute.create_strategy("one_device")
    predictions = Evaluator(task, model_of(task, strategy), CONFIG, strategy).evaluate_split("dev")[1]
    return task.head.sentence_predictions(predictions, task.split("dev")), predictions
