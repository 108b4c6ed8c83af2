"""Text embeddings, used to compare and find texts (Reimers and Gurevych 2019)."""

from __future__ import annotations

from collections.abc import Sequence

from bert_tf.heads.base.answers import BaseAnswer, RawOutputs
from bert_tf.heads.base.head import Head, Outputs


class Vectors(Head):
    """Pools the tokens of the encoder; it has no weights of its own."""

    kind = "vectors"
    model_class = "BertModel"
    weights = ""
    trained_by = "bert_tf.heads.vectors.goals"
    signature_inputs = (frozenset({"text"}),)
    signature_outputs = frozenset({"vectors"})

    @classmethod
    def answer(cls, outputs: Outputs, labels: Sequence[str]) -> BaseAnswer:
        return RawOutputs.of(outputs)


HEAD = Vectors
