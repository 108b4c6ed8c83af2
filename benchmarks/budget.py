"""Pre-training for a fixed number of minutes: what helps, one change at a time, on held-out text.

    python benchmarks/budget.py --texts=FOLDER --minutes=2 --output=/tmp/budget

Every arm reads the same text and vocabulary and is scored on the same held-out rows with the same masks. Arms are rows
of ARMS: changes of the flags, after Izsak et al. 2021 ("24-hour BERT"), Geiping and Goldstein 2022 ("Cramming") and
MosaicBERT. A second entry is a second phase, which starts from the first; both share the minutes.

--clock=cpu counts processor time divided by the number of cores, so that other work on the machine takes nothing from
an arm; --clock=wall is what --budget_minutes counts by itself. Finished arms are kept: the same command goes on.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMON: dict = {
    "vocab_size": 8000,
    "train_batch_size": 32,
    "eval_batch_size": 32,
    "max_eval_steps": 40,
    "max_seq_length": 128,
    "learning_rate": 1e-3,
    "warmup_proportion": 0.1,
    "optimizer": "adamw_corrected",
    "dupe_factor": 2,
    "precision": "float32",
    "save_checkpoints_steps": 10**6,
    "do_export": False,
}
SHAPE = {
    "vocab_size": COMMON["vocab_size"],
    "hidden_size": 128,
    "num_attention_heads": 2,
    "intermediate_size": 512,
    "max_position_embeddings": 128,
}
NO_NSP = {"next_sentence_weight": 0, "keep_pairs": True}
BASE = {**NO_NSP, "dropout_prob": 0}
SHORT = {"max_seq_length": 64, "max_predictions_per_seq": 10}
ARMS = {
    "BERT's": [{}],
    "no next sentence": [NO_NSP],
    "and no dropout": [BASE],
    "and learning rate 3e-3": [{**BASE, "learning_rate": 3e-3}],
    "and LayerNorm first": [{**BASE, "encoder": "pre_ln_bert"}],
    "and LayerNorm first, 3e-3": [{**BASE, "encoder": "pre_ln_bert", "learning_rate": 3e-3}],
    "and no biases": [{**BASE, "train_biases": False}],
    "and 16 rows": [{**BASE, "train_batch_size": 16}],
    "and 16 rows, tokens dropped": [{**BASE, "train_batch_size": 16, "token_dropping": 0.5}],
    "and 16 rows, tokens dropped, Muon": [
        {**BASE, "train_batch_size": 16, "token_dropping": 0.5, "optimizer": "muon", "learning_rate": 1e-2}
    ],
    "and rows of 64 for half the time": [{**BASE, **SHORT, "train_batch_size": 64}, {**BASE, "learning_rate": 5e-4}],
}
START = """
import os, time
from bert_tf.config import entry_point, flags
from bert_tf.recipes import pretrain
from bert_tf.training import budget
if {cpu}:
    budget.clock = lambda: time.process_time() / len(os.sched_getaffinity(0))
flags.define(pretrain.Flags)
entry_point.run(pretrain.main)
"""


def config_file(options: argparse.Namespace, dropout: float) -> pathlib.Path:
    """The configuration file of models with that dropout, which --dropout_prob does not change in one."""
    path = pathlib.Path(options.output, f"bert_config_{dropout:g}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    dropouts = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), dropout)
    path.write_text(json.dumps({**SHAPE, **dropouts, "num_hidden_layers": options.layers}), encoding="utf-8")
    return path


def run(flags: dict, clock: str) -> dict:
    """One phase; returns what became of it."""
    folder = pathlib.Path(str(flags["output_dir"]))
    result = folder / "eval_results.json"
    if not result.exists():
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
        command = [sys.executable, "-c", START.format(cpu=clock == "cpu")]
        command += [f"--{name}={value}" for name, value in flags.items()]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
    steps = max(json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines())
    return {**json.loads(result.read_text()), "steps": steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", default="", help="as --input_file of run_pretraining.py; default: Python's manual")
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="cpu")
    parser.add_argument("--output", default="/tmp/budget")
    parser.add_argument("--layers", type=int, default=4, help="of 128")
    parser.add_argument("--arms", default="", help="those whose names end so, with semicolons; default: all")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    vocabulary = pathlib.Path(options.output, "vocabulary")
    common = {**COMMON, "input_file": options.texts, "vocab_file": vocabulary / "vocab.txt"}
    if not (vocabulary / "vocab.txt").exists():
        first = {name: value for name, value in common.items() if name != "vocab_file"}
        first["bert_config_file"] = config_file(options, 0.0)
        run_once = {**first, "output_dir": vocabulary, "num_train_steps": 1}
        run(run_once, "wall")
    print(f"{options.minutes:g} minutes each ({options.clock} clock), {options.layers} layers of 128")
    print(f"  {'':34}{'masked LM loss':>16}{'accuracy':>12}{'steps':>8}")
    for name, phases in ARMS.items():
        too_shallow = options.layers < 3 and any("token_dropping" in phase for phase in phases)
        if too_shallow or not name.endswith(tuple(options.arms.split(";"))):
            continue
        for seed in range(1, options.seeds + 1):
            folder = pathlib.Path(options.output, f"{name.replace(' ', '_').replace(chr(39), '')}_{seed}")
            before: dict = {}
            for number, phase in enumerate(phases):
                shared = {"budget_minutes": options.minutes / len(phases), "random_seed": seed}
                flags = {**common, **phase, **shared, "output_dir": folder / str(number), **before}
                length = flags["max_seq_length"]  # all else that records depend on is the same
                flags["records_dir"] = pathlib.Path(options.output, f"records_{length}_{seed}")
                flags["bert_config_file"] = config_file(options, float(flags.pop("dropout_prob", 0.1)))
                before = {"init_checkpoint": folder / str(number)}
                result = run(flags, options.clock)
            loss, accuracy = result["masked_lm_loss"], result["masked_lm_accuracy"]
            print(f"  {name:34}{loss:>16.4f}{accuracy:>12.4f}{result['steps']:>8,}", flush=True)


if __name__ == "__main__":
    main()
