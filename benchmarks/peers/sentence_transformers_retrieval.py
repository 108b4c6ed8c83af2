"""Retrieval on SQuAD's files with sentence-transformers and faiss, beside ../retrieval.py, on the same questions.

    python sentence_transformers_retrieval.py --model=all-minilm-l6-v2 --squad xquad.en.json --questions=1190

Needs no bert_tf.
"""

import argparse
import pathlib
import sys
import time

import faiss
import numpy as np
from sentence_transformers import SentenceTransformer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from retrieval import questions_and_paragraphs  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--squad", nargs="*", default=[])
    parser.add_argument("--questions", type=int, default=2000)
    arguments = parser.parse_args()
    paragraphs, pairs = questions_and_paragraphs(arguments.squad)
    pairs = [pairs[n] for n in np.random.default_rng(0).permutation(len(pairs))[: arguments.questions]]
    model = SentenceTransformer(arguments.model, device="cpu")
    model.max_seq_length = 256
    start = time.monotonic()
    index = faiss.IndexFlatIP(model.get_sentence_embedding_dimension())
    index.add(model.encode(paragraphs, normalize_embeddings=True))
    print(f"{len(paragraphs):,} paragraphs indexed in {time.monotonic() - start:.0f} s", flush=True)
    questions = model.encode([question for question, _ in pairs], normalize_embeddings=True)
    found = index.search(questions, 100)[1]
    places = [np.flatnonzero(hits == number) for hits, (_, number) in zip(found, pairs, strict=True)]
    ranks = np.array([place[0] + 1 if len(place) else np.inf for place in places])
    print(
        f"{len(pairs):,} questions: recall@1 {np.mean(ranks <= 1):.4f}  recall@10 {np.mean(ranks <= 10):.4f}  "
        f"MRR@100 {np.mean(1 / ranks):.4f}"
    )


if __name__ == "__main__":
    main()
