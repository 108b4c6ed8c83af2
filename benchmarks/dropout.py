"""Compares dropout here and in Hugging Face transformers: loss and gradients of one batch under many draws.

    python benchmarks/dropout.py --questions=train.json --init_checkpoint=FOLDER --work_dir=FOLDER
    python benchmarks/dropout.py --data_dir=GLUE [--task=MRPC] --init_checkpoint=FOLDER --work_dir=FOLDER

Weights and batch stay the same, only dropout is drawn anew. Ours are the training steps of the package, with several
texts per row, and with an optimizer that changes nothing; the peer's rows are padded. Prints means and standard
deviations of loss and gradient norms over the draws, and how far both sides are apart in standard errors: a wrong
rate or place moves the means, a mask that texts, heads or layers share moves the deviations, a mask that steps share
makes successive draws correlate. --only=attention leaves out all other dropout. A checkpoint with a head, such as a
run of run_squad.py, is used with it.
"""

import dataclasses
import math
import re

import glue_steps
import numpy as np
import reproduction

RATES = {"hidden": "hidden_dropout_prob", "attention": "attention_probs_dropout_prob", "head": "classifier_dropout"}
RATE = 0.1


def main():
    parser = glue_steps.parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--only", default=",".join(RATES), help="where to drop, comma-separated")
    options = parser.parse_args()
    rates = {name: RATE if where in options.only.split(",") else 0.0 for where, name in RATES.items()}
    task, start = glue_steps.task_and_start(options)
    batch = next(iter(task.train_batches(options.train_batch_size, glue_steps.SEED)))
    path = options.work_dir / "batch.npz"
    np.savez(path, **{name: batch[name].numpy()[None] for name in glue_steps.INPUTS if name in batch})
    theirs = reproduction.run_peer(
        options,
        "transformers_dropout.py",
        {"start": start, "batches": path, "draws": options.draws, **rates},
        options.work_dir / "draws.json",
    )
    show(ours(task, start, batch, options, rates), theirs)


class Recorder:
    """An optimizer that records the gradient norms of `parts` and leaves the weights as they are."""

    def __init__(self, names):
        import tensorflow as tf

        self.parts = [part_of(name) for name in names]
        self.step = tf.Variable(0, dtype=tf.int64)
        self.norms = {part: tf.Variable(0.0) for part in dict.fromkeys(self.parts)}

    def learning_rate(self):
        return 0.0

    def apply(self, gradients):
        import tensorflow as tf

        for part, norm in self.norms.items():
            own = [g for g, of in zip(gradients, self.parts, strict=True) if of == part and g is not None]
            norm.assign(tf.linalg.global_norm(own) if own else 0.0)
        self.step.assign_add(1)
        return tf.linalg.global_norm([gradient for gradient in gradients if gradient is not None])


def part_of(name):
    """The part of a model that a weight belongs to, by its canonical name: "layer 0 attention"."""
    if match := re.match(r"encoder/layers/(\d+)/(attention|feed_forward)", name):
        return f"layer {match[1]} {match[2].replace('_', '-')}"
    return name.split("/")[1 if name.startswith("encoder/") else 0]


def ours(task, start, batch, options, rates):
    """{quantity: its value in each draw} by training steps of this package."""
    from bert_tf.checkpoints import formats
    from bert_tf.config import train_config
    from bert_tf.model import heads, weights
    from bert_tf.training import distribute
    from bert_tf.training.train_step import TrainStep

    heads.HEAD_DROPOUT = rates["classifier_dropout"]
    read, strategy = formats.read(str(start)), distribute.create_strategy("one_device")
    config = dataclasses.replace(read.config, **{n: rate for n, rate in rates.items() if n != "classifier_dropout"})
    with strategy.scope():
        model = task.create_model(config)
        learner = TrainStep(task, model, train_config.TrainConfig(train_batch_size=options.train_batch_size), strategy)
        learner.optimizer = Recorder(learner.trainable)
    weights.expect_same_shapes(weights.assign(model, read.weights))
    draws, (loss,) = {}, task.objectives
    for _ in range(options.draws):
        result = learner.step(batch)
        summed, weight = result["metrics"][loss].numpy()
        values = {"loss": summed / weight, **{part: norm.numpy() for part, norm in learner.optimizer.norms.items()}}
        for name, value in values.items():
            draws.setdefault(name, []).append(float(value))
    return draws


def show(mine, theirs):
    columns = ("mean, bert_tf", "transformers", "apart", "deviation, bert_tf", "transformers", "apart")
    columns += ("successive draws, bert_tf", "transformers")
    print(f"| | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    apart = []
    for name in theirs:  # without parts that are not used, as a pooler
        sides = [np.array(side[name]) for side in (mine, theirs)]
        means, mean_errors, deviations, deviation_errors = np.array([summary(side) for side in sides]).T
        apart += [(means[0] - means[1]) / math.hypot(*mean_errors)]
        apart += [math.log(deviations[0] / deviations[1]) / math.hypot(*deviation_errors)]
        cells = [*(f"{x:.4g}" for x in means), f"{apart[-2]:+.1f}", *(f"{x:.3g}" for x in deviations)]
        along = (f"{np.corrcoef(side[1:], side[:-1])[0, 1]:+.2f}" for side in sides)
        print(f"| {name} | {' | '.join((*cells, f'{apart[-1]:+.1f}', *along))} |")
    print(f"{len(sides[0])} draws; largest difference {max(map(abs, apart)):.1f} standard errors, of {len(apart)}.")


def summary(draws):
    """Mean and its standard error; standard deviation and the standard error of its logarithm."""
    deviation = draws.std(ddof=1)
    kurtosis = np.mean(((draws - draws.mean()) / deviation) ** 4)
    return draws.mean(), deviation / math.sqrt(len(draws)), deviation, math.sqrt((kurtosis - 1) / len(draws)) / 2


if __name__ == "__main__":
    main()
