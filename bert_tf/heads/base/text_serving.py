"""The export of a head on texts: texts, pairs or choices to predictions, all of it in the graph.

B texts, C choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bert_tf.heads.base.staged_signature import staged_signature
from bert_tf.model.sequence_packing import PackingSpec
from bert_tf.runtime.lazy import keras, tf
from bert_tf.text.tokenizer import Tokenizer

Tensors = dict[str, "tf.Tensor"]


def signatures(head: Any, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
    """The predictions of a TextHead, and the name of the "label", string [B], for texts.

    serving_default: string [B] each of `text_a` and, for pairs, `text_b`; of a choice `text_a` and `choices` [B, C].
    tf_example: `examples`, string [B], each a serialized tf.Example with these as features.
    """
    shapes = head.input_shapes(head.texts)

    def read(*texts: tf.Tensor) -> tuple[Tensors, Tensors]:  # string [B] or [B, C] each
        columns = [text if len(text.shape) == 2 else text[:, None] for text in texts]
        return head.inputs(tokenizer, tf.concat(columns, 1)), {}

    def compute(rows: Tensors) -> Tensors:
        return head.predictions(model(rows, packing=PackingSpec.dynamic()))

    def answer(predictions: Tensors, rest: Tensors) -> Tensors:
        return {**predictions, **head.label_names(predictions)}

    def predict_examples(examples: tf.Tensor) -> Tensors:
        features = {name: tf.io.FixedLenFeature(shape, tf.string) for name, shape in shapes.items()}
        # In a graph the same one, traced once; eagerly, when an export is compared, none.
        function = serving_default.python_function if tf.executing_eagerly() else serving_default
        return function(**tf.io.parse_example(examples, features))

    specs = [tf.TensorSpec([None, *shape], tf.string, name) for name, shape in shapes.items()]
    is_static = head.windows is None and head.rows_per_example == 1 and model.encoder.takes_row_tables
    serving_default = staged_signature(read, compute, answer, specs, is_static=is_static)
    examples = [tf.TensorSpec([None], tf.string, "examples")]
    tf_example = tf.function(predict_examples, input_signature=examples, autograph=False)
    return {"serving_default": serving_default, "tf_example": tf_example}


def serialized(values: Mapping[str, list]) -> list[bytes]:
    """Rows of {input: values} as serialized tf.Examples."""
    rows = zip(*values.values(), strict=True)
    return [_serialize(dict(zip(values, row, strict=True))) for row in rows]


def _serialize(row: Mapping[str, str | list[str]]) -> bytes:
    features = {}
    for name, value in row.items():
        texts = [text.encode() for text in ([value] if isinstance(value, str) else value)]
        features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
