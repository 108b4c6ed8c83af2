"""The tokens that `transformers` recognizes in texts according to the files of a Hugging Face folder, and their ids."""

import dataclasses
from collections.abc import Collection, Iterator
from typing import Any

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.huggingface_folder import CONFIG, TOKEN, TokenizerFolder, content_of
from bert_tf.checkpoints.huggingface_rules import SENTENCEPIECE_FILES, mask_takes_space
from bert_tf.checkpoints.huggingface_wordpiece import OLDER
from bert_tf.errors import UserError
from bert_tf.runtime.lazy import module
from bert_tf.runtime.settings import Settings, check, list_of, map_of, read_settings, shortened, whole
from bert_tf.text.byte_level import blanks_for_spaces, spaces_for_blanks
from bert_tf.text.sentencepiece_model import added_pieces
from bert_tf.text.tokenizer_kinds import BYTE_BPE, DEBERTA_V2, KINDS, LIBRARY, XLNET
from bert_tf.text.tokenizer_settings import AddedToken
from bert_tf.text.vocabulary import kind_of, settings_of, with_settings, with_tokens

tokenizers = module("tokenizers")
FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
EXTRA = ("additional_special_tokens", "extra_special_tokens")

Found = dict[str, tuple[AddedToken, int | None]]  # by content, with the id from a file


def extend(folder: TokenizerFolder, vocabulary: list[str], found: Found) -> list[str]:
    """A vocabulary with the tokens that the folder adds, such as [E1]; its settings record how they are found.

    found: from `found_in`. Raises UserError if their ids do not follow the vocabulary's.
    """
    kind, tokens = kind_of(vocabulary), list(vocabulary)
    if kind == DEBERTA_V2:  # whose [MASK] is an added token
        tokens = tokens[: len(tokens) - (tokens[-1] == "[MASK]")]
    known = set(tokens)
    number, added = len(known), []  # id of the next token, counted like transformers: without repeated ones
    for token, declared in found.values():
        is_new = token.content not in known
        if is_new and (declared not in (None, number) or number < len(tokens)):
            raise UserError(
                f"The ids of the tokens that {folder.path} adds, such as {token.content!r}, do not follow its "
                f"vocabulary of {len(vocabulary)} tokens: pass its vocab.txt with all of them, each once."
            )
        if is_new:
            tokens.append(token.content)
            known.add(token.content)
            number += 1
        token = dataclasses.replace(token, only_found=is_new and kind not in (BYTE_BPE, DEBERTA_V2))
        added += [token] if token != AddedToken(content=token.content) else []
    settings = dataclasses.replace(settings_of(vocabulary), added_tokens=tuple(added))
    return with_settings(with_tokens(vocabulary, tokens), settings)


def found_in_lower_case(folder: TokenizerFolder, tokens: tuple[str, ...]) -> tuple[str, ...]:
    """The recognized tokens that are still found after sentence-transformers lower-cased the text."""
    if not folder.lower_cases_first:
        return tokens
    lower = [token for token in tokens if token == token.lower()]
    if lower:
        raise UserError(
            f"{folder.path} lower-cases texts by its sentence_bert_config.json and adds the token {lower[0]!r}: only "
            "added tokens with capital letters, which are then never found, are supported there."
        )
    return ()


def found_in(folder: TokenizerFolder, kind: str, known_tokens: Collection[str]) -> Found:
    """The tokens in the order in which transformers adds them; the first of several with the same content counts."""
    found: Found = {}
    known = {content_of(token) for name in EXTRA for token in _extra(folder.config, name)}
    only_there = {content_of(token) for token in _extra(folder.names, EXTRA[0])} - known  # transformers overlooks these
    special = {text for text, _, _ in _named(folder, kind)} - only_there
    entries = _entries(folder, special, kind)
    if folder.is_by_file:
        for number, token in _listed(folder.file, folder.added_tokens):
            found.setdefault(token.content, (token, number))
    for number, token in sorted(entries.items()):
        declared = found[token.content][1] if token.content in found else number
        found[token.content] = token, declared
    for text, token, is_optional in _named(folder, kind):
        if text not in found and (not is_optional or text in known_tokens):
            found[text] = token, None
    return found


def _extra(values: Settings, name: str) -> list[Any]:
    """The special tokens in a list, or in an object with names of their own."""
    tokens = values.get(name) or []
    listed = list(tokens.values()) if isinstance(tokens, dict) else tokens
    return check(values.source, name, listed, list_of(TOKEN, "tokens, texts or objects with their content"))


def _entries(folder: TokenizerFolder, special: set[str], kind: str) -> dict[int, AddedToken]:
    """{id: token} from tokenizer_config.json, or else from the older files or an XLNet's model.

    special: names of special tokens, which are not searched for in normalized texts.
    """
    config, older = folder.config, folder.place(OLDER)
    decoder = config.value("added_tokens_decoder", map_of(TOKEN, "tokens by their ids"))
    if decoder is not None:
        own = [{"id": _number(number), **_object(token)} for number, token in decoder.items()]
        return dict(_listed(str(config.source), own))
    entries = [
        {"content": token, "id": number, "special": token in special} for token, number in read_settings(older).items()
    ]
    listed = [*_listed(older, entries), *_listed(folder.file, folder.added_tokens)]
    if kind == XLNET and not folder.has_steps:
        name = SENTENCEPIECE_FILES[kind]
        listed += _listed(folder.place(name), added_pieces(folder.read(name)))
    return dict(listed)


def _listed(file: str, entries: list[Any]) -> Iterator[tuple[int, AddedToken]]:
    for entry in entries:
        number: Any = entry.get("id") if isinstance(entry, dict) else None
        if not (whole(0).holds(number) and isinstance(content_of(entry), str)):
            raise UserError(f"{file}: an added token is {shortened(entry)}; expected its content and its id.")
        yield number, _token(file, entry, is_special=entry.get("special") is True)


def _named(folder: TokenizerFolder, kind: str) -> Iterator[tuple[str, AddedToken, bool]]:
    """Special tokens named by the files or the class; optional ones count only if the vocabulary has them."""
    by_file = folder.is_by_file
    usual = {} if by_file else {f"{name}_token": text for name, text in KINDS[kind].names.items()}
    values = Settings(usual, folder.place(CONFIG))
    for given in folder.special:
        own = {name: value for name, value in given.items() if value is not None}
        values = Settings({**values, **own}, given.source)
    extra: list[Any] = [] if by_file or any(name in values for name in EXTRA) else [*KINDS[kind].extra]
    extra += next((tokens for name in reversed(EXTRA) if (tokens := _extra(values, name))), [])  # the newer name counts
    named = {name: value for name, value in values.items() if name.endswith("_token")}
    for name, value in [*named.items(), *(("", value) for value in extra)]:
        text = content_of(value)
        if name == "mask_token" and isinstance(value, str) and not by_file and mask_takes_space(folder, kind):
            value = {"content": value, "lstrip": True}
        if isinstance(text, str) and text:
            is_optional = (
                kind != LIBRARY and name in ("bos_token", "eos_token") and f"{name[:3]}" not in KINDS[kind].names
            )
            yield (
                text,
                _token(str(values.source), value if isinstance(value, dict) else {"content": text}, is_special=True),
                is_optional,
            )


def _token(file: str, entry: dict[str, Any], *, is_special: bool) -> AddedToken:
    values = {name: entry.get(name) for name in FLAGS}
    values["normalized"] = not is_special if values["normalized"] is None else values["normalized"]
    wrong = next((name for name, value in values.items() if value not in (None, True, False)), None)
    text = entry["content"]
    if wrong or not text:
        raise UserError(
            f"{file}: the added token {shortened(entry)} is not supported: it is empty, or has a flag that is neither "
            "true nor false."
        )
    return AddedToken(content=blanks_for_spaces(text), **{name: bool(value) for name, value in values.items()})


def _number(text: str) -> Any:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text


def _object(token: Any) -> dict[str, Any]:
    return token if isinstance(token, dict) else {"content": token}


def _recognized(checkpoint: Checkpoint) -> tuple[list[AddedToken], dict[str, int]]:
    """Tokens that a checkpoint recognizes in texts, in the order of the ids, and {token: id} for its vocabulary."""
    tokens = checkpoint.vocabulary or []
    ids = {token: number for number, token in enumerate(tokens)}
    names = dict.fromkeys([*checkpoint.added_tokens, *checkpoint.special_tokens])
    return sorted(settings_of(tokens).found_as(names), key=lambda token: ids.get(token.content, len(ids))), ids


def _flags_of(token: AddedToken) -> dict[str, bool]:
    return {"special": not token.normalized, **{name: getattr(token, name) for name in FLAGS}}


def written(checkpoint: Checkpoint) -> dict[str, Any]:
    """The tokenizer_config.json entry that lets transformers find a checkpoint's tokens in the same way."""
    if kind_of(checkpoint.vocabulary or ()) == LIBRARY:  # whose tokenizer.json has them
        return {}
    found, ids = _recognized(checkpoint)
    found = [token for token in found if token.content in ids]
    known = KINDS[kind_of(checkpoint.vocabulary or ())].special_tokens
    if all(token == AddedToken(content=token.content) and token.content in known for token in found):
        return {}
    decoder = {
        str(ids[token.content]): {"content": spaces_for_blanks(token.content), **_flags_of(token)} for token in found
    }
    return {"added_tokens_decoder": decoder}


def to_theirs(checkpoint: Checkpoint) -> list[Any]:
    """The recognized tokens of a checkpoint as objects of `tokenizers`, which numbers new ones in this order."""
    found, _ = _recognized(checkpoint)
    return [tokenizers.AddedToken(spaces_for_blanks(token.content), **_flags_of(token)) for token in found]
