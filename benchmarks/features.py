"""Compares sentence embeddings with published ones, and measures texts per second.

    python benchmarks/features.py --golden=GOLDEN --model=FOLDER [--file=TEXTS]

GOLDEN holds golden.json (texts, published similarities) and golden.npz (tokens, vectors) of a sentence-transformers
model, FOLDER its checkpoint. Runs `bert-tf extract`, compares mean pooling, its normalized vectors and the tokens of
layers with the recorded arrays, and prints a table; exit code 1 if a difference exceeds its tolerance. With TEXTS, one
text per line, it also times the extraction of sentence vectors in both precisions.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOLERANCE, PUBLISHED_TOLERANCE = 1e-5, 1e-4  # the published similarities have four digits


def extract(model, texts, output, *flags):
    """Runs the command; returns the arrays of its .npz file and the seconds it took."""
    command = [sys.executable, "-m", "bert_tf", "extract", str(model), "--file", str(texts), "--overwrite"]
    start = time.monotonic()
    subprocess.run([*command, "--output", str(output), *flags], cwd=ROOT, check=True)
    return dict(np.load(output)), time.monotonic() - start


def differences(golden, model, folder):
    """Yields (what, largest difference, tolerance)."""
    facts = json.loads((golden / "golden.json").read_text(encoding="utf-8"))
    arrays, texts = np.load(golden / "golden.npz"), folder / "texts.txt"
    lines = [" ||| ".join(filter(None, (each["text"], each["text_pair"]))) for each in facts["inputs"]]
    texts.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    whole = ("--unit=sentence", "--pooling=mean")
    pooled = extract(model, texts, folder / "pooled.npz", *whole)[0]["vectors"]
    yield "mean of the tokens", np.abs(pooled - arrays["mean_pooled"]).max(), TOLERANCE
    vectors = extract(model, texts, folder / "normalized.npz", *whole, "--normalize")[0]["vectors"]
    yield "normalised", np.abs(vectors - arrays["sentence_embedding"]).max(), TOLERANCE
    yield "their cosines", np.abs(vectors @ vectors.T - arrays["cosine"]).max(), TOLERANCE
    published = facts["published_cosine_sentence_transformers_README"]
    names = ("weather/sunny", "weather/stadium", "sunny/stadium")
    outputs = dict(zip(names, (vectors @ vectors.T)[[0, 0, 1], [1, 2, 2]], strict=True))
    yield "published cosines", max(abs(outputs[name] - value) for name, value in published.items()), PUBLISHED_TOLERANCE
    pooler = extract(model, texts, folder / "pooler.npz", "--unit=sentence", "--pooling=pooled")[0]["vectors"]
    yield "pooler", np.abs(pooler - arrays["pooler_output"]).max(), TOLERANCE
    tokens = extract(model, texts, folder / "tokens.npz", "--layers=embeddings,2,-1")[0]
    names = [token for each in facts["inputs"] for token in each["tokens"]]
    yield "tokens that differ", sum(a != b for a, b in zip(tokens["tokens"], names, strict=True)), 0
    mask = arrays["attention_mask"] == 1
    for number, name in enumerate(("hidden_state_0", "hidden_state_3", "last_hidden_state")):
        yield name, np.abs(tokens["vectors"][:, number] - arrays[name][mask]).max(), TOLERANCE


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("golden", "model"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--file", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder, is_right = pathlib.Path(folder), True
        rows = list(differences(options.golden, options.model.resolve(), folder))
        print("| what | largest difference | tolerance | |\n|---|---:|---:|---|")
        for what, difference, tolerance in rows:
            is_right &= bool(difference <= tolerance)
            print(f"| {what} | {difference:.2g} | {tolerance:g} | {'ok' if difference <= tolerance else '**MISS**'} |")
        for precision in ("float32", "bfloat16") if options.file else ():
            flags = ("--unit=sentence", f"--precision={precision}")
            outputs, seconds = extract(options.model.resolve(), options.file.resolve(), folder / "all.npz", *flags)
            print(f"{precision}: {len(outputs['vectors']):,} texts in {seconds:.1f} s, start included", flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
