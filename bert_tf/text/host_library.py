"""Texts to ids and offsets with the library `tokenizers` and all steps of a tokenizer.json. Free of TensorFlow.

P tokens of a text.
"""

import functools
import re
from collections.abc import Sequence

import numpy as np

from bert_tf.errors import reason_of
from bert_tf.runtime.lazy import module
from bert_tf.text import byte_level, library_rules
from bert_tf.text.host_tokenizer import HostTokenizer, Tokens
from bert_tf.text.tokenizer_settings import AddedToken
from bert_tf.text.vocabulary import SubwordVocabulary
from bert_tf.text.word_marks import MARKS, SPACE, WordMarks

tokenizers = module("tokenizers")
PART = re.compile(r"<0x[0-9A-F]{2}>")  # a byte of a character without a token
PROBE = "a"  # a word that shows `inside_text` whether a space belongs to the word after it


class _Marks(WordMarks):
    """The marks of a tokenizer.json: those of WordPiece, SentencePiece or byte-level BPE.

    mark: the one that begins a word; "" for a model without one, whose ## continues a word.
    """

    def __init__(self, mark: str, *, has_bytes: bool) -> None:
        super().__init__(mark)
        self._has_bytes = has_bytes

    def surface(self, token: str) -> str:
        if self._has_bytes:
            return MARKS["BPE"].surface(token)
        return super().surface(token.removeprefix("##")).removesuffix("</w>")

    def is_of_letters(self, token: str) -> bool:
        """As WordMarks; parts of a character are letters, too."""
        text = self.surface(token)
        return text.isalnum() or "\ufffd" in text or bool(PART.fullmatch(text))

    def continues(self, token: str) -> bool:
        return super().continues(token) if self.mark else token.startswith("##")


class LibraryTokenizer(HostTokenizer):
    """Tokenizes with a tokenizer.json, whatever its steps are.

    Its added tokens are recognized in texts as it specifies; special tokens only if there are `special_tokens`.
    """

    vocabulary: SubwordVocabulary

    def _prepare(self, normalized: Sequence[AddedToken]) -> None:
        try:
            self._library = library_rules.open_rules(self.vocabulary.rules)
        except Exception as error:  # the type that the library raises
            raise library_rules.damaged(reason_of(error)) from None
        known = {token.content for token in self._library.get_added_tokens_decoder().values()}
        missing = [name for name in self.special_tokens if byte_level.spaces_for_blanks(name) not in known]
        self._library.add_tokens([tokenizers.AddedToken(name, normalized=False) for name in missing])
        self._library.encode_special_tokens = not self.special_tokens
        steps = library_rules.steps_of(self.vocabulary.rules)
        has_bytes = any(step.get("type") == "ByteLevel" for step in steps)
        marks = [step.get("replacement") or SPACE for step in steps if step.get("type") == "Metaspace"]
        self.marks = _Marks(MARKS["BPE"].mark if has_bytes else next(iter(marks), ""), has_bytes=has_bytes)

    def with_offsets(self, text: str) -> Tokens:
        """See HostTokenizer; offsets are the library's, without the white space around a token."""
        encoding = self._library.encode(text, add_special_tokens=False)
        tokens = Tokens(encoding.ids, [], [])
        for start, end in encoding.offsets:
            part = text[start:end]
            tokens.starts.append(end - len(part.lstrip()))
            tokens.ends.append(max(start + len(part.rstrip()), tokens.starts[-1]))
        return tokens

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts, which the library splits in parallel."""
        return [each.ids for each in self._library.encode_batch_fast(list(texts), add_special_tokens=False)]

    def inside_text(self, text: str) -> list[int]:
        """See HostTokenizer: splits a word like transformers, or with the space that belongs to it."""
        if self._takes_blank:
            return self(f" {text}" if text else "")
        ids: list[int] = self._library.encode([text], is_pretokenized=True, add_special_tokens=False).ids
        return ids

    @functools.cached_property
    def _takes_blank(self) -> bool:
        """Returns whether the second word of a text is a different token from the same word as a whole text."""
        second = self(f"{PROBE} {PROBE}")[1:]
        alone = self._library.encode([PROBE], is_pretokenized=True, add_special_tokens=False).ids
        return second not in ([], alone) and second == self(f" {PROBE}")

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, without padding."""
        text: str = self._library.decode([number for number in ids if number != self.pad_id], skip_special_tokens=False)
        return text

    def continues_word(self, tokens: Tokens) -> np.ndarray:
        """See HostTokenizer: letters and digits continue those that they touch, and tokens of one character each other.

        A token after a single mark of a word continues it.
        """
        starts, ends = np.array(tokens.starts, np.int64)[1:], np.array(tokens.ends, np.int64)[:-1]
        of_letters = self.is_of_letters[tokens.ids]
        is_mark = np.array([not self.surface(self.vocabulary[number]) for number in tokens.ids], bool)
        touches = starts == ends
        continues = (starts < ends) | (touches & ((of_letters[1:] & of_letters[:-1]) | is_mark[:-1]))
        return np.append(np.zeros(min(len(tokens.ids), 1), bool), continues)

    def _split(self, text: str) -> Tokens:
        return self.with_offsets(text)
