"""The export of a head on texts: texts, pairs or choices to predictions, all of it in the graph.

B texts, C choices.
"""

from __future__ import annotations

from typing import Any

from bert_tf.heads.base.string_signature import string_signature
from bert_tf.model.sequence_packing import PackingSpec
from bert_tf.runtime.lazy import keras, tf
from bert_tf.text.tokenizer import Tokenizer

Tensors = dict[str, "tf.Tensor"]


def signatures(head: Any, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
    """The predictions of a TextHead, and the name of the "label", string [B], for texts.

    serving_default: string [B] each of `text_a` and, for pairs, `text_b`; of a choice `text_a` and `choices` [B, C].
    """
    shapes = head.input_shapes(head.texts)

    def read(*texts: tf.Tensor) -> tuple[Tensors, Tensors]:  # string [B] or [B, C] each
        columns = [text if len(text.shape) == 2 else text[:, None] for text in texts]
        return head.inputs(tokenizer, tf.concat(columns, 1)), {}

    def compute(rows: Tensors) -> Tensors:
        return head.predictions(model(rows, packing=PackingSpec.dynamic()))

    def answer(predictions: Tensors, rest: Tensors) -> Tensors:
        return {**predictions, **head.label_names(predictions)}

    specs = [tf.TensorSpec([None, *shape], tf.string, name) for name, shape in shapes.items()]
    return {"serving_default": string_signature(read, compute, answer, specs)}
