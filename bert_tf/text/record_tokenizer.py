"""The tokenizer for making records: without TensorFlow for WordPiece, with its kernels for other kinds."""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from bert_tf.errors import leave_out
from bert_tf.runtime.lazy import tf
from bert_tf.text import tokenizer_kinds
from bert_tf.text import vocabulary as vocabularies
from bert_tf.text.characters import special_token_pattern, split_at_added_tokens
from bert_tf.text.chinese_words import WordFinder
from bert_tf.text.table_tokenizer import TableTokenizer
from bert_tf.text.tokenizer_settings import AddedToken


class RecordTokenizer(Protocol):
    """Splits the sentences of documents into ids.

    size: the vocabulary size. separators: number of [SEP] tokens between two segments. words: finds Chinese words among
    ids, for whole word masking.
    """

    size: int
    unknown_id: int
    cls_id: int
    sep_id: int
    separators: int
    words: WordFinder | None

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """B texts -> ids of all texts, int32 [T], and the number of tokens of each, int64 [B]."""


class _KernelTokenizer:
    """A tokenizer in TensorFlow, for processes that prepare records."""

    words: WordFinder | None = None

    def __init__(self, vocabulary: Sequence[str], lower_case: bool, special_tokens: tuple[str, ...]) -> None:
        tokenizer = tokenizer_kinds.create(vocabulary, lower_case, special_tokens_in_strings=special_tokens)
        self.size, self.separators = tokenizer.size, tokenizer.separators
        self.unknown_id, self.cls_id, self.sep_id = tokenizer.unknown_id, tokenizer.cls_id, tokenizer.sep_id
        strings = [tf.TensorSpec([None], tf.string)]
        self._tokenize: Callable = tf.function(tokenizer.inside_text, input_signature=strings, autograph=False)

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        ragged = self._tokenize(list(texts))
        return ragged.values.numpy(), ragged.row_lengths().numpy()


class _RecognizingTokenizer:
    """A TableTokenizer that recognizes added tokens, in the raw texts only."""

    words: WordFinder | None = None

    def __init__(self, tokenizer: TableTokenizer, tokens: Sequence[AddedToken]) -> None:
        self.size, self.separators = tokenizer.size, tokenizer.separators
        self.unknown_id, self.cls_id, self.sep_id = tokenizer.unknown_id, tokenizer.cls_id, tokenizer.sep_id
        self._tokenizer, self._tokens = tokenizer, tokens
        self._pattern = re.compile(special_token_pattern(token.content for token in tokens))

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        if not any(map(self._pattern.search, texts)):
            return self._tokenizer(texts)
        parts = [list(split_at_added_tokens(text, self._tokens)) for text in texts]
        flat = [part for each in parts for part in each]
        ids, counts = self._tokenizer(["" if token else text for text, token in flat])
        added = np.array([self._tokenizer.ids[token.content] if token else -1 for _, token in flat], np.int32)
        is_added = added >= 0
        places = (np.cumsum(counts) - counts)[is_added]
        counts = counts + is_added
        bounds = np.cumsum([len(each) for each in parts])
        sums = np.concatenate([[0], np.cumsum(counts)])[np.concatenate([[0], bounds])]
        return np.insert(ids, places, added[is_added]), np.diff(sums)


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
        if vocabularies.kind_of(vocabulary) != vocabularies.WORDPIECE or not splits:
            raise leave_out("chinese_word_segmentation requires a WordPiece vocabulary that splits CJK characters")
        tokenizer = create(vocabulary, lower_case, special_tokens)
        tokenizer.words = WordFinder(vocabulary)
        return tokenizer
    found = vocabularies.settings_of(vocabulary).found_as(special_tokens)
    if vocabularies.kind_of(vocabulary) == vocabularies.WORDPIECE and not any(token.normalized for token in found):
        table = TableTokenizer(vocabulary, lower_case)
        return _RecognizingTokenizer(table, found) if found else table
    return _KernelTokenizer(vocabulary, lower_case, special_tokens)


@functools.lru_cache(maxsize=1)
def from_file(vocab_file: str, *options: Any) -> RecordTokenizer:
    """The tokenizer for a vocab.txt, with the options of `create`, cached for the next job of this process."""
    return create(vocabularies.read(vocab_file), *options)
