"""How full batches are, and the seconds per training step, alternating: padded, packed, and of texts of like length.

python benchmarks/packing.py --data_dir=GLUE --init_checkpoint=FOLDER --tasks=MRPC,SST-2 --steps=8
python benchmarks/packing.py --questions=train.json --init_checkpoint=FOLDER --steps=8
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np

ROWS, BATCH = 2560, 32  # training rows that are looked at, rows of a batch
# Whether texts are packed, and whether batches are of texts of like length.
KINDS = {"packed": (True, False), "padded": (False, False), "grouped": (True, True), "grouped, padded": (False, True)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir")
    parser.add_argument("--questions", help="a file in SQuAD format instead of --data_dir")
    parser.add_argument("--init_checkpoint", required=True)
    parser.add_argument("--tasks", default="CoLA,MRPC,SST-2,RTE,STS-B")
    parser.add_argument("--steps", type=int, default=0, help="steps to time; 0: only the share of positions in use")
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    from bert_tf.checkpoints import formats
    from bert_tf.recipes import finetune, finetune_squad
    from bert_tf.tasks import catalog
    from bert_tf.text.tokenizer import Tokenizer

    checkpoint = formats.read(options.init_checkpoint)
    tokenizer = Tokenizer(checkpoint.vocabulary, checkpoint.lower_case)
    names = {f"glue/{name.lower()}": finetune.Flags(data_dir=options.data_dir) for name in options.tasks.split(",")}
    if options.questions:
        names = {"squad/v1.1": finetune_squad.Flags(train_file=options.questions)}
    for name, flags in names.items():
        task = catalog.get(name)(flags, lambda texts: tokenizer)
        shares = (f"{kind} {fill(task, *how):.1%} full" for kind, how in KINDS.items())
        print(f"{name}: {', '.join(shares)}", flush=True)
        if options.steps:
            means = seconds(task, checkpoint, options.steps)
            times = (f"{kind} {mean:.3f} s" for kind, mean in means.items())
            ratios = (f"{means[kind] / means['padded']:.2f}" for kind in KINDS)
            print(f"{name}: {', '.join(times)} a step; of padded {', '.join(ratios)}", flush=True)


def fill(task, packs, groups):
    """The share of positions that hold a token."""
    import tensorflow as tf

    from bert_tf.model.sequence_packing import choose_rows, local_costs

    task.groups_by_length = groups
    choose = tf.function(lambda lengths: choose_rows(lengths, local_costs()), reduce_retracing=True)
    used = positions = 0
    for batch in task.train_batches(BATCH, 1).take(ROWS // BATCH):
        lengths = batch["lengths"]
        rows, width = choose(lengths)[1:] if packs else (BATCH, tf.reduce_max(lengths))
        used, positions = used + int(np.sum(lengths)), positions + int(rows) * int(width)
    return used / positions


def seconds(task, checkpoint, steps):
    """{kind: mean seconds of a step}, after one to compile; steps of like length take different times."""
    from bert_tf.config import train_config
    from bert_tf.model import weights
    from bert_tf.model.sequence_packing import PackingSpec
    from bert_tf.runtime import process
    from bert_tf.training import distribute, train_step

    class Trimmed(PackingSpec):
        """Cuts batches to their longest text and does not pack them."""

        def assign(self, inputs):
            return None

    recipe = {"train_batch_size": BATCH, "num_train_steps": steps + 1, "num_warmup_steps": 1}
    process.keep_freed_memory()
    strategy, sides, durations = distribute.create_strategy("one_device"), {}, {kind: [] for kind in KINDS}
    for kind, (packs, task.groups_by_length) in KINDS.items():
        train_step.PackingSpec = PackingSpec if packs else Trimmed
        model = task.create_model(checkpoint.config)
        weights.assign(model, checkpoint.weights)
        sides[kind] = (
            train_step.TrainStep(task, model, train_config.TrainConfig(**recipe), strategy),
            iter(task.train_batches(BATCH, 1)),
        )
        sides[kind][0].step(next(sides[kind][1]))["gradient_norm"].numpy()
    for _ in range(steps):
        for kind, (trainer, batches) in sides.items():
            batch, begin = next(batches), time.perf_counter()
            trainer.step(batch)["gradient_norm"].numpy()
            durations[kind].append(time.perf_counter() - begin)
    return {kind: statistics.mean(values) for kind, values in durations.items()}


if __name__ == "__main__":
    main()
