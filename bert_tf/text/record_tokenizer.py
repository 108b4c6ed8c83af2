"""The tokenizer for making records: without TensorFlow for WordPiece, with its kernels for other kinds."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import leave_out
from bert_tf.runtime.lazy import tf
from bert_tf.text import tokenizer_kinds
from bert_tf.text import vocabulary as vocabularies
from bert_tf.text.chinese_words import WordFinder
from bert_tf.text.table_tokenizer import TableTokenizer
from bert_tf.text.tokenizer import create_tokenizer


class _KernelTokenizer:
    """A tokenizer in TensorFlow, for processes that prepare records."""

    words: WordFinder | None = None

    def __init__(self, vocabulary: Sequence[str], lower_case: bool, special_tokens: tuple[str, ...]) -> None:
        tokenizer = create_tokenizer(vocabulary, lower_case, special_tokens_in_strings=special_tokens)
        self.size, self.separators = tokenizer.size, tokenizer.separators
        self.unknown_id, self.cls_id, self.sep_id = tokenizer.unknown_id, tokenizer.cls_id, tokenizer.sep_id
        strings = [tf.TensorSpec([None], tf.string)]
        self._tokenize: Callable = tf.function(tokenizer.inside_text, input_signature=strings, autograph=False)

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """As TableTokenizer."""
        ragged = self._tokenize(list(texts))
        return ragged.values.numpy(), ragged.row_lengths().numpy()


RecordTokenizer = TableTokenizer | _KernelTokenizer  # splits the sentences of documents into ids


def create(
    vocabulary: Sequence[str],
    lower_case: bool,
    special_tokens: tuple[str, ...] = (),
    chinese_word_segmentation: bool = False,
) -> RecordTokenizer:
    """The tokenizer for a vocabulary of any kind.

    Args:
        vocabulary: the tokens.
        lower_case: whether texts are lower-cased.
        special_tokens: the tokens to recognize in texts.
        chinese_word_segmentation: whether to find Chinese words among the ids, see `chinese_words`.

    Raises:
        UserError: Chinese words are requested, but ideographs are not tokens of this vocabulary, or jieba is missing.
    """
    if chinese_word_segmentation:
        splits = vocabularies.settings_of(vocabulary).split_ideographs
        if vocabularies.kind_of(vocabulary) != tokenizer_kinds.WORDPIECE or not splits:
            raise leave_out("chinese_word_segmentation requires a WordPiece vocabulary that splits CJK characters")
        tokenizer = create(vocabulary, lower_case, special_tokens)
        tokenizer.words = WordFinder(vocabulary)
        return tokenizer
    table = TableTokenizer.of(vocabulary, lower_case, special_tokens)
    return table or _KernelTokenizer(vocabulary, lower_case, special_tokens)


@functools.lru_cache(maxsize=1)
def from_file(vocab_file: str, *options: Any) -> RecordTokenizer:
    """The tokenizer for a vocab.txt, with the options of `create`, cached for the next job of this process."""
    return create(vocabularies.read(vocab_file), *options)
