"""Servable: a kind of model, and the functions of its export."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.runtime.lazy import keras
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training.task import Batch, Task


class Servable(abc.ABC):
    """A kind of model and the functions of its export.

    Attributes:
        name: the task in `tasks.catalog`.
        host_settings: plain data that lets `export.host` do the work of the default signature around the network;
            None if only TensorFlow can answer.
        sentence_vectors: how it makes text embeddings; None if it makes none.
    """

    name: str
    host_settings: Mapping[str, Any] | None = None
    sentence_vectors: SentenceVectors | None = None

    def vector_choice(self, config: BertConfig) -> VectorChoice | None:
        """The vectors returned by its network; None if it returns a head's outputs. config: the model's."""
        return None

    @abc.abstractmethod
    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        """The Keras model; dtype is a dtype policy, or the name of one."""

    @abc.abstractmethod
    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        """The signatures of the export: {name: tf.function on strings}."""


class TextTask(Servable, Task):
    """A task on texts. tokenizer: cuts them into tokens."""

    tokenizer: Tokenizer

    def row_texts(self, batch: Batch) -> list[str]:
        """The tokens of each row of a batch as one text; [] if it contains no tokens."""
        if "token_ids" not in batch:
            return []
        token_ids = batch["token_ids"].numpy()
        return list(self.tokenizer.detokenize(token_ids.reshape(len(token_ids), -1)))
