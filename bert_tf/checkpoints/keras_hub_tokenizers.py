"""KerasHub tokenizers: read from a preset or a `.keras` file without KerasHub, and created with it."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from bert_tf.checkpoints import keras_files
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import in_order_of_ids, read_tokenizer_files
from bert_tf.checkpoints.keras_hub_presets import LAYOUTS, Preset
from bert_tf.config.encoder_traits import traits
from bert_tf.errors import UserError
from bert_tf.runtime.json_files import parse
from bert_tf.runtime.settings import FLAG, OBJECT, TEXTS, Settings, check, shortened
from bert_tf.text import byte_level, sentencepiece_model
from bert_tf.text.special_tokens import SETTING
from bert_tf.text.tokenizer_kinds import BYTE_BPE, KINDS, WORDPIECE
from bert_tf.text.tokenizer_settings import AddedToken, TokenizerSettings
from bert_tf.text.vocabulary import (
    SPECIAL_TOKENS,
    SubwordVocabulary,
    check_special_tokens,
    kind_of,
    of_lines,
    settings_of,
    with_settings,
)

SUPPORTED: Mapping[str, Mapping[str, Any]] = {  # arguments of a tokenizer -> the only supported value
    WORDPIECE: {"split": True, "suffix_indicator": "##", "oov_token": "[UNK]"},
    BYTE_BPE: {"add_prefix_space": False},
}
OF_SENTENCEPIECE: Mapping[str, Any] = {"add_bos": False, "add_eos": False}
VOCABULARY, PIECES, MERGES, MODEL = "vocabulary.txt", "vocabulary.json", "merges.txt", "vocabulary.spm"


def read(preset: Preset) -> tuple[list[str] | None, bool | None, tuple[str, ...]]:
    """The vocabulary, the casing and the special tokens recognized in texts; None for anything missing.

    Raises UserError for a missing or damaged file, and for an unsupported tokenizer or argument.
    """
    if not preset.tokenizer:
        found = {} if keras_files.is_one(preset.path) else read_tokenizer_files(preset.path)
        return found.get("vocabulary"), found.get("lower_case"), ()
    expected = f"{LAYOUTS[preset.encoder].classes}Tokenizer"
    name = keras_files.class_in(preset.tokenizer)
    if name not in (f"keras_hub>{expected}", f"keras_nlp>{expected}"):
        raise UserError(f"{preset.tokenizer.source} has the tokenizer {shortened(name)}; only {expected} is supported.")
    kind, values = traits(preset.encoder).tokenizer, preset.tokenizer.inside("config")
    for argument, value in SUPPORTED.get(kind, OF_SENTENCEPIECE).items():
        if values.get(argument, value) != value:
            raise UserError(
                f"{values.source}: {argument} is {shortened(values[argument])}, which is not supported; supported is "
                f"{value!r}."
            )
    if kind == WORDPIECE:
        return _wordpiece(preset, values)
    if kind == BYTE_BPE:
        return _byte_bpe(preset, values)
    made = sentencepiece_model.as_library(_asset(preset, MODEL), f"{MODEL} in {preset.path}", kind)
    check_special_tokens(made, f"{MODEL} in {preset.path}")
    return made, False, ()


def _asset(preset: Preset, name: str) -> bytes:
    if name not in preset.assets:
        raise UserError(f"{preset.path} lacks the file {name} of its tokenizer: fetch it again, with its assets.")
    return preset.assets[name]


def _wordpiece(preset: Preset, values: Settings) -> tuple[list[str], bool | None, tuple[str, ...]]:
    tokens = of_lines(_asset(preset, VOCABULARY), f"{VOCABULARY} in {preset.path}")
    check_special_tokens(tokens, f"{VOCABULARY} in {preset.path}")
    lower_case, strips = (values.value(name, FLAG) for name in ("lowercase", "strip_accents"))
    settings = TokenizerSettings(strip_accents=None if strips == bool(lower_case) else strips)
    recognized = SPECIAL_TOKENS if values.value(SETTING, FLAG) else ()
    return with_settings(tokens, settings), lower_case, recognized


def _byte_bpe(preset: Preset, values: Settings) -> tuple[list[str], bool, tuple[str, ...]]:
    name = f"{PIECES} in {preset.path}"
    try:
        ids = parse(_asset(preset, PIECES).decode())
    except ValueError:
        raise UserError(f"{name} is not valid JSON: fetch it again.") from None
    tokens = in_order_of_ids(check(name, "the vocabulary", ids, OBJECT), name)
    vocabulary = SubwordVocabulary(tokens, BYTE_BPE, _asset(preset, MERGES))
    check_special_tokens(vocabulary, name)
    unsplittable = values.value("unsplittable_tokens", TEXTS, list(KINDS[BYTE_BPE].special_tokens))
    return vocabulary, False, KINDS[BYTE_BPE].special_tokens if unsplittable else ()


def check_writable(checkpoint: Checkpoint) -> None:
    """Raises UserError for a tokenizer that KerasHub cannot represent."""
    tokens, kind = checkpoint.vocabulary or (), checkpoint.config.encoder_traits.tokenizer
    if checkpoint.vocabulary is not None and kind_of(tokens) != kind:
        raise UserError(
            f"keras_hub has no {LAYOUTS[checkpoint.config.encoder].classes} with a tokenizer of the kind "
            f"{kind_of(tokens)}, which this model has: choose another format."
        )
    settings, plain = settings_of(tokens), [AddedToken(content=token) for token in KINDS[kind].special_tokens]
    if others := [token.content for token in settings.found_as(checkpoint.special_tokens) if token not in plain]:
        raise UserError(
            f"keras_hub cannot recognize the added token {others[0]!r} in texts as this model does: choose another "
            "format, or pass special_tokens_in_strings=none."
        )
    if not settings.split_ideographs:
        raise UserError(
            "keras_hub has no tokenizer with tokenize_chinese_chars=False, which this model has: choose another format."
        )


def create(models: ModuleType, checkpoint: Checkpoint) -> Any:
    """KerasHub's tokenizer for a checkpoint; None without a vocabulary or casing."""
    tokens = checkpoint.vocabulary
    made = getattr(models, f"{LAYOUTS[checkpoint.config.encoder].classes}Tokenizer")
    if tokens is None:
        return None
    if isinstance(tokens, SubwordVocabulary):
        if tokens.kind != BYTE_BPE:
            return made(sentencepiece_model.to_library(tokens))
        ids = {token: number for number, token in enumerate(tokens)}
        merges = [" ".join(pair) for pair in byte_level.parse_merges(tokens.rules)]
        names = list(KINDS[BYTE_BPE].special_tokens) if checkpoint.special_tokens else []
        return made(ids, merges, unsplittable_tokens=names)
    if checkpoint.lower_case is None:
        return None
    return made(
        list(tokens),
        lowercase=checkpoint.lower_case,
        strip_accents=settings_of(tokens).strips_accents(checkpoint.lower_case),
        special_tokens_in_strings=bool(checkpoint.special_tokens),
    )
