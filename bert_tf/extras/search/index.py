"""Index: finds the texts nearest to a query.

q queries, k texts found for each.
"""

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from bert_tf.errors import UserError
from bert_tf.export.opening import AUTO, Engine
from bert_tf.export.reranking import Reranker
from bert_tf.extras.search import neighbors, words
from bert_tf.extras.search.building import build
from bert_tf.extras.search.embedder import Embedder, EmbedderSettings
from bert_tf.extras.search.index_files import GRAPH, WORDS, IndexFiles

RERANKED = FUSED = 100  # texts passed to the reranker, and texts of each ranking to fuse
METHODS = BY_VECTORS, BY_WORDS, HYBRID = ("vectors", "bm25", "hybrid")


@dataclasses.dataclass(frozen=True)
class Hit:
    """A search result.

    Attributes:
        number: number of the text in the index, from 0.
        id: id in the table, else the row number.
        text: the text.
        score: similarity with the query, the BM25 or fusion score, or the reranker's score.
        other: the other columns of its row.
    """

    number: int
    id: str
    text: str
    score: float
    other: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The hit as plain data."""
        values = {"id": self.id, "score": round(self.score, 6), "text": self.text}
        return {**values, "other": dict(self.other)} if self.other else values


class Index:
    """An index written by `Index.build` or `bert-tf index`.

    index = Index("my_index")
    index.search("how do I raise an error?")  ->  [Hit, ...], nearest first

    Args:
        folder: the index folder.
        model: overrides the model recorded in the index; "" for the recorded one.
        method: "vectors", "bm25" (words), or "hybrid", both fused; "auto": hybrid if the index has words, else vectors.
        exact: whether to compare with every vector even if there is a graph for approximate search.
        reranker: the path of a cross-encoder; "" for none.
        reranker_label: see `Reranker`.
        batch_size: queries per batch.
        engine: see `opening.choose`; "auto": the engine named when the index was built, if any.

    Attributes:
        about: the content of the index's JSON file: model, pooling, count, dimensions, ...
        embedder: the Embedder for texts and queries.
        is_exact: whether every vector is compared.
        method: the search method.
        reranker: the reranker; None for none.
    """

    build = staticmethod(build)

    def __init__(
        self,
        folder: str,
        *,
        model: str = "",
        method: Literal["auto", "vectors", "bm25", "hybrid"] = "auto",
        exact: bool = False,
        reranker: str = "",
        reranker_label: str = "",
        batch_size: int = 64,
        engine: Engine = AUTO,
    ) -> None:
        """Loads the model. Raises UserError if a file is damaged, or the model's embeddings differ from the index."""
        self._files = IndexFiles(folder)
        self.folder, self.about = folder, self._files.about
        has_words = "words" in self.about["files"]
        self.method = (HYBRID if has_words else BY_VECTORS) if method == "auto" else method
        if self.method not in METHODS:
            raise UserError(f"method is {method!r}; expected auto or one of {', '.join(METHODS)}.")
        if self.method != BY_VECTORS and not has_words:
            raise UserError(f"{folder} has no words for method={method}: rebuild it with `bert-tf index --bm25`.")
        self._words = None
        if self.method != BY_VECTORS:
            self._words = words.Words(self._files.path(WORDS), len(self._files.vectors))
        self.is_exact = exact or "graph" not in self.about["files"]
        self._graph = None if self.is_exact else neighbors.Graph(self._files.path(GRAPH), self._files.vectors.shape)
        if self.is_exact:
            self._files.check_finite()
        about = self.about
        path = model or about["model"]
        try:
            used = about.get("engine", AUTO) if engine == AUTO and not model else engine
            self.embedder = Embedder(path, _settings(about), batch_size, used)
        except UserError as error:
            raise UserError(f"The model of {folder} cannot be used: {error}") from None
        self._check_same_vectors(path)
        self.reranker = Reranker.load(reranker, reranker_label) if reranker else None
        self._lock = threading.Lock()  # one exhaustive comparison at a time, since each uses all cores

    def _check_same_vectors(self, path: str) -> None:
        (row,) = self._files.rows([0])
        if not self._files.vectors.is_first(self.embedder.texts([row["text"]])[0]):
            raise UserError(
                f"{path} does not produce the vectors in {self.folder}: pass the model that the index was made with, "
                "or rebuild it."
            )

    def __len__(self) -> int:
        return len(self._files.vectors)

    def search(self, query: str, count: int = 10) -> list[Hit]:
        """The texts nearest to a query, nearest first."""
        return self.search_all([query], count)[0]

    def search_all(self, queries: Sequence[str], count: int = 10) -> list[list[Hit]]:
        """The texts nearest to each of several queries. Raises UserError for an empty query or a count below 1."""
        if count < 1:
            raise UserError(f"count is {count}; expected 1 or more.")
        if not all(query.strip() for query in queries):
            raise UserError("A query is empty; expected some words.")
        numbers, scores = self._found(queries, max(count, RERANKED) if self.reranker else count)
        found = [self.hits(*each) for each in zip(numbers, scores, strict=True)]
        return [self._reranked(*each)[:count] for each in zip(queries, found, strict=True)]

    def _found(self, queries: Sequence[str], count: int) -> neighbors.Found:
        """Like `nearest`, with the index's method; missing texts have the number words.NONE."""
        if self._words is not None and self.method == BY_WORDS:
            return self._words(queries, count)
        most = count if self._words is None else max(count, FUSED)
        vectors = self.embedder.queries(queries)
        with self._lock:
            nearest = self.nearest(vectors, most)
        if self._words is None:
            return nearest
        return words.fused([nearest[0], self._words(queries, most)[0]], count)

    def nearest(self, vectors: np.ndarray, count: int) -> neighbors.Found:
        """Numbers int64 [q, k] and similarities [q, k] of the texts nearest to query embeddings, float32 [q, E]."""
        if self._graph is not None:
            return self._graph(vectors, count)
        return self._files.vectors.nearest(vectors, count)

    def hits(self, numbers: np.ndarray, scores: np.ndarray) -> list[Hit]:
        """The texts with these numbers [k], without those numbered -1 (none), and their scores."""
        is_found = numbers >= 0
        rows = self._files.rows(numbers[is_found].tolist())
        return [
            Hit(int(number), row["id"], row["text"], float(score), row.get("other", {}))
            for number, score, row in zip(numbers[is_found], scores[is_found], rows, strict=True)
        ]

    def _reranked(self, query: str, found: list[Hit]) -> list[Hit]:
        if self.reranker is None or not found:
            return found
        scores = self.reranker(query, [hit.text for hit in found])
        scored = [dataclasses.replace(hit, score=float(score)) for hit, score in zip(found, scores, strict=True)]
        return sorted(scored, key=lambda hit: -hit.score)


def _settings(about: Mapping[str, Any]) -> EmbedderSettings:
    """Embedding settings of an index; older indexes had no prompts or truncation, and do not record that."""
    older = {"long_texts": "windows", "prompt": "", "query_prompt": "", "similarity": "cosine"}
    names = {field.name for field in dataclasses.fields(EmbedderSettings)}
    return EmbedderSettings(**{**older, **{name: value for name, value in about.items() if name in names}})
