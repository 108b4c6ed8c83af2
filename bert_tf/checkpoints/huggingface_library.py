"""A tokenizer.json with steps that this package does not implement: the library `tokenizers` computes them."""

import dataclasses
import itertools
import os
import re
from typing import Any

from bert_tf.checkpoints import huggingface_added_tokens, huggingface_rules
from bert_tf.checkpoints.huggingface_added_tokens import FLAGS, Found
from bert_tf.checkpoints.huggingface_folder import BY_FILE, CONFIG, JSON, TOKEN, TokenizerFolder, content_of
from bert_tf.errors import UserError, reason_of
from bert_tf.runtime.atomic_files import write_bytes, write_json
from bert_tf.runtime.lazy import module
from bert_tf.runtime.settings import TEXT, Settings
from bert_tf.text.byte_level import blanks_for_spaces, spaces_for_blanks
from bert_tf.text.library_rules import open_rules
from bert_tf.text.tokenizer_kinds import KINDS, LIBRARY, NAMES
from bert_tf.text.tokenizer_settings import TokenizerSettings
from bert_tf.text.vocabulary import SubwordVocabulary, kind_of, settings_of, special_tokens

tokenizers = module("tokenizers")
UNWRITABLE = re.compile(r"[\s\0\ufeff]")
MAX_HOLES = 10  # ids for each token: a few may be unused, and a list of all of them has to fit into memory
RARE = "zqjxv \U0010fffe"  # words that hardly any vocabulary has


def read(folder: TokenizerFolder) -> SubwordVocabulary:
    """The vocabulary of a folder whose tokenizer.json has every step, with the tokens added by the other files.

    Raises UserError for a file that the library cannot read, for unnamed special tokens, and for sequences other than
    [CLS] a [SEP] and [CLS] a [SEP] b [SEP], with one or two separators between a and b.
    """
    huggingface_rules.check(folder, LIBRARY)
    try:
        library = open_rules(folder.read(JSON))
    except Exception as error:  # the type that the library raises
        raise UserError(f"{folder.file} cannot be read by the library tokenizers: {reason_of(error)}.") from None
    _add(folder, library, huggingface_added_tokens.found_in(folder, LIBRARY, library.get_vocab()))
    names = _special_tokens(folder)
    tokens = _tokens(folder, library, names)
    settings = TokenizerSettings(special_tokens=names, separators=_separators(folder, library, names))
    return SubwordVocabulary(tokens, LIBRARY, library.to_str().encode(), settings)


def of_kind(folder: TokenizerFolder, vocabulary: list[str], library: Any, found: Found) -> SubwordVocabulary:
    """The vocabulary of a folder whose tokenizer of another kind has settings or tokens that only the library supports.

    library: its tokenizer without the tokens found in texts.
    """
    _add(folder, library, found)
    names, separators = special_tokens(vocabulary), KINDS[kind_of(vocabulary)].separators
    settings = TokenizerSettings(special_tokens=names, separators=separators)
    return SubwordVocabulary(_tokens(folder, library, names), LIBRARY, library.to_str().encode(), settings)


def _tokens(folder: TokenizerFolder, library: Any, names: tuple[str, ...]) -> list[str]:
    """The tokens in the order of their ids, as lines of a vocab.txt; UserError for ids with gaps or repetitions."""
    ids = library.get_vocab(with_added_tokens=True)
    if len(set(ids.values())) < len(ids):
        raise UserError(f"{folder.file} has two tokens with the same id: fetch the file again.")
    size = max(ids.values(), default=0) + 1
    if size > MAX_HOLES * len(ids):
        raise UserError(f"{folder.file} has {len(ids)} tokens with ids up to {size - 1}: number them from 0.")
    _check_unknown(folder, library)
    if missing := next((name for name in names if name not in ids), None):
        raise UserError(
            f"{folder.path} names the special token {missing!r}, which is not in {JSON}: fetch the files again."
        )
    unused = (name for number in itertools.count() if (name := f"[unused{number}]") not in ids)
    tokens = list(itertools.islice(unused, size))
    for token, number in ids.items():
        tokens[number] = _written(token)
    return tokens


def _add(folder: TokenizerFolder, library: Any, found: Found) -> None:
    """Adds the tokens from the other files of a folder, like transformers."""
    for token, declared in found.values():
        content = spaces_for_blanks(token.content)
        known = library.get_added_tokens_decoder().get(library.token_to_id(content))
        flags = {name: getattr(token, name) for name in FLAGS}
        if known is None or flags != {name: getattr(known, name) for name in FLAGS}:
            is_special = known.special if known else not token.normalized
            library.add_tokens([tokenizers.AddedToken(content, **flags, special=is_special)])
        if declared not in (None, number := library.token_to_id(content)):
            raise UserError(
                f"The id of the token {token.content!r}, which {folder.path} adds, is {declared}, but {number} in its "
                f"{JSON}: fetch the files again."
            )


def _check_unknown(folder: TokenizerFolder, library: Any) -> None:
    """Raises UserError for a model that cannot represent unknown words, and has no token for them."""
    try:
        library.encode(RARE, add_special_tokens=False)
    except Exception as error:  # the type that the library raises
        raise UserError(
            f"{folder.file} cannot tokenize unknown words ({reason_of(error)}): name its unknown token in model."
        ) from None


def _special_tokens(folder: TokenizerFolder) -> tuple[str, ...]:
    """The tokens for padding, unknown words, the start of a sequence, the end of a segment, and masks."""
    values = {name: value for given in folder.special for name, value in given.items() if value is not None}
    named = Settings(values, folder.place(CONFIG))
    found = {name: content_of(named.value(f"{name}_token", TOKEN)) for name in NAMES}
    found["pad"] = found["pad"] or folder.steps.inside("padding").value("pad_token", TEXT)
    if missing := [f"{name}_token" for name, token in found.items() if not token]:
        raise UserError(f"{named.source} does not name {', '.join(missing)}, which the steps of {JSON} need: add them.")
    return tuple(found.values())


def _separators(folder: TokenizerFolder, library: Any, names: tuple[str, ...]) -> int:
    """The number of separators between two texts in the sequences of a post_processor."""
    for count in (1, 2):
        if folder.rows in dataclasses.replace(KINDS[LIBRARY], special_tokens=names, separators=count).known_rows:
            _check_rows(folder, library, names, count)
            return count
    _, _, cls, sep, _ = names
    raise UserError(
        f"{folder.file}: post_processor makes the rows {', '.join(folder.rows)}; supported are {cls} A {sep} and "
        f"{cls} A {sep} B {sep}, with one or two {sep} between A and B."
    )


def _check_rows(folder: TokenizerFolder, library: Any, names: tuple[str, ...], separators: int) -> None:
    """Raises UserError if the post_processor writes special tokens with ids that are not theirs in the vocabulary."""
    cls, sep = ([library.token_to_id(name)] for name in names[2:4])
    ids = library.encode(RARE, add_special_tokens=False).ids
    if library.encode(RARE, RARE).ids != cls + ids + sep * separators + ids + sep:
        raise UserError(
            f"{folder.file}: the ids in post_processor are not those of {names[2]} and {names[3]}: correct it."
        )


def _written(token: str) -> str:
    """A token as a line of a vocab.txt, which cannot have white space at its ends."""
    if token and token == token.strip() and not UNWRITABLE.search(token):
        return token
    if set(token) == {" "}:
        return blanks_for_spaces(token)
    return UNWRITABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", token) or "\\u"


def write(folder: str, vocabulary: SubwordVocabulary, settings: dict[str, Any]) -> None:
    """Writes tokenizer.json, and tokenizer_config.json with the names of the special tokens and more settings."""
    names = zip(NAMES, settings_of(vocabulary).special_tokens, strict=True)
    special = {f"{name}_token": token for name, token in names}
    write_bytes(os.path.join(folder, JSON), vocabulary.rules)
    write_json(os.path.join(folder, CONFIG), {"tokenizer_class": BY_FILE[0], **special, **settings})
