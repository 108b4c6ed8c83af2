"""How `transformers` would tokenize for a Hugging Face folder: what is supported, and a UserError for what is not.

AutoTokenizer of transformers 5 makes a BertTokenizer or RobertaTokenizer anew from the vocabulary and
tokenizer_config.json; for PreTrainedTokenizerFast every step comes from tokenizer.json.
"""

import os
from collections.abc import Mapping
from typing import Any

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import read_settings, setting, shortened
from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.text.sentencepiece_model import FAIRSEQ, NFC_SPACES, SPACE
from bert_tf.text.tokenizer_settings import TokenizerSettings
from bert_tf.text.vocabulary import (
    BERT_BYTE_BPE,
    BYTE_BPE,
    DEBERTA_V2,
    MPNET,
    SENTENCEPIECE,
    WORDPIECE,
    XLM_ROBERTA,
    settings_of,
)

SHORTEST, LONGEST = 5, 1 << 30  # tokens of a row; "no limit" is written as a very large number
JSON, CONFIG, NAMES = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
CLASSES = {  # kind of tokenizer -> classes of transformers that are one
    WORDPIECE: "Bert DistilBert Electra MobileBert ConvBert LayoutLM SqueezeBert Lxmert",
    BYTE_BPE: "Roberta Bart Longformer",
    BERT_BYTE_BPE: "",
    SENTENCEPIECE: "Albert",
    XLM_ROBERTA: "XLMRoberta Camembert",
    MPNET: "MPNet",
    DEBERTA_V2: "DebertaV2",
}
SENTENCEPIECE_FILES = {  # kind -> its file
    SENTENCEPIECE: "spiece.model",
    XLM_ROBERTA: "sentencepiece.bpe.model",
    DEBERTA_V2: "spm.model",
}
BY_FILE = ("PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend")  # tokenizer.json says all of it
SPECIAL_NAMES = {  # kind of tokenizer -> the special tokens by their names in the files
    WORDPIECE: {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"},
    BYTE_BPE: {
        "bos": "<s>",
        "eos": "</s>",
        "unk": "<unk>",
        "sep": "</s>",
        "pad": "<pad>",
        "cls": "<s>",
        "mask": "<mask>",
    },
    BERT_BYTE_BPE: {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"},
    SENTENCEPIECE: {"unk": "<unk>", "sep": "[SEP]", "pad": "<pad>", "cls": "[CLS]", "mask": "[MASK]"},
}
SPECIAL_NAMES[XLM_ROBERTA] = SPECIAL_NAMES[BYTE_BPE]
SPECIAL_NAMES[DEBERTA_V2] = SPECIAL_NAMES[WORDPIECE]
SPECIAL_NAMES[MPNET] = SPECIAL_NAMES[BYTE_BPE] | {"unk": "[UNK]"}
MODELS = {"WordPiece": WORDPIECE, "BPE": BYTE_BPE, "Unigram": ""}  # types in tokenizer.json; "": see `_unigram_kind`
WORD_CHARACTERS = 100  # of BertTokenizer
# Settings that change tokens, with the values that change none.
HARMLESS: dict[str, tuple[Any, ...]] = {
    "add_prefix_space": (False,),
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
OF_KIND: dict[str, dict[str, tuple[Any, ...]]] = {
    SENTENCEPIECE: {"add_prefix_space": (True,), "remove_space": (True,)},
    XLM_ROBERTA: {"add_prefix_space": (True,)},
    DEBERTA_V2: {
        "add_prefix_space": (True,),
        "do_lower_case": (False,),
        "split_by_punct": (False,),
        "vocab_type": ("spm",),
        "sp_model_kwargs": ({},),
    },
}
USUAL: dict[str, tuple[Any, ...]] = {  # of BertTokenizer, without tokenizer_config.json
    "do_lower_case": (True,),
    "strip_accents": (None, True),
    "tokenize_chinese_chars": (True,),
}
OF_WORDPIECE = {"unk_token": "[UNK]", "continuing_subword_prefix": "##"}
OF_BPE = {  # options of the model, with the values of RoBERTa's
    "dropout": (None, 0),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "byte_fallback": (None, False),
    "ignore_merges": (None, False),
}

# The steps of ALBERT's normalizer, see `_described`.
QUOTES = ("Replace '``' '\"'", "Replace \"''\" '\"'")
LOWERED, CHARSMAP = ("NFKD", "StripAccents", "Lowercase"), ("Precompiled",)
ONE_SPACE = ("Replace ' {2,}' ' '",)
TRIMMED = (*ONE_SPACE, "Replace '^ | $' ''")


def check(path: str, kind: str) -> None:
    """Raises UserError for a class or a setting of a folder that would give other tokens than this package's."""
    name = _class(path)
    if name is not None and name not in BY_FILE and name not in _classes(kind):
        supported = ", ".join(sorted({each for known in CLASSES for each in _classes(known)}))
        raise UserError(f"{path} has the tokenizer {name}, which is not supported here; supported are {supported}.")
    known = SENTENCEPIECE_FILES.values()
    models = [file for file in files.names(path) if file.endswith(".model") and file not in known]
    if name is None and models and kind != BYTE_BPE:
        raise UserError(
            f"{path} has the SentencePiece model {models[0]}; supported are those of ALBERT, spiece.model, of "
            "XLM-RoBERTa, sentencepiece.bpe.model, and of DeBERTa-v2 and -v3, spm.model."
        )
    config = os.path.join(path, CONFIG)
    for key, values in {**HARMLESS, **OF_KIND.get(kind, {})}.items():
        _expect(config, key, read_settings(config).get(key), (None, *values))
    _check_names(path, kind)
    if kind == SENTENCEPIECE and not is_by_file(path):
        keeps = (True,) if read_settings(config).get("do_lower_case") is False else (None, False)
        _expect(config, "keep_accents", read_settings(config).get("keep_accents"), keeps)
    if kind not in (WORDPIECE, MPNET) and lower_cases_first(path):
        raise UserError(
            f"{path} lower-cases texts by its sentence_bert_config.json: supported is that for WordPiece alone."
        )
    if files.is_file(os.path.join(path, JSON)):
        _check_json(path, kind, by_file=is_by_file(path))


def length_of_texts(path: str) -> int | None:
    """The tokens after which texts and pairs are truncated; None if no file says it, or none are."""
    length = read_settings(os.path.join(path, "tokenizer_config.json")).get("model_max_length")
    if isinstance(length, bool) or not isinstance(length, int | float):
        return None
    return int(length) if SHORTEST <= length < LONGEST else None


def check_segments(path: str) -> None:
    """Raises UserError if transformers gives a model no segments, so that both texts of a pair have the first."""
    file = os.path.join(path, CONFIG)
    names = setting(file, "model_input_names", list)
    if names is not None and "token_type_ids" not in names:
        raise UserError(
            f"{file}: model_input_names lacks 'token_type_ids', which is not supported for a head that takes pairs, as "
            "the texts of a pair then have the same segment: add it if the model was trained with segments."
        )


def wordpiece(path: str) -> tuple[bool | None, TokenizerSettings]:
    """Returns whether the tokenizer of a folder lower-cases, None if no file says it, and its settings."""
    file, config = os.path.join(path, JSON), os.path.join(path, CONFIG)
    names = {"do_lower_case": "lowercase", "strip_accents": "strip_accents"}
    names["tokenize_chinese_chars"] = "handle_chinese_chars"
    if _normalizer(file) and not files.is_file(config):
        for ours, theirs in names.items():
            if _normalizer_setting(file, theirs) not in USUAL[ours]:
                raise UserError(
                    f"{file} has another normalizer.{theirs} than transformers uses if there is no {CONFIG}: write "
                    f"one beside it with the {ours} that the model was trained with."
                )
    if _normalizer(file) and _class(path) in BY_FILE:
        values = {ours: _normalizer_setting(file, theirs) for ours, theirs in names.items()}
        limit = setting(file, "max_input_chars_per_word", int, inside="model")
    else:
        settings = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
        values, limit = {name: setting(config, name, bool) for name in settings}, None
        if values["do_lower_case"] is None and files.is_file(file):
            values["do_lower_case"] = True
    lower_case, strips = values["do_lower_case"], values["strip_accents"]
    if lower_case is not True and lower_cases_first(path):
        lower_case, strips = True, bool(strips)
    return lower_case, TokenizerSettings(
        strip_accents=None if strips == lower_case else strips,
        split_ideographs=values["tokenize_chinese_chars"] is not False,
        max_word_characters=limit or WORD_CHARACTERS,
    )


def lower_cases_first(path: str) -> bool:
    """Returns whether sentence-transformers lower-cases a text before its tokenizer gets it."""
    if not files.is_file(os.path.join(path, "modules.json")):
        return False
    names = [name for name in files.names(path) if name.startswith("sentence_") and name.endswith("_config.json")]
    return any(setting(os.path.join(path, name), "do_lower_case", bool) for name in names)


def found_in_lower_case(path: str, tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the recognized tokens that are still found after sentence-transformers lower-cased the text."""
    if not lower_cases_first(path):
        return tokens
    lower = [token for token in tokens if token == token.lower()]
    if lower:
        raise UserError(
            f"{path} lower-cases texts by its sentence_bert_config.json and adds the token {lower[0]!r}: only added "
            "tokens with capital letters, which are then never found, are supported there."
        )
    return ()


def written(checkpoint: Checkpoint) -> dict[str, bool]:
    """The entries of tokenizer_config.json with which transformers tokenizes with the settings of a checkpoint."""
    settings = settings_of(checkpoint.vocabulary or ())
    values = {"strip_accents": settings.strip_accents} if settings.strip_accents is not None else {}
    return values | ({} if settings.split_ideographs else {"tokenize_chinese_chars": False})


def is_by_file(path: str) -> bool:
    """Returns whether tokenizer.json says every step."""
    return _class(path) in BY_FILE and files.is_file(os.path.join(path, JSON))


def _class(path: str) -> str | None:
    """The class of the tokenizer, as the files name it, None if they do not; without "Fast"."""
    name = setting(os.path.join(path, CONFIG), "tokenizer_class", str)
    name = name or setting(os.path.join(path, "config.json"), "tokenizer_class", str)
    return name if name is None or name in BY_FILE else name.removesuffix("Fast")


def _classes(kind: str) -> list[str]:
    return [f"{name}Tokenizer" for name in CLASSES[kind].split()]


def _expect(file: str, name: str, value: Any, expected: tuple[Any, ...]) -> None:
    if value not in expected:
        known = " or ".join(repr(each) for each in expected if each is not None) or "none"
        raise UserError(
            f"{file}: {name} is {shortened(value)}, which is not supported, as it changes tokens; supported is {known}."
        )


def _check_names(path: str, kind: str) -> None:
    """Raises UserError for special tokens with other names than this package's."""
    for file in special_files(path):
        values = read_settings(file)
        for name, expected in SPECIAL_NAMES[kind].items():
            value = content_of(values.get(f"{name}_token"))
            if value not in (None, expected):
                raise UserError(
                    f"{file}: {name}_token is {shortened(value)}; special tokens with other names than {expected!r} "
                    "are not supported."
                )


def special_files(path: str) -> list[str]:
    """The files that name special tokens; special_tokens_map.json only without the newer added_tokens_decoder."""
    config, older = os.path.join(path, CONFIG), os.path.join(path, NAMES)
    return [config] if "added_tokens_decoder" in read_settings(config) else [config, older]


def content_of(token: Any) -> Any:
    """The text of a token that is a text or an object with flags."""
    return token.get("content") if isinstance(token, dict) else token


def model_of(path: str) -> str | None:
    """The kind of tokenizer that a folder has by the model in tokenizer.json, or by the file of a SentencePiece model.

    None without either. Raises UserError for a model that is not supported.
    """
    file = os.path.join(path, JSON)
    by_file = (kind for kind, name in SENTENCEPIECE_FILES.items() if files.is_file(os.path.join(path, name)))
    if (kind := next(by_file, None)) is not None:
        return kind
    return _model_in(file, path)


def _model_in(file: str, path: str) -> str | None:
    """The kind of tokenizer of a tokenizer.json; None without the file or a model in it."""
    model = setting(file, "model", dict)
    if model is None:
        return None
    vocab = model.get("vocab")
    guess = "Unigram" if isinstance(vocab, list) else "BPE" if "merges" in model else "WordPiece"  # of old files
    name = model.get("type") or guess
    if name not in MODELS:
        raise UserError(f"{file}: model.type is {shortened(name)}; expected one of {', '.join(MODELS)}.")
    added = setting(file, "added_tokens", list) or []
    return MODELS[name] or _unigram_kind(path, vocab, {content_of(token) for token in added})


def _unigram_kind(path: str, vocab: Any, added: set[Any]) -> str:
    """The kind of tokenizer with a unigram model: by the class that the files name, else by its special tokens."""
    name = _class(path)
    by_class = next((kind for kind in SENTENCEPIECE_FILES if name in _classes(kind)), None)
    tokens = {entry[0] for entry in vocab or () if isinstance(entry, list) and entry and isinstance(entry[0], str)}
    by_tokens = (kind for kind in SENTENCEPIECE_FILES if (tokens | added).issuperset(SPECIAL_NAMES[kind].values()))
    return by_class or next(by_tokens, SENTENCEPIECE)


def mask_takes_space(path: str, kind: str) -> bool:
    """Returns whether the class of the tokenizer lets a mask token that files name as text take space before it."""
    return kind == MPNET or kind == XLM_ROBERTA and fairseq_class(path) == "CamembertTokenizer"


def is_mpnet(path: str) -> bool:
    """Returns whether the tokenizer of a folder with WordPiece has the special tokens and rows of MPNet."""
    name = _class(path)
    return name in _classes(MPNET) or (
        name is None and setting(os.path.join(path, "config.json"), "model_type", str) == "mpnet"
    )


def fairseq_class(path: str) -> str:
    """The class of transformers that says how fairseq numbered the pieces of the SentencePiece model of a folder."""
    name = _class(path)
    if name in FAIRSEQ:
        return str(name)
    is_camembert = setting(os.path.join(path, "config.json"), "model_type", str) == "camembert"
    return "CamembertTokenizer" if is_camembert else "XLMRobertaTokenizer"


def _check_json(path: str, kind: str, *, by_file: bool) -> None:
    """Raises UserError if tokenizer.json has other steps; those that the class would choose may differ."""
    file = os.path.join(path, JSON)
    model = _model_in(file, path)
    if model == BYTE_BPE and kind == BERT_BYTE_BPE:
        model = kind
    if model not in (None, WORDPIECE if kind == MPNET else kind):
        raise UserError(
            f"{file} has a tokenizer of the kind {model}, the other files of {path} one of the kind {kind}."
        )
    content = read_settings(file)
    checks = {WORDPIECE: _check_wordpiece, BYTE_BPE: _check_byte_bpe, BERT_BYTE_BPE: _check_bert_byte_bpe}
    checks |= {SENTENCEPIECE: _check_unigram, XLM_ROBERTA: _check_xlm_roberta, MPNET: _check_wordpiece}
    checks |= {DEBERTA_V2: _check_deberta}
    steps = checks[kind]
    if model is not None:
        steps(file, content, by_file)
    if by_file:
        names = SPECIAL_NAMES[kind]
        separators = 2 if kind in (BYTE_BPE, XLM_ROBERTA, MPNET) else 1
        has_segments = kind not in (BYTE_BPE, XLM_ROBERTA, MPNET, BERT_BYTE_BPE)
        _check_rows(file, content.get("post_processor"), names["cls"], names["sep"], separators, has_segments)
    if (content.get("truncation") or {}).get("direction", "Right") != "Right":
        _expect(file, "truncation.direction", content["truncation"]["direction"], ("Right",))


def _normalizer_setting(file: str, name: str) -> bool | None:
    value = (_normalizer(file) or {}).get(name)
    if value is not None and not isinstance(value, bool):
        raise UserError(f"{file}: normalizer.{name} is {shortened(value)}; expected true or false.")
    return value


def _normalizer(file: str) -> dict[str, Any] | None:
    """The normalizer of a tokenizer.json, also as the only one of a sequence."""
    value = read_settings(file).get("normalizer")
    if isinstance(value, dict) and value.get("type") == "Sequence" and len(value.get("normalizers") or ()) == 1:
        value = value["normalizers"][0]
    return value if isinstance(value, dict) else None


def _check_wordpiece(file: str, content: Mapping[str, Any], by_file: bool) -> None:
    normalizer = _normalizer(file) or content.get("normalizer")
    kind = normalizer.get("type") if isinstance(normalizer, dict) else normalizer
    _expect(file, "normalizer", kind, ("BertNormalizer",) if by_file or kind else (None, "BertNormalizer"))
    if isinstance(normalizer, dict):
        _expect(file, "normalizer.clean_text", normalizer.get("clean_text", True), (True,))
    _check_pre_tokenizer(file, content, "BertPreTokenizer", by_file)
    for name, expected in OF_WORDPIECE.items():
        _expect(file, f"model.{name}", content["model"].get(name, expected), (expected,))


def _check_bert_byte_bpe(file: str, content: Mapping[str, Any], by_file: bool) -> None:
    _check_byte_bpe(file, content, by_file, "NFC")


def _check_byte_bpe(file: str, content: Mapping[str, Any], by_file: bool, form: str | None = None) -> None:
    normalizer = _normalizer(file) or content.get("normalizer")
    name = normalizer.get("type") if isinstance(normalizer, dict) else normalizer
    _expect(file, "normalizer", name, (form,))
    step = _check_pre_tokenizer(file, content, "ByteLevel", by_file)
    if by_file:
        _expect(file, "pre_tokenizer.add_prefix_space", step.get("add_prefix_space"), (False,))
        _expect(file, "pre_tokenizer.use_regex", step.get("use_regex", True), (True,))
    for name, expected in OF_BPE.items():
        _expect(file, f"model.{name}", content["model"].get(name), expected)


def _check_unigram(file: str, content: Mapping[str, Any], by_file: bool) -> None:
    """Of ALBERT, as transformers 4 and 5 write it; another order of steps is another normalization."""
    _expect(file, "model.byte_fallback", content["model"].get("byte_fallback"), (None, False))
    steps = [_described(step) for step in _steps(content.get("normalizer"), "normalizers")]
    ends = [(*charsmap, *spaces) for charsmap in ((), CHARSMAP) for spaces in ((), ONE_SPACE, TRIMMED)]
    if steps not in [[*QUOTES, *lowered, *end] for lowered in ((), LOWERED) for end in ends]:
        other = next((step for step in steps if step not in (*QUOTES, *LOWERED, *CHARSMAP, *TRIMMED)), "another order")
        raise UserError(
            f"{file}: the normalizer has {other}, which is not supported, as it changes tokens; supported is that of "
            f"ALBERT: {', '.join((*QUOTES, *LOWERED, *CHARSMAP))}, with all or none of {', '.join(LOWERED)}."
        )
    _check_metaspace(file, content, (["Metaspace"], ["WhitespaceSplit", "Metaspace"]))


def _check_xlm_roberta(file: str, content: Mapping[str, Any], by_file: bool) -> None:
    """Of XLM-RoBERTa and CamemBERT; their classes make every step but the charsmap anew."""
    pieces, unknown = content["model"].get("vocab") or [], content["model"].get("unk_id")
    if type(unknown) is int and 0 <= unknown < len(pieces):
        _expect(file, "the token of model.unk_id", pieces[unknown][0], ("<unk>",))
    if by_file:
        _expect(file, "model.byte_fallback", content["model"].get("byte_fallback"), (None, False))
        steps = [_described(step) for step in _steps(content.get("normalizer"), "normalizers")]
        _expect(file, "normalizer", steps, ([], list(CHARSMAP)))
        _check_metaspace(file, content, (["WhitespaceSplit", "Metaspace"],))


def _check_deberta(file: str, content: Mapping[str, Any], by_file: bool) -> None:
    """Of DeBERTa-v2 and -v3, whose steps are those of the file: transformers 4 and 5 write different ones."""
    pieces, unknown = content["model"].get("vocab") or [], content["model"].get("unk_id")
    if type(unknown) is int and 0 <= unknown < len(pieces):
        _expect(file, "the token of model.unk_id", pieces[unknown][0], ("[UNK]",))
    _expect(file, "model.byte_fallback", content["model"].get("byte_fallback"), (None, False))
    steps = [_described(step) for step in _steps(content.get("normalizer"), "normalizers")]
    of_model = [["Strip left right", *charsmap, *ONE_SPACE] for charsmap in (CHARSMAP, ())]
    _expect(file, "normalizer", steps, (*of_model, [f"Replace {NFC_SPACES!r} ' '", "NFC", "Strip right"]))
    _check_metaspace(file, content, (["Metaspace"],))


def _check_metaspace(file: str, content: Mapping[str, Any], expected: tuple[list[str], ...]) -> None:
    before = _steps(content.get("pre_tokenizer"), "pretokenizers")
    _expect(file, "pre_tokenizer", [step.get("type") for step in before], expected)
    values = before[-1]
    _expect(file, "pre_tokenizer.replacement", values.get("replacement"), (SPACE,))
    scheme = values.get("prepend_scheme", "always" if values.get("add_prefix_space", True) else "never")
    _expect(file, "pre_tokenizer.prepend_scheme", scheme, ("always",))
    _expect(file, "pre_tokenizer.split", values.get("split"), (None, True))


def _steps(value: Any, name: str) -> list[Mapping[str, Any]]:
    """The steps of a normalizer or pre_tokenizer, of a sequence those in it."""
    inside = value.get(name) if isinstance(value, dict) and value.get("type") == "Sequence" else [value]
    return [step for step in inside or () if isinstance(step, dict)]


def _described(step: Mapping[str, Any]) -> str:
    """A step of a normalizer as a text: its type, of a Replace also what it replaces."""
    if step.get("type") == "Strip":
        return " ".join(["Strip", *(side for side in ("left", "right") if step.get(f"strip_{side}"))])
    if step.get("type") != "Replace":
        return str(step.get("type"))
    return f"Replace {next(iter((step.get('pattern') or {'': None}).values()))!r} {step.get('content')!r}"


def _check_pre_tokenizer(file: str, content: Mapping[str, Any], expected: str, by_file: bool) -> Mapping[str, Any]:
    value = content.get("pre_tokenizer")
    if isinstance(value, dict) and value.get("type") == "Sequence" and len(value.get("pretokenizers") or ()) == 1:
        value = value["pretokenizers"][0]
    kind = value.get("type") if isinstance(value, dict) else value
    _expect(file, "pre_tokenizer", kind, (expected,) if by_file or kind else (None, expected))
    return value if isinstance(value, dict) else {}


def _check_rows(file: str, processor: Any, first: str, last: str, separators: int, has_segments: bool = False) -> None:
    """Raises UserError unless a post_processor makes the rows `pack` makes."""
    values = processor if isinstance(processor, dict) else {}
    kind = values.get("type")
    if kind in ("BertProcessing", "RobertaProcessing"):
        _expect(file, "post_processor.type", kind, ("RobertaProcessing" if separators == 2 else "BertProcessing",))
        _expect(file, "post_processor.cls", (values.get("cls") or [None])[0], (first,))
        _expect(file, "post_processor.sep", (values.get("sep") or [None])[0], (last,))
        return
    _expect(file, "post_processor", kind, ("TemplateProcessing",))
    single = [first, "A", last]
    for name, expected in (("single", single), ("pair", [*single, *[last] * (separators - 1), "B", last])):
        pieces = [next(iter(piece.values())) for piece in values.get(name) or ()]
        _expect(file, f"post_processor.{name}", [piece["id"] for piece in pieces], (expected,))
        if has_segments:
            segments = [piece.get("type_id", 0) for piece in pieces]
            _expect(file, f"type_id in post_processor.{name}", segments, ([0, 0, 0, 1, 1][: len(expected)],))
