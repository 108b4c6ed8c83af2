"""The tokenization rules of `transformers` for a Hugging Face folder: the supported ones, and a UserError for others.

AutoTokenizer of transformers 5 rebuilds a BertTokenizer or RobertaTokenizer from the vocabulary and
tokenizer_config.json; for PreTrainedTokenizerFast every step comes from tokenizer.json.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from bert_tf.checkpoints.huggingface_folder import BY_FILE, TOKEN, TokenizerFolder, content_of
from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.settings import FLAG, TEXT, TEXTS, Settings, map_of, shortened, whole
from bert_tf.text.sentencepiece_model import FAIRSEQ
from bert_tf.text.tokenizer_kinds import (
    BYTE_BPE,
    KINDS,
    LIBRARY,
    MPNET,
    SENTENCEPIECE,
    WORDPIECE,
    XLM_ROBERTA,
    XLNET,
    TokenizerKind,
    Values,
)
from bert_tf.text.word_marks import SPACE

SENTENCEPIECE_FILES = {kind: row.model_file for kind, row in KINDS.items() if row.model_file}
BY_MODEL = {"WordPiece": WORDPIECE, "BPE": BYTE_BPE, "Unigram": ""}  # types in tokenizer.json; "": `_unigram_kind`
# Settings that change tokens, with the values that change none.
HARMLESS: Values = {
    "add_prefix_space": (False, True),  # see `adds_space`
    "do_basic_tokenize": (True,),
    "never_split": ([],),
    "wordpieces_prefix": ("##",),
    "word_tokenizer_type": ("basic",),
    "subword_tokenizer_type": ("wordpiece",),
    "split_special_tokens": (False,),
    "truncation_side": ("right",),
    "auto_map": (),
    "add_bos_token": (True,),
    "add_eos_token": (True,),
}
INPUT, FIRST_WITHOUT = "token_type_ids", 5  # general tokenizers return none from this version of transformers on
MAX_SHOWN = 2  # supported values that an error names


def check(folder: TokenizerFolder, kind: str) -> None:
    """Raises UserError for a class or a setting of a folder that would produce different tokens from this package's."""
    layout, name, path, values = KINDS[kind], folder.class_name, folder.path, folder.config
    config = str(values.source)
    if name is not None and name not in (*BY_FILE, *layout.class_names):
        known = sorted({each for known in KINDS.values() for each in known.class_names})
        why = (
            "with its files, which need a different one" if name in known else f"here; supported are {', '.join(known)}"
        )
        raise UserError(f"{path} has the tokenizer {name}, which is not supported {why}.")
    models = [file for file in files.names(path) if file.endswith(".model")]
    others = [file for file in models if file not in SENTENCEPIECE_FILES.values()]
    if name is None and others and layout.model != "BPE":
        raise UserError(
            f"{path} has the SentencePiece model {others[0]}; supported are spiece.model (ALBERT, XLNet), "
            "sentencepiece.bpe.model (XLM-RoBERTa) and spm.model (DeBERTa-v2, -v3)."
        )
    _check_values(config, "", values, {**HARMLESS, **layout.settings})
    counts_from_row = kind in (WORDPIECE, SENTENCEPIECE, LIBRARY)  # others count positions from the text
    side, place = values.get("padding_side"), f"{config}: padding_side"
    if side is None and folder.is_by_file:
        side, place = folder.steps.inside("padding").get("direction"), f"{folder.file}: padding.direction"
    if counts_from_row and str(side).lower() == "left":
        raise UserError(
            f"{place} is {side!r}, which makes the positions of a text depend on the other texts of its batch; "
            "supported is 'right'."
        )
    step = folder.steps.inside("pre_tokenizer")
    if folder.is_by_file and step.get("add_prefix_space") is False and values.get("add_prefix_space"):
        raise UserError(
            f"{config}: add_prefix_space is true, but false in the pre_tokenizer of {folder.file}, and not "
            "every version of transformers uses the same: correct the wrong one."
        )
    _check_names(folder, layout)
    if kind == SENTENCEPIECE and not folder.is_by_file:
        keeps = (True,) if values.get("do_lower_case") is False else (None, False)
        _check_value(config, "keep_accents", values.get("keep_accents"), keeps)
    if layout.model != "WordPiece" and folder.lower_cases_first:
        raise UserError(
            f"{path} lower-cases texts in its sentence_bert_config.json, which is supported only for WordPiece."
        )
    if folder.has_steps:
        _check_json(folder, kind)


def adds_space(folder: TokenizerFolder, kind: str) -> bool:
    """Returns whether the class of a byte-level BPE puts a space before each text; others overlook the setting."""
    is_set = folder.config.value("add_prefix_space", FLAG, False)
    return is_set and KINDS[kind].model == "BPE" and not folder.is_by_file


def segments_of(folder: TokenizerFolder, kind: str) -> tuple[str, str]:
    """The segments that transformers assigns to a pair, "one" or "two", and a message if its versions differ.

    Determined by model_input_names, else by the tokenizer class and the version in config.json (4 if missing).
    """
    layout, name, by_file = KINDS[kind], folder.class_name, folder.is_by_file
    rows = folder.rows if by_file else layout.rows
    if not any(":" in row for row in rows) or not (by_file or layout.has_segments):
        return "one", ""
    if (names := folder.config.value("model_input_names", TEXTS)) is not None:
        return "two" if INPUT in names else "one", ""
    if name in [f"{each}Tokenizer" for each in layout.one_segment.split()]:
        return "one", ""
    if not (by_file or layout.differs):
        return "two", ""
    version = folder.model.value("transformers_version", TEXT) or ""
    major = version.partition(".")[0]
    segments, other = ("one", "two") if major.isdecimal() and int(major) >= FIRST_WITHOUT else ("two", "one")
    whose = "<cls> and the second text of a pair" if layout.ends_in_cls else "the second text of a pair"
    return segments, (
        f"{name or layout.class_names[0]} puts {whose} in a different segment in transformers 4, but not in version "
        f"5. This model is read with segments={segments} because config.json names {version or 'no version'}; pass "
        f"segments={other} if it was trained with {other}"
    )


def _check_value(
    file: str, name: str, value: Any, expected: Collection[Any], error: type[UserError] = UserError
) -> None:
    if value not in expected:
        known = list(dict.fromkeys(_shown(each) for each in expected if each is not None))[:MAX_SHOWN]
        raise error(
            f"{file}: {name} is {_shown(value)}, which changes tokens and is not supported; supported is "
            f"{' or '.join(known) or 'none'}."
        )


def _shown(value: Any) -> str:
    """A value for an error, with steps joined."""
    return (", ".join(each or "none" for each in value) or "none") if isinstance(value, tuple) else shortened(value)


def _check_values(
    file: str, prefix: str, values: Mapping[str, Any], supported: Values, error: type[UserError] = UserError
) -> None:
    for name, known in supported.items():
        _check_value(file, f"{prefix}{name}", values.get(name), (None, *known), error)


def _check_names(folder: TokenizerFolder, layout: TokenizerKind) -> None:
    """Raises UserError for special tokens with different names from this package's."""
    for values in folder.special:
        for name, expected in layout.names.items():
            value = content_of(values.value(f"{name}_token", TOKEN))
            if value not in (None, expected):
                raise folder.error(
                    f"{values.source}: {name}_token is {shortened(value)}; expected {expected!r}, because renamed "
                    "special tokens are not supported."
                )


def model_of(folder: TokenizerFolder) -> str | None:
    """The kind of tokenizer in a folder, from the model in tokenizer.json or the file of a SentencePiece model.

    None without either. Raises UserError for an unsupported model.
    """
    by_file = (kind for kind, name in SENTENCEPIECE_FILES.items() if folder.has(name))
    if (kind := next(by_file, None)) is not None:
        return XLNET if kind == SENTENCEPIECE and _is_xlnet(folder) else kind
    return _model_in(folder)


def _is_xlnet(folder: TokenizerFolder) -> bool:
    """Returns whether a folder with spiece.model is for an XLNet, not an ALBERT."""
    name = folder.likely_class
    return name == "XLNetTokenizer" or name in BY_FILE and _model_in(folder) == XLNET


def _model_in(folder: TokenizerFolder) -> str | None:
    """The kind of tokenizer in a tokenizer.json; None without the file or a model in it."""
    model = folder.steps.inside("model")
    if not model:
        return None
    vocab = model.get("vocab")
    guess = "Unigram" if isinstance(vocab, list) else "BPE" if "merges" in model else "WordPiece"  # for old files
    name = model.value("type", TEXT, guess)
    if name not in BY_MODEL:
        raise folder.error(f"{folder.file}: model.type is {name!r}; supported are {', '.join(BY_MODEL)}.")
    added = {token.value("content", TEXT) for token in folder.steps.each("added_tokens")}
    return BY_MODEL[name] or _unigram_kind(folder, vocab, added)


def _unigram_kind(folder: TokenizerFolder, vocab: Any, added: set[Any]) -> str:
    """The kind of tokenizer with a unigram model: by the class named in the files, else by its special tokens."""
    name, kinds = folder.likely_class, {kind: KINDS[kind] for kind in SENTENCEPIECE_FILES}
    by_class = next((kind for kind, layout in kinds.items() if name in layout.class_names), None)
    entries = vocab if isinstance(vocab, list) else ()
    tokens = {entry[0] for entry in entries if isinstance(entry, list) and entry and isinstance(entry[0], str)}
    names = {kind: set(layout.names.values()) for kind, layout in kinds.items()}
    by_tokens = [kind for kind, special in names.items() if tokens | added >= special]
    return by_class or max(
        by_tokens, key=lambda kind: len(names[kind]), default=SENTENCEPIECE
    )  # XLNet's include XLM-R's


def mask_takes_space(folder: TokenizerFolder, kind: str) -> bool:
    """Returns whether the tokenizer class lets a mask token that files name as text absorb the space before it."""
    return kind in (MPNET, XLNET) or kind == XLM_ROBERTA and fairseq_class(folder) == "CamembertTokenizer"


def fairseq_class(folder: TokenizerFolder) -> str:
    """The transformers class that determines how fairseq numbered the pieces of a folder's SentencePiece model."""
    return next((name for name in (folder.class_name, folder.default_class) if name in FAIRSEQ), "XLMRobertaTokenizer")


def _replaces(step: Settings) -> list[str]:
    patterns = step.value("pattern", map_of(TEXT, "texts"), {})
    return [repr(next(iter(patterns.values()), None)), repr(step.value("content", TEXT))]


def _metaspace(step: Settings) -> list[str]:
    scheme = step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never")
    values: dict[str, tuple[Any, Any]] = {
        "replacement": (step.get("replacement"), SPACE),
        "prepend_scheme": (scheme, "always"),
        "split": (step.get("split") is not False, True),
    }
    return [f"{name}={value!r}" for name, (value, usual) in values.items() if value != usual]


# Types of steps -> the details that change tokens, in addition to the type; [] if supported.
DETAILS: Mapping[str, Callable[[Settings], list[str]]] = {
    "BertNormalizer": lambda step: ["clean_text=False"] if step.get("clean_text") is False else [],
    "ByteLevel": lambda step: [
        *(["add_prefix_space=True"] if step.get("add_prefix_space") is not False else []),
        *(["use_regex=False"] if step.get("use_regex") is False else []),
    ],
    "Metaspace": _metaspace,
    "Replace": _replaces,
    "Strip": lambda step: [side for side in ("left", "right") if step.get(f"strip_{side}")],
}


def described(step: Settings) -> str:
    """A step as text: its type and any other details that change tokens."""
    kind = step.value("type", TEXT, "None")
    return " ".join([kind, *DETAILS.get(kind, lambda step: [])(step)])


def _check_json(folder: TokenizerFolder, kind: str) -> None:
    """Raises UserError if tokenizer.json has unsupported steps; those that the class would choose may differ."""
    file, layout, by_file = folder.file, KINDS[kind], folder.is_by_file
    content, error = folder.steps, folder.error
    model = None if kind == LIBRARY else _model_in(folder)
    if model not in (None, BY_MODEL.get(layout.model) or kind):
        raise UserError(
            f"{file} has a tokenizer of the kind {model}, the other files of {folder.path} one of the kind {kind}."
        )
    if model is not None:
        values = content.inside("model")
        pieces, unknown = values.get("vocab"), values.value("unk_id", whole(0))
        if isinstance(pieces, list) and unknown is not None:
            entry = pieces[unknown] if unknown < len(pieces) else None
            token = entry[0] if isinstance(entry, list) and entry else entry
            _check_value(file, "the token of model.unk_id", token, (layout.special_tokens[1],), error)
        of_class = () if by_file else layout.of_class
        if of_class is not None:
            for name, supported in (("normalizer", layout.normalizers), ("pre_tokenizer", layout.pre_tokenizers)):
                steps = tuple(map(described, folder.steps_in(name)))
                if adds_space(folder, kind):  # the class rebuilds the step from the setting
                    supported = (*supported, ("ByteLevel add_prefix_space=True",))
                _check_value(file, name, steps, (*supported, *of_class), error)
    if model is not None or kind == LIBRARY:
        _check_values(file, "model.", content.inside("model"), layout.options, error)
    if by_file and kind != LIBRARY:
        _check_value(file, "post_processor", folder.rows, layout.known_rows, error)
    _check_value(
        file, "truncation.direction", content.inside("truncation").value("direction", TEXT, "Right"), ("Right",)
    )
