"""BERT for TensorFlow 2: pre-training from your own text, fine-tuning and serving.

Importing the package imports neither TensorFlow nor Keras, so that user errors are reported at once and worker
processes that only read files stay small. Import the module you need:
`from bert_tf.config.bert_config import BertConfig`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from bert_tf.checkpoints.pretrained import Loaded

__version__ = "0.1.0"


def load(path: "str | os.PathLike[str]", format_name: str | None = None) -> "Loaded":
    """Reads a checkpoint in any format, a run or an export as a Keras model: see `checkpoints.pretrained.load`."""
    from bert_tf.checkpoints import pretrained

    return pretrained.load(path, format_name)
