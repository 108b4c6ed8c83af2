"""The common part of tokenizers in the graph and on the host: the vocabulary, its special tokens and word marks.

V tokens. Free of TensorFlow.
"""

import functools
from collections.abc import Sequence

import numpy as np

from bert_tf.text import byte_level, special_tokens
from bert_tf.text import vocabulary as vocabularies
from bert_tf.text.tokenizer_kinds import KINDS
from bert_tf.text.word_marks import MARKS, WordMarks


class AnyTokenizer:
    """A tokenizer without the splitting of texts.

    Args:
        vocabulary: the tokens, list index = id.
        lower_case: lower-case and drop accents ("uncased" models).
        special_tokens_in_strings: False: special names in a text are text, "[MASK]" becomes "[", "mask", "]", as in the
            original. True: [PAD], [UNK], [CLS], [SEP] and [MASK] in a text are these tokens, as in Hugging Face's
            tokenizers. A list: these tokens too, such as ["[E1]", "[/E1]"].

    Attributes:
        kind: the row of its kind in KINDS.
        ids: the id of each token.
        separators: number of [SEP] tokens between two segments.
        special_tokens: the special tokens recognized in texts, () for none.
        marks: how its tokens mark words.

    Raises:
        UserError: one of the five special tokens is missing, or a token to recognize.
    """

    marks: WordMarks

    def __init__(
        self,
        vocabulary: Sequence[str],
        lower_case: bool = True,
        *,
        special_tokens_in_strings: bool | Sequence[str] = False,
    ) -> None:
        vocabularies.check_special_tokens(vocabulary, "The vocabulary")
        self.vocabulary = vocabulary if isinstance(vocabulary, list) else list(vocabulary)
        self.settings = vocabularies.settings_of(vocabulary)
        self.kind = KINDS[vocabularies.kind_of(vocabulary)]
        self.lower_case, self.size = bool(lower_case), len(self.vocabulary)
        self.ids = {token: i for i, token in enumerate(self.vocabulary)}  # the last id of repeated ones
        names = vocabularies.special_tokens(vocabulary)
        self.pad_id, self.unknown_id, self.cls_id, self.sep_id, self.mask_id = (self.ids[name] for name in names)
        self.mask_token = self.vocabulary[self.mask_id]
        self.separators = self.kind.separators or self.settings.separators
        self.special_tokens = special_tokens.choose(special_tokens_in_strings, self.vocabulary)
        self._found = self.settings.found_as(self.special_tokens)
        if self.kind.model:  # otherwise its rules determine them
            self.marks = MARKS[self.kind.model]
        self._set_up()

    def _set_up(self) -> None:
        """Prepares the splitting of texts."""

    def special_count(self, segments: int) -> int:
        """The number of special tokens in a sequence of that many segments."""
        return 2 + (segments - 1) * self.separators

    def surface(self, token: str) -> str:
        """The text that a token stands for, without word and space marks."""
        return self.marks.surface(token)

    @functools.cached_property
    def is_of_letters(self) -> np.ndarray:
        """Which tokens are letters and digits, bool [V]; includes the unknown token, which is usually a word."""
        flags = np.array(list(map(self.marks.is_of_letters, self.vocabulary)))
        if not self.marks.encodes_all:
            flags[self.unknown_id] = True
        return flags

    @functools.cached_property
    def is_mark(self) -> np.ndarray:
        """Which tokens are only a mark, bool [V]."""
        return np.array([token == self.marks.mark for token in self.vocabulary])

    @functools.cached_property
    def is_part(self) -> np.ndarray:
        """Which tokens of a byte-level BPE begin inside a character, bool [V]."""
        contents = map(byte_level.token_bytes, self.vocabulary)
        return np.array([bool(content) and 0x80 <= content[0] < 0xC0 for content in contents])
