"""Reads, extends and writes a vocabulary: a list of tokens, list index = id. Free of TensorFlow."""

import dataclasses
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from bert_tf.errors import UserError
from bert_tf.runtime import atomic_files, files, json_files
from bert_tf.text import library_rules, tokenizer_settings
from bert_tf.text.characters import basic_tokenize
from bert_tf.text.tokenizer_kinds import KINDS, LIBRARY, MPNET, WORDPIECE
from bert_tf.text.tokenizer_settings import MAX_TOKEN_BYTES, TokenizerSettings

SPECIAL_TOKENS = KINDS[WORDPIECE].special_tokens
MAX_SHOWN = 3  # words named in a message
NAMED = re.compile(r"\[[^\s\[\]]+\]|<[^\s<>]+>")  # the form of special tokens

log = logging.getLogger(__name__)


class Vocabulary(list[str]):
    """Tokens, list index = id, and their tokenizer's differences from the original; none for a plain list."""

    def __init__(self, tokens: Iterable[str], settings: TokenizerSettings = tokenizer_settings.DEFAULT) -> None:
        super().__init__(tokens)
        self.settings = settings


class SubwordVocabulary(Vocabulary):
    """Tokens, list index = id, of a tokenizer other than WordPiece.

    kind: a key of KINDS. rules: rules for splitting texts, the content of the file that KINDS names.
    """

    def __init__(
        self, tokens: Iterable[str], kind: str, rules: bytes, settings: TokenizerSettings = tokenizer_settings.DEFAULT
    ) -> None:
        super().__init__(tokens, settings)
        self.kind, self.rules = kind, rules


def settings_of(vocabulary: Collection[str]) -> TokenizerSettings:
    """Differences of a vocabulary's tokenizer from the original's."""
    return vocabulary.settings if isinstance(vocabulary, Vocabulary) else tokenizer_settings.DEFAULT


def with_settings(vocabulary: Sequence[str], settings: TokenizerSettings) -> list[str]:
    """The vocabulary, of the same kind, with other settings."""
    if isinstance(vocabulary, SubwordVocabulary):
        return SubwordVocabulary(vocabulary, vocabulary.kind, vocabulary.rules, settings)
    return list(vocabulary) if settings == tokenizer_settings.DEFAULT else Vocabulary(vocabulary, settings)


def with_tokens(vocabulary: Sequence[str], tokens: Sequence[str]) -> list[str]:
    """New tokens with the kind, rules and settings of a vocabulary."""
    if isinstance(vocabulary, SubwordVocabulary):
        return SubwordVocabulary(tokens, vocabulary.kind, vocabulary.rules, vocabulary.settings)
    return with_settings(tokens, settings_of(vocabulary))


def content_of(vocabulary: Sequence[str]) -> list[str]:
    """The tokens and, if the tokenizer differs from the original's, its settings as JSON, for comparison."""
    settings = settings_of(vocabulary)
    return [*vocabulary, *([json.dumps(settings.to_dict())] if settings != tokenizer_settings.DEFAULT else [])]


def are_alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Returns whether two tokenizers produce the same ids, except for rare words and the layout of pairs.

    Rare words are words of more than a hundred characters and Greek words in capitals.
    """
    first, second = (
        dataclasses.replace(
            settings_of(each), max_word_characters=0, no_final_sigma=False, odd_to_longer=False, one_segment=False
        )
        for each in (one, other)
    )
    return list(one) == list(other) and first == second


def kind_of(vocabulary: Collection[str]) -> str:
    """The tokenizer kind of a vocabulary."""
    if isinstance(vocabulary, SubwordVocabulary):
        return vocabulary.kind
    return MPNET if settings_of(vocabulary).is_mpnet else WORDPIECE


def has_capitals(vocabulary: Collection[str]) -> bool:
    """Returns whether a WordPiece vocabulary has capital letters, apart from names such as [CLS] and <S>."""
    if isinstance(vocabulary, SubwordVocabulary):
        return False
    return any(token != token.lower() and not NAMED.fullmatch(token) for token in vocabulary)


def special_tokens(vocabulary: Collection[str]) -> tuple[str, ...]:
    """The names of the tokens for padding, unknown words, the start of a row, the end of a segment, and masks."""
    return settings_of(vocabulary).special_tokens or KINDS[kind_of(vocabulary)].special_tokens


def check_special_tokens(vocabulary: Collection[str], name: str) -> None:
    """Raises UserError unless the five special tokens are present, and others; `name` identifies the vocabulary."""
    known, expected = set(vocabulary), special_tokens(vocabulary)
    missing = [token for token in expected if token not in known]
    if missing and kind_of(vocabulary) == LIBRARY:
        raise UserError(f"{name} has no {', '.join(missing)}: copy or write its folder again.")
    if missing and kind_of(vocabulary) != WORDPIECE:
        raise UserError(
            f"{name} has no {', '.join(missing)}: of this kind of tokenizer ({kind_of(vocabulary)}) only that of "
            f"{KINDS[kind_of(vocabulary)].owner} is supported."
        )
    if missing:
        raise UserError(f"{name} has no {', '.join(missing)}; pass the vocab.txt of a BERT checkpoint.")
    if known == set(expected):
        raise UserError(f"{name} has only special tokens, which cannot encode text; pass a complete vocab.txt.")


def read(
    path: str | os.PathLike[str], expected_size: int | None = None, settings: TokenizerSettings | None = None
) -> list[str]:
    """Reads `vocab.txt`: one token per line, line number = id (`load_vocab` of google-research/bert).

    UTF-8; a byte order mark, CRLF and blank lines at the end are harmless. A repeated token has its last id, as in the
    original; this is logged.

    Args:
        path: the file.
        expected_size: `vocab_size` of the model that will use it.
        settings: settings of its tokenizer, instead of the folder's.

    Raises:
        UserError: the file is missing, empty, not a vocabulary, lacks a special token or has another size.
    """
    vocabulary = of_lines(_content(path), path)
    vocabulary = _with_rules(vocabulary, os.path.dirname(os.fspath(path)), settings)
    check_special_tokens(vocabulary, str(path))
    if expected_size is not None and len(vocabulary) != expected_size:
        raise UserError(
            f"{path} has {len(vocabulary)} tokens, but the model expects {expected_size} (vocab_size); pass the "
            "vocab.txt that belongs to the checkpoint."
        )
    return vocabulary


def _content(path: files.StrPath) -> bytes:
    """The content of the file; raises UserError that describes a wrong file."""
    if not files.is_file(path):
        problem = (
            "is a folder; pass the vocab.txt inside it" if files.is_folder(path) else "does not exist; pass a vocab.txt"
        )
        raise UserError(f"The vocabulary file {path} {problem}.")
    with files.open_binary(path) as file:
        return file.read()


def of_lines(data: bytes, path: object) -> list[str]:
    """The tokens in the content of a vocab.txt; raises UserError with path and description of a wrong file."""
    if not data.strip():
        raise UserError(f"The vocabulary file {path} is empty; expected one token per line.")
    if b"<unk>" in data[:200] and b"\0" in data:
        raise UserError(f"{path} is a SentencePiece model; BERT needs the vocab.txt of a WordPiece vocabulary.")
    if b"\0" in data:
        raise UserError(f"{path} is a binary file; a vocabulary is a text file (vocab.txt) with one token per line.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path} is not UTF-8 text (line {line}); save it as UTF-8, one token per line.") from None
    if text.lstrip().startswith("{") and _is_json(text):
        raise UserError(f"{path} is a JSON file (tokenizer.json?); pass the vocab.txt in the same folder.")
    vocabulary = [line.strip() for line in text.rstrip().split("\n")]  # not splitlines: U+2028 may be a token
    repeated = [token for token, count in Counter(vocabulary).items() if count > 1 and token]
    if repeated:
        log.warning("%s repeats %d tokens (%s, ...): the last id is used.", path, len(repeated), repeated[0])
    return vocabulary


def _with_rules(tokens: list[str], folder: str, settings: TokenizerSettings | None) -> list[str]:
    """The tokens with the settings and, as a SubwordVocabulary, the rules in the folder, if there are any."""
    file = os.path.join(folder, tokenizer_settings.FILE)
    if settings is None:
        settings = TokenizerSettings.from_file(file) if files.is_file(file) else tokenizer_settings.DEFAULT
    for kind, name in ((kind, row.rules) for kind, row in KINDS.items() if row.rules):
        if files.is_file(os.path.join(folder, name)):
            with files.open_binary(os.path.join(folder, name)) as opened:
                rules = opened.read()
            if (kind == LIBRARY) != bool(settings.special_tokens):
                raise UserError(f"{file} does not belong to {name} beside it: copy or write the whole folder again.")
            if kind == LIBRARY:
                library_rules.steps_of(rules)
            return SubwordVocabulary(tokens, kind, rules, settings)
    if settings.special_tokens:
        raise UserError(
            f"{folder} has no {KINDS[LIBRARY].rules}, which its tokenizer needs: copy or write the folder again."
        )
    return with_settings(tokens, settings)


def _is_json(text: str) -> bool:
    try:
        json_files.parse(text)
    except ValueError:
        return False
    return True


def write(path: str | os.PathLike[str], vocabulary: Sequence[str]) -> None:
    """Writes one token per line, and rules and settings next to it, so that `read` restores it.

    Each file appears whole or not at all.
    """
    invalid = next((token for token in vocabulary if token != token.strip() or "\n" in token), None)
    if invalid is not None:
        raise UserError(
            f"The token {invalid!r} has white space around it or a line break in it; it cannot be stored in a file."
        )
    folder, settings = os.path.dirname(os.fspath(path)), settings_of(vocabulary)
    if isinstance(vocabulary, SubwordVocabulary):
        atomic_files.write_bytes(os.path.join(folder, KINDS[vocabulary.kind].rules), vocabulary.rules, shared=True)
    if settings != tokenizer_settings.DEFAULT:
        atomic_files.write_json(os.path.join(folder, tokenizer_settings.FILE), settings.to_dict(), shared=True)
    atomic_files.write_lines(path, (f"{token}\n" for token in vocabulary), shared=True)


@dataclasses.dataclass(frozen=True)
class Extension:
    """A longer vocabulary: its `tokens`, and which words were added, already present, or can never match."""

    tokens: list[str]
    added: tuple[str, ...]
    known: tuple[str, ...]
    unmatched: tuple[str, ...]

    def __str__(self) -> str:
        parts = [f"{len(self.added):,} added", f"{len(self.known):,} known"]
        if self.unmatched:
            more = ", ..." if len(self.unmatched) > MAX_SHOWN else ""
            shown = ", ".join(map(repr, self.unmatched[:MAX_SHOWN]))
            parts.append(f"{len(self.unmatched):,} cannot match because the tokenizer splits them: {shown}{more}")
        return ", ".join(parts)


def extend(vocabulary: Collection[str], new_words: Iterable[str], *, lower_case: bool = True) -> Extension:
    """Adds domain words: each replaces an [unusedN] token while one is left, then they are appended.

    extend([..., "[unused0]", "the"], ["krill", "##opod"]).tokens  ->  [..., "krill", "the", "##opod"]

    No other token changes its id. If the list grew, the model's token table must grow too. Words are added in the
    tokenizer's spelling, "Krill" as "krill". A word such as [E1] or <e> becomes a special token, recognized only if
    special_tokens_in_strings names it.

    Args:
        vocabulary: the tokens to start from; not changed.
        new_words: the words to add.
        lower_case: whether the tokenizer that will use it lower-cases.

    Raises:
        UserError: this is not a WordPiece vocabulary.
    """
    if isinstance(vocabulary, SubwordVocabulary):
        raise UserError("Words can be added only to a WordPiece vocabulary; this one can already encode any text.")
    settings = settings_of(vocabulary)
    extended = with_settings(list(vocabulary), settings)
    known = set(extended)
    unused = iter([i for i, token in enumerate(extended) if re.fullmatch(r"\[unused\d+\]", token)])
    added, found, unmatched = [], [], []
    for given in new_words:
        body = given.removeprefix("##")
        parts = [body] if NAMED.fullmatch(given) else basic_tokenize(body, lower_case=lower_case, settings=settings)
        word = f"{given.removesuffix(body)}{''.join(parts)}"
        if given in known or word in known:
            found.append(given)
        elif len(parts) != 1 or len(parts[0].encode()) > MAX_TOKEN_BYTES:
            unmatched.append(given)
        else:
            known.add(word)
            added.append(word)
            index = next(unused, None)
            if index is None:
                extended.append(word)
            else:
                extended[index] = word
    return Extension(extended, tuple(added), tuple(found), tuple(unmatched))
