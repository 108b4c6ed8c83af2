"""Fine-tunes one checkpoint on GLUE here and with Hugging Face transformers, with the same recipe.

    python benchmarks/glue_reproduction.py --data_dir=GLUE --init_checkpoint=FOLDER --work_dir=FOLDER

Batch 32, learning rate 5e-5, a tenth of warm-up and linear decay, Adam with bias correction, weight decay 0.01,
clipping at 1, rows of at most 128 tokens; MRPC, RTE, STS-B and CoLA for three epochs with the --seeds, SST-2 for one
epoch with the first of them. The pooler of the checkpoint is dropped. A seed determines the same on both sides: both
start from the pooler and head that the peer initializes, and train on the same examples in the peer's order, as both
matter more than what is compared (see docs/results_history.md). With --own_draws each side draws its own. Ours is
run_classifier.py with that order (in_given_order.py). The peer runs in a virtual environment of its own, created in
work_dir; or use --peer_python=PYTHON.

Runs of both sides alternate; --sides=bert_tf or --sides=transformers runs one side only, so that the two can run
at the same time on separate cores (taskset). Results are stored in work_dir, so the same command resumes; it ends by
printing a table, --table prints it for the results so far.
"""

import json
import pathlib
import shutil

import numpy as np
import reproduction
from reproduction import SIDES

EPOCHS = {"MRPC": 3, "RTE": 3, "STS-B": 3, "CoLA": 3, "SST-2": 1}


def main():
    parser = reproduction.parser_of(__doc__)
    parser.add_argument("--data_dir", type=pathlib.Path, required=True)
    reproduction.add_precision_flag(parser)
    parser.add_argument("--tasks", default=",".join(EPOCHS))
    parser.add_argument("--seeds", default="1,2,3", help="comma-separated")
    parser.add_argument("--own_draws", action="store_true", help="each side draws its own head and order")
    options = parser.parse_args()
    options.tasks, options.seeds = options.tasks.split(","), options.seeds.split(",")
    if options.train_rows:
        options.data_dir = with_fewer_rows(options)
    if not options.table:
        measure(options)
    print_table(options)


def with_fewer_rows(options):
    """A copy of the data of the tasks with the first rows of train.tsv only."""
    folder = options.work_dir / "glue"
    for task in options.tasks:
        if not (folder / task).exists():
            shutil.copytree(options.data_dir / task, folder / task)
            lines = (folder / task / "train.tsv").read_bytes().split(b"\n")
            kept = lines[: options.train_rows + (task != "CoLA")]  # which has no header
            (folder / task / "train.tsv").write_bytes(b"\n".join(kept) + b"\n")
    return folder


def measure(options):
    """Does all runs that are not done yet; both sides of a seed, then the next task, then the next seed."""
    checkpoint = reproduction.without_pooler(options.init_checkpoint, options.work_dir / "checkpoint")
    runs = {"bert_tf": ours, "transformers": peer}
    for seed in options.seeds:
        for task in options.tasks:
            if seed != options.seeds[0] and EPOCHS[task] == 1:
                continue
            for side in options.sides.split(","):
                output = result_file(options, side, task, seed)
                if not output.exists():
                    print(f"{task}, seed {seed}, {side}", flush=True)
                    runs[side](options, checkpoint, task, seed, output)


def result_file(options, side, task, seed):
    return options.work_dir / f"{task}-{seed}-{side}-{options.precision}.json"


def initialized_by_peer(options, checkpoint, task, seed):
    """A folder with the model from which the peer starts with this seed, and the order of its examples."""
    flags = flags_of_peer(options, checkpoint, task_of(options, checkpoint, task), task, seed)
    folder = options.work_dir / f"start-{task}-{seed}"
    return reproduction.initialized_by_peer(options, "transformers_glue.py", flags, folder)


def ours(options, checkpoint, task, seed, output):
    script = ["run_classifier.py"]
    if not options.own_draws:
        checkpoint = initialized_by_peer(options, checkpoint, task, seed)
        script = reproduction.in_order_of(checkpoint, *script)
    folder = output.with_suffix("")
    flags = {
        "task_name": task,
        "data_dir": options.data_dir,
        "init_checkpoint": checkpoint,
        "output_dir": folder,
        "num_train_epochs": EPOCHS[task],
        "random_seed": seed,
        "precision": options.precision,
        "save_checkpoints_steps": 100_000,
        "eval_steps": 100_000,  # at the end only, as the peer
    }
    reproduction.run_ours(options, script, flags)
    scores = json.loads((folder / "eval_results.json").read_text())
    output.write_text(json.dumps({"scores": scores, "seconds": reproduction.seconds_of_training(folder)}))


def peer(options, checkpoint, task, seed, output):
    """Runs the peer, and scores its answers by our metrics."""
    from bert_tf.training import metrics

    data_task = task_of(options, checkpoint, task)
    flags = flags_of_peer(options, checkpoint, data_task, task, seed)
    answers = reproduction.run_peer(options, "transformers_glue.py", flags, output.with_suffix(".answers.json"))
    logits = np.array(answers["logits"])
    predictions = logits.argmax(-1) if flags["size"] > 1 else logits[:, 0]
    labels = data_task.split("dev").labels
    scores = {name: metrics.SCORES[name](labels, predictions) for name in score_names(task)}
    output.write_text(json.dumps({"scores": scores, "seconds": answers["seconds"]}))


def flags_of_peer(options, checkpoint, data_task, task, seed):
    """The flags of the peer's script; writes the data for it."""
    data = options.work_dir / f"{task}-data"
    for split in ("train", "dev"):
        write_rows(data_task.split(split), data / f"{split}.jsonl")
    size = len(data_task.head.labels) or 1  # outputs of the head: classes, or one for a regression
    flags = {"checkpoint": checkpoint, "data": data, "size": size, "epochs": EPOCHS[task], "seed": seed}
    return flags | {"precision": options.precision, **reproduction.recipe_of(options)}


def task_of(options, checkpoint, task):
    """The task as run_classifier.py makes it."""
    from bert_tf.recipes.finetune import Flags
    from bert_tf.tasks import catalog
    from bert_tf.text import vocabulary
    from bert_tf.text.tokenizer import Tokenizer

    tokenizer = Tokenizer(vocabulary.read(str(checkpoint / "vocab.txt")))
    return catalog.get(f"glue/{task.lower()}")(Flags(data_dir=str(options.data_dir)), lambda texts: tokenizer)


def write_rows(split, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = zip(split.texts.tolist(), split.labels.tolist(), strict=True)
    path.write_text("".join(json.dumps({"texts": texts, "label": label}) + "\n" for texts, label in rows))


def score_names(task):
    from bert_tf.tasks.catalog.glue import LAYOUTS

    return LAYOUTS[task.lower()].scores


def print_table(options):
    reproduction.print_head("task, score")
    for task in options.tasks:
        done = results(options, task)
        for name in score_names(task) if done["bert_tf"] else ():
            scores = [[100 * run["scores"][name] for run in done[side]] for side in SIDES]
            reproduction.print_row(f"{task} {name}", scores, reproduction.mean_seconds(done))


def results(options, task):
    """{side: results} of the seeds that both sides have done."""
    files = [[result_file(options, side, task, seed) for side in SIDES] for seed in options.seeds]
    both = [[json.loads(path.read_text()) for path in pair] for pair in files if all(path.exists() for path in pair)]
    return {side: [pair[number] for pair in both] for number, side in enumerate(SIDES)}


if __name__ == "__main__":
    main()
