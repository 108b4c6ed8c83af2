"""A served index: finds texts for queries, which are batched like requests to models.

B queries per batch, k texts found for each.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bert_tf.errors import count_text
from bert_tf.extras.search.index import Index
from bert_tf.serving.client_routes import Computing
from bert_tf.serving.served import Arrays, HostSignature, Searchable
from bert_tf.serving.versions import VERSION

SEARCH = "search"  # kind of the model, and name of its signature
MAX_HITS = 100  # per query


class ServedIndex(Searchable):
    """See `served.Searchable`."""

    kind = form = SEARCH
    input_names = ("query",)
    labels: Sequence[str] = ()
    task = ""

    def __init__(self, name: str, index: Index, version: str = VERSION) -> None:
        self.name, self.version, self._index = name, version, index
        self.most = min(MAX_HITS, len(index))
        outputs = {"numbers": (np.int64, (None, self.most)), "scores": (np.float32, (None, self.most))}
        self.signatures = {SEARCH: HostSignature(self._nearest, {"query": ("string", (None,))}, outputs)}
        self.results: dict[str, Any] = {"score": None, "date": None, "examples": [], "texts": len(index)}
        index.search("a")  # so that no client waits for one-time work

    @classmethod
    def load(cls, name: str, path: str, version: str, **options: Any) -> Self:
        """Loads the index at a path; options: see Index."""
        return cls(name, Index(path, **options), version)

    def _nearest(self, query: np.ndarray) -> Arrays:
        """From string [B] to "numbers" int64 and "scores" float32 [B, k]."""
        found = self._index.search_all([text.decode("utf-8", "replace") for text in query.tolist()], self.most)
        numbers = [[hit.number for hit in hits] + [-1] * (self.most - len(hits)) for hits in found]
        scores = [[hit.score for hit in hits] + [0.0] * (self.most - len(hits)) for hits in found]
        return {"numbers": np.array(numbers, np.int64), "scores": np.array(scores, np.float32)}

    async def answer(self, server: Computing, request: Request, body: Any) -> Response:
        queries, count = _asked(body, server.most_instances)
        arrays = {"query": np.array([query.encode() for query in queries], object)}
        found = await server.compute(request, self, self.signatures[SEARCH], arrays)
        return JSONResponse({"results": await asyncio.to_thread(self._hits, found, count)})

    def _hits(self, found: Arrays, count: int) -> list[list[dict[str, Any]]]:
        """The found texts, at most `count` for each query, as plain data."""
        rows = zip(found["numbers"][:, :count], found["scores"][:, :count], strict=True)
        return [[hit.as_json() for hit in self._index.hits(*row)] for row in rows]

    def describe(self, post: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        text = {"type": "string"}
        query = {**text, "pattern": r"\S"}  # blank ones are refused
        count = {"type": "integer", "minimum": 1, "maximum": MAX_HITS, "default": 10}
        forms = [
            {"type": "object", "properties": {name: schema, "count": count}, "required": [name]}
            for name, schema in (("query", query), ("queries", {"type": "array", "items": query, "minItems": 1}))
        ]
        hit = {"id": text, "score": {"type": "number"}, "text": text, "other": {"type": "object"}}
        hits = {"type": "array", "items": {"type": "object", "properties": hit, "required": ["id", "score", "text"]}}
        answer = {"schema": {"type": "object", "properties": {"results": {"type": "array", "items": hits}}}}
        about = f"Finds the nearest of {count_text(len(self._index), 'text')}."
        return post(self.name, about, {"schema": {"oneOf": forms}}, "The texts for each query, nearest first.", answer)

    def metadata(self) -> dict[str, Any]:
        spec = {"name": self.name, "signature_name": SEARCH, "version": self.version}
        return {"model_spec": spec, "metadata": {"index": self._index.about}}


def _asked(body: Any, most: int) -> tuple[list[str], int]:
    """The queries of a request, at most `most`, and its number of texts; raises HTTPException if it is invalid.

    body: {"query": text} or {"queries": [texts]}, and "count", 10 by default.
    """
    if not isinstance(body, dict) or ("query" in body) == ("queries" in body):
        raise HTTPException(400, 'Send {"query": "..."} or {"queries": ["...", ...]}.')
    queries = body["queries"] if "queries" in body else [body["query"]]
    if not isinstance(queries, list) or not all(isinstance(query, str) and query.strip() for query in queries):
        raise HTTPException(400, "A query is not a text with at least one word.")
    if not queries:
        raise HTTPException(400, "There are no queries.")
    count = body.get("count", 10)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_HITS:
        raise HTTPException(400, f"The count is not a whole number from 1 to {MAX_HITS}.")
    if len(queries) > most:
        raise HTTPException(413, f"There are {len(queries):,} queries: send at most {most:,} at once.")
    return queries, count
