"""Head: what a model answers, and what everything outside the model needs to know of that."""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.heads.base.answers import BaseAnswer
from bert_tf.heads.base.format_names import FORMATS, FormatNames
from bert_tf.heads.base.wording import WORDING, Wording

Row = TypeVar("Row")
Outputs = Mapping[str, Any]  # {name: array} of one example, as a signature names them


class Head(abc.ABC):
    """A kind of head.

    Attributes:
        kind: its name in checkpoints, exports and flags; of a head from outside that of its module.
        model_class: of `model.heads`; it takes the configuration and, if outputs have names, their number.
        weights: the part of the names of its weights.
        is_pooled: whether it reads the vector of a text; otherwise those of tokens.
        reads_tokens: whether it reads every token, and no vector of the text.
        is_labelled: whether its outputs have names.
        is_exclusive: whether one output of all holds.
        takes_any_number: whether one model takes a text or a pair, as the caller likes.
        is_of_pairs: whether it takes pairs alone.
        signature_inputs, signature_outputs: of the default signature of its exports; the latter at least.
    """

    kind: ClassVar[str]
    model_class: ClassVar[str]
    weights: ClassVar[str] = "classifier"
    is_pooled: ClassVar[bool] = False
    reads_tokens: ClassVar[bool] = False
    is_labelled: ClassVar[bool] = False
    is_exclusive: ClassVar[bool] = True
    takes_any_number: ClassVar[bool] = False
    is_of_pairs: ClassVar[bool] = False
    signature_inputs: ClassVar[tuple[frozenset[str], ...]] = ()
    signature_outputs: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def answers_signature(cls, inputs: Collection[str] | None, outputs: Collection[str]) -> bool:
        """Returns whether a signature with these inputs (None: any) and outputs is one of this kind."""
        return (inputs is None or set(inputs) in cls.signature_inputs) and set(outputs) >= cls.signature_outputs

    @classmethod
    def format_names(cls) -> FormatNames:
        """Its names in other formats; of a head from outside those of the head that it is a subclass of."""
        return _row(FORMATS, cls)

    @classmethod
    def wording(cls) -> Wording:
        """What cards and pages say of it; of a head from outside as of the head that it is a subclass of."""
        return _row(WORDING, cls)

    @classmethod
    def model(cls, config: BertConfig, size: int, weights: Mapping[str, Any], **options: Any) -> Any:
        """The Keras model, newly initialized. size: of the head's bias; weights: {name: array} of a checkpoint."""
        from bert_tf.model import heads

        model_class, sizes = getattr(heads, cls.model_class), [size] if cls.is_labelled else []
        if model_class.kind not in ("", cls.kind):
            options = {"kind": cls.kind, **options}
        return model_class(config, *sizes, **options)

    @classmethod
    def tuned(cls, about: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> Any:
        """The `TunedHead` of an export or a run.

        about: content of its about.json. settings: its `host_settings`; without them the head only scores answers.
        Raises UserError if no file can score them.
        """
        phrase = cls.wording().phrase.capitalize()
        raise UserError(f"{phrase}, and no file says what is right: pass a model that was fine-tuned.")

    @classmethod
    @abc.abstractmethod
    def answer(cls, outputs: Outputs, labels: Sequence[str]) -> BaseAnswer:
        """The answer for an example, from the outputs of an export or of the live model."""


def _row(table: Mapping[str, Row], head: type[Head]) -> Row:
    """The row of the kind of a head, or of the nearest head that it is a subclass of."""
    kinds = (str(vars(each).get("kind")) for each in head.__mro__)
    return next(table[kind] for kind in kinds if kind in table)


def as_text(value: Any) -> str:
    """A text of TensorFlow as str."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
