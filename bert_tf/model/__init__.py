"""BERT as Keras layers and models. Never sees strings, files or tf.data."""
