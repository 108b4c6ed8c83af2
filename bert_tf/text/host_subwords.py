"""Byte-level BPE and SentencePiece without TensorFlow: the tokens of `text.byte_bpe` and `text.sentencepiece`.

P tokens of a text. Texts are normalized and split into words here because the library `tokenizers` miscounts deleted
characters; it merges bytes, and finds the pieces of words.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.runtime.lazy import module
from bert_tf.text import byte_level, charsmap, sentencepiece_model
from bert_tf.text.byte_level import SPACES
from bert_tf.text.characters import normalize_albert
from bert_tf.text.host_composition import composed
from bert_tf.text.host_tokenizer import MAX_REMEMBERED, MAX_WORDS, HostTokenizer, Tokens, normal_tokens
from bert_tf.text.tokenizer_settings import AddedToken
from bert_tf.text.vocabulary import SubwordVocabulary
from bert_tf.text.word_marks import SPACE

tokenizers = module("tokenizers")
BLANKS = frozenset(map(chr, SPACES))
NFC_SPACES = re.compile(f"[{''.join(sorted(BLANKS))}]{{2,}}|[\\n\\r\\t]")  # become one space in transformers 5
QUOTES = re.compile("``|''")  # which ALBERT replaces by a double quote


class ByteBpe(HostTokenizer):
    """The tokens of `text.byte_bpe`."""

    vocabulary: SubwordVocabulary

    def _prepare(self, normalized: Sequence[AddedToken]) -> None:
        ids = {byte_level.spaces_for_blanks(token): number for token, number in self.ids.items()}
        merges = byte_level.merges_of(self.ids, self.vocabulary.rules)
        self._library = tokenizers.Tokenizer(tokenizers.models.BPE(ids, merges))
        self._library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
        self._in_normal = list(normalized)

    def inside_text(self, text: str) -> list[int]:
        """See HostTokenizer; adds a space before each text that is not empty."""
        return self(f" {text}" if text else "")

    def continues_word(self, tokens: Tokens) -> np.ndarray:
        """See HostTokenizer; same as `byte_bpe.ByteBpeTokenizer.continues_word`."""
        of_letters, is_part = self.is_of_letters[tokens.ids], self.is_part[tokens.ids]
        is_marked = _shifted(self.is_mark[tokens.ids] & (np.array(tokens.starts) == np.array(tokens.ends)))
        return is_part | (_touches(tokens) & (is_marked | (of_letters & _shifted(of_letters | is_part))))

    def _split(self, text: str) -> Tokens:
        return normal_tokens(text, self._in_normal, self._token, self._merged)

    def _merged(self, text: str) -> Tokens:
        """The tokens of a text without added tokens; offsets exclude surrounding spaces."""
        encoding = self._library.encode(text, add_special_tokens=False)
        tokens = Tokens(encoding.ids, [], [])
        for start, end in encoding.offsets:
            part = text[start:end]
            tokens.starts.append(end - len(part.lstrip(" ")))
            tokens.ends.append(max(start + len(part.rstrip(" ")), tokens.starts[-1]))
        return tokens


class BertByteBpe(ByteBpe):
    """ByteBpe of NFC-normalized texts with BERT's special tokens and sequence layout."""

    def _split(self, text: str) -> Tokens:
        if unicodedata.is_normalized("NFC", text):
            return super()._split(text)
        normal, bounds = composed(text)
        tokens = super()._split(normal)
        return Tokens(tokens.ids, [bounds[x] for x in tokens.starts], [bounds[x] for x in tokens.ends])


class SentencePiece(HostTokenizer):
    """The tokens of `text.sentencepiece`; as is, those of XLM-RoBERTa and CamemBERT."""

    vocabulary: SubwordVocabulary

    def _prepare(self, normalized: Sequence[AddedToken]) -> None:
        names = () if self.special_tokens else self.kind.special_tokens
        self._library = sentencepiece_model.unigram(self.vocabulary.rules, left_out=names)
        model = sentencepiece_model.parse(self.vocabulary.rules)
        self._table, self._own = charsmap.parse(model.charsmap), model.own
        self._is_library, self._is_nfc = model.is_library, model.is_nfc
        self._words: dict[str, Tokens] = {}
        self._look_for(normalized)

    def ids_with_masks(self, text: str) -> list[int]:
        """See HostTokenizer; a model with a user-defined mask finds it in texts."""
        return self(text) if self.mask_token in self._own else super().ids_with_masks(text)

    def continues_word(self, tokens: Tokens) -> np.ndarray:
        """See HostTokenizer: letters and digits continue those that they touch; other tokens continue a single ▁."""
        starts, is_letter = np.array(tokens.starts, np.int64), self.is_of_letters[tokens.ids]
        is_marked = _shifted(self.is_mark[tokens.ids]) & (starts == _shifted(starts))
        return is_marked | (_touches(tokens) & is_letter & _shifted(is_letter))

    def _split(self, text: str) -> Tokens:
        normal, places = self._normalize(text)
        tokens = normal_tokens("".join(normal), self._in_normal, self._named_token, self._pieces)
        return Tokens(tokens.ids, [places[x] for x in tokens.starts], [places[x - 1] + 1 for x in tokens.ends])

    def _normalize(self, text: str) -> tuple[list[str], list[int]]:
        """The normalized characters, which pieces are looked for in, and the original character of each."""
        return _replaced(list(text), list(range(len(text))), self._table)

    def _pieces(self, text: str) -> Tokens:
        parts, begin = [], 0
        for end in range(len(text) + 1):
            is_end = end == len(text) or text[end] in (" " if self._is_library else BLANKS)
            if (is_end or text[end] == SPACE) and end > begin:
                parts.append(self._word(text[begin:end]).moved(begin))
                begin = end
            begin += is_end
        return Tokens.joined(parts)

    def _word(self, word: str) -> Tokens:
        found = self._words.get(word)
        if found is None:
            more = not word.startswith(SPACE)
            encoding = self._library.encode(SPACE * more + word, add_special_tokens=False)
            bounds = [(max(start - more, 0), max(end - more, 1)) for start, end in encoding.offsets]
            found = Tokens(encoding.ids, [start for start, _ in bounds], [end for _, end in bounds])
            if len(self._words) >= MAX_WORDS:
                self._words.clear()
            if len(word) <= MAX_REMEMBERED:
                self._words[word] = found
        return found


class Albert(SentencePiece):
    """ALBERT's SentencePiece, which replaces two-character quotes and lower-cases (NFKD without accents)."""

    def _normalize(self, text: str) -> tuple[list[str], list[int]]:
        if self._is_library:
            return super()._normalize(text)
        characters, places = _substituted(QUOTES, '"', text)
        if (folding := self._folding()) is not None:
            characters, places = _replaced(characters, places, folding, in_clusters=False)
        return _replaced(characters, places, self._table)

    def _folding(self) -> "_Folding | None":
        return FOLDING if self.lower_case else None


class Xlnet(Albert):
    """XLNet's SentencePiece, which drops accents and never lower-cases."""

    def _folding(self) -> "_Folding":
        return FOLDING_OF_XLNET


class Deberta(SentencePiece):
    """SentencePiece with the special tokens of BERT. Spaces are parts of words; see `text.sentencepiece`."""

    def _normalize(self, text: str) -> tuple[list[str], list[int]]:
        if self._is_library:
            return super()._normalize(text)
        if self._is_nfc:
            characters, places = _substituted(NFC_SPACES, " ", text)
            normal, bounds = composed("".join(characters))
            characters, places = list(normal), [places[min(x, len(places) - 1)] for x in bounds[:-1]]
            end = _end(characters)
            return characters[:end], places[:end]
        first = next((place for place, character in enumerate(text) if character not in BLANKS), 0)
        end = _end(text)
        characters, places = _replaced(list(text[first:end]), list(range(first, end)), self._table)
        kept = [at for at, x in enumerate(characters) if x != " " or not at or characters[at - 1] != " "]
        return [characters[at] for at in kept], [places[at] for at in kept]

    def _pieces(self, text: str) -> Tokens:
        if self._is_library:
            return super()._pieces(text)
        begins = [place for place, character in enumerate(text) if not place or character in (" ", SPACE)]
        parts = []
        for begin, end in itertools.pairwise([*begins, len(text)]):
            word = self._word(text[begin:end].replace(" ", SPACE)).moved(begin)
            if text[begin] == " " and begin + 1 < len(text) and text[begin + 1] != " ":  # begins after its space
                starts = [max(start, begin + 1) for start in word.starts]
                word = Tokens(word.ids, starts, list(map(max, word.ends, (start + 1 for start in starts))))
            parts.append(word)
        return Tokens.joined(parts)


def _substituted(pattern: re.Pattern[str], by: str, text: str) -> tuple[list[str], list[int]]:
    """The characters of a text with each match replaced by one character, and where each comes from."""
    characters: list[str] = []
    places: list[int] = []
    end = 0
    for found in pattern.finditer(text):
        characters += [*text[end : found.start()], by]
        places += range(end, found.start() + 1)
        end = found.end()
    return [*characters, *text[end:]], [*places, *range(end, len(text))]


def _end(characters: Sequence[str]) -> int:
    """Where the white space at the end begins."""
    return next((at + 1 for at in reversed(range(len(characters))) if characters[at] not in BLANKS), 0)


class _Folding(dict[str, str]):
    """Replacements of uncased ALBERT models and, without lower-casing, XLNet: {character: others}."""

    def __init__(self, *, lower_case: bool = True) -> None:
        super().__init__()
        self._lower_case = lower_case

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """The replacement of a character; the default if it is unchanged."""
        if key not in self:
            self[key] = normalize_albert(key, lower_case=self._lower_case)
        return default if self[key] == key else self[key]


FOLDING, FOLDING_OF_XLNET = _Folding(), _Folding(lower_case=False)


def _replaced(
    characters: list[str], places: list[int], table: Mapping[str, str], *, in_clusters: bool = True
) -> tuple[list[str], list[int]]:
    """Replaces characters, and grapheme clusters of a few bytes, like `text.replacements`."""
    if in_clusters and not table:
        return characters, places
    found: list[str] = []
    sources: list[int] = []
    at, joined = 0, _joined(characters) if in_clusters else [False] * len(characters)
    while at < len(characters):
        size = 1
        while at + size < len(characters) and joined[at + size]:
            size += 1
        whole = _of_cluster(characters[at : at + size], table) if 1 < size < 4 else None
        if whole is not None:
            found += whole
            sources += [places[at + min(inside, size - 1)] for inside in range(len(whole))]
        else:
            for place in range(at, at + size):
                new = table.get(characters[place], characters[place])
                found += new
                sources += [places[place]] * len(new)
        at += size
    return found, sources


def _of_cluster(cluster: Sequence[str], table: Mapping[str, str]) -> str | None:
    """The replacement of a cluster, for the shortest key that it begins with; None if it is long or has none."""
    text = "".join(cluster)
    if len(text.encode()) > charsmap.LONGEST_CLUSTER:
        return None
    return next((table[text[:size]] for size in range(1, len(text) + 1) if text[:size] in table), None)


def _joined(characters: Sequence[str]) -> list[bool]:
    """Which characters continue the grapheme cluster of the character before."""
    if all(map(str.isascii, characters)) and "\r" not in characters:
        return [False] * len(characters)
    bits = [_bits_of_page(ord(character) >> 8)[ord(character) & 255] for character in characters]
    return [False, *(bool(before[0] & own[1]) for before, own in zip(bits, bits[1:], strict=False))]


@functools.cache
def _bits_of_page(number: int) -> list[tuple[int, int]]:
    """`charsmap.bits_of` 256 characters; a single one takes as long."""
    to, by = charsmap.bits_of(np.arange(256 * number, 256 * (number + 1)))
    return list(zip(to.tolist(), by.tolist(), strict=True))


def _touches(tokens: Tokens) -> np.ndarray:
    """Which tokens begin where the previous token ends."""
    starts = np.array(tokens.starts, np.int64)
    return (starts == _shifted(np.array(tokens.ends, np.int64))) & (starts != 0)


def _shifted(x: np.ndarray) -> np.ndarray:
    """The value before each value, [P]; 0 before the first."""
    return np.concatenate([np.zeros(1, x.dtype), x])[:-1]
