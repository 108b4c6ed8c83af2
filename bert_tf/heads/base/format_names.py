"""The names of heads in other formats and in models for other engines: a row for each kind."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class FormatNames:
    """Names of a kind of head in other formats.

    Attributes:
        architecture: how the name of its transformers class ends.
        is_told_by_class: whether that name determines the kind, because the weight names do not.
        problem_type: `problem_type` in a transformers config.json; "" for none.
        peft_task: `task_type` in PEFT; "" for none.
        cross_encoder_activation: activation of its logit in sentence-transformers; "" if it is not for cross-encoders.
        activations: activations of KerasHub classifiers of this kind, None for a layer without one.
        form: the constant of `model.functional_bert` that computes it for other engines.
    """

    architecture: str
    form: str
    is_told_by_class: bool = False
    problem_type: str = ""
    peft_task: str = ""
    cross_encoder_activation: str = ""
    activations: tuple[str | None, ...] = ()


OF_TEXTS, TEXTS = "ForSequenceClassification", "TEXTS"
FORMATS: Mapping[str, FormatNames] = {  # by kind, in the order in which `heads.kind_with` looks for a name
    "choice": FormatNames(architecture="ForMultipleChoice", form=TEXTS, is_told_by_class=True),
    "classes": FormatNames(
        architecture=OF_TEXTS,
        form=TEXTS,
        problem_type="single_label_classification",
        peft_task="SEQ_CLS",
        activations=(None, "linear", "softmax"),
    ),
    "masked_lm": FormatNames(architecture="ForMaskedLM", form="MASKS"),
    "multi_label": FormatNames(
        architecture=OF_TEXTS,
        form=TEXTS,
        problem_type="multi_label_classification",
        peft_task="SEQ_CLS",
        activations=("sigmoid",),
    ),
    "next_sentence": FormatNames(architecture="ForNextSentencePrediction", form="MASKS"),
    "regression": FormatNames(architecture=OF_TEXTS, form=TEXTS, problem_type="regression", peft_task="SEQ_CLS"),
    "relevance": FormatNames(
        architecture=OF_TEXTS, form=TEXTS, peft_task="SEQ_CLS", cross_encoder_activation="Sigmoid"
    ),
    "relevance_score": FormatNames(
        architecture=OF_TEXTS, form=TEXTS, peft_task="SEQ_CLS", cross_encoder_activation="Identity"
    ),
    "replaced_tokens": FormatNames(architecture="ForPreTraining", form="VECTORS"),
    "span": FormatNames(
        architecture="ForQuestionAnswering", form="SPANS", is_told_by_class=True, peft_task="QUESTION_ANS"
    ),
    "tags": FormatNames(
        architecture="ForTokenClassification", form="TOKENS", is_told_by_class=True, peft_task="TOKEN_CLS"
    ),
    "vectors": FormatNames(architecture="Model", form="VECTORS"),
}


def kind_with(attribute: str, value: str) -> str | None:
    """The first kind with this name in another format: `kind_with("problem_type", "regression")`."""
    return next((kind for kind, names in FORMATS.items() if getattr(names, attribute) == value), None)


def of_architecture(end: str) -> str | None:
    """The kind for a transformers class name with this ending; None if the weights determine it or it has no head."""
    found = (kind for kind, names in FORMATS.items() if names.architecture == end and names.is_told_by_class)
    return next(found, None)


def of_size(size: int) -> str:
    """The kind of a classifier with this number of outputs, if nothing else specifies it."""
    return "regression" if size == 1 else "classes"
