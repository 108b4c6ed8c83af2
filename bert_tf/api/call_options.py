"""Arguments of `bert_tf.load` and of `Bert`'s methods: types of texts and options, and checks of their values."""

import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict

from bert_tf.api.texts import SINGLE, as_text, elements
from bert_tf.errors import UserError

One = str | tuple[Any, ...]  # the texts of one example
LongTexts = Literal["cut", "windows"]
Many = Iterable[Any]  # texts of several examples: a list, Series, DataFrame, array, tf.data.Dataset, generator


class Reading(TypedDict, total=False):
    """Options for reading texts; see `Bert.predict`."""

    is_split_into_words: bool
    batch_size: int


class Embedding(Reading, total=False):
    """Options of `Bert.embed`."""

    layers: str
    pooling: str | None
    normalize: bool | None
    prompt_name: str | None
    prompt: str | None
    truncate_dim: int | None
    max_seq_length: int | None
    long_texts: LongTexts | None


class Hypotheses(TypedDict, total=False):
    """Options of `Bert.zero_shot`."""

    multi_label: bool
    hypothesis_template: str


SWITCHES = (
    *("as_frame", "is_split_into_words", "multi_label", "normalize", "trust_code", "new_head"),
    *("overwrite", "attention", "private"),
)
TEXTS = (
    *("layers", "pooling", "prompt_name", "prompt", "long_texts", "hypothesis_template", "label"),
    *("format_name", "segments", "kind", "format", "precision", "revision", "message"),
)
LEAST = {"batch_size": 1, "truncate_dim": 1, "max_seq_length": 1, "count": 0, "num_texts": 1}  # minimum of each integer
NEVER_NONE = (
    "batch_size",
    "format",
    "precision",
    "message",
    "layers",
    "hypothesis_template",
    "label",
    "as_frame",
    "is_split_into_words",
    "multi_label",
)


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call as plain values; UserError for a value of the wrong type or a number below its minimum."""
    return {
        name: value if value is None and name not in NEVER_NONE else _checked(name, value)
        for name, value in options.items()
    }


def _checked(name: str, value: Any) -> Any:
    if name in SWITCHES:
        if type(value).__name__ not in ("bool", "bool_") and not (isinstance(value, int) and value in (0, 1)):
            raise UserError(f"{name} is {value!r}; expected True or False.")
        return bool(value)
    if name in LEAST:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise UserError(f"{name} is {value!r}; expected a whole number.")
        if operator.index(value) < LEAST[name]:
            raise UserError(f"{name} is {value}; expected {LEAST[name]} or more.")
        return operator.index(value)
    if name in TEXTS:
        if not isinstance(value, SINGLE):
            raise UserError(f"{name} is {value!r}; expected a string.")
        return as_text(value, name)
    if name == "labels":
        return _labels(value)
    if name == "special_tokens_in_strings" and not isinstance(value, bool):
        if isinstance(value, SINGLE) or not isinstance(value, Iterable):
            raise UserError(f"{name} is {value!r}; expected True, False or a list of tokens.")
        return [as_text(each, f"A token of {name}") for each in elements(value, name)]
    return value


def _labels(value: Any) -> list[str] | int:
    """The labels of a head, or their number."""
    if hasattr(value, "__index__") and not isinstance(value, bool) and not getattr(value, "ndim", 0):
        if operator.index(value) < 1:
            raise UserError(f"labels is {value}; expected the names of the labels, or their number, 1 or more.")
        return operator.index(value)
    if isinstance(value, SINGLE) or not isinstance(value, Iterable):
        raise UserError(f"labels is {value!r}; expected the names of the labels, or their number.")
    names = [as_text(each, "A label") for each in elements(value, "labels")]
    if not names or len(set(names)) < len(names):
        raise UserError(f"The labels are {', '.join(names) or 'none'}; expected different names.")
    return names


def checked_path(
    path: Any, name: str = "path", expected: str = "the path of a folder or the name of a published checkpoint"
) -> str:
    """The path as a string; UserError for anything that is not a path, and for an empty one."""
    found = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(found, str) or not found:
        raise UserError(f"{name} is {path!r}; expected {expected}.")
    return found
