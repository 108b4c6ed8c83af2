"""tensorflow-text, whose kernels split texts, or one sentence where it is not installed."""

from bert_tf.errors import UserError

try:
    import tensorflow_text as tf_text
except ModuleNotFoundError as error:
    if error.name != "tensorflow_text":
        raise
    raise UserError(
        "tensorflow-text, which splits texts into tokens, is not installed: pip install tensorflow-text~=2.21.0; there "
        "is none for Windows, where Linux in WSL runs it."
    ) from None

# Of the public function the kernel alone: its assertions are state to a saved iterator.
from tensorflow_text.python.ops.regex_split_ops import gen_regex_split_ops

regex_split = gen_regex_split_ops.regex_split_with_offsets

__all__ = ["regex_split", "tf_text"]
