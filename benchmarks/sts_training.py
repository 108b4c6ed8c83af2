"""Sentence vectors trained on STS-B's scores, beside sentence-transformers: same pairs, steps, loss, schedule, seeds.

    python benchmarks/sts_training.py --model=all-minilm-l6-v2 --data_dir=STS-B --peer_python=PYTHON --pairs=1920

Both train with CoSENT, batches of 32, AdamW (weight decay 0.01, none on biases and LayerNorms; gradients clipped to
length 1), a tenth of the steps of warm-up and a linear decay, one epoch, the model's dropout; the order of the pairs is
each one's own. Prints Spearman's correlation of cosines and scores on all of dev.tsv. PYTHON has sentence-transformers.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
BATCH, RATE, WARM_UP = 32, 2e-5, 0.1
COLUMNS = ("sentence1", "sentence2", "score")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data_dir", required=True, help="folder of train.tsv and dev.tsv of STS-B")
    parser.add_argument("--peer_python", required=True, help="a Python with sentence-transformers")
    parser.add_argument("--pairs", type=int, default=1920, help="of train.tsv, drawn at random; a multiple of 32")
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--folder", default="", help="of the peer's own process")
    options = parser.parse_args()
    if options.folder:
        theirs(options)
        return
    print(f"{options.pairs:,} pairs, {options.pairs // BATCH} steps\n\n| | seed | Spearman, before | after | seconds |")
    print("|---|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        subset(options, folder)
        for seed in options.seeds.split(","):
            spearman, seconds = ours(options, seed, folder)
            print(f"| bert_tf | {seed} | | {spearman:.4f} | {seconds:.0f} |", flush=True)
        for seed in options.seeds.split(","):
            words = [f"--model={options.model}", f"--data_dir={options.data_dir}", f"--seeds={seed}"]
            command = [options.peer_python, __file__, *words, f"--folder={folder}", "--peer_python=-"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            before, after, seconds = np.load(f"{folder}/theirs.npy")
            print(f"| sentence-transformers | {seed} | {before:.4f} | {after:.4f} | {seconds:.0f} |", flush=True)


def rows(path):
    """(sentence, sentence, score) of a file of STS-B."""
    head, *lines = pathlib.Path(path).read_text(encoding="utf-8").rstrip("\n").split("\n")
    places = [head.split("\t").index(name) for name in COLUMNS]
    return [tuple(line.split("\t")[place] for place in places) for line in lines]


def subset(options, folder):
    """Writes the pairs to train on."""
    pairs = rows(f"{options.data_dir}/train.tsv")
    chosen = np.random.default_rng(0).permutation(len(pairs))[: options.pairs]
    lines = ["\t".join(each) for each in (COLUMNS, *(pairs[number] for number in chosen))]
    pathlib.Path(folder, "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def ours(options, seed, folder):
    """Spearman's correlation after training, and seconds of the whole command."""
    flags = {"task_name": "sts", "train_file": f"{folder}/train.tsv", "eval_file": f"{options.data_dir}/dev.tsv"}
    flags |= {"text_columns": ",".join(COLUMNS[:2]), "label_column": COLUMNS[2], "init_checkpoint": options.model}
    flags |= {"train_batch_size": BATCH, "eval_batch_size": 64, "num_train_epochs": 1, "learning_rate": RATE}
    flags |= {"precision": "float32", "random_seed": seed, "do_export": False, "output_dir": f"{folder}/{seed}"}
    start = time.monotonic()
    command = [sys.executable, ROOT / "run_classifier.py", *(f"--{name}={value}" for name, value in flags.items())]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"})
    if done.returncode:
        raise SystemExit(done.stdout[-1000:] + done.stderr[-1000:])
    return json.loads(pathlib.Path(folder, seed, "eval_results.json").read_text())["spearman"], time.monotonic() - start


def theirs(options):
    """Runs in the Python of the peer: writes Spearman's correlations and the seconds of training to a file."""
    import torch
    from sentence_transformers import SentenceTransformer, losses

    seed, start = int(options.seeds), time.monotonic()
    torch.manual_seed(seed)
    model = SentenceTransformer(options.model, device="cpu")
    model.max_seq_length = 128
    train, dev = rows(f"{options.folder}/train.tsv"), rows(f"{options.data_dir}/dev.tsv")
    before = correlation(model, dev)
    order, loss = np.random.default_rng(seed).permutation(len(train)), losses.CoSENTLoss(model)
    groups = {0.01: [], 0.0: []}
    for name, weight in model.named_parameters():
        groups[0.0 if "bias" in name or "LayerNorm" in name else 0.01].append(weight)
    groups = [{"params": weights, "weight_decay": decay} for decay, weights in groups.items()]
    optimizer = torch.optim.AdamW(groups, lr=RATE, eps=1e-6)
    steps = len(train) // BATCH
    warm = int(WARM_UP * steps)
    factor = lambda step: (step + 1) / warm if step < warm else (steps - step) / (steps - warm)  # noqa: E731
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    model.train()
    for step in range(steps):
        batch = [train[number] for number in order[step * BATCH : (step + 1) * BATCH]]
        texts = [model.tokenize([each[side] for each in batch]) for side in (0, 1)]
        value = loss(texts, torch.tensor([float(each[2]) for each in batch]))
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    after = correlation(model, dev)
    np.save(f"{options.folder}/theirs.npy", [before, after, time.monotonic() - start])


def correlation(model, pairs):
    from scipy.stats import spearmanr

    model.eval()
    one, other = (
        model.encode([each[side] for each in pairs], batch_size=64, normalize_embeddings=True) for side in (0, 1)
    )
    return spearmanr((one * other).sum(1), [float(each[2]) for each in pairs]).statistic


if __name__ == "__main__":
    main()
