"""The vector of a text, which texts are compared and found by (Reimers and Gurevych 2019)."""

from __future__ import annotations

from collections.abc import Sequence

from bert_tf.heads.base.answers import BaseAnswer, RawOutputs
from bert_tf.heads.base.head import Head, Outputs


class Vectors(Head):
    """Pools the tokens of the encoder; it has no weights of its own."""

    kind = form = "vectors"
    model_class = "BertModel"
    weights = ""
    architecture = "Model"
    has_pipeline = False
    pipeline_tag, phrase = "feature-extraction", "returns embeddings of tokens and texts"
    method, call = "embed(texts)", 'embed(["A text."])'
    signature_inputs = (frozenset({"text"}),)
    signature_outputs = frozenset({"vectors"})

    @classmethod
    def answer(cls, outputs: Outputs, labels: Sequence[str]) -> BaseAnswer:
        """The outputs of the signature."""
        return RawOutputs.of(outputs)


HEAD = Vectors
