"""Table 7 of the paper: named entity recognition on the vectors of a frozen encoder, six choices of layers.

    python benchmarks/feature_tagging.py --data_dir=CONLL2003 --init_checkpoint=FOLDER --work_dir=FOLDER

Runs run_classifier.py --feature_layers=CHOICE for each choice and each of the --seeds. The vectors are computed once
and shared by all runs with the same layers. Results are stored in work_dir, so the same command resumes; it ends by
printing a table next to the paper's figures (BERT-Base cased, mean of five restarts, development set); --table prints
it for the results so far. Flags after -- are passed to the script.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAPER = {  # F1 on the development set
    "embeddings": 91.0,
    "second_to_last": 95.6,
    "last": 94.9,
    "weighted_sum_last_four": 95.9,
    "concat_last_four": 96.1,
    "weighted_sum_all": 95.5,
}
RECIPE = {"num_train_epochs": 10, "learning_rate": 1e-3, "train_batch_size": 32, "lstm_size": 768}


def folder_of(options, choice, seed):
    return options.work_dir / choice / f"seed_{seed}"


def measure(options):
    """Does all runs that are not done yet: one seed of every choice, then the next seed."""
    for seed in options.seeds.split(","):
        for choice in options.choices.split(","):
            folder = folder_of(options, choice, seed)
            if (folder / "eval_results.json").exists():
                continue
            print(f"{choice}, seed {seed}", flush=True)
            flags = {
                "task_name": "ner/conll2003",
                "data_dir": options.data_dir,
                "init_checkpoint": options.init_checkpoint,
                "output_dir": folder,
                "feature_layers": choice,
                "feature_cache": options.work_dir / "vectors",
                "random_seed": seed,
                "do_export": "false",
                **RECIPE,
            }
            command = [sys.executable, str(ROOT / "run_classifier.py"), *(f"--{name}={x}" for name, x in flags.items())]
            subprocess.run([*command, *options.more], check=True)


def print_table(options):
    print(f"| layers | F1, {options.init_checkpoint.name} | seeds | the paper, BERT-Base cased |\n|---|---:|---:|---:|")
    for choice, paper in PAPER.items():
        files = [folder_of(options, choice, seed) / "eval_results.json" for seed in options.seeds.split(",")]
        scores = [100 * json.loads(file.read_text())["f1"] for file in files if file.exists()]
        shown = "" if not scores else f"{statistics.mean(scores):.1f}"
        if len(scores) > 1:
            shown += f" ± {statistics.stdev(scores):.1f}"
        print(f"| {choice} | {shown} | {len(scores)} | {paper} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data_dir", "init_checkpoint", "work_dir"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", default="1,2,3,4,5", help="comma-separated")
    parser.add_argument("--choices", default=",".join(PAPER), help="choices of layers, comma-separated")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("more", nargs="*", help="flags of run_classifier.py, after --")
    options = parser.parse_args()
    if not options.table:
        measure(options)
    print_table(options)


if __name__ == "__main__":
    main()
