"""WordPiece in a Hugging Face folder: vocab.txt or tokenizer.json, and the normalization of the text before it."""

import dataclasses

from bert_tf.checkpoints import huggingface_rules
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import in_order_of_ids
from bert_tf.checkpoints.huggingface_folder import CONFIG, TokenizerFolder
from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.settings import FLAG, OBJECT, whole
from bert_tf.text.tokenizer_kinds import MPNET, WORDPIECE
from bert_tf.text.tokenizer_settings import MAX_WORD_CHARACTERS, TokenizerSettings
from bert_tf.text.vocabulary import check_special_tokens, settings_of, with_settings
from bert_tf.text.vocabulary import read as read_lines
from bert_tf.text.word_marks import SPACE

OLDER = "added_tokens.json"
WORD_CHARACTERS = 100  # in BertTokenizer
MAX_UNSIGNED = 2**64 - 1  # in `tokenizers`, where a very large number means no limit
NAMES = {  # entries of tokenizer_config.json -> names in the normalizer of tokenizer.json, and BertTokenizer's values
    "do_lower_case": ("lowercase", (True,)),
    "strip_accents": ("strip_accents", (None, True)),
    "tokenize_chinese_chars": ("handle_chinese_chars", (True,)),
}


def read(folder: TokenizerFolder, model: str | None) -> tuple[list[str] | None, bool | None]:
    """The vocabulary with its settings, and the casing; None for anything that the files do not specify.

    model: the kind of tokenizer in tokenizer.json.
    """
    is_mpnet, listed = folder.likely_class == "MPNetTokenizer", folder.place("vocab.txt")
    huggingface_rules.check(folder, MPNET if is_mpnet else WORDPIECE)
    lines = read_lines(listed, settings=TokenizerSettings(is_mpnet=is_mpnet)) if files.exists(listed) else None
    vocabulary = lines
    if vocabulary is not None and model is None and folder.has(OLDER):
        vocabulary = [*vocabulary, *[""] * _blank_lines(listed)]
    ids = folder.steps.inside("model").value("vocab", OBJECT) if model == WORDPIECE else None
    if model == WORDPIECE and (vocabulary is None or ids is not None):
        is_same = vocabulary is not None and ids == {token: number for number, token in enumerate(vocabulary)}
        vocabulary = vocabulary if is_same else in_order_of_ids(ids, folder.file)  # only lines have repeated tokens
    lower_case, settings = _settings(folder)
    settings = dataclasses.replace(settings, is_mpnet=is_mpnet)
    lower_case = True if is_mpnet and lower_case is None else lower_case
    if vocabulary is None:
        return None, lower_case
    _check_words(folder.path, vocabulary)
    tokens = with_settings(vocabulary, settings)
    if model == WORDPIECE and vocabulary is not lines:
        check_special_tokens(tokens, folder.file)
    return tokens, lower_case


def _settings(folder: TokenizerFolder) -> tuple[bool | None, TokenizerSettings]:
    """Returns whether the tokenizer of a folder lower-cases, None if no file specifies it, and its settings."""
    normalizer, limit = _normalizer(folder), None
    if normalizer and not folder.has(CONFIG):
        for ours, (theirs, usual) in NAMES.items():
            if normalizer[ours] not in usual:
                raise UserError(
                    f"{folder.file} and transformers' default without {CONFIG} differ in normalizer.{theirs}: add a "
                    f"{CONFIG} with the {ours} that the model was trained with."
                )
    if normalizer and folder.is_by_file:
        values = normalizer
        limit = folder.steps.inside("model").value("max_input_chars_per_word", whole(1, MAX_UNSIGNED))
    else:
        values = {name: folder.config.value(name, FLAG) for name in NAMES}
        if values["do_lower_case"] is None and folder.has_steps:
            values["do_lower_case"] = True
    lower_case, strips = values["do_lower_case"], values["strip_accents"]
    if lower_case is not True and folder.lower_cases_first:
        strips = strips if lower_case is None else bool(strips)  # None: BertTokenizer lower-cases, too
        lower_case = True
    return lower_case, TokenizerSettings(
        strip_accents=None if strips == lower_case else strips,
        no_final_sigma=lower_case is not False,  # Rust lower-cases each character separately
        split_ideographs=values["tokenize_chinese_chars"] is not False,
        max_word_characters=min(limit or WORD_CHARACTERS, MAX_WORD_CHARACTERS),
    )


def _normalizer(folder: TokenizerFolder) -> dict[str, bool | None]:
    """The normalizer settings in a tokenizer.json by the names in tokenizer_config.json; {} without one."""
    steps = folder.steps_in("normalizer")
    return {ours: steps[0].value(theirs, FLAG) for ours, (theirs, _) in NAMES.items()} if len(steps) == 1 else {}


def written(checkpoint: Checkpoint) -> dict[str, bool]:
    """The tokenizer_config.json entries that let transformers tokenize with the settings of a checkpoint."""
    settings = settings_of(checkpoint.vocabulary or ())
    values = {"strip_accents": settings.strip_accents} if settings.strip_accents is not None else {}
    return values | ({} if settings.split_ideographs else {"tokenize_chinese_chars": False})


def _blank_lines(path: str) -> int:
    """The number of blank lines at the end of a vocab.txt, which are tokens if others are added."""
    with files.open_binary(path) as file:
        content = file.read().removesuffix(b"\n")
    return content.count(b"\n", len(content.rstrip()))


def _check_words(path: str, vocabulary: list[str]) -> None:
    """Raises UserError for SentencePiece pieces in a vocab.txt."""
    pieces = sum(len(token) > 1 and token.startswith(SPACE) for token in vocabulary)
    if pieces > sum(token.startswith("##") for token in vocabulary):
        raise UserError(
            f"{path} has a SentencePiece vocabulary ({pieces} tokens begin with {SPACE}), like KoBERT, which is not "
            "supported; supported is WordPiece, with ## before word parts."
        )
