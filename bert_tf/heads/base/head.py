"""Head: what a model answers, and what everything outside the model needs to know of that."""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.heads.base.answers import BaseAnswer

Outputs = Mapping[str, Any]  # {name: array} of one example, as a signature names them


class Head(abc.ABC):
    """A kind of head.

    Attributes:
        kind: its name in checkpoints, exports and flags; of a head from outside that of its module.
        model_class: of `model.heads`; it takes the configuration and, if outputs have names, their number.
        weights: the part of the names of its weights.
        architecture: how the name of the class of transformers ends that has it; "" without one.
        is_named_alone: whether that name tells the kind, which the names of the weights do not.
        problem_type: `problem_type` in config.json of transformers.
        peft_task: `task_type` of PEFT.
        is_pooled: whether it reads the vector of a text; otherwise those of tokens.
        reads_tokens: whether it reads every token, and no vector of the text.
        is_labelled: whether its outputs have names.
        is_exclusive: whether one output of all holds.
        balancing: flags that help where labels are of uneven size; "" if none does.
        takes_any_number: whether one model takes a text or a pair, as the caller likes.
        functional_form: the constant of `model.functional_bert` that computes it for other engines.
        activations: of the classifiers of KerasHub that are of this kind, None for a layer without one.
        is_of_pairs: whether it takes pairs alone.
        cross_encoder_activation: in sentence-transformers, of its logit; "" for heads that are of no cross-encoder.
        has_pipeline: whether `pipeline` of transformers runs it.
        form: of the demo page: the kind whose form it has; "" for none.
        pipeline_tag: what hubs call its task.
        phrase: what a model with it does: "It ...".
        method: of the Python API, with its arguments; call: an example that prints something.
        labelled_file: what a labelled file for it holds; "" for a table of texts.
        labelled_columns: flags that name its columns.
        signature_inputs, signature_outputs: of the default signature of its exports; the latter at least.
    """

    kind: ClassVar[str]
    model_class: ClassVar[str]
    weights: ClassVar[str] = "classifier"
    architecture: ClassVar[str] = ""
    is_named_alone: ClassVar[bool] = False
    problem_type: ClassVar[str] = ""
    peft_task: ClassVar[str] = ""
    is_pooled: ClassVar[bool] = False
    reads_tokens: ClassVar[bool] = False
    is_labelled: ClassVar[bool] = False
    is_exclusive: ClassVar[bool] = True
    balancing: ClassVar[str] = ""
    takes_any_number: ClassVar[bool] = False
    functional_form: ClassVar[str] = "VECTORS"
    activations: ClassVar[tuple[str | None, ...]] = ()
    is_of_pairs: ClassVar[bool] = False
    cross_encoder_activation: ClassVar[str] = ""
    has_pipeline: ClassVar[bool] = True
    form: ClassVar[str] = ""
    pipeline_tag: ClassVar[str]
    phrase: ClassVar[str]
    method: ClassVar[str] = "predict(texts)"
    call: ClassVar[str]
    labelled_file: ClassVar[str] = ""
    labelled_columns: ClassVar[tuple[str, ...]] = ("text_columns", "label_column")
    signature_inputs: ClassVar[tuple[frozenset[str], ...]] = ()
    signature_outputs: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def answers_signature(cls, inputs: Collection[str] | None, outputs: Collection[str]) -> bool:
        """Returns whether a signature with these inputs (None: any) and outputs is one of this kind."""
        return (inputs is None or set(inputs) in cls.signature_inputs) and set(outputs) >= cls.signature_outputs

    @classmethod
    def balancing_beyond(cls, flags: Mapping[str, Any]) -> str:
        """`balancing`, or "" if the flags of a run, {name: value}, have its first part already."""
        given = {f"--{name}={value}" for name, value in flags.items()}
        return "" if set(cls.balancing.split()[:1]) <= given else cls.balancing

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
        raise UserError(f"{cls.phrase}, and no file says what is right: pass a model that was fine-tuned.".capitalize())

    @classmethod
    @abc.abstractmethod
    def answer(cls, outputs: Outputs, labels: Sequence[str]) -> BaseAnswer:
        """The answer for an example, from the outputs of an export or of the live model."""


def as_text(value: Any) -> str:
    """A text of TensorFlow as str."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
