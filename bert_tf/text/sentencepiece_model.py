"""The file of a SentencePiece model, and the same as `tokenizer.json`. Free of TensorFlow.

The messages are those of sentencepiece's `sentencepiece_model.proto`, as far as they are needed here.
"""

import base64
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime.proto_messages import FIELD, message_class
from bert_tf.text.vocabulary import SENTENCEPIECE, SPECIAL_TOKENS_OF, SubwordVocabulary

SPACE = "▁"
UNIGRAM, NORMAL, UNKNOWN, CONTROL = 1, 1, 2, 3  # values of enums of the messages
_MESSAGES = {
    "Piece": {"piece": (1, FIELD.TYPE_STRING), "score": (2, FIELD.TYPE_FLOAT), "type": (3, FIELD.TYPE_INT32)},
    "Trainer": {"model_type": (3, FIELD.TYPE_INT32), "unk_id": (40, FIELD.TYPE_INT32)},
    "Normalizer": {"name": (1, FIELD.TYPE_STRING), "precompiled_charsmap": (2, FIELD.TYPE_BYTES)},
    "Model": {"pieces": (1, ["Piece"]), "trainer_spec": (2, "Trainer"), "normalizer_spec": (3, "Normalizer")},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnigramModel:
    """What a SentencePiece model of the kind unigram consists of.

    pieces: (token, score) in the order of ids. unknown_id: that of unknown characters. charsmap: by which texts are
    normalized, as the file has it.
    """

    pieces: tuple[tuple[str, float], ...]
    unknown_id: int
    charsmap: bytes


@functools.cache
def _message() -> Any:
    """The class of the message of a whole model."""
    return message_class("Model", _MESSAGES)


def parse(model: bytes) -> UnigramModel | None:
    """The content of a file; None if it is of another kind, such as BPE."""
    message = _message().FromString(model)
    if message.trainer_spec.model_type not in (0, UNIGRAM):  # 0: the default, which files leave out
        return None
    pieces = tuple((piece.piece, piece.score) for piece in message.pieces)
    unknown = next((number for number, piece in enumerate(message.pieces) if piece.type == UNKNOWN), 0)
    return UnigramModel(pieces=pieces, unknown_id=unknown, charsmap=message.normalizer_spec.precompiled_charsmap)


def serialize(model: UnigramModel, controls: set[str]) -> bytes:
    """A model as a file; controls: tokens that no text contains."""
    message = _message()()
    message.trainer_spec.model_type, message.trainer_spec.unk_id = UNIGRAM, model.unknown_id
    message.normalizer_spec.name = "from_tokenizer_json"
    message.normalizer_spec.precompiled_charsmap = model.charsmap
    for number, (piece, score) in enumerate(model.pieces):
        kind = UNKNOWN if number == model.unknown_id else CONTROL if piece in controls else NORMAL
        message.pieces.add(piece=piece, score=score, type=kind)
    return message.SerializeToString(deterministic=True)


def to_tokenizer(model: UnigramModel, *, lower_case: bool) -> Any:
    """A `tokenizers.Tokenizer` as `transformers` makes one for ALBERT, without the scores that it changes."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.Unigram(list(model.pieces), model.unknown_id))
    steps: list[Any] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if lower_case:
        steps += [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    if model.charsmap:
        steps.append(normalizers.Precompiled(model.charsmap))
    spaces = [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace(Regex("^ | $"), "")]
    tokenizer.normalizer = normalizers.Sequence([*steps, *spaces])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    names = [name for name in SPECIAL_TOKENS_OF[SENTENCEPIECE] if tokenizer.token_to_id(name) is not None]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, lstrip=name == "[MASK]") for name in names])
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    single = "[CLS]:0 $A:0 [SEP]:0"
    tokenizer.post_processor = processors.TemplateProcessing(single, f"{single} $B:1 [SEP]:1", ends)
    return tokenizer


def from_tokenizer_json(values: Mapping[str, Any], path: str) -> tuple[SubwordVocabulary, bool]:
    """The vocabulary and the casing of the content of a tokenizer.json of ALBERT.

    Raises UserError, which names the file, for another structure.
    """
    try:
        pieces = tuple((str(token), float(score)) for token, score in values["model"]["vocab"])
        unknown = int(values["model"]["unk_id"])
        steps = values.get("normalizer") or {}
        steps = {step["type"]: step for step in steps.get("normalizers", [steps] if steps else [])}
        charsmap = base64.b64decode(steps.get("Precompiled", {}).get("precompiled_charsmap", ""))
        controls = {entry["content"] for entry in values.get("added_tokens", []) if entry["special"]}
        if not 0 <= unknown < len(pieces):
            raise ValueError(f"unk_id is {unknown}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{path} holds no whole unigram model ({type(error).__name__}: {error}): fetch it again, or give its "
            "spiece.model."
        ) from None
    model = UnigramModel(pieces=pieces, unknown_id=unknown, charsmap=charsmap)
    tokens = SubwordVocabulary([token for token, _ in pieces], SENTENCEPIECE, serialize(model, controls))
    return tokens, "Lowercase" in steps
