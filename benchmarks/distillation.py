"""Students of a teacher, beside the same students without one: score, size and speed.

    python benchmarks/distillation.py --init_checkpoint=all-minilm-l6-v2 --glue_dir=GLUE --work_dir=WORK

A teacher is fine-tuned on each task; then, for each seed, a student that begins with every n-th of its layers, trained
alone and with each of --distillations. The scores are those of the development set, mean and standard deviation over
seeds. `bert-tf compare` measures the teacher and one student in all forms, int8 among them. Finished runs are kept: the
same command goes on.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
ALONE = "no teacher"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("init_checkpoint", "glue_dir", "work_dir"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--tasks", default="MRPC,SST-2")
    parser.add_argument("--num_hidden_layers", type=int, default=3, help="of the student")
    parser.add_argument("--distillations", default="soft_targets=1;distilbert;tinybert", help="with semicolons")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--train_rows", type=int, default=0, help="use the first N rows only")
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    options = parser.parse_args()
    for task in options.tasks.split(","):
        table(task, options)


def table(task, options):
    """Trains teacher and students of a task and prints their rows."""
    data = data_of(task, options)
    teacher = run(options, task, data, "teacher", options.init_checkpoint, 1, [])
    print(f"\n### {task}\n\n| model | parameters | {' | '.join(scores_of(teacher))} |")
    print(f"|---|---:|{'---:|' * len(scores_of(teacher))}")
    print_row("teacher", [teacher])
    students = {}
    for recipe in [ALONE, *options.distillations.split(";")]:
        more = [f"--num_hidden_layers={options.num_hidden_layers}"]
        more += [] if recipe == ALONE else [f"--teacher={teacher}", f"--distillation={recipe}"]
        name = "student-" + "".join(letter if letter.isalnum() else "-" for letter in recipe)
        seeds = [int(seed) for seed in options.seeds.split(",")]
        students[recipe] = [run(options, task, data, f"{name}-{seed}", teacher, seed, more) for seed in seeds]
        print_row(recipe, students[recipe])
    for title, folder in (("teacher", teacher), ("student", students[recipe][0])):
        done = subprocess.run(command("-m", "bert_tf", "compare", folder), capture_output=True, text=True, cwd=ROOT)
        print(f"\n{title}:\n\n{done.stdout}", flush=True)


def data_of(task, options):
    """The folder of a task's files, with fewer rows of training if these are limited."""
    source = options.glue_dir / task
    if not options.train_rows:
        return source
    target = options.work_dir / f"data-{task}"
    target.mkdir(parents=True, exist_ok=True)
    for name in ("train.tsv", "dev.tsv"):
        lines = (source / name).read_text(encoding="utf-8").splitlines(keepends=True)
        most = options.train_rows + 1 if name == "train.tsv" else len(lines)
        (target / name).write_text("".join(lines[:most]), encoding="utf-8")
    return target


def run(options, task, data, name, start, seed, more):
    """The folder of a run, which is trained unless it is finished."""
    folder = options.work_dir / task / name
    if (folder / "eval_results.json").exists() and json.loads((folder / "run.json").read_text())["finished"]:
        return folder
    words = [f"--task_name={task}", f"--data_dir={data}", f"--init_checkpoint={start}", f"--output_dir={folder}"]
    words += [f"--num_train_epochs={options.epochs}", f"--learning_rate={options.learning_rate}"]
    words += [f"--random_seed={seed}", "--max_seq_length=128", "--precision=float32", "--do_export=false", *more]
    with open(options.work_dir / f"{task}-{name}.log", "w", encoding="utf-8") as log:
        subprocess.run(command("run_classifier.py", *words), check=True, stdout=log, stderr=log, cwd=ROOT)
    return folder


def command(*words):
    return [sys.executable, *map(str, words)]


def scores_of(folder):
    """{score: number} of a run's evaluation, without losses and accuracy's relatives."""
    results = json.loads((folder / "eval_results.json").read_text())
    return {name: results[name] for name in ("accuracy", "f1") if name in results}


def print_row(name, folders):
    """The row of some runs, which differ by their seeds."""
    parameters = json.loads((folders[0] / "run.json").read_text())["parameters"]
    cells = []
    for score in scores_of(folders[0]):
        values = [100 * scores_of(folder)[score] for folder in folders]
        spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
        cells.append(f"{statistics.mean(values):.1f}{spread}")
    print(f"| {name} | {parameters:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
