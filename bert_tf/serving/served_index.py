"""A served index: finds texts for queries, which are batched as those of models are.

B queries of a batch, k texts found for each.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.search.index import Index
from bert_tf.serving.served import Arrays, Signature
from bert_tf.serving.versions import VERSION

SEARCH = "search"  # kind of the model, and the name of its signature
MAX_HITS = 100  # of a query


class SearchSignature(Signature):
    """Queries to the numbers and scores of the nearest texts."""

    def __call__(self, arrays: Arrays) -> Arrays:
        """From "query", string [B], to "numbers" int64 and "scores" float32 [B, k]; runs in the calling thread."""
        queries = [text.decode("utf-8", "replace") for text in arrays["query"].tolist()]
        return dict(self.function(queries))


class ServedIndex:
    """An index under the interface of `served.Served`, as far as the server uses it."""

    kind = form = SEARCH
    input_names = ("query",)
    labels: Sequence[str] = ()
    task = ""

    def __init__(self, name: str, index: "Index", version: str = VERSION) -> None:
        self.name, self.version, self._index = name, version, index
        self.most = min(MAX_HITS, len(index))
        outputs = {"numbers": (np.int64, (None, self.most)), "scores": (np.float32, (None, self.most))}
        self.signatures = {SEARCH: SearchSignature(self._nearest, {"query": ("string", (None,))}, outputs)}
        self.results: dict[str, Any] = {"score": None, "date": None, "examples": [], "texts": len(index)}
        index.search("a")  # no client waits for the work that is done once

    def __len__(self) -> int:
        return len(self._index)

    def _nearest(self, queries: Sequence[str]) -> Arrays:
        found = self._index.search_all(queries, self.most)
        numbers = [[hit.number for hit in hits] + [-1] * (self.most - len(hits)) for hits in found]
        scores = [[hit.score for hit in hits] + [0.0] * (self.most - len(hits)) for hits in found]
        return {"numbers": np.array(numbers, np.int64), "scores": np.array(scores, np.float32)}

    def hits(self, found: Arrays, count: int) -> list[list[dict[str, Any]]]:
        """The texts of what was found, at most `count` for each query, as plain data."""
        rows = []
        for numbers, scores in zip(found["numbers"][:, :count], found["scores"][:, :count], strict=True):
            rows.append([hit.as_json() for hit in self._index.hits(numbers, scores)])
        return rows

    def metadata(self) -> dict[str, Any]:
        """Description of the index in its folder."""
        spec = {"name": self.name, "signature_name": SEARCH, "version": self.version}
        return {"model_spec": spec, "metadata": {"index": self._index.about}}


def queries_of(body: Any) -> tuple[list[str], int] | str:
    """The queries and the number of texts of a request, or what is wrong with it.

    body: {"query": text} or {"queries": [texts]}, and "count", 10 by default.
    """
    if not isinstance(body, dict) or ("query" in body) == ("queries" in body):
        return 'Send {"query": "..."} or {"queries": ["...", ...]}.'
    queries = body["queries"] if "queries" in body else [body["query"]]
    if not isinstance(queries, list) or not all(isinstance(query, str) and query.strip() for query in queries):
        return "A query is not a text with at least one word."
    if not queries:
        return "There are no queries."
    count = body.get("count", 10)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_HITS:
        return f"The count is not a whole number from 1 to {MAX_HITS}."
    return queries, count
