"""Fine-tunes one checkpoint on CoNLL-2003 here and with Hugging Face transformers, the same recipe on both sides.

    python benchmarks/ner_reproduction.py --data_dir=CONLL2003 --init_checkpoint=FOLDER --work_dir=FOLDER

Three epochs, batch 32, rate 5e-5, a tenth of warm-up, weight decay 0.01, clipping at 1, rows padded to the longest of
their batch, first pieces labelled, a new head; F1 of entities on testa and testb, of the tags of both sides by the same
code. Ours is run_classifier.py as anybody would start it (so without correction of Adam's bias, which the peer has).
The peer does as the library's own example of token classification, rows of up to 512 pieces; it runs in a virtual
environment of its own, made here of PEER; or give --peer_python=PYTHON.

Runs of both sides take turns. What is done is kept in work_dir, so that the same command goes on where it was stopped;
it ends by printing a table, --table prints it of what there is. --max_steps=N trains N steps of each side only, in
turns, three times, and prints the median seconds of a step.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

from glue_reproduction import apart, peer_python, shown, without_pooler

HERE = pathlib.Path(__file__).resolve().parent
BATCH, RATE = 32, 5e-5
SIDES = ("bert_tf", "transformers")
SETS = {"testa": "dev", "testb": "test"}  # its name in CoNLL-2003: ours
ROUNDS, FIRST = 3, 2  # of --max_steps; and the steps of each that set things up


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data_dir", "init_checkpoint", "work_dir"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--peer_python")
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--seeds", default="1,2,3", help="numbers with commas")
    parser.add_argument("--max_steps", type=int, default=0)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--only_time", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(HERE.parent))
    options.checkpoint = options.work_dir / "checkpoint"
    if options.only_time:
        time_our_steps(options)
        return
    if not options.table:
        without_pooler(options.init_checkpoint, options.checkpoint)
        write_rows(options)
        python = options.peer_python or peer_python(options.work_dir / "peer")
        if options.max_steps:
            compare_steps(options, python)
            return
        measure(options, python)
    print_table(options)


def task_of(options):
    """The task as run_classifier.py makes it."""
    from bert_tf import checkpoints, tasks
    from bert_tf.text import Tokenizer
    from run_classifier import Flags

    start = checkpoints.read(str(options.checkpoint))
    tokenizer = Tokenizer(start.vocabulary, start.lower_case)
    return tasks.get("ner/conll2003")(Flags(data_dir=str(options.data_dir)), lambda texts: tokenizer), start


def write_rows(options):
    """Writes what the peer reads: {"words": [...], "labels": [numbers]} a line, and labels.json."""
    folder = options.work_dir / "data"
    if (folder / "labels.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    task, _ = task_of(options)
    for split in ("train", "dev", "test"):
        source = task.source(split)
        rows = zip(source.sentences, source.by_sentence(source.truth), strict=True)
        lines = (json.dumps({"words": s.words, "labels": truth.tolist()}) + "\n" for s, truth in rows)
        (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "labels.json").write_text(json.dumps(task.labels))


def measure(options, python):
    """Does all runs that are not done yet, both sides of a seed before the next."""
    for seed in options.seeds.split(","):
        for side in SIDES:
            output = result_file(options, side, seed)
            if not output.exists():
                print(f"seed {seed}, {side}", flush=True)
                found = ours(options, seed, output) if side == "bert_tf" else peer(options, python, seed, output)
                output.write_text(
                    json.dumps({"scores": scores_of(options, found["tags"]), "seconds": found["seconds"]})
                )


def result_file(options, side, seed):
    return options.work_dir / f"{seed}-{side}-{options.epochs:g}.json"


def ours(options, seed, output):
    """Runs run_classifier.py, once more for the other set; returns {"tags": {set: rows}, "seconds"}."""
    folder, tags = output.with_suffix(""), {}
    flags = {
        "task_name": "ner/conll2003",
        "data_dir": options.data_dir,
        "init_checkpoint": options.checkpoint,
        "output_dir": folder,
        "num_train_epochs": options.epochs,
        "train_batch_size": BATCH,
        "eval_batch_size": BATCH,
        "learning_rate": RATE,
        "random_seed": seed,
        "save_checkpoints_steps": 100_000,
        "precision": "float32",
        "do_eval": False,
        "do_predict": True,
        "do_export": False,
    }
    for name in ("testb", "testa"):
        file = {"predict_file": options.data_dir / f"eng.{name}", "do_train": name == "testb"}
        told = {**flags, **file}
        command = [sys.executable, HERE.parent / "run_classifier.py", *(f"--{n}={v}" for n, v in told.items())]
        subprocess.run(command, check=True)
        tags[name] = read_column(folder / "predictions.txt")
    return {"tags": tags, "seconds": json.loads((folder / "run.json").read_text())["phases"]["train"]}


def read_column(path):
    """The last column of each sentence."""
    from bert_tf.conll_files import Layout, Tagged

    return [list(sentence.tags) for sentence in Tagged(str(path), Layout(scheme="iob1")).sentences]


def peer(options, python, seed, output, *, max_steps=0):
    answers = output.with_suffix(".answers.json")
    flags = {
        "checkpoint": options.checkpoint,
        "data": options.work_dir / "data",
        "epochs": options.epochs,
        "seed": seed,
        "max_steps": max_steps,
        "output": answers,
    }
    command = [python, HERE / "peers" / "transformers_ner.py", *(f"--{n}={v}" for n, v in flags.items())]
    subprocess.run(command, check=True)
    return json.loads(answers.read_text(encoding="utf-8"))


def scores_of(options, tags):
    """{set: F1 of entities} of {set: tags of each sentence}."""
    from bert_tf import entity_scores
    from bert_tf.conll_files import Layout, Tagged

    found = {}
    for name in SETS:
        truth = Tagged(str(options.data_dir / f"eng.{name}"), Layout()).sentences
        found[name] = entity_scores.scores([list(s.tags) for s in truth], tags[name])["f1"]
    return found


def compare_steps(options, python):
    """Prints the median seconds of a step of each side, which take turns."""
    seconds = {side: [] for side in SIDES}
    for number in range(ROUNDS):
        command = [sys.executable, __file__, *sys.argv[1:], "--only_time"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds["bert_tf"] += json.loads(told.splitlines()[-1])
        output, steps = options.work_dir / "steps.json", options.max_steps + FIRST
        seconds["transformers"] += peer(options, python, number + 1, output, max_steps=steps)["seconds"][FIRST:]
        medians = {side: statistics.median(found) for side, found in seconds.items()}
        print(", ".join(f"{side} {median:.3f} s a step" for side, median in medians.items()), flush=True)
    ratio = medians["bert_tf"] / medians["transformers"]
    print(f"{len(seconds['bert_tf'])} steps of each; ours takes {ratio:.2f} of the time of transformers")


def time_our_steps(options):
    """Trains some steps in this process, as run_classifier.py does, and prints the seconds of each as JSON."""
    from bert_tf.quiet import start_tensorflow

    start_tensorflow()
    from bert_tf import config, distribute, weights
    from bert_tf.learner import Learner

    task, start = task_of(options)
    strategy, steps = distribute.create_strategy("one_device"), options.max_steps + FIRST
    recipe = {"train_batch_size": BATCH, "learning_rate": RATE, "num_train_steps": steps, "num_warmup_steps": 1}
    with strategy.scope():
        model = task.model(start.config)
        learner = Learner(task, model, config.TrainConfig(**recipe), strategy)
    weights.assign(model, start.weights)
    batches, seconds = iter(task.train_batches(BATCH, 1)), []
    for _ in range(steps):
        begin = time.perf_counter()
        learner.step(next(batches))["gradient_norm"].numpy()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds[FIRST:]))


def print_table(options):
    done = {side: [] for side in SIDES}
    for seed in options.seeds.split(","):
        paths = [result_file(options, side, seed) for side in SIDES]
        if all(path.exists() for path in paths):
            for side, path in zip(SIDES, paths, strict=True):
                done[side].append(json.loads(path.read_text()))
    if not done[SIDES[0]]:
        print("Nothing is done on both sides yet.")
        return
    seconds = [statistics.mean(run["seconds"] for run in done[side]) for side in SIDES]
    print("| F1 of entities | seeds | bert_tf | transformers | difference / sd | training, s | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in SETS:
        scores = [[100 * run["scores"][name] for run in done[side]] for side in SIDES]
        print(
            f"| {name} | {len(scores[0])} | {shown(scores[0])} | {shown(scores[1])} | {apart(*scores)} "
            f"| {seconds[0]:.0f} / {seconds[1]:.0f} | {seconds[0] / seconds[1]:.2f} |"
        )


if __name__ == "__main__":
    main()
