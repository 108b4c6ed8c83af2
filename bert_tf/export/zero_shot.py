"""Zero-shot classification: an NLI model decides which labels fit a text (Yin et al. 2019, arXiv:1909.00161).

Each label makes a hypothesis, such as "This example is sport.", and the text is its premise. The scores equal those of
the `transformers` pipeline.

B texts, L labels, C classes of the model. Free of TensorFlow.
"""

import string
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.errors import UserError
from bert_tf.export.text_function import TextFunction
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import THRESHOLD

TEMPLATE = "This example is {}."
SIGNATURE = "zero_shot"
PAIR = ["text_a", "text_b"]
ENTAILED, CONTRADICTED = "entail", "contradict"  # prefixes of the names of these classes


def is_entailment(inputs: Sequence[str], classes: Sequence[str]) -> bool:
    """Returns whether a model with these inputs and classes predicts if a text entails another."""
    return list(inputs) == PAIR and numbers_in(classes) is not None


def numbers_in(classes: Sequence[str]) -> tuple[int, int | None] | None:
    """The numbers of the classes entailment and contradiction, the latter None if unclear; None without the first."""
    names = [str(name).lower() for name in classes]
    entailed = [number for number, name in enumerate(names) if name.startswith(ENTAILED)]
    if len(entailed) != 1:
        return None
    others = [number for number, name in enumerate(names) if name.startswith(CONTRADICTED)]
    if len(names) == 2:
        others = [1 - entailed[0]]
    return entailed[0], others[0] if len(others) == 1 else None


class ZeroShot(TextFunction):
    """Classifies texts by labels chosen at use time.

    Args:
        pairs: an NLI model.
        classes: the names of its classes.
        labels: the labels for texts.
        multi_label: whether to decide each label independently, entailment against contradiction; otherwise one fits.
        hypothesis_template: the hypothesis, with {} in place of the label.

    Attributes:
        labels: the L labels.
    """

    head = Classes

    def __init__(
        self,
        pairs: TextFunction,
        classes: Sequence[str],
        labels: Sequence[str],
        *,
        multi_label: bool = False,
        hypothesis_template: str = TEMPLATE,
    ) -> None:
        """Raises UserError for any other kind of model, no labels, and a template without a place for them."""
        self.source, self.batch_size = pairs.source, pairs.batch_size
        self.inputs, self.has_order = {"text": None}, True
        numbers = numbers_in(classes) if list(pairs.inputs) == PAIR else None
        if numbers is None:
            names = f"the labels {', '.join(classes)}" if classes else "no labels"
            raise UserError(
                f"{pairs.source} takes {' and '.join(pairs.inputs)} and has {names}; expected an NLI model with a "
                "label entailment, such as one fine-tuned on MNLI."
            )
        if multi_label and numbers[1] is None:
            raise UserError(
                f"{pairs.source} has the labels {', '.join(classes)}, but not contradiction: remove multi_label."
            )
        self.labels = tuple(labels)
        self._pairs, self._classes, self._multi_label = pairs, classes, multi_label
        self._hypotheses = [text.encode() for text in hypotheses(labels, hypothesis_template)]

    def _run(self, columns: dict[str, list]) -> "dict[str, np.ndarray]":
        rows = [(text, hypothesis) for text in columns["text"] for hypothesis in self._hypotheses]
        parts = []
        for first in range(0, len(rows), self.batch_size):
            texts, others = zip(*rows[first : first + self.batch_size], strict=True)
            parts.append(logits_in(self._pairs._run({"text_a": list(texts), "text_b": list(others)}), self.source))
        logits = np.concatenate(parts).reshape(len(columns["text"]), len(self.labels), -1)
        found = probabilities(logits, self._classes, multi_label=self._multi_label)
        names = [named(row, self.labels, multi_label=self._multi_label).encode() for row in found]
        return {"label": np.array(names, object), "probabilities": found}


def logits_in(outputs: "Mapping[str, np.ndarray]", source: str) -> "np.ndarray":
    """The logits among the outputs of a model; UserError if it returns none."""
    if "logits" not in outputs:
        raise UserError(f"{source} returns no logits, which zero-shot classification needs.")
    return outputs["logits"]


def hypotheses(labels: Sequence[str], template: str) -> list[str]:
    """The hypothesis for each label; UserError for empty or equal labels, and for a template without {}."""
    if not labels or len(set(labels)) < len(labels) or not all(label.strip() for label in labels):
        raise UserError(
            f"The labels are {', '.join(map(repr, labels)) or 'none'}; expected distinct, non-empty labels."
        )
    try:
        places = [place for _, *place in string.Formatter().parse(template) if place[0] is not None]
    except ValueError:  # a brace without its other half
        places = []
    if places != [["", "", None]]:  # name, format and conversion
        raise UserError(
            f"hypothesis_template is {template!r}; expected a text with {{}} once, in place of the label. Braces of "
            "the text are doubled: {{ and }}."
        )
    return [template.format(label) for label in labels]


def probabilities(logits: "np.ndarray", classes: Sequence[str], *, multi_label: bool = False) -> "np.ndarray":
    """Probabilities of labels, float64 [B, L], from the logits [B, L, C] of their hypotheses.

    Labels are mutually exclusive. With multi_label, or if there is only one, each is decided independently: entailment
    against contradiction.
    """
    entailed, contradicted = numbers_in(classes) or (0, None)
    scores = logits[:, :, entailed].astype(np.float64)
    if contradicted is not None and (multi_label or logits.shape[1] == 1):
        return 1 / (1 + np.exp(np.clip(logits[:, :, contradicted] - scores, -700, 700)))
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def named(row: "np.ndarray", labels: Sequence[str], *, multi_label: bool) -> str:
    """The most probable label, or all positive labels, joined by commas; row: probabilities [L]."""
    if multi_label:
        return ",".join(label for label, value in zip(labels, row.tolist(), strict=True) if value > THRESHOLD)
    return labels[int(row.argmax())]
