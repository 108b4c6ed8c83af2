"""Fine-tunes one checkpoint on questions here and with Hugging Face transformers, the same recipe on both sides.

    python benchmarks/squad_reproduction.py --train_file=A.json --train_file=B.json --eval_file=C.json \\
        --init_checkpoint=FOLDER --work_dir=FOLDER

The train files are joined, and of the files to evaluate on the questions that have an answer; the scores are those of
SQuAD 1.1, of the answers of both sides by the same code. One epoch, batch 32, rate 5e-5, a tenth of warm-up, weight
decay 0.01, clipping at 1, rows of 384 pieces, a new head. Ours is run_squad.py as anybody would start it. The peer
does as the library's own example of question answering: every row filled up to 384, windows that share 128 pieces,
answers by the places that its tokenizer gives. It runs in a virtual environment of its own, made here of PEER; or
give --peer_python.

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

from glue_reproduction import apart, peer_python, shown

HERE = pathlib.Path(__file__).resolve().parent
BATCH, RATE, WARM_UP = 32, 5e-5, 0.1
SIDES = ("bert_tf", "transformers")
ROUNDS, FIRST = 3, 2  # of --max_steps; and the steps of each that set things up
SCORES = ("exact_match", "f1")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train_file", "eval_file"):
        parser.add_argument(f"--{name}", type=pathlib.Path, action="append", required=True)
    for name in ("init_checkpoint", "work_dir"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--peer_python")
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--seeds", default="1", help="numbers with commas")
    parser.add_argument("--max_steps", type=int, default=0)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--only_time", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(HERE.parent))
    if options.only_time:
        time_our_steps(options)
        return
    options.work_dir.mkdir(parents=True, exist_ok=True)
    join_files(options)
    python = options.peer_python or (options.table or peer_python(options.work_dir / "peer"))
    if options.max_steps:
        compare_steps(options, python)
        return
    if not options.table:
        measure(options, python)
    print_table(options)


def join_files(options):
    """Makes train.json and eval.json in work_dir: the latter of questions with answers, ids with their file's name."""
    for name, paths in (("train", options.train_file), ("eval", options.eval_file)):
        joined = []
        for path in paths:
            for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
                for paragraph in article["paragraphs"] if name == "eval" else ():
                    kept = [qa for qa in paragraph["qas"] if qa["answers"] and not qa.get("is_impossible")]
                    paragraph["qas"] = [{**qa, "id": f"{path.stem}/{qa['id']}"} for qa in kept]
                joined.append(article)
        (options.work_dir / f"{name}.json").write_text(json.dumps({"data": joined}), encoding="utf-8")


def measure(options, python):
    """Does all runs that are not done yet, both sides of a seed before the next."""
    for seed in options.seeds.split(","):
        for side in SIDES:
            output = result_file(options, side, seed)
            if not output.exists():
                print(f"seed {seed}, {side}", flush=True)
                answers, seconds = (
                    ours(options, seed, output) if side == "bert_tf" else peer(options, python, seed, output)
                )
                output.write_text(json.dumps({"scores": scores_of(options, answers), "seconds": seconds}))


def result_file(options, side, seed):
    return options.work_dir / f"{seed}-{side}-{options.epochs:g}.json"


def ours(options, seed, output):
    folder = output.with_suffix("")
    flags = {
        "train_file": options.work_dir / "train.json",
        "predict_file": options.work_dir / "eval.json",
        "init_checkpoint": options.init_checkpoint,
        "output_dir": folder,
        "num_train_epochs": options.epochs,
        "train_batch_size": BATCH,
        "eval_batch_size": BATCH,
        "learning_rate": RATE,
        "random_seed": seed,
        "precision": "float32",
        "do_eval": False,
        "do_predict": True,
        "do_export": False,
    }
    command = [sys.executable, HERE.parent / "run_squad.py", *(f"--{n}={v}" for n, v in flags.items())]
    subprocess.run(command, check=True)
    seconds = json.loads((folder / "run.json").read_text())["phases"]["train"]
    return json.loads((folder / "predictions.json").read_text(encoding="utf-8")), seconds


def peer(options, python, seed, output, *, max_steps=0):
    answers = output.with_suffix(".answers.json")
    flags = {
        "checkpoint": options.init_checkpoint,
        "data": options.work_dir,
        "epochs": options.epochs,
        "seed": seed,
        "max_steps": max_steps,
        "output": answers,
    }
    command = [python, HERE / "peers" / "transformers_squad.py", *(f"--{n}={v}" for n, v in flags.items())]
    subprocess.run(command, check=True)
    found = json.loads(answers.read_text(encoding="utf-8"))
    return found["answers"], found["seconds"]


def scores_of(options, answers):
    """{file: {score: number}}."""
    from bert_tf import questions, squad_scores

    asked = questions.read(str(options.work_dir / "eval.json"))
    files = {path.stem: [q for q in asked if q.id.startswith(f"{path.stem}/")] for path in options.eval_file}
    return {name: squad_scores.evaluate(of_file, answers) for name, of_file in files.items()}


def compare_steps(options, python):
    """Prints the median seconds of a step of each side, which take turns."""
    seconds = {side: [] for side in SIDES}
    for number in range(ROUNDS):
        command = [sys.executable, __file__, *sys.argv[1:], "--only_time"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds["bert_tf"] += json.loads(told.splitlines()[-1])
        output = options.work_dir / "steps.json"
        seconds["transformers"] += peer(options, python, number + 1, output, max_steps=options.max_steps + FIRST)[1][
            FIRST:
        ]
        print(
            ", ".join(f"{side} {statistics.median(found):.3f} s a step" for side, found in seconds.items()), flush=True
        )
    ratio = statistics.median(seconds["bert_tf"]) / statistics.median(seconds["transformers"])
    print(f"{len(seconds['bert_tf'])} steps of each; ours takes {ratio:.2f} of the time of transformers")


def time_our_steps(options):
    """Trains some steps in this process, as run_squad.py does, and prints the seconds of each as JSON."""
    from bert_tf.quiet import start_tensorflow

    start_tensorflow()
    from bert_tf import checkpoints, config, distribute, tasks, weights
    from bert_tf.learner import Learner
    from bert_tf.text import Tokenizer
    from run_squad import Flags

    start = checkpoints.read(str(options.init_checkpoint))
    flags = Flags(train_file=str(options.work_dir / "train.json"))
    task = tasks.get("squad/v1.1")(flags, lambda texts: Tokenizer(start.vocabulary, start.lower_case))
    strategy = distribute.create_strategy("one_device")
    steps = options.max_steps + FIRST
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
    print("| file, score | seeds | bert_tf | transformers | difference / sd | training, s | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for path in options.eval_file:
        for name in SCORES:
            scores = [[run["scores"][path.stem][name] for run in done[side]] for side in SIDES]
            print(
                f"| {path.stem} {name} | {len(scores[0])} | {shown(scores[0])} | {shown(scores[1])} | {apart(*scores)} "
                f"| {seconds[0]:.0f} / {seconds[1]:.0f} | {seconds[0] / seconds[1]:.2f} |"
            )


if __name__ == "__main__":
    main()
