"""Types of the arguments of a `Bert`'s methods: texts, and options by keyword."""

from collections.abc import Iterable
from typing import Any, Literal, TypedDict

One = str | tuple[Any, ...]  # the texts of one example
LongTexts = Literal["cut", "windows"]
Many = Iterable[Any]  # of several: a list, Series, DataFrame, array, tf.data.Dataset, generator


class Reading(TypedDict, total=False):
    """Options for reading the texts of a call; see `Bert.predict`."""

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
