"""Retrieval on SQuAD's files: questions find their paragraph; and the latency of search among many vectors.

  python benchmarks/retrieval.py --model=all-minilm-l6-v2 --squad xquad.en.json new_wiki_v1.0.json
  python benchmarks/retrieval.py --vectors=1000000 --dimensions=384

Latencies are of one query at a time, without computing its vector, beside faiss where it is installed.
"""

import argparse
import json
import tempfile
import time

import numpy as np


def questions_and_paragraphs(paths):
    paragraphs, pairs = {}, []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for article in json.load(file)["data"]:
                for paragraph in article["paragraphs"]:
                    number = paragraphs.setdefault(paragraph["context"], len(paragraphs))
                    pairs += [
                        (question["question"], number) for question in paragraph["qas"] if question.get("answers")
                    ]
    return list(paragraphs), pairs


def retrieval(model, paths, most):
    from bert_tf.search.building import build
    from bert_tf.search.index import Index

    paragraphs, pairs = questions_and_paragraphs(paths)
    pairs = [pairs[n] for n in np.random.default_rng(0).permutation(len(pairs))[:most]]
    with tempfile.TemporaryDirectory() as folder:
        texts = f"{folder}/texts.jsonl"
        with open(texts, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text, "id": str(n)}) + "\n" for n, text in enumerate(paragraphs))
        start = time.monotonic()
        build(texts, f"{folder}/index", model, id_column="id", max_seq_length=256)
        print(f"{len(paragraphs):,} paragraphs indexed in {time.monotonic() - start:.0f} s", flush=True)
        index = Index(f"{folder}/index")
        found = index.search_all([question for question, _ in pairs], 100)
    ranks = []
    for hits, (_, number) in zip(found, pairs, strict=True):
        ids = [int(hit.id) for hit in hits]
        ranks.append(ids.index(number) + 1 if number in ids else np.inf)
    ranks = np.array(ranks)
    print(
        f"{len(pairs):,} questions: recall@1 {np.mean(ranks <= 1):.4f}  recall@10 {np.mean(ranks <= 10):.4f}  "
        f"MRR@100 {np.mean(1 / ranks):.4f}"
    )


def percentiles(search, queries):
    times = []
    for query in queries:
        start = time.perf_counter()
        search(query[None])
        times.append(1000 * (time.perf_counter() - start))
    return f"p50 {np.percentile(times, 50):8.2f} ms  p99 {np.percentile(times, 99):8.2f} ms"


def latency(count, dimensions, intrinsic, graph):
    from bert_tf.search import neighbors

    rng = np.random.default_rng(0)
    vectors = 0.1 * rng.standard_normal((count, dimensions), np.float32)
    vectors += rng.standard_normal((count, intrinsic), np.float32) @ rng.standard_normal(
        (intrinsic, dimensions), np.float32
    )
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = vectors[rng.integers(count, size=200)] + 0.02 * rng.standard_normal((200, dimensions), np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    print(f"{count:,} vectors of {dimensions} numbers, {len(queries)} queries one by one, 10 neighbors")
    print(
        "  exact, matrix product  ", percentiles(lambda query: neighbors.exact(vectors, query, 10), queries), flush=True
    )
    try:
        import faiss
    except ImportError:
        print("  faiss is not installed")
        return
    flat = faiss.IndexFlatIP(dimensions)
    flat.add(vectors)
    print("  faiss IndexFlatIP      ", percentiles(lambda query: flat.search(query, 10), queries), flush=True)
    truth = flat.search(queries, 10)[1]
    ours = np.concatenate([neighbors.exact(vectors, query[None], 10)[0] for query in queries])
    print(f"  exact = flat: {np.mean(ours == truth):.4f} of the neighbors", flush=True)
    if graph:
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            neighbors.build_graph(vectors, f"{folder}/graph", lambda done: None)
            print(f"  graph made in {time.monotonic() - start:.0f} s", flush=True)
            hnsw = neighbors.Graph(f"{folder}/graph")
        print("  approximate, HNSW graph", percentiles(lambda query: hnsw(query, 10), queries))
        found = np.concatenate([hnsw(query[None], 10)[0] for query in queries])
        recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, truth, strict=True)])
        print(f"  recall@10 of the graph against exact search: {recall:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--squad", nargs="*", default=[])
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--vectors", type=int, default=0)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--intrinsic", type=int, default=32, help="dimensions of the space near which the vectors lie")
    parser.add_argument("--graph", action="store_true", help="also approximate search, whose graph takes long to make")
    arguments = parser.parse_args()
    if arguments.squad:
        retrieval(arguments.model, arguments.squad, arguments.questions)
    if arguments.vectors:
        latency(arguments.vectors, arguments.dimensions, arguments.intrinsic, arguments.graph)
