"""The signature `tf_example`, which TFX and Beam call: serialized tf.Examples in place of strings."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

NAME = "tf_example"


def signature(function: Any) -> Any:
    """A tf.function on `examples`, string [B], each a serialized tf.Example with a feature for each input.

    function: a tf.function on strings, [B] or [B, C] each.
    """
    features = {spec.name: tf.io.FixedLenFeature(spec.shape[1:], tf.string) for spec in function.input_signature}

    def predict_examples(examples: tf.Tensor) -> Any:
        # In a graph the given function, traced once; eagerly, during the comparison of an export, its Python function.
        called = function.python_function if tf.executing_eagerly() else function
        return called(**tf.io.parse_example(examples, features))

    specs = [tf.TensorSpec([None], tf.string, "examples")]
    return tf.function(predict_examples, input_signature=specs, autograph=False)


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
