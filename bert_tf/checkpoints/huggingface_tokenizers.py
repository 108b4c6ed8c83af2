"""The tokenizer of a Hugging Face folder: vocab.txt, vocab.json with merges.txt, or all of it in tokenizer.json."""

import dataclasses
import itertools
import json
import os
from collections.abc import Sequence
from typing import Any

from bert_tf.checkpoints import (
    huggingface_added_tokens,
    huggingface_library,
    huggingface_rules,
    huggingface_wordpiece,
)
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import MAX_LENGTH, in_order_of_ids, write_tokenizer_files
from bert_tf.checkpoints.huggingface_folder import BY_FILE, CONFIG, JSON, OtherSteps, TokenizerFolder
from bert_tf.errors import UserError
from bert_tf.runtime import json_files
from bert_tf.runtime.atomic_files import write_bytes, write_json
from bert_tf.runtime.lazy import module
from bert_tf.runtime.settings import FLAG, LIST, OBJECT, TEXT, Settings, read_settings, shortened
from bert_tf.text import byte_level, sentencepiece_model
from bert_tf.text.special_tokens import SETTING
from bert_tf.text.tokenizer_kinds import (
    BERT_BYTE_BPE,
    BYTE_BPE,
    DEBERTA_V2,
    KINDS,
    LIBRARY,
    NAMES,
    SENTENCEPIECE,
    XLNET,
)
from bert_tf.text.vocabulary import (
    SubwordVocabulary,
    check_special_tokens,
    has_capitals,
    kind_of,
    settings_of,
    special_tokens,
    with_tokens,
)

tokenizers = module("tokenizers")
VOCAB = "vocab.json"


def read(folder: TokenizerFolder) -> tuple[list[str] | None, bool | None]:
    """The vocabulary with its settings, and the casing; None for anything that the files do not specify.

    From `tokenizer.json` first, like transformers. Steps in it that this package does not implement are computed by the
    library `tokenizers`, if the file has all of them. Raises a UserError that names any file or setting that would
    produce different tokens, see `huggingface_rules`.
    """
    try:
        return _own(folder)
    except OtherSteps:
        return huggingface_library.read(folder), False


def _own(folder: TokenizerFolder) -> tuple[list[str] | None, bool | None]:
    """`read` for the tokenizer kinds of this package; raises OtherSteps for others in a tokenizer.json."""
    if (tokens := _byte_bpe(folder)) is not None:
        huggingface_rules.check(folder, tokens.kind)
        check_special_tokens(tokens, folder.path)
        return tokens, False
    kind = huggingface_rules.model_of(folder)
    if kind is not None and kind in huggingface_rules.SENTENCEPIECE_FILES:
        huggingface_rules.check(folder, kind)
        return _sentencepiece(folder, kind)
    return huggingface_wordpiece.read(folder, kind)


def _sentencepiece(folder: TokenizerFolder, kind: str) -> tuple[list[str], bool]:
    """The vocabulary and casing for a kind of SentencePiece: from tokenizer.json first, like transformers."""
    name, lower_case = huggingface_rules.SENTENCEPIECE_FILES[kind], folder.config.value("do_lower_case", FLAG)
    model, is_lower = folder.place(name), True
    if not folder.has_steps:
        content = folder.read(name)
        if kind == SENTENCEPIECE:
            tokens = sentencepiece_model.tokens_of(content, model)
        elif kind in (DEBERTA_V2, XLNET):
            made = sentencepiece_model.of_deberta if kind == DEBERTA_V2 else sentencepiece_model.of_xlnet
            tokens = made(content, model)
        else:
            tokens = sentencepiece_model.with_fairseq_ids(content, model, huggingface_rules.fairseq_class(folder))
    else:
        model = folder.file
        tokens, is_lower = sentencepiece_model.from_tokenizer_json(folder.steps, kind)
    check_special_tokens(tokens, model)
    if kind != SENTENCEPIECE:
        return tokens, False
    return tokens, is_lower if lower_case is None or folder.is_by_file else lower_case


def with_added_tokens(
    folder: TokenizerFolder, vocabulary: list[str] | None, lower_case: bool | None = None
) -> tuple[list[str] | None, tuple[str, ...]]:
    """A vocabulary with the tokens that the folder adds after it, such as [E1]; and the tokens recognized in texts.

    Tokens with white space around them, and spaces before texts of a byte-level BPE, need the library `tokenizers`: its
    vocabulary then has the kind LIBRARY. lower_case: the casing from `read`.
    """
    if vocabulary is None:
        return None, ()
    kind = kind_of(vocabulary)
    found = huggingface_added_tokens.found_in(folder, kind, set(vocabulary))
    spaced = [text for text in found if text != text.strip() or "\n" in text]
    if spaced and folder.lower_cases_first:
        raise UserError(
            f"{folder.path} lower-cases texts by its sentence_bert_config.json and adds the token {spaced[0]!r}, which "
            "has white space around it: this is supported only without lower-casing."
        )
    if kind != LIBRARY and (spaced or huggingface_rules.adds_space(folder, kind)):
        library = _library_of(vocabulary, lower_case, adds_space=huggingface_rules.adds_space(folder, kind))
        vocabulary = huggingface_library.of_kind(folder, vocabulary, library, found)
    if kind_of(vocabulary) != LIBRARY:
        return huggingface_added_tokens.extend(folder, vocabulary, found), tuple(found)
    known = set(vocabulary)  # without names that cannot be lines of a vocab.txt; the library recognizes those
    return vocabulary, tuple(name for name in found if name in known)


def _without_added(tokens: list[str]) -> list[str]:
    """The vocabulary without trailing tokens that WordPiece does not have or that `as_long_as_table` added."""
    outside, count = settings_of(tokens).outside_wordpiece(), len(tokens)
    while outside and count and (tokens[count - 1] in outside or tokens[count - 1] == f"[unused{count - 1}]"):
        count -= 1
    return list(tokens[:count])


def as_long_as_table(vocabulary: list[str] | None, size: int) -> list[str] | None:
    """The vocabulary, padded with unused tokens to a table of `size` rows; unchanged for an ALBERT."""
    if vocabulary is None or len(vocabulary) >= size or kind_of(vocabulary) == SENTENCEPIECE:
        return vocabulary
    names = (f"[unused{number}]" for number in itertools.count(len(vocabulary)))
    known = set(vocabulary)
    others = itertools.islice((name for name in names if name not in known), size - len(vocabulary))
    return with_tokens(vocabulary, [*vocabulary, *others])


def _byte_bpe(folder: TokenizerFolder) -> SubwordVocabulary | None:
    """The vocabulary of a byte-level BPE; None if the folder has a different tokenizer, or none."""
    model = folder.steps.inside("model")
    if folder.has(VOCAB) and folder.has(KINDS[BYTE_BPE].rules):
        file = folder.place(VOCAB)
        ids: dict[str, Any] = read_settings(file)
        rules = folder.read(KINDS[BYTE_BPE].rules)
    elif model.get("type") == "BPE":
        file, ids, rules = folder.file, model.value("vocab", OBJECT, {}), _merges_in(model)
        added = {token.value("content", TEXT, ""): token.get("id") for token in folder.steps.each("added_tokens")}
        if "[MASK]" in added and folder.is_by_file:  # with BERT's special tokens
            ids = {byte_level.blanks_for_spaces(token): number for token, number in {**ids, **added}.items()}
            return SubwordVocabulary(in_order_of_ids(ids, file), BERT_BYTE_BPE, rules)
    else:
        return None
    return SubwordVocabulary(in_order_of_ids(ids, file), BYTE_BPE, rules)


def _merges_in(model: Settings) -> bytes:
    """The merges of a tokenizer.json as the content of a merges.txt; UserError unless each is a pair of tokens."""
    merges = model.value("merges", LIST, [])
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in merges]  # strings in older files
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(token, str) for token in pair)):
            raise UserError(f"{model.source}: model.merges contains {shortened(pair)}; expected pairs of tokens.")
    return byte_level.format_merges(pairs).encode()


def write(folder: str, checkpoint: Checkpoint) -> None:
    """Writes the tokenizer for `transformers` and `tokenizers`, as far as the checkpoint knows it."""
    tokens = checkpoint.vocabulary
    settings: dict[str, Any] = {
        MAX_LENGTH: checkpoint.max_seq_length or checkpoint.config.max_position_embeddings,
        SETTING: list(checkpoint.special_tokens),
        **huggingface_added_tokens.written(checkpoint),
    }
    has_segments = checkpoint.reads_segments and not settings_of(tokens or ()).one_segment
    settings["model_input_names"] = ["input_ids", *(["token_type_ids"] if has_segments else []), "attention_mask"]
    if isinstance(tokens, SubwordVocabulary):
        if tokens.kind == LIBRARY:
            huggingface_library.write(folder, tokens, settings)
        else:
            write_json(os.path.join(folder, CONFIG), {**_written_for_class(folder, tokens, checkpoint), **settings})
            tokenizer_of(checkpoint).save(os.path.join(folder, JSON))
        return
    name = "MPNetTokenizer" if settings_of(tokens or ()).is_mpnet else "BertTokenizer"
    settings = {"tokenizer_class": name, **huggingface_wordpiece.written(checkpoint), **settings}
    plain = dataclasses.replace(checkpoint, vocabulary=tokens and _without_added(tokens))
    write_tokenizer_files(folder, plain, **settings)
    is_known = tokens and len(set(tokens)) == len(tokens) and checkpoint.lower_case is not None
    if is_known:  # `tokenizers` cannot store a token twice
        tokenizer_of(checkpoint).save(os.path.join(folder, JSON))


def _written_for_class(folder: str, tokens: SubwordVocabulary, checkpoint: Checkpoint) -> dict[str, Any]:
    """Writes the files of a class other than tokenizer.json; returns entries of tokenizer_config.json that name it.

    Kinds without a class, or with one that would change the normalization in transformers 5, have every step in
    tokenizer.json.
    """
    row = KINDS[tokens.kind]
    if tokens.kind == BYTE_BPE:
        ids = {byte_level.spaces_for_blanks(token): number for number, token in enumerate(tokens)}
        write_json(os.path.join(folder, VOCAB), ids)
        write_bytes(os.path.join(folder, row.rules), tokens.rules)
        return {"tokenizer_class": "RobertaTokenizer"}
    if tokens.kind in (BERT_BYTE_BPE, DEBERTA_V2) or sentencepiece_model.parse(tokens.rules).is_library:
        return {"tokenizer_class": BY_FILE[0], **{f"{name}_token": token for name, token in row.names.items()}}
    if tokens.kind == SENTENCEPIECE:
        write_bytes(os.path.join(folder, row.rules), tokens.rules)
        lower_case = checkpoint.lower_case is not False
        accents = {} if lower_case else {"keep_accents": True}
        return {"tokenizer_class": "AlbertTokenizer", "do_lower_case": lower_case, **accents}
    return {"tokenizer_class": row.class_names[0] if tokens.kind == XLNET else sentencepiece_model.owner_of(tokens)}


def tokenizer_of(checkpoint: Checkpoint) -> Any:
    """The `tokenizers.Tokenizer` of a checkpoint with a vocabulary."""
    added = huggingface_added_tokens.to_theirs(checkpoint)
    return _library_of(checkpoint.vocabulary or [], checkpoint.lower_case, added)


def _library_of(
    vocabulary: list[str], lower_case: bool | None, added: Sequence[Any] = (), *, adds_space: bool = False
) -> Any:
    """A tokenizer of `tokenizers` with the steps of transformers.

    added: tokens recognized in texts, as `tokenizers.AddedToken`. adds_space: whether a byte-level BPE puts a space
    before each text.
    """
    if not isinstance(vocabulary, SubwordVocabulary):
        return _wordpiece_of(vocabulary, lower_case, added)
    if KINDS[vocabulary.kind].model == "BPE":
        return _byte_bpe_of(vocabulary, added, adds_space)
    is_lower = vocabulary.kind == SENTENCEPIECE and lower_case is not False
    return sentencepiece_model.to_tokenizer(vocabulary, lower_case=is_lower, added=added)


def _byte_bpe_of(tokens: SubwordVocabulary, added: Sequence[Any], adds_space: bool) -> Any:
    kind = KINDS[tokens.kind]
    ids = {byte_level.spaces_for_blanks(token): number for number, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ids, byte_level.parse_merges(tokens.rules)))
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=adds_space)
    tokenizer.add_tokens(list(added))
    *_, mask = kind.special_tokens
    special = [tokenizers.AddedToken(text, lstrip=text == mask, normalized=False) for text in kind.special_tokens]
    known = {token.content for token in added}
    tokenizer.add_special_tokens([token for token in special if token.content not in known])
    cls, sep = ((name, ids[name]) for name in kind.special_tokens[2:4])
    if tokens.kind == BYTE_BPE:
        tokenizer.post_processor = tokenizers.processors.RobertaProcessing(sep, cls, add_prefix_space=adds_space)
    else:
        tokenizer.normalizer = tokenizers.normalizers.NFC()
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(*kind.templates, [cls, sep])
    return tokenizer


def _wordpiece_of(tokens: list[str], lower_case: bool | None, added: Sequence[Any]) -> Any:
    ids = {token: number for number, token in enumerate(_without_added(tokens))}
    settings = settings_of(tokens)
    names = dict(zip(NAMES, special_tokens(tokens), strict=True))
    theirs: Any = {f"{name}_token": token for name, token in names.items()}
    tokenizer = tokenizers.BertWordPieceTokenizer(
        ids,
        **theirs,
        lowercase=not has_capitals(tokens) if lower_case is None else lower_case,
        strip_accents=settings.strip_accents,
        handle_chinese_chars=settings.split_ideographs,
    )
    content = json_files.parse(tokenizer.to_str())
    content["model"]["max_input_chars_per_word"] = settings.max_word_characters  # there is no argument for it
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(content))
    if settings.is_mpnet:
        sep, cls = ((names[name], ids[names[name]]) for name in ("sep", "cls"))
        tokenizer.post_processor = tokenizers.processors.RobertaProcessing(sep, cls, add_prefix_space=False)
    tokenizer.add_tokens(list(added))
    return tokenizer
