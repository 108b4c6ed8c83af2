"""SentencePiece model files, and their equivalent as `tokenizer.json`. Free of TensorFlow.

The messages are the subset of sentencepiece's `sentencepiece_model.proto` needed here.
"""

import base64
import dataclasses
import functools
import re
from collections.abc import Collection, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from bert_tf.errors import UserError
from bert_tf.runtime.lazy import module
from bert_tf.runtime.proto_messages import FIELD, message_class
from bert_tf.runtime.settings import FLAG, TEXT, Kind, Settings, check, is_number, list_of, whole
from bert_tf.text.tokenizer_kinds import DEBERTA_V2, KINDS, NFC_SPACES, SENTENCEPIECE, XLM_ROBERTA, XLNET
from bert_tf.text.vocabulary import SubwordVocabulary
from bert_tf.text.word_marks import SPACE

tokenizers, normalizers = module("tokenizers"), module("tokenizers.normalizers")
pre_tokenizers = module("tokenizers.pre_tokenizers")
NEVER = "\n"  # in no word
UNIGRAM, NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 1, 2, 3, 4, 6  # enum values in the messages
IN_TEXTS = (NORMAL, USER_DEFINED)  # kinds of pieces that occur in texts
USUAL = ("add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces")  # normalizer options, true if unset
_MESSAGES = {
    "Piece": {
        "piece": (1, FIELD.TYPE_STRING),
        "score": (2, FIELD.TYPE_FLOAT),
        "type": (3, FIELD.TYPE_INT32),
        "exact_score": (200, FIELD.TYPE_DOUBLE),  # our extension, for scores that do not fit 32 bits
    },
    "Trainer": {
        "model_type": (3, FIELD.TYPE_INT32),
        "space_is_suffix": (24, FIELD.TYPE_BOOL),
        "bytes": (35, FIELD.TYPE_BOOL),
        "unk_id": (40, FIELD.TYPE_INT32),
    },
    "Normalizer": {
        "name": (1, FIELD.TYPE_STRING),
        "precompiled_charsmap": (2, FIELD.TYPE_BYTES),
        **{name: (number, FIELD.TYPE_BOOL) for number, name in enumerate(USUAL, 3)},
    },
    "Model": {"pieces": (1, ["Piece"]), "trainer_spec": (2, "Trainer"), "normalizer_spec": (3, "Normalizer")},
}
# Tokens that fairseq puts before a model's pieces, and how many pieces it drops, by transformers class.
FAIRSEQ = {
    "XLMRobertaTokenizer": ([("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)], 3),
    "CamembertTokenizer": (
        [("<s>NOTUSED", 0.0), ("<pad>", 0.0), ("</s>NOTUSED", 0.0), ("<unk>", 0.0), ("<unk>NOTUSED", -100.0)],
        1,
    ),
}


NFC = "transformers_5_nfc"  # instead of the name of a charsmap, see UnigramModel
LIBRARY = "sentencepiece"  # the same, for models that split texts like the library sentencepiece
BYTE_PIECE = re.compile("<0x([0-9A-F]{2})>")


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnigramModel:
    """Content of a SentencePiece unigram model.

    pieces: (token, score) in the order of ids. unknown_id: the id of unknown characters. charsmap: the normalization
    table as in the file. is_nfc: normalize texts of a DeBERTa like transformers 5 instead.

    is_library: split texts like the library sentencepiece, without transformers' additions; then also own: user-defined
    pieces; has_bytes: whether unknown characters are written as bytes; left_out: pieces that no text contains.
    """

    pieces: tuple[tuple[str, float], ...]
    unknown_id: int
    charsmap: bytes
    is_nfc: bool = False
    is_library: bool = False
    own: frozenset[str] = frozenset()
    has_bytes: bool = False
    left_out: frozenset[str] = frozenset()


def _is_piece(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str) and is_number(value[1])


def _is_base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and base64.b64decode(value) is not None
    except ValueError:
        return False


PIECES: Kind[list[Any]] = list_of(Kind("a piece", _is_piece), "tokens, each with a finite score")
BASE64: Kind[str] = Kind("bytes in base64", _is_base64)


@functools.cache
def _message() -> Any:
    """The message class of a whole model."""
    return message_class("Model", _MESSAGES)


@functools.lru_cache(maxsize=4)
def parse(
    model: bytes,
    name: str = "The SentencePiece model",
    *,
    ignores_bytes: bool = False,
    may_be_own: bool = False,
    as_library: bool = False,
) -> UnigramModel:
    """Parses a model file; UserError that names it if it is damaged or of another kind, such as BPE.

    ignores_bytes: ignore that a model writes unknown characters as bytes. may_be_own: treat user-defined pieces as
    normal ones. as_library: see `UnigramModel.is_library`.
    """
    try:
        message = _message().FromString(model)
        pieces = tuple((piece.piece, piece.exact_score or piece.score) for piece in message.pieces)
    except (DecodeError, UnicodeDecodeError):
        pieces = ()
    if not pieces:
        raise UserError(f"{name} is not a SentencePiece model: it may be cut short; fetch it again.")
    check(name, "the list of pieces", list(pieces), PIECES)
    normalizer = message.normalizer_spec
    is_library = as_library or normalizer.name == LIBRARY
    has_bytes = message.trainer_spec.bytes and not ignores_bytes and not is_library
    if message.trainer_spec.model_type not in (0, UNIGRAM) or has_bytes:  # 0: missing, the default
        raise UserError(f"{name} is an unsupported SentencePiece model; expected unigram without bytes.")
    unknown = next((number for number, piece in enumerate(message.pieces) if piece.type == UNKNOWN), 0)
    if is_library:
        return _of_library(message, name, unknown)
    if not may_be_own and (own := [piece.piece for piece in message.pieces if piece.type == USER_DEFINED]):
        raise UserError(f"{name} has user-defined pieces, such as {own[0]!r}, which are not supported.")
    return UnigramModel(
        pieces=pieces, unknown_id=unknown, charsmap=normalizer.precompiled_charsmap, is_nfc=normalizer.name == NFC
    )


def _of_library(message: Any, name: str, unknown: int) -> UnigramModel:
    """A model that splits texts like the library sentencepiece."""
    normalizer, trainer = message.normalizer_spec, message.trainer_spec
    unusual = [each for each in USUAL if normalizer.HasField(each) and not getattr(normalizer, each)]
    unusual += ["treat_whitespace_as_suffix"] if trainer.space_is_suffix else []
    if unusual:
        raise UserError(f"{name} has an unusual {unusual[0]} for a SentencePiece model, which is not supported.")
    highest = max((piece.score for piece in message.pieces if piece.type in (0, NORMAL)), default=0.0)
    kinds = {piece.piece: piece.type or NORMAL for piece in message.pieces}
    own = frozenset(piece for piece, kind in kinds.items() if kind == USER_DEFINED)
    for piece in own:
        if SPACE in piece or " " in piece:
            raise UserError(f"{name} has a user-defined piece with a space, {piece!r}: not supported.")
    pieces = tuple(  # scores as in the library for user-defined pieces
        (each.piece, len(each.piece) * highest - 0.1 if each.piece in own else each.score) for each in message.pieces
    )
    return UnigramModel(
        pieces=pieces,
        unknown_id=unknown,
        charsmap=normalizer.precompiled_charsmap,
        is_library=True,
        own=own,
        has_bytes=bool(trainer.bytes),
        left_out=frozenset(piece for piece, kind in kinds.items() if kind not in IN_TEXTS),
    )


def serialize(model: UnigramModel, controls: Collection[str]) -> bytes:
    """The content of a model file; controls: tokens that no text contains."""
    message = _message()()
    message.trainer_spec.model_type, message.trainer_spec.unk_id = UNIGRAM, model.unknown_id
    message.trainer_spec.bytes = model.has_bytes
    message.normalizer_spec.name = NFC if model.is_nfc else LIBRARY if model.is_library else "from_tokenizer_json"
    message.normalizer_spec.precompiled_charsmap = model.charsmap
    for number, (piece, score) in enumerate(model.pieces):
        kind = UNKNOWN if number == model.unknown_id else CONTROL if piece in controls else NORMAL
        if model.has_bytes and BYTE_PIECE.fullmatch(piece):
            kind = BYTE
        kind = USER_DEFINED if piece in model.own else kind
        added = message.pieces.add(piece=piece, score=score, type=kind)
        if added.score != score:
            added.exact_score = score
    return bytes(message.SerializeToString(deterministic=True))


def tokens_of(model: bytes, name: str) -> SubwordVocabulary:
    """The vocabulary of an ALBERT model; UserError that names the file if it is not one."""
    return SubwordVocabulary([token for token, _ in parse(model, name).pieces], SENTENCEPIECE, model)


def with_fairseq_ids(model: bytes, name: str, owner: str) -> SubwordVocabulary:
    """The vocabulary of a model whose ids fairseq shifts. owner: a transformers class in FAIRSEQ."""
    (first, skipped), content = FAIRSEQ[owner], parse(model, name)
    pieces = (*first, *content.pieces[skipped:], ("<mask>", 0.0))
    return _vocabulary(UnigramModel(pieces=pieces, unknown_id=3, charsmap=content.charsmap), XLM_ROBERTA)


def of_deberta(model: bytes, name: str) -> SubwordVocabulary:
    """The vocabulary of a DeBERTa model, whose [MASK] follows its pieces."""
    return _vocabulary(parse(model, name, ignores_bytes=True), DEBERTA_V2)


def of_xlnet(model: bytes, name: str) -> SubwordVocabulary:
    """The vocabulary of an XLNet model, with its user-defined pieces."""
    return _vocabulary(parse(model, name, may_be_own=True), XLNET)


def as_library(model: bytes, name: str, kind: str) -> SubwordVocabulary:
    """The vocabulary of a model that splits texts like the library sentencepiece, as in KerasHub.

    kind: SENTENCEPIECE, DEBERTA_V2, or XLM_ROBERTA, whose ids fairseq shifts.
    """
    content = parse(model, name, as_library=True)
    if kind == XLM_ROBERTA:
        first, skipped = FAIRSEQ["XLMRobertaTokenizer"]
        pieces = (*first, *content.pieces[skipped:], ("<mask>", 0.0))
        content = dataclasses.replace(content, pieces=pieces, unknown_id=3)
    return _vocabulary(content, kind, content.left_out)


def to_library(vocabulary: SubwordVocabulary) -> bytes:
    """A vocabulary as a model file for the library sentencepiece, with the ids that KerasHub expects."""
    model = dataclasses.replace(parse(vocabulary.rules), is_nfc=False)
    if vocabulary.kind == XLM_ROBERTA:
        (start, _, end, unknown), rest = model.pieces[:4], model.pieces[4:-1]
        model = dataclasses.replace(model, pieces=(unknown, start, end, *rest), unknown_id=0)
    return serialize(model, {*KINDS[vocabulary.kind].special_tokens, *model.left_out} - model.own)


def added_pieces(model: bytes) -> list[dict[str, Any]]:
    """The tokens that transformers adds for user-defined pieces of an XLNet model, in JSON form."""
    pieces = enumerate(_message().FromString(model).pieces)
    return [
        {"content": piece.piece, "id": number, "special": piece.type == CONTROL, "normalized": False}
        for number, piece in pieces
        if piece.type in (CONTROL, USER_DEFINED)
    ]


def owner_of(vocabulary: Sequence[str]) -> str:
    """The transformers class in FAIRSEQ whose ids a vocabulary has."""
    return next((name for name, (first, _) in FAIRSEQ.items() if first[0][0] == vocabulary[0]), next(iter(FAIRSEQ)))


def _vocabulary(model: UnigramModel, kind: str, controls: Collection[str] = ()) -> SubwordVocabulary:
    rules = serialize(model, {*KINDS[kind].special_tokens, *controls})
    tokens = [token for token, _ in model.pieces]
    tokens += ["[MASK]"] if kind == DEBERTA_V2 and "[MASK]" not in tokens else []
    return SubwordVocabulary(tokens, kind, rules)


def byte_ids(model: UnigramModel) -> list[int]:
    """The ids of the pieces for the 256 bytes; [] if unknown characters are one piece."""
    if not model.has_bytes:
        return []
    ids = {piece: number for number, (piece, _) in enumerate(model.pieces)}
    return [ids.get(f"<0x{byte:02X}>", model.unknown_id) for byte in range(256)]


def unigram(rules: bytes, left_out: Collection[str] = ()) -> Any:
    """A `tokenizers.Tokenizer` of words. left_out: pieces that no text contains."""
    model = parse(rules)
    hidden = model.left_out if model.is_library else left_out
    pieces = [
        (f"{NEVER}{i}" if token in hidden and not (model.has_bytes and BYTE_PIECE.fullmatch(token)) else token, score)
        for i, (token, score) in enumerate(model.pieces)
    ]
    return tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, model.unknown_id, model.has_bytes))


def to_tokenizer(vocabulary: SubwordVocabulary, *, lower_case: bool, added: Sequence[Any] = ()) -> Any:
    """A `tokenizers.Tokenizer` as made by `transformers`, but with unchanged scores for ALBERT.

    For DeBERTa it is the one of transformers 4, unless the vocabulary is from transformers 5.

    added: tokens recognized in texts in addition to the five, as `tokenizers.AddedToken`.
    """
    model, is_xlnet = parse(vocabulary.rules), vocabulary.kind == XLNET
    is_albert, is_deberta = vocabulary.kind == SENTENCEPIECE, vocabulary.kind == DEBERTA_V2
    tokenizer = unigram(vocabulary.rules)
    has_quotes = (is_albert or is_xlnet) and not model.is_library
    steps: list[Any] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')] if has_quotes else []
    if lower_case and is_albert and not model.is_library or is_xlnet:
        steps += [normalizers.NFKD(), normalizers.StripAccents(), *([normalizers.Lowercase()] if is_albert else [])]
    steps += [normalizers.Strip()] if is_deberta and not model.is_nfc else []
    if model.charsmap:
        steps.append(normalizers.Precompiled(model.charsmap))
    if model.is_nfc:
        blanks = normalizers.Replace(tokenizers.Regex(NFC_SPACES), " ")
        steps = [blanks, normalizers.NFC(), normalizers.Strip(left=False)]
    elif is_deberta:
        steps.append(normalizers.Replace(tokenizers.Regex(" {2,}"), " "))
    if steps:
        tokenizer.normalizer = steps[0] if len(steps) == 1 else normalizers.Sequence(steps)
    metaspace = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    before = [] if is_deberta else [pre_tokenizers.WhitespaceSplit()]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*before, metaspace])
    tokenizer.decoder = tokenizers.decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    names = KINDS[vocabulary.kind].special_tokens
    contents = {token.content for token in added}
    tokenizer.add_tokens(list(added))
    known = names if is_deberta else [name for name in names if tokenizer.token_to_id(name) is not None]
    others = [name for name in known if name not in contents]
    takes_space = None if is_deberta else names[-1]
    tokenizer.add_special_tokens(
        [tokenizers.AddedToken(name, normalized=False, lstrip=name == takes_space) for name in others]
    )
    ends = [(name, tokenizer.token_to_id(name)) for name in names[2:4]]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(*KINDS[vocabulary.kind].templates, ends)
    return tokenizer


def from_tokenizer_json(values: Settings, kind: str) -> tuple[SubwordVocabulary, bool]:
    """The vocabulary and the casing in the content of a tokenizer.json; kind: kind of its tokenizer.

    Raises UserError that names the file for an unexpected structure.
    """
    pieces = tuple((token, float(score)) for token, score in values.inside("model").value("vocab", PIECES, []))
    unknown = values.inside("model").value("unk_id", whole(0, max(len(pieces) - 1, 0)))
    if unknown is None or not pieces:
        raise UserError(
            f"{values.source} has no vocab or no unk_id of a unigram model: fetch it again, or pass its SentencePiece "
            "model."
        )
    normalizer = values.inside("normalizer")
    listed = normalizer.each("normalizers") if "normalizers" in normalizer else [normalizer]
    steps = {step.value("type", TEXT, ""): step for step in listed}
    charsmap = b""
    if "Precompiled" in steps:
        charsmap = base64.b64decode(steps["Precompiled"].value("precompiled_charsmap", BASE64, ""))
    controls = {each.value("content", TEXT, "") for each in values.each("added_tokens") if each.value("special", FLAG)}
    model = UnigramModel(pieces=pieces, unknown_id=unknown, charsmap=charsmap, is_nfc="NFC" in steps)
    return _vocabulary(model, kind, controls), "Lowercase" in steps
