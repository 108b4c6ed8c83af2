"""The library `tokenizers` in pipelines: calls the host from the graph.

B texts, P tokens. TensorFlow lacks operations for some tokenizer.json files, so a SavedModel cannot contain it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bert_tf.runtime import backend
from bert_tf.runtime.lazy import tf
from bert_tf.text.host_library import LibraryTokenizer as HostLibrary
from bert_tf.text.host_tokenizer import Tokens
from bert_tf.text.tokenizer import Tokenizer

NOT_IN_GRAPH = (
    "TensorFlow has no operations for the tokenizer of this model, so its SavedModel takes no strings: predict with "
    "bert_tf (bert_tf.load, bert-tf predict, bert-tf serve), or pass rows of token ids to its function "
    "network.packed."
)


class LibraryTokenizer(Tokenizer):
    """A Tokenizer with every step of a tokenizer.json; see `host_library.LibraryTokenizer`."""

    in_graph = False

    @functools.cached_property
    def host(self) -> HostLibrary:
        """As Tokenizer."""
        return HostLibrary(self.vocabulary, special_tokens_in_strings=self.special_tokens)

    def _set_up(self) -> None:
        self.marks = self.host.marks

    def _new_splitter(self) -> Any:
        return _Splitter(self.host)

    def _recognizing(self, splitter: Any) -> Any:
        return splitter  # the library finds its tokens itself

    def inside_text(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """As Tokenizer."""
        return _ragged(texts, lambda parts: [self.host.inside_text(text) for text in parts])

    def continues_word(self, ids: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """As Tokenizer."""
        (flags,) = _call(lambda *columns: [self.host.continues_word(Tokens(*columns))], [ids, starts, ends], [tf.bool])
        return tf.ensure_shape(flags, [None])

    def _join(self, row: Sequence[int]) -> str:
        text: str = self.host.decode(row)
        return text


class _Splitter:
    """Splits texts with a tokenizer on the host."""

    def __init__(self, host: HostLibrary) -> None:
        self._host = host

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """texts: string [B] -> ragged int32 [B, (tokens)]."""
        return _ragged(texts, self._host.ids_of)

    def tokenize_with_offsets(
        self, texts: tf.Tensor, *, in_characters: bool
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """texts: string [B] -> ids (int32), starts, ends (int64): ragged [B, (tokens)]."""

        def columns_of(texts: np.ndarray) -> tuple[np.ndarray, ...]:
            parts = _texts(texts)
            found = [self._host.with_offsets(text) for text in parts]
            if not in_characters:
                found = [_in_bytes(tokens, text) for tokens, text in zip(found, parts, strict=True)]
            ids, starts, ends = Tokens.joined(found) if found else ([], [], [])
            counts = [len(tokens.ids) for tokens in found]
            return np.array(ids, np.int32), *(np.array(x, np.int64) for x in (starts, ends, counts))

        *columns, counts = _call(columns_of, [texts], [tf.int32, tf.int64, tf.int64, tf.int64])
        ids, starts, ends = (_rows(column, counts) for column in columns)
        return ids, starts, ends


def _ragged(texts: tf.Tensor, ids_of: Callable[[Sequence[str]], list[list[int]]]) -> tf.RaggedTensor:
    """The ids that a function of texts returns, ragged int32 [B, (tokens)]; texts: string [B]."""

    def columns_of(texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = ids_of(_texts(texts))
        return np.array([number for ids in found for number in ids], np.int32), np.array([*map(len, found)], np.int64)

    return _rows(*_call(columns_of, [texts], [tf.int32, tf.int64]))


def _rows(values: tf.Tensor, counts: tf.Tensor) -> tf.RaggedTensor:
    values, counts = tf.ensure_shape(values, [None]), tf.ensure_shape(counts, [None])
    return tf.RaggedTensor.from_row_lengths(values, counts, validate=False)


def _texts(texts: np.ndarray) -> list[str]:
    return [text.decode("utf-8", "ignore") for text in texts.tolist()]


def _call(function: Callable[..., Any], inputs: Sequence[tf.Tensor], kinds: Sequence[Any]) -> list[tf.Tensor]:
    """The outputs of a function of arrays; exports contain an operation that fails with the reason instead."""
    if backend.platform() == "any":
        with tf.control_dependencies([tf.debugging.Assert(False, [NOT_IN_GRAPH])]):
            return [tf.zeros([0], kind) for kind in kinds]
    found = tf.numpy_function(function, list(inputs), list(kinds), stateful=False)
    return list(found) if isinstance(found, list | tuple) else [found]


def _in_bytes(tokens: Tokens, text: str) -> Tokens:
    """The tokens with offsets in UTF-8 bytes of the text."""
    places = np.cumsum([0, *(len(character.encode()) for character in text)])
    return Tokens(tokens.ids, places[tokens.starts].tolist(), places[tokens.ends].tolist())
