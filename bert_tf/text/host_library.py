"""Texts to ids and offsets with the library `tokenizers` and all steps of a tokenizer.json. Free of TensorFlow.

P tokens of a text.
"""

import functools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.runtime import json_files
from bert_tf.runtime.lazy import module
from bert_tf.text import byte_level
from bert_tf.text.host_tokenizer import HostTokenizer, Tokens
from bert_tf.text.sentencepiece_model import SPACE
from bert_tf.text.tokenizer_settings import AddedToken
from bert_tf.text.vocabulary import SubwordVocabulary

tokenizers = module("tokenizers")
PROBE = "a"  # a word that shows `inside_text` whether a space belongs to the word after it


class LibraryTokenizer(HostTokenizer):
    """Tokenizes with a tokenizer.json, whatever its steps are.

    Its added tokens are recognized in texts as it specifies; special tokens only if there are `special_tokens`.
    """

    def _set_up(self, vocabulary: Sequence[str], normalized: Sequence[AddedToken]) -> None:
        assert isinstance(vocabulary, SubwordVocabulary)
        self.separators = self.settings.separators
        self._library = open_rules(vocabulary.rules)
        self._library.encode_special_tokens = not self.special_tokens
        steps = json.dumps(json_files.parse(vocabulary.rules.decode()).get("pre_tokenizer"))
        self._has_bytes = "ByteLevel" in steps
        self._mark = "Ġ" if self._has_bytes else SPACE if "Metaspace" in steps else ""  # marks tokens that begin a word

    def with_offsets(self, text: str) -> Tokens:
        """See HostTokenizer; offsets are the library's."""
        return _tokens(self._library.encode(text, add_special_tokens=False))

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
        return token.removeprefix("##").removeprefix(SPACE).removesuffix("</w>")

    def continues_word(self, tokens: Tokens) -> np.ndarray:
        """See HostTokenizer: letters and digits continue those that they touch."""
        of_letters, starts = self.is_of_letters[tokens.ids], np.array(tokens.starts, np.int64)
        touches = np.append(False, starts[1:] == np.array(tokens.ends, np.int64)[:-1])
        return touches & of_letters & np.append(False, of_letters[:-1])

    def _split(self, text: str) -> Tokens:
        return self.with_offsets(text)


def open_rules(rules: bytes) -> Any:
    """The library's tokenizer for the content of a tokenizer.json, without truncation and padding."""
    library = tokenizers.Tokenizer.from_buffer(rules)
    library.no_truncation()
    library.no_padding()
    return library


def _tokens(encoding: Any) -> Tokens:
    starts, ends = zip(*encoding.offsets, strict=True) if encoding.ids else ((), ())
    return Tokens(encoding.ids, list(starts), list(ends))
