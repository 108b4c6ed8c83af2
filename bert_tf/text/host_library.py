"""Texts to ids and offsets with the library `tokenizers` and all steps of a tokenizer.json. Free of TensorFlow.

P tokens of a text.
"""

import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.errors import UserError, reason_of
from bert_tf.runtime import json_files
from bert_tf.runtime.lazy import module
from bert_tf.text import byte_level
from bert_tf.text.host_tokenizer import HostTokenizer, Tokens
from bert_tf.text.sentencepiece_model import SPACE
from bert_tf.text.tokenizer_settings import AddedToken
from bert_tf.text.vocabulary import LIBRARY, RULES, SubwordVocabulary

tokenizers = module("tokenizers")
PART = re.compile(r"<0x[0-9A-F]{2}>")  # a byte of a character without a token
PROBE = "a"  # a word that shows `inside_text` whether a space belongs to the word after it


class LibraryTokenizer(HostTokenizer):
    """Tokenizes with a tokenizer.json, whatever its steps are.

    Its added tokens are recognized in texts as it specifies; special tokens only if there are `special_tokens`.
    """

    def _set_up(self, vocabulary: Sequence[str], normalized: Sequence[AddedToken]) -> None:
        assert isinstance(vocabulary, SubwordVocabulary)
        self.separators = self.settings.separators
        try:
            self._library = open_rules(vocabulary.rules)
        except Exception as error:  # the type that the library raises
            raise UserError(
                f"{RULES[LIBRARY]} is damaged ({reason_of(error)}): copy or write its folder again."
            ) from None
        known = {token.content for token in self._library.get_added_tokens_decoder().values()}
        missing = [name for name in self.special_tokens if byte_level.spaces_for_blanks(name) not in known]
        self._library.add_tokens([tokenizers.AddedToken(name, normalized=False) for name in missing])
        self._library.encode_special_tokens = not self.special_tokens
        content = json_files.parse(vocabulary.rules.decode())
        steps = [*_steps(content.get("normalizer")), *_steps(content.get("pre_tokenizer"))]
        self._has_bytes = any(step.get("type") == "ByteLevel" for step in steps)
        marks = [step.get("replacement") or SPACE for step in steps if step.get("type") == "Metaspace"]
        self._mark = "Ġ" if self._has_bytes else next(iter(marks), "")  # marks tokens that begin a word

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

    def continues(self, token: str) -> bool:
        """Returns whether a token continues a word, by its mark."""
        return not token.startswith(self._mark) if self._mark else token.startswith("##")

    def surface(self, token: str) -> str:
        """See HostTokenizer; removes the marks of WordPiece, SentencePiece and byte-level BPE."""
        if self._has_bytes:
            return byte_level.token_bytes(token).decode("utf-8", "replace").strip()
        return token.removeprefix("##").removeprefix(self._mark).removesuffix("</w>")

    @functools.cached_property
    def is_of_letters(self) -> np.ndarray:
        """As HostTokenizer; parts of a character are letters, too."""
        surfaces = map(self.surface, self.vocabulary)
        flags = [text.isalnum() or "\ufffd" in text or bool(PART.fullmatch(text)) for text in surfaces]
        flags[self.unknown_id] = True
        return np.array(flags)

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


def open_rules(rules: bytes) -> Any:
    """The library's tokenizer for the content of a tokenizer.json, without truncation and padding."""
    library = tokenizers.Tokenizer.from_buffer(rules)
    library.no_truncation()
    library.no_padding()
    return library


def _steps(value: Any) -> list[dict[str, Any]]:
    """The steps of a normalizer or pre-tokenizer, with those inside a sequence."""
    if not isinstance(value, dict):
        return []
    inner = [
        step for name in ("normalizers", "pretokenizers") for each in value.get(name) or () for step in _steps(each)
    ]
    return [value, *inner]
