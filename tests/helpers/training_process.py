"""Trains a tiny model in a process of its own: what is killed, stopped, or one of several workers in the tests.

    python training_process.py FOLDER [--replicas 2] [--steps 12] [--kill-at 6] [--strategy multi_worker]

Prints a hash of the final weights. `--kill-at N` ends the process by SIGKILL right after step N; `--stop-at N` sends it
SIGTERM there; `--nan-at N` makes the loss of step N infinite.
"""

import argparse
import dataclasses
import hashlib
import os
import signal

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--replicas", type=int, default=1)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--kill-at", type=int, default=0)
parser.add_argument("--stop-at", type=int, default=0)
parser.add_argument("--strategy", default="auto")
parser.add_argument("--dropout", type=float, default=0.1)
options = parser.parse_args()

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tiny  # noqa: E402

from bert_tf.config.train_config import TrainConfig  # noqa: E402
from bert_tf.errors import Interrupted  # noqa: E402
from bert_tf.model import weights  # noqa: E402
from bert_tf.training import distribute  # noqa: E402
from bert_tf.training.loop import train  # noqa: E402
from bert_tf.training.run_directory import RunFolder  # noqa: E402
from bert_tf.training.train_step import TrainStep  # noqa: E402


def signalling(step, number, original):
    """Learner.step that sends the process a signal after so many steps."""

    def wrapped(self, batch, **more):
        result = original(self, batch, **more)
        if int(self.optimizer.step.numpy()) == step:
            os.kill(os.getpid(), number)
        return result

    return wrapped


strategy = distribute.create_strategy(options.strategy, num_logical_devices=options.replicas)
if options.kill_at:
    TrainStep.step = signalling(options.kill_at, signal.SIGKILL, TrainStep.step)
if options.stop_at:
    TrainStep.step = signalling(options.stop_at, signal.SIGTERM, TrainStep.step)
keras.utils.set_random_seed(5)
config = dataclasses.replace(
    tiny.CONFIG, num_hidden_layers=1, hidden_dropout_prob=options.dropout, attention_probs_dropout_prob=options.dropout
)
with strategy.scope():
    model = tiny.pretrainer(config)[0]
folder = RunFolder(options.folder, is_chief=distribute.is_chief(strategy))
folder.open(name="tiny", flags={}, decisive={})
settings = TrainConfig(
    train_batch_size=4,
    eval_batch_size=4,
    learning_rate=0.01,
    num_train_steps=options.steps,
    num_warmup_steps=2,
    save_checkpoints_steps=4,
)
try:
    train(tiny.task(), model, settings, strategy, folder)
except Interrupted as stop:
    print(stop)
else:
    flat = np.concatenate([np.asarray(v.numpy()).ravel() for v in weights.variables(model).values()])
    print("hash", hashlib.sha256(flat.tobytes()).hexdigest(), "sum", float(np.abs(flat.astype(np.float64)).sum()))
