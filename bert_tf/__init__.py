"""BERT for TensorFlow 2: pre-training from your own text, fine-tuning and serving.

Importing the package imports neither TensorFlow nor Keras, so that a mistake in a flag is reported at once and worker
processes that only read files stay small. Import the module you need: `from bert_tf.config import BertConfig`.
"""

__version__ = "0.1.0"
