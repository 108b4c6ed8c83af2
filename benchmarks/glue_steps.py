"""Compares the losses of fine-tuning steps here and with Hugging Face transformers, on the same batches.

    python benchmarks/glue_steps.py --data_dir=GLUE --init_checkpoint=FOLDER --work_dir=FOLDER [--task=SST-2]
    python benchmarks/glue_steps.py --questions=train.json --init_checkpoint=FOLDER --work_dir=FOLDER

Both start from the same weights, batch 32, with the recipe and schedule of glue_reproduction.py, without dropout. Ours
are the steps of run_classifier.py, with several texts per row; the peer's rows are padded. Prints the largest
differences of losses and of gradient norms, relative to the peer's. With questions the peer's loss leaves out padding,
as ours does.
"""

import dataclasses
import json
import pathlib

import glue_reproduction
import numpy as np
import reproduction

SEED = 1
INPUTS = ("token_ids", "segment_ids", "lengths", "labels", "start_positions", "end_positions")  # which there are
SHOWN = 10  # lines of the table


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    task, start = task_and_start(options)
    stream = iter(task.train_batches(options.train_batch_size, SEED))
    batches = [next(stream) for _ in range(options.steps)]
    warm_up = options.steps // 10
    mine = ours(options, task, start, batches, warm_up)
    theirs = peer(options, start, batches, warm_up)
    show(mine, theirs)


def parser_of(description):
    """The flags of what both sides compute on."""
    parser = reproduction.parser_of(description)
    parser.add_argument("--data_dir", type=pathlib.Path)
    parser.add_argument("--questions", type=pathlib.Path, help="a file in SQuAD format instead of --data_dir")
    parser.add_argument("--task", default="MRPC", choices=tuple(glue_reproduction.EPOCHS))
    parser.set_defaults(precision="float32")
    return parser


def task_and_start(options):
    """The task, and the folder with the weights that both sides start from."""
    checkpoint = reproduction.without_pooler(options.init_checkpoint, options.work_dir / "checkpoint")
    if options.questions:
        return with_new_head(options, checkpoint)
    task = glue_reproduction.task_of(options, checkpoint, options.task)
    return task, glue_reproduction.initialized_by_peer(options, checkpoint, options.task, SEED)


def with_new_head(options, checkpoint):
    """The task of questions, and a Hugging Face folder with the weights of the checkpoint, else with a random head."""
    import squad_reproduction

    options.work_dir.joinpath("train.json").write_bytes(options.questions.read_bytes())
    options.init_checkpoint = checkpoint
    task, read = squad_reproduction.task_of(options)
    from bert_tf.checkpoints import formats

    kernel = np.random.default_rng(SEED).normal(0, 0.02, [read.config.hidden_size, 2]).astype(np.float32)
    weights = {"span/kernel": kernel, "span/bias": np.zeros(2, np.float32), **read.weights}
    folder = options.work_dir / "start-questions"
    if not folder.exists():
        formats.write(dataclasses.replace(read, weights=weights, kind="span"), str(folder), "huggingface")
    return task, folder


def ours(options, task, start, batches, warm_up):
    """[{"loss", "gradient_norm"}] of our steps."""
    from bert_tf.checkpoints import formats
    from bert_tf.config import train_config
    from bert_tf.model import heads, weights
    from bert_tf.training import distribute
    from bert_tf.training.train_step import TrainStep

    heads.HEAD_DROPOUT = 0.0
    read, strategy = formats.read(str(start)), distribute.create_strategy("one_device")
    still = dataclasses.replace(read.config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    recipe = train_config.TrainConfig(
        train_batch_size=options.train_batch_size,
        learning_rate=options.learning_rate,
        num_train_steps=len(batches),
        num_warmup_steps=warm_up,
        optimizer="adamw_corrected",
        continuous_schedule=True,
    )
    with strategy.scope():
        model = task.create_model(still)
        learner = TrainStep(task, model, recipe, strategy)
    weights.check_same_shapes(weights.assign(model, read.weights))
    steps, (loss,) = [], task.objectives
    for batch in batches:
        result = learner.step(batch)
        summed, weight = result["metrics"][loss].numpy()
        steps.append({"loss": float(summed / weight), "gradient_norm": float(result["gradient_norm"])})
    return steps


def peer(options, start, batches, warm_up):
    """The same of the peer's."""
    path = options.work_dir / "steps.npz"
    np.savez(
        path, **{name: np.stack([batch[name].numpy() for batch in batches]) for name in INPUTS if name in batches[0]}
    )
    flags = {"start": start, "batches": path, "warm_up": warm_up, "learning_rate": options.learning_rate}
    return reproduction.run_peer(options, "transformers_steps.py", flags, options.work_dir / "steps.json")


def show(mine, theirs):
    print("| step | loss, bert_tf | transformers | gradient norm, bert_tf | transformers |\n|---:|---:|---:|---:|---:|")
    for step in range(0, len(mine), max(1, len(mine) // SHOWN)):
        pair = mine[step], theirs[step]
        cells = (f"{side[name]:.6f}" for name in ("loss", "gradient_norm") for side in pair)
        print(f"| {step + 1} | {' | '.join(cells)} |")
    apart = {
        name: max(abs(a[name] / b[name] - 1) for a, b in zip(mine, theirs, strict=True))
        for name in ("loss", "gradient_norm")
    }
    print(json.dumps({f"largest relative difference of {name}": f"{value:.1e}" for name, value in apart.items()}))


if __name__ == "__main__":
    main()
