"""Starts TensorFlow without its messages and imports Keras: import this before Keras.

Raises UserError if one of them is not installed.
"""

import sys

from bert_tf.runtime import lazy
from bert_tf.runtime.tensorflow_startup import no_messages

if "keras" not in sys.modules:
    with no_messages():
        _ = lazy.keras.layers
