"""Settings in which a tokenizer differs from the original's, kept with its vocabulary, see `vocabulary.settings_of`."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import json_files
from bert_tf.runtime.settings import FLAG, LIST, TEXT, TEXTS, Kind, Settings, whole

MAX_TOKEN_BYTES = 200  # of tokens that a vocabulary may have
MAX_WORD_CHARACTERS = 2**28  # so that its bytes can be counted in int32
FILE = "tokenizer_settings.json"  # next to vocab.txt, where a tokenizer differs


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddedToken:
    """Rules for finding a recognized token in texts, as AddedToken of Hugging Face's `tokenizers`.

    Attributes:
        content: the token.
        lstrip: whether the white space before it belongs to it.
        rstrip: whether the white space after it belongs to it.
        single_word: whether it is found only between characters that are not of words.
        normalized: whether it is looked for after texts are cleaned, lower-cased and so on, as it is itself.
        only_found: whether WordPiece does not have it, so that no other word is split into it.
    """

    content: str
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False
    only_found: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """Settings of Hugging Face's tokenizers of BERT besides `do_lower_case`; the defaults are the original's.

    Attributes:
        strip_accents: whether accents are dropped (NFD without Mn); None: where the tokenizer lower-cases.
        no_final_sigma: whether a capital sigma at the end of a word becomes σ in lower case, as it does elsewhere, and
            not ς.
        split_ideographs: whether each ideograph is a word by itself, `tokenize_chinese_chars`.
        max_word_characters: of a word; a longer one is unknown. 100 in Hugging Face's tokenizers.
        is_mpnet: whether special tokens and rows are those of MPNet, <s> a </s></s> b </s>.
        odd_to_longer: whether, if both texts of a pair are truncated to an odd number of tokens, the longer one keeps
            one more than the other, and the second if they are equally long; by default the first does.
        one_segment: whether both texts of a pair have the first segment.
        added_tokens: how tokens are found in texts where these are recognized; others as they are, anywhere.
        special_tokens: the names of the special tokens, see `vocabulary.special_tokens`; () for those of its kind.
        separators: separators between two texts, for a tokenizer of the library `tokenizers`.
    """

    strip_accents: bool | None = None
    no_final_sigma: bool = False
    split_ideographs: bool = True
    max_word_characters: int = 200
    is_mpnet: bool = False
    odd_to_longer: bool = False
    one_segment: bool = False
    added_tokens: tuple[AddedToken, ...] = ()
    special_tokens: tuple[str, ...] = ()
    separators: int = 1

    def strips_accents(self, lower_case: bool) -> bool:
        """Returns whether accents are dropped by a tokenizer that lower-cases or does not."""
        return lower_case if self.strip_accents is None else self.strip_accents

    def folding(self, lower_case: bool) -> dict[str, bool]:
        """Arguments of `characters.fold` for a tokenizer that lower-cases or does not."""
        strips = self.strips_accents(lower_case)
        return {"lower_case": lower_case, "strip_accents": strips, "final_sigma": not self.no_final_sigma}

    def found_as(self, tokens: Iterable[str]) -> list[AddedToken]:
        """Rules for finding each of some tokens in texts."""
        known = {token.content: token for token in self.added_tokens}
        return [known.get(token) or AddedToken(content=token) for token in tokens]

    def outside_wordpiece(self) -> set[str]:
        """The tokens that WordPiece does not have."""
        return {token.content for token in self.added_tokens if token.only_found}

    def to_dict(self) -> dict[str, Any]:
        """The settings that differ from the defaults, for JSON."""
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if value != getattr(DEFAULT, name)}

    @classmethod
    def from_file(cls, path: str) -> "TokenizerSettings":
        """Reads what `to_dict` gave; UserError for another file."""
        values = Settings(json_files.require_json(path, "the settings of a tokenizer"), path)
        added = tuple(AddedToken(**_checked(token, OF_TOKENS)) for token in values.each("added_tokens"))
        names = tuple(values.value("special_tokens", TEXTS, []))
        return cls(**{**_checked(values, KINDS), "added_tokens": added, "special_tokens": names})


def _checked(values: Settings, kinds: Mapping[str, Kind[Any]]) -> dict[str, Any]:
    """The values; UserError for one of another name or kind."""
    unknown = sorted(values.keys() - kinds.keys())
    if unknown:
        raise UserError(
            f"{values.source} has {unknown[0]!r}, which is not a setting of a tokenizer: correct it, or update bert_tf."
        )
    return {name: value for name in values if (value := values.value(name, kinds[name])) is not None}


KINDS: Mapping[str, Kind[Any]] = {
    **dict.fromkeys(("strip_accents", "no_final_sigma", "split_ideographs"), FLAG),
    **dict.fromkeys(("is_mpnet", "odd_to_longer", "one_segment"), FLAG),
    "max_word_characters": whole(1, MAX_WORD_CHARACTERS),
    "added_tokens": LIST,
    "special_tokens": TEXTS,
    "separators": whole(1, 2),
}
OF_TOKENS: Mapping[str, Kind[Any]] = {
    field.name: TEXT if field.name == "content" else FLAG for field in dataclasses.fields(AddedToken)
}
DEFAULT = TokenizerSettings()
