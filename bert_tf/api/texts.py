"""Reads texts of any type: strings, lists, Series and DataFrames, NumPy arrays, tf.data.Datasets, generators.

Free of TensorFlow and pandas: their objects are recognized by their methods.
"""

import dataclasses
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_tf.errors import UserError, count_text

SINGLE = (str, bytes)
MAX_SHOWN = 60  # characters of a wrong value in a message
log = logging.getLogger("bert_tf")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Texts:
    """The texts of examples.

    Attributes:
        rows: the texts of each example.
        is_single: whether the input was a single example.
        index: the index of a Series or DataFrame, None for others.
    """

    rows: list[tuple[str, ...]]
    is_single: bool
    index: Any = None


def read(
    values: Any, names: Sequence[str], *, columns: Sequence[str] = (), name: str = "text", fewest: int | None = None
) -> Texts:
    """Returns the texts of examples.

    Args:
        values: a single example: a string; for several texts a tuple of strings, or a dictionary by column. Or
            several: any iterable of these, of lists or of array rows; a DataFrame; a dictionary of columns. Bytes are
            UTF-8.
        names: the model's names for the texts of an example.
        columns: their columns in the training table, for DataFrames and dictionaries.
        name: the name of one of `values` in messages.
        fewest: minimum number of texts per example, the same number for all; default: the length of `names`.

    Raises:
        UserError: a value is not text, such as None or NaN, or contains a lone surrogate, or an example has more or
            fewer texts than `names` (all with the position); or a column is missing.
    """
    values = by_names(values) if isinstance(values, Mapping) else values
    index, fewest = index_of(values), len(names) if fewest is None else fewest
    if fewest == 1 and len(names) > 1 and not _has_columns(values, names):
        values = columns_of(values, names[:1], columns)
    values = columns_of(values, names, columns)
    if isinstance(values, SINGLE) or _is_example(values):
        return Texts(rows=[_row(values, names, columns, f"The {name}", fewest)], is_single=True)
    several = elements(values, f"The {name}")
    rows = [_row(each, names, columns, f"{name.capitalize()} {number}", fewest) for number, each in enumerate(several)]
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise UserError(f"{name.capitalize()} {number} has {len(row)} texts, the first has {len(rows[0])}.")
    return Texts(rows=rows, is_single=False, index=index)


def warn_of_blank(texts: Texts) -> None:
    """Warns about examples without text, whose predictions are meaningless."""
    blank = [number for number, row in enumerate(texts.rows) if not any(text.strip() for text in row)]
    if blank:
        where = "" if texts.is_single else f" (the first is text {blank[0]})"
        log.warning("%s blank%s: ignore the predictions.", count_text(len(blank), "text is", "texts are"), where)


def _has_columns(values: Any, names: Sequence[str]) -> bool:
    """Returns whether a DataFrame or a dictionary of columns has all these names."""
    columns = values if isinstance(values, Mapping) else values.columns if is_frame(values) else ()
    return set(names) <= set(map(str, columns))


def by_names(row: Any) -> Any:
    """A row or columns with names as strings, since pandas names columns 0, 1, ...; other values unchanged."""
    if not isinstance(row, Mapping) or all(isinstance(name, str) for name in row):
        return row
    return {str(name): value for name, value in row.items()}


def index_of(values: Any) -> Any:
    """The index of a pandas Series or DataFrame, None for others."""
    return values.index if hasattr(values, "iloc") and hasattr(values, "index") else None


def paired(firsts: Texts, seconds: Texts) -> Texts:
    """Examples with two texts each; a single text is paired with each of several. UserError for unequal numbers."""
    rows, others = firsts.rows, seconds.rows
    if firsts.is_single:
        rows = rows * len(others)
    elif seconds.is_single:
        others = others * len(rows)
    if len(rows) != len(others):
        raise UserError(
            f"Got {len(rows)} questions and {len(others)} texts; expected equal numbers, or a single question or text."
        )
    pairs = [first + second for first, second in zip(rows, others, strict=True)]
    index = seconds.index if firsts.index is None else firsts.index
    return Texts(rows=pairs, is_single=firsts.is_single and seconds.is_single, index=index)


def is_frame(values: Any) -> bool:
    """Returns whether this is a DataFrame of pandas or polars."""
    return hasattr(values, "columns") and hasattr(values, "__getitem__") and hasattr(values, "to_dict")


def columns_of(values: Any, names: Sequence[str], columns: Sequence[str]) -> Any:
    """The rows of a DataFrame or a dictionary of columns, by training columns or names; other values unchanged."""
    is_table = isinstance(values, Mapping) and not any(isinstance(each, SINGLE) for each in values.values())
    if not is_table and not is_frame(values):
        return values
    own = {str(name): name for name in (values if isinstance(values, Mapping) else values.columns)}
    has = list(map(str, values if isinstance(values, Mapping) else values.columns))
    chosen = _chosen(has, names, columns, "The columns are")
    if len(own) < len(has):
        raise UserError(f"Several columns have the same name: {', '.join(has)}; expected different ones.")
    parts = [elements(values[own[each]], f"The column {each}") for each in chosen]
    return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))


def elements(values: Any, name: str) -> list[Any]:
    """The elements of any iterable, unbatched for a tf.data.Dataset. UserError for anything else."""
    if hasattr(values, "as_numpy_iterator"):
        return [each for element in values.as_numpy_iterator() for each in _unbatched(element)]
    values = values.numpy() if hasattr(values, "numpy") and hasattr(values, "dtype") else values  # a tf.Tensor
    if getattr(values, "ndim", 1) == 0:
        values = values.item() if hasattr(values, "item") else values
    if isinstance(values, Mapping) or is_frame(values):
        has = ", ".join(map(str, values if isinstance(values, Mapping) else values.columns))
        raise UserError(f"{name} is a table with the columns {has}; expected strings: pass one of its columns.")
    if isinstance(values, SINGLE) or not isinstance(values, Iterable):
        raise UserError(f"{name} is {_shown(values)}; expected a string, or several of them.")
    return list(values)


def _chosen(has: Sequence[Any], names: Sequence[str], columns: Sequence[str], start: str) -> Sequence[Any]:
    """The text columns: the training columns, those named like the model's inputs, "text", or the only column.

    The only column does not replace a training column with a different name.
    """
    known = [each for each in (columns, names, ["text"][: len(names) == 1]) if each]
    chosen = next((each for each in known if set(each) <= set(has)), None)
    if chosen is None and not columns and len(names) == len(has) == 1:
        chosen = has
    if chosen is None:
        expected = " or ".join(dict.fromkeys(", ".join(each) for each in known))
        raise UserError(f"{start} {', '.join(map(str, has))}; expected {expected}: rename or select them.")
    return chosen


def _is_example(values: Any) -> bool:
    """Returns whether a tuple or a dictionary is a single example: all its values are texts."""
    if getattr(values, "ndim", None) == 0:  # an array or a tensor with a single text
        return True
    parts = values.values() if isinstance(values, Mapping) else values if isinstance(values, tuple) else ()
    return bool(parts) and any(isinstance(each, SINGLE) for each in parts)


def _unbatched(element: Any) -> Iterator[Any]:
    """The examples in an element of a Dataset: the rows of a batch."""
    parts = list(element.values()) if isinstance(element, Mapping) else element
    parts = parts if isinstance(parts, tuple | list) else [parts]
    if not all(getattr(part, "ndim", 0) for part in parts):
        yield element
    elif isinstance(element, Mapping):
        yield from (dict(zip(element, row, strict=True)) for row in zip(*parts, strict=True))
    elif isinstance(element, tuple | list):
        yield from zip(*parts, strict=True)
    else:
        yield from element


def _row(value: Any, names: Sequence[str], columns: Sequence[str], place: str, fewest: int) -> tuple[str, ...]:
    """The texts of an example. place: the start of a message, such as "Text 3"."""
    if hasattr(value, "numpy") and hasattr(value, "dtype"):
        value = value.numpy()
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, Mapping):
        value = by_names(value)
        wanted = names if set(names) <= set(value) or fewest > 1 else names[:1]
        value = tuple(value[each] for each in _chosen(list(value), wanted, columns, f"{place} has the columns"))
    is_several = isinstance(value, tuple | list) or getattr(value, "ndim", 0) == 1
    parts = list(value) if is_several else [value]
    is_right = fewest <= len(parts) <= len(names)
    if not is_right and (is_several or isinstance(value, SINGLE)):
        count = "1 text was" if len(parts) == 1 else f"{len(parts)} texts were"
        takes = f"{len(names)}: {' and '.join(names)}" if fewest == len(names) else f"{fewest} to {len(names)}"
        raise UserError(
            f"{count} given for an example ({place[0].lower()}{place[1:]}); the model takes {takes}. "
            "Pass several examples as a list, the texts of one as a tuple."
        )
    return tuple(as_text(part, place) for part in parts)


def as_text(value: Any, place: str) -> str:
    """A value as text; UserError, with its place, if it is not text or not Unicode."""
    try:
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, str):
            value.encode()
            return str(value)
    except UnicodeDecodeError:
        raise UserError(f"{place} is {_shown(value)}, which is not UTF-8; expected text.") from None
    except UnicodeEncodeError:
        raise UserError(f"{place} is not Unicode: it has half a surrogate pair; expected text.") from None
    advice = 'remove it, or pass ""' if is_missing(value) else "convert it with str()"
    raise UserError(f"{place} is {_shown(value)}; expected a string: {advice}.")


def is_missing(value: Any) -> bool:
    """Returns whether a value is missing: None, NaN, NaT, or pandas' NA."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."


def listed(texts: Any) -> Any:
    """Texts split into words, as lists; from a Series, an array, a tf.data.Dataset or a generator."""
    if isinstance(texts, tuple | str):
        return texts
    several = elements(texts, "The text")
    return [_plain(each) for each in several]


def _plain(words: Any) -> Any:
    words = words.tolist() if hasattr(words, "tolist") else words
    if isinstance(words, list):
        return [_plain(each) for each in words]
    return words.decode() if isinstance(words, bytes) else words


def is_words(value: Any) -> bool:
    """Returns whether a value is one text split into words (not a list of such texts, such as an empty list)."""
    return isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)


def join_words(texts: Any, *, is_inner: bool = False, place: str = "") -> Any:
    """Joins the words of texts split into words: a text, a tuple of texts, or a list of either.

    Words joined by spaces get the same tokens as on their own. is_inner: whether an empty list is a text. UserError,
    with its place, for anything else, such as a text that is not split.
    """
    if is_words(texts) or (is_inner and texts == []):
        return " ".join(texts)
    if isinstance(texts, tuple):
        return tuple(join_words(each, is_inner=True, place=place) for each in texts)
    if isinstance(texts, list) and not is_inner:
        return [
            join_words(each, is_inner=not isinstance(each, tuple), place=f" as text {number}")
            for number, each in enumerate(texts)
        ]
    shown = str(texts)[:60]
    raise UserError(
        f"is_split_into_words expects lists of words; got {shown!r}{place}: split it, or omit is_split_into_words."
    )
