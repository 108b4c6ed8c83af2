"""tensorflow-text, whose kernels split texts; an error with its reason if it is not installed."""

from typing import Any

from bert_tf.runtime.lazy import module

MISSING = (
    "tensorflow-text, which splits texts into tokens, is not installed ({reason}): pip install tensorflow-text, of the "
    "minor version that TensorFlow has; there is none for Windows, where Linux in WSL runs it."
)
tf_text, regex_split_ops = (
    module(name, MISSING) for name in ("tensorflow_text", "tensorflow_text.python.ops.regex_split_ops")
)


def regex_split(*arguments: Any) -> Any:
    """The kernel of `tf_text.regex_split_with_offsets` without its assertions, which are state in saved iterators."""
    return regex_split_ops.gen_regex_split_ops.regex_split_with_offsets(*arguments)
