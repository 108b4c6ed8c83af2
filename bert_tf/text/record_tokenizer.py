"""The tokenizer that records are made with: without TensorFlow for WordPiece, TensorFlow's kernels for other kinds."""

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from bert_tf.text import vocabulary as vocabularies
from bert_tf.text.table_tokenizer import TableTokenizer


class RecordTokenizer(Protocol):
    """Splits the sentences of documents into ids.

    size: of the vocabulary. separators: [SEP] tokens between two segments of a row.
    """

    size: int
    unknown_id: int
    cls_id: int
    sep_id: int
    separators: int

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """B texts -> ids int32 [T] of all of them, and the number of tokens of each, int64 [B]."""


class _KernelTokenizer:
    """A tokenizer in TensorFlow, for processes that prepare records."""

    def __init__(self, vocabulary: Sequence[str], lower_case: bool, special_tokens: tuple[str, ...]) -> None:
        import tensorflow as tf

        from bert_tf.text import tokenizer_kinds

        tokenizer = tokenizer_kinds.create(vocabulary, lower_case, special_tokens_in_strings=special_tokens)
        self.size, self.separators = tokenizer.size, tokenizer.separators
        self.unknown_id, self.cls_id, self.sep_id = tokenizer.unknown_id, tokenizer.cls_id, tokenizer.sep_id
        strings = [tf.TensorSpec([None], tf.string)]
        self._tokenize: Callable = tf.function(tokenizer.inside_text, input_signature=strings, autograph=False)

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        ragged = self._tokenize(list(texts))
        return ragged.values.numpy(), ragged.row_lengths().numpy()


def create(vocabulary: Sequence[str], lower_case: bool, special_tokens: tuple[str, ...] = ()) -> RecordTokenizer:
    """The tokenizer of a vocabulary, of any kind; `special_tokens` are recognized in texts."""
    if vocabularies.kind_of(vocabulary) == vocabularies.WORDPIECE and not special_tokens:
        return TableTokenizer(vocabulary, lower_case)
    return _KernelTokenizer(vocabulary, lower_case, special_tokens)


@functools.lru_cache(maxsize=1)
def from_file(vocab_file: str, lower_case: bool, special_tokens: tuple[str, ...]) -> RecordTokenizer:
    """The tokenizer of a vocab.txt, kept for the next job of this process."""
    return create(vocabularies.read(vocab_file), lower_case, special_tokens)
