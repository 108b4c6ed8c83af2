"""Imports Keras, and TensorFlow, without their messages: import this before Keras."""

import sys

from bert_tf.runtime import lazy
from bert_tf.runtime.tensorflow_startup import no_messages

if "keras" not in sys.modules:
    with no_messages():
        _ = lazy.keras.layers
