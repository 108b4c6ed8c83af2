"""Embedder: texts to vectors of length 1, with any model.

n texts, E numbers of a vector.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from bert_tf.checkpoints import pretrained
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import loaded_model
from bert_tf.tasks.embeddings.extraction import Extractor
from bert_tf.tasks.embeddings.vector_choice import POOLINGS, VectorChoice, choose_layers

WINDOW = 4096  # texts among which those of similar length share a batch


class Embedder:
    """Makes vectors of texts of any length; long ones are read in overlapping windows.

    Args:
        path: a checkpoint in any format, a run or an export.
        pooling: one of POOLINGS, or "" for that of the model, else the mean.
        max_seq_length: tokens of a window; at most the positions of the model are used.
        batch_size: texts that are computed at once.

    Attributes:
        pooling: the one that is used.
        dimensions: E.
    """

    def __init__(self, path: str, pooling: str = "", max_seq_length: int = 128, batch_size: int = 64) -> None:
        """Loads the model. Raises UserError where it makes no vectors."""
        loaded = pretrained.load(path)
        if loaded.tokenizer is None:
            raise UserError(f"{path} has no vocab.txt next to it, without which it takes no strings.")
        recorded = loaded.sentence_vectors
        if not pooling and recorded is not None and not recorded.is_known:
            raise UserError(f"{path} specifies the pooling {recorded.pooling}, which is not supported: give pooling.")
        self.pooling = pooling or (recorded.pooling if recorded else "mean")
        if self.pooling not in POOLINGS:
            raise UserError(f"pooling is {pooling!r}; expected one of {', '.join(POOLINGS)}.")
        length = min(max_seq_length, loaded.config.max_position_embeddings)
        choice = VectorChoice(
            layers=choose_layers("last", loaded.config.layers_with_states),
            unit="sentence",
            pooling=self.pooling,
            normalize=("sentence",),
            max_seq_length=length,
            stride=length // 2,
        )
        self.dimensions, self.batch_size = choice.width(loaded.config.hidden_size), batch_size
        self._extractor = Extractor(loaded.model, loaded.tokenizer, choice)

    def in_order(self, examples: Iterable[Example]) -> Iterator[tuple[Example, np.ndarray]]:
        """Yields (example, float32 [E]) for the first text of each example; not all are held at once."""
        first = (Example(each.id, each.texts[:1], None, each.location, each.other) for each in examples)
        rows = loaded_model.predict_in_order(self._extractor, first, batch_size=self.batch_size, window=WINDOW)
        return ((example, values["vectors"].vectors.reshape(-1)) for example, values in rows)

    def __call__(self, texts: Iterable[str]) -> np.ndarray:
        """Float32 [n, E]."""
        examples = (Example(str(number), (text,), None, f"text {number}") for number, text in enumerate(texts))
        vectors = [vector for _, vector in self.in_order(examples)]
        return np.stack(vectors) if vectors else np.zeros([0, self.dimensions], np.float32)
