"""Zero-shot classification as an additional signature of a served NLI model.

B instances per batch, L labels per instance.
"""

import numpy as np

from bert_tf.export import zero_shot
from bert_tf.serving.served import Arrays, HostSignature, Served, Signature

MAX_LABELS = 64
ROWS = 64  # pairs computed at once


def added(model: "Served") -> dict[str, Signature]:
    """{name: signature} for an NLI model, {} for any other."""
    default, classes = model.signatures["serving_default"], model.labels
    if not zero_shot.is_entailment(list(default.inputs), classes) or "logits" not in default.outputs:
        return {}
    has_contradiction = (zero_shot.numbers_in(classes) or (0, None))[1] is not None

    def answer(text: np.ndarray, labels: np.ndarray) -> Arrays:
        """From string [B] and string [B, L] to "label" [B] and probabilities [B, L]."""
        count = labels.shape[1]
        if not 1 <= count <= MAX_LABELS:
            raise ValueError(f"there are {count} labels; expected 1 to {MAX_LABELS}")
        texts = np.repeat(text, count)
        names = [[label.decode("utf-8", "replace") for label in row] for row in labels.tolist()]
        hypotheses = [text.encode() for row in names for text in zero_shot.hypotheses(row, zero_shot.TEMPLATE)]
        others = np.array(hypotheses, object)
        parts = [
            default({"text_a": texts[first : first + ROWS], "text_b": others[first : first + ROWS]})["logits"]
            for first in range(0, len(texts), ROWS)
        ]
        logits = np.concatenate(parts).reshape(len(text), count, -1)
        found = zero_shot.probabilities(logits, classes)
        best = np.take_along_axis(labels, found.argmax(1)[:, None], 1)[:, 0]
        outputs = {"label": best, "probabilities": found.astype(np.float32)}
        if has_contradiction:
            independent = zero_shot.probabilities(logits, classes, multi_label=True)
            outputs["independent_probabilities"] = independent.astype(np.float32)
        return outputs

    inputs = {"text": ("string", (None,)), "labels": ("string", (None, None))}
    numbers = (np.float32, (None, None))
    outputs = {"label": ("string", (None,)), "probabilities": numbers}
    outputs |= {"independent_probabilities": numbers} if has_contradiction else {}
    return {zero_shot.SIGNATURE: HostSignature(answer, inputs, outputs)}
