"""Retrieval scores: how well an index finds the texts whose ids a file lists for its queries.

q queries.
"""

import argparse
import json
import math
from collections.abc import Sequence

from bert_tf.data import examples
from bert_tf.errors import UserError, count_text
from bert_tf.extras.search import search_flags
from bert_tf.runtime.progress import progress

DEPTH = 100  # texts considered for each query
CUT = 10  # cutoff of nDCG and MRR
RECALLS = (1, 10, 100)
AT_ONCE = 64  # queries per batch


def evaluate(arguments: argparse.Namespace) -> None:
    """Prints the scores of an index, according to the flags of `bert-tf evaluate`."""
    relevant = read(arguments.file, arguments.text_columns or "query", arguments.label_column or "id")
    index = search_flags.index_of(arguments, arguments.model)
    queries = list(relevant)
    found: list[list[str]] = []
    with progress("evaluating queries", len(queries)) as report:
        for first in range(0, len(queries), AT_ONCE):
            hits = index.search_all(queries[first : first + AT_ONCE], DEPTH)
            found += [[hit.id for hit in each] for each in hits]
            report(len(found))
    values = scores(found, list(relevant.values()))
    if arguments.json:
        row = {"index": arguments.model, "file": arguments.file, "queries": len(queries), "method": index.method}
        print(json.dumps({**row, "scores": values}, ensure_ascii=False))
        return
    print(f"{arguments.model}, {index.method}, on {count_text(len(queries), 'query', 'queries')} of {arguments.file}:")
    print(*(f"  {name:26} {value:.4f}" for name, value in values.items()), sep="\n")


def read(path: str, query: str, label: str) -> dict[str, set[str]]:
    """Reads {query: ids of the texts that answer it} from a table.

    query, label: its columns. A query with several texts has several rows, or a JSON list of ids.

    Raises UserError for an empty query, and for one without an id.
    """
    found: dict[str, set[str]] = {}
    for row in examples.read(path, texts=(query,), label=label):
        ids = [str(each).strip() for each in (row.label if isinstance(row.label, list) else [row.label or ""])]
        if not row.texts[0].strip() or not ids or not all(ids):
            raise UserError(f"In {row.location} the query or the id of its text is empty: fill it, or remove the row.")
        found.setdefault(row.texts[0], set()).update(ids)
    if not found:
        raise UserError(f"{path} contains no query.")
    return found


def scores(ranked: Sequence[Sequence[str]], relevant: Sequence[set[str]]) -> dict[str, float]:
    """{score: mean over the queries}: nDCG@10, MRR@10 and recall@k.

    ranked: ids of the texts found for each query, best first. relevant: ids of the texts that answer it.
    """
    rows = list(zip(ranked, relevant, strict=True))
    named = {f"ndcg_at_{CUT}": [_ndcg(*row) for row in rows], f"mrr_at_{CUT}": [_reciprocal_rank(*row) for row in rows]}
    for cut in RECALLS:
        named[f"recall_at_{cut}"] = [len(right & set(found[:cut])) / len(right) for found, right in rows]
    return {name: math.fsum(values) / len(values) for name, values in named.items()}


def _ndcg(found: Sequence[str], right: set[str]) -> float:
    best = sum(1 / math.log2(place + 1) for place in range(1, min(len(right), CUT) + 1))
    return sum(1 / math.log2(place + 1) for place, each in enumerate(found[:CUT], 1) if each in right) / best


def _reciprocal_rank(found: Sequence[str], right: set[str]) -> float:
    return next((1 / place for place, each in enumerate(found[:CUT], 1) if each in right), 0.0)
