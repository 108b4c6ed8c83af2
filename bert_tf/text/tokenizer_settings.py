"""Differences of a tokenizer from the original's, kept with its vocabulary, see `vocabulary.settings_of`."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import json_files
from bert_tf.runtime.settings import FLAG, LIST, TEXT, TEXTS, Kind, Settings, whole

MAX_TOKEN_BYTES = 200  # longest token of a vocabulary
MAX_WORD_CHARACTERS = 2**28  # so that its bytes can be counted in int32
FILE = "tokenizer_settings.json"  # next to vocab.txt, if a tokenizer differs


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddedToken:
    """Rules for finding a recognized token in texts, like AddedToken in Hugging Face's `tokenizers`.

    Attributes:
        content: the token.
        lstrip: whether it includes the white space before it.
        rstrip: whether it includes the white space after it.
        single_word: whether it is found only between characters that are not word characters.
        normalized: whether it is looked for in normalized (cleaned, lower-cased ...) form in normalized texts.
        only_found: whether WordPiece lacks it, so that no other word is split into it.
    """

    content: str
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False
    only_found: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """Settings of Hugging Face's BERT tokenizers other than `do_lower_case`; the defaults are the original's.

    Attributes:
        strip_accents: whether accents are dropped (NFD without Mn); None: if the tokenizer lower-cases.
        no_final_sigma: whether a capital sigma at the end of a word is lower-cased to σ, as elsewhere, not to ς.
        split_ideographs: whether each ideograph is a separate word, `tokenize_chinese_chars`.
        max_word_characters: longest word; longer ones are unknown. 100 in Hugging Face's tokenizers.
        is_mpnet: whether special tokens and sequence layout are MPNet's, <s> a </s></s> b </s>.
        odd_to_longer: whether, if both texts of a pair are truncated to an odd number of tokens, the longer one keeps
            one more than the other, and the second if they are equally long; by default the first does.
        one_segment: whether both texts of a pair have the first segment id.
        added_tokens: rules for finding recognized tokens in texts; tokens without a rule are found as is, anywhere.
        special_tokens: the names of the special tokens, see `vocabulary.special_tokens`; (): the names of its kind.
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
        """Returns whether a tokenizer drops accents, given whether it lower-cases."""
        return lower_case if self.strip_accents is None else self.strip_accents

    def folding(self, lower_case: bool) -> dict[str, bool]:
        """Arguments of `characters.fold` for a tokenizer, given whether it lower-cases."""
        strips = self.strips_accents(lower_case)
        return {"lower_case": lower_case, "strip_accents": strips, "final_sigma": not self.no_final_sigma}

    def found_as(self, tokens: Iterable[str]) -> list[AddedToken]:
        """The rules for finding these tokens in texts."""
        known = {token.content: token for token in self.added_tokens}
        return [known.get(token) or AddedToken(content=token) for token in tokens]

    def outside_wordpiece(self) -> set[str]:
        """The tokens that WordPiece lacks."""
        return {token.content for token in self.added_tokens if token.only_found}

    def to_dict(self) -> dict[str, Any]:
        """The settings that differ from the defaults, for JSON."""
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if value != getattr(DEFAULT, name)}

    @classmethod
    def from_file(cls, path: str) -> "TokenizerSettings":
        """Reads the output of `to_dict` from a file; UserError for other content."""
        values = Settings(json_files.require_json(path, "the settings of a tokenizer"), path)
        added = tuple(AddedToken(**_checked(token, OF_TOKENS)) for token in values.each("added_tokens"))
        names = tuple(values.value("special_tokens", TEXTS, []))
        return cls(**{**_checked(values, KINDS), "added_tokens": added, "special_tokens": names})


def _checked(values: Settings, kinds: Mapping[str, Kind[Any]]) -> dict[str, Any]:
    """The values; UserError for an unexpected name or kind."""
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
