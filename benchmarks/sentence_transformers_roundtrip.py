"""Checks that sentence-transformers loads what we write, and vice versa: compares sentence embeddings both ways.

    python benchmarks/sentence_transformers_roundtrip.py --checkpoint=FOLDER --torch_python=PYTHON

Writes the checkpoint once per pooling, with and without normalization, as `bert-tf convert` does. PYTHON, which has
sentence-transformers and need not have TensorFlow, loads it, embeds a few texts, and saves it again. `bert-tf extract
--unit=sentence`, without a pooling flag, embeds them from both folders. Prints a table; exit code 1 if a difference
exceeds its tolerance.
"""

import argparse
import dataclasses
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOLERANCE = 1e-5  # of the length of a vector
TEXTS = ("A man is eating pasta.", "The sky, blue as ever, is above us all.", "Where?", "naïve caffè " * 40)


def answer_with_torch(folder):
    """Runs in the Python that has sentence-transformers: loads each `folder`/*/written, answers, saves it."""
    import sentence_transformers

    for each in sorted(folder.glob("*/written")):
        model = sentence_transformers.SentenceTransformer(str(each), device="cpu")
        np.save(each.parent / "theirs.npy", model.encode(list(TEXTS)))
        model.save(str(each.parent / "saved"))
    print(f"sentence-transformers {sentence_transformers.__version__}", flush=True)


def write_all(checkpoint, folder):
    """Writes the checkpoint with each pooling; returns the names of the folders."""
    from bert_tf.checkpoints import formats
    from bert_tf.checkpoints.sentence_transformers import FLAGS
    from bert_tf.config.sentence_vectors import SentenceVectors

    names = []
    for pooling in FLAGS.values():
        for normalize in (False, True):
            names.append(f"{pooling}, of length 1" if normalize else pooling)
            changed = dataclasses.replace(checkpoint, sentence_vectors=SentenceVectors(pooling, normalize))
            (folder / names[-1]).mkdir()
            formats.write(changed, str(folder / names[-1] / "written"), "huggingface")
    return names


def differences(checkpoint, torch_python, folder):
    """Yields (what, largest difference by the length of the longest vector)."""
    names = write_all(checkpoint, folder)
    subprocess.run([torch_python, __file__, f"--answer={folder}"], check=True)
    texts = folder / "texts.txt"
    texts.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    for name in names:
        theirs = np.load(folder / name / "theirs.npy")
        for kind in ("written", "saved"):
            flags = ("--unit=sentence", "--max_seq_length=512", "--long_texts=cut", "--overwrite")
            paths = (folder / name / kind, f"--file={texts}", f"--output={folder / 'ours.npz'}")
            subprocess.run([sys.executable, "-m", "bert_tf", "extract", *paths, *flags], cwd=ROOT, check=True)
            ours = np.load(folder / "ours.npz")["vectors"]
            yield f"{name}, {kind}", np.abs(ours - theirs).max() / np.linalg.norm(theirs, axis=1).max()


def main():
    """Prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", help="any folder of weights")
    parser.add_argument("--torch_python", default=sys.executable, help="Python with sentence-transformers")
    parser.add_argument("--answer", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        answer_with_torch(options.answer)
        return 0
    if not options.checkpoint:
        parser.error("give --checkpoint=FOLDER")
    sys.path.insert(0, str(ROOT))
    from bert_tf.checkpoints import formats

    is_right = True
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = formats.read(options.checkpoint)
        for what, difference in differences(checkpoint, options.torch_python, pathlib.Path(folder)):
            is_right &= bool(difference <= TOLERANCE)
            print(f"  {what:40} {difference:10.2g}  {'ok' if difference <= TOLERANCE else 'MISS'}", flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
