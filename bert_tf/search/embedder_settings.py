"""Settings of the vectors of an index. Free of TensorFlow."""

import dataclasses

COSINE, DOT = "cosine", "dot"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbedderSettings:
    """Settings of the vectors of an index; None: as the model says.

    Attributes:
        pooling, truncate_dim, max_seq_length, long_texts: see SentenceOptions.
        prompt, query_prompt: what is put before a text, and before a query.
        prompt_name, query_prompt_name: names of prompts of the model instead; by default "document" and "query", which
            are empty where the model has none of that name, as in sentence-transformers.
        segments: of a checkpoint, "one" or "two", see `config.segments`.
        similarity: "cosine", for which vectors get length 1, or "dot".
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
