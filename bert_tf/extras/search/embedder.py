"""Embedder: texts and queries to embeddings, with any model.

n texts, E dimensions.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.data.examples import Example
from bert_tf.errors import UserError, leave_out
from bert_tf.export import opening
from bert_tf.export.batches import BatchFunction, predict_in_order
from bert_tf.heads.vectors import sentence_choice
from bert_tf.heads.vectors.sentence_choice import DOCUMENT, QUERY, SentenceOptions
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.runtime.tensorflow_startup import check_installed

WINDOW = 4096  # texts per window, batched by similar length
COSINE, DOT = "cosine", "dot"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbedderSettings:
    """Settings for the embeddings of an index; None: as specified in the model.

    Attributes:
        pooling, truncate_dim, max_seq_length, long_texts: see SentenceOptions.
        prompt, query_prompt: prefixes of texts and queries.
        prompt_name, query_prompt_name: names of the model's prompts instead; default: "document" and "query", which
            are empty if the model has no prompt of that name, as in sentence-transformers.
        segments: segments of a checkpoint, "one" or "two", see `config.segments`.
        similarity: "cosine" (vectors are scaled to length 1) or "dot".
    """

    pooling: str | None = None
    truncate_dim: int | None = None
    max_seq_length: int | None = None
    long_texts: str | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    query_prompt: str | None = None
    query_prompt_name: str | None = None
    segments: str | None = None
    similarity: str | None = None


class Model(NamedTuple):
    """An embedding model: its recorded settings, its configuration, and choice -> a predictor of "vectors"."""

    recorded: SentenceVectors | None
    config: BertConfig
    extractor: Callable[[VectorChoice], BatchFunction]


class Embedder:
    """Embeds texts and queries.

    Args:
        path: a checkpoint in any format, a run or an export.
        settings: settings that override the model's.
        batch_size: texts per batch.

    Attributes:
        settings: all settings in use, without names of prompts.
        dimensions: E.
        is_for_vectors: whether the model specifies how to embed texts, which a model trained for embeddings does.
    """

    def __init__(
        self,
        path: str,
        settings: EmbedderSettings | None = None,
        batch_size: int = 64,
        engine: str = opening.AUTO,
    ) -> None:
        """Loads the model. Raises UserError if it cannot embed texts. engine: see `opening.choose`."""
        given = settings or EmbedderSettings()
        model = _model(path, engine, given.segments)
        self.is_for_vectors = model.recorded is not None
        recorded = model.recorded or SentenceVectors()
        similarity = given.similarity or recorded.similarity or COSINE
        if similarity not in (COSINE, DOT):
            raise UserError(
                f"The vectors of {path} are compared by their {similarity} distance, which an index does not support: "
                f"pass similarity={COSINE} or {DOT}."
            )
        options = SentenceOptions(
            pooling=given.pooling or None,
            normalize=True if similarity == COSINE else None,
            truncate_dim=given.truncate_dim,
            max_seq_length=given.max_seq_length,
            long_texts=given.long_texts,
            **_prompt(given.prompt_name, given.prompt, DOCUMENT),
        )
        choice = sentence_choice.choose(recorded, options, path=path, config=model.config)
        query_prompt = sentence_choice.prompt_of(
            recorded, path, **_prompt(given.query_prompt_name, given.query_prompt, QUERY)
        )
        self.settings = EmbedderSettings(
            pooling=choice.pooling,
            truncate_dim=choice.truncate_dim,
            max_seq_length=choice.max_seq_length,
            long_texts="windows" if choice.stride else "cut",
            prompt=choice.prompt,
            query_prompt=query_prompt,
            segments=given.segments,
            similarity=similarity,
        )
        self.dimensions, self.batch_size = choice.width(model.config.hidden_size), batch_size
        self._texts = self._queries = model.extractor(choice)
        if query_prompt != choice.prompt:
            of_queries = dataclasses.replace(choice, prompt=query_prompt)
            self._queries = model.extractor(of_queries)

    def in_order(self, examples: Iterable[Example]) -> Iterator[tuple[Example, np.ndarray]]:
        """Yields (example, float32 [E]) for the first text of each example, without keeping all in memory."""
        return self._in_order(self._texts, examples)

    def texts(self, texts: Iterable[str]) -> np.ndarray:
        """Embeddings of the texts to search, float32 [n, E]."""
        return self._stacked(self._texts, texts)

    def queries(self, texts: Iterable[str]) -> np.ndarray:
        """Embeddings of queries, float32 [n, E]."""
        return self._stacked(self._queries, texts)

    def _in_order(self, extractor: BatchFunction, examples: Iterable[Example]) -> Iterator[tuple[Example, np.ndarray]]:
        first = (Example(each.id, each.texts[:1], None, each.location, each.other) for each in examples)
        rows = predict_in_order(extractor, first, batch_size=self.batch_size, window=WINDOW)
        return ((example, values["vectors"].vectors.reshape(-1)) for example, values in rows)

    def _stacked(self, extractor: BatchFunction, texts: Iterable[str]) -> np.ndarray:
        examples = (Example(str(number), (text,), None, f"text {number}") for number, text in enumerate(texts))
        vectors = [vector for _, vector in self._in_order(extractor, examples)]
        return np.stack(vectors) if vectors else np.zeros([0, self.dimensions], np.float32)


def _prompt(name: str | None, text: str | None, default: str) -> dict[str, Any]:
    """The arguments of `prompt_of`, with the default name if there is neither name nor text."""
    return {"prompt_name": default if name is None and text is None else name, "prompt": text}


def _model(path: str, engine: str, segments: str | None) -> Model:
    """The model at a path, on an engine if it is an export with a model for it; segments: for a checkpoint."""
    predictor = opening.load_for_vectors(path, engine)
    if predictor:
        if segments:
            raise leave_out(f"segments={segments} has no effect on {path}, which keeps its own")
        folder = predictor.folder
        config, recorded = opening.encoder_of(folder)
        return Model(recorded, config, predictor.extractor)
    check_installed()
    from bert_tf.checkpoints import pretrained
    from bert_tf.export import checkpoint_predictor

    loaded = pretrained.load(path, segments=segments)
    loaded.check_vocabulary(path)
    return Model(
        loaded.sentence_vectors, loaded.config, functools.partial(checkpoint_predictor.vectors_of, path, loaded)
    )
