"""The vector of a text, which texts are compared and found by (Reimers and Gurevych 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.heads.base.answers import BaseAnswer, RawOutputs
from bert_tf.heads.base.head import Head, Outputs


class Vectors(Head):
    """Pools the tokens of the encoder; it has no weights of its own."""

    kind = "vectors"
    model_class = "BertModel"
    weights = ""
    signature_inputs = (frozenset({"text"}),)
    signature_outputs = frozenset({"vectors"})

    @classmethod
    def tuned(cls, about: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> Any:
        """The `VectorGoal` that scores an export: of scored pairs, or of texts that belong together."""
        from bert_tf.heads.vectors import goals  # which defines a subclass of this one

        kind = goals.Similarities if about.get("task") == "vectors/sts" else goals.Positives
        return kind(SentenceVectors(str(about.get("pooling", "mean")), bool(about.get("normalize", True))))

    @classmethod
    def answer(cls, outputs: Outputs, labels: Sequence[str]) -> BaseAnswer:
        return RawOutputs.of(outputs)


HEAD = Vectors
