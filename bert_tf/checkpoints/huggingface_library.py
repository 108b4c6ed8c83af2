"""A tokenizer.json with steps that this package does not implement: the library `tokenizers` computes them."""

import dataclasses
import os
import re
from typing import Any

from bert_tf.checkpoints import huggingface_added_tokens, huggingface_rules
from bert_tf.checkpoints.huggingface_folder import BY_FILE, CONFIG, JSON, TOKEN, TokenizerFolder, content_of
from bert_tf.checkpoints.huggingface_kinds import KINDS
from bert_tf.errors import UserError, reason_of
from bert_tf.runtime.atomic_files import write_bytes, write_json
from bert_tf.runtime.lazy import module
from bert_tf.runtime.settings import Settings
from bert_tf.text.byte_level import blanks_for_spaces, spaces_for_blanks
from bert_tf.text.host_library import open_rules
from bert_tf.text.tokenizer_settings import AddedToken, TokenizerSettings
from bert_tf.text.vocabulary import LIBRARY, SubwordVocabulary, settings_of

tokenizers = module("tokenizers")
NAMES = ("pad", "unk", "cls", "sep", "mask")
WHITE = re.compile(r"\s")


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
    _add(folder, library)
    names = _special_tokens(folder)
    ids = library.get_vocab(with_added_tokens=True)
    if missing := next((name for name in names if name not in ids), None):
        raise UserError(
            f"{folder.path} names the special token {missing!r}, which is not in {JSON}: fetch the files again."
        )
    tokens = [f"[unused{number}]" for number in range(max(ids.values()) + 1)]
    for token, number in ids.items():
        tokens[number] = _written(token)
    settings = TokenizerSettings(special_tokens=names, separators=_separators(folder, names))
    return SubwordVocabulary(tokens, LIBRARY, library.to_str().encode(), settings)


def _add(folder: TokenizerFolder, library: Any) -> None:
    """Adds the tokens from the other files of a folder, like transformers."""
    for token, declared in huggingface_added_tokens.found_in(folder, LIBRARY, library.get_vocab()).values():
        content = spaces_for_blanks(token.content)
        known = library.get_added_tokens_decoder().get(library.token_to_id(content))
        own = known and AddedToken(
            content=token.content,
            **{name: getattr(known, name) for name in huggingface_added_tokens.FLAGS},
        )
        if own != token:
            is_special = known.special if known else not token.normalized
            library.add_tokens([tokenizers.AddedToken(content, **_flags(token), special=is_special)])
        if declared not in (None, number := library.token_to_id(content)):
            raise UserError(
                f"The id of the token {token.content!r}, which {folder.path} adds, is {declared}, but {number} in its "
                f"{JSON}: fetch the files again."
            )


def _flags(token: AddedToken) -> dict[str, Any]:
    values = dataclasses.asdict(token)
    return {name: values[name] for name in huggingface_added_tokens.FLAGS}


def _special_tokens(folder: TokenizerFolder) -> tuple[str, ...]:
    """The tokens for padding, unknown words, the start of a sequence, the end of a segment, and masks."""
    values = {name: value for given in folder.special for name, value in given.items() if value is not None}
    named = Settings(values, folder.place(CONFIG))
    found = {name: content_of(named.value(f"{name}_token", TOKEN)) for name in NAMES}
    if missing := [f"{name}_token" for name, token in found.items() if not token]:
        raise UserError(f"{named.source} does not name {', '.join(missing)}, which the steps of {JSON} need: add them.")
    return tuple(found.values())


def _separators(folder: TokenizerFolder, names: tuple[str, ...]) -> int:
    """The number of separators between two texts in the sequences of a post_processor."""
    special, rows = dict(zip(NAMES, names, strict=True)), folder.rows
    for count in (1, 2):
        if rows in dataclasses.replace(KINDS[LIBRARY], special=special, separators=count).known_rows:
            return count
    _, _, cls, sep, _ = names
    raise UserError(
        f"{folder.file}: post_processor makes the rows {', '.join(rows)}; supported are {cls} A {sep} and "
        f"{cls} A {sep} B {sep}, with one or two {sep} between A and B."
    )


def _written(token: str) -> str:
    """A token as a line of a vocab.txt, which cannot have white space at its ends."""
    if token == token.strip() and "\n" not in token:
        return token
    if set(token) == {" "}:
        return blanks_for_spaces(token)
    return WHITE.sub(lambda found: f"\\u{ord(found[0]):04x}", token)


def write(folder: str, vocabulary: SubwordVocabulary, settings: dict[str, Any]) -> None:
    """Writes tokenizer.json, and tokenizer_config.json with the names of the special tokens and more settings."""
    names = zip(NAMES, settings_of(vocabulary).special_tokens, strict=True)
    special = {f"{name}_token": token for name, token in names}
    write_bytes(os.path.join(folder, JSON), vocabulary.rules)
    write_json(os.path.join(folder, CONFIG), {"tokenizer_class": BY_FILE[0], **special, **settings})
