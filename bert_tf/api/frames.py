"""Results as pandas DataFrames: `as_frame=True`."""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf.heads.base.answers import Prediction
from bert_tf.runtime.lazy import module

pandas = module("pandas", "as_frame=True needs the package pandas: pip install pandas.")

if TYPE_CHECKING:
    import pandas as pd


def of_predictions(results: Sequence[Prediction], index: Any) -> "pd.DataFrame":
    """A row for each example: label, value for regression, "probability LABEL" for each label."""
    rows = [
        {"label": each.label}
        | ({} if each.value is None else {"value": each.value})
        | {f"probability {label}": probability for label, probability in each.probabilities.items()}
        for each in results
    ]
    return _frame(rows, index, columns=None if rows else ["label"])


def of_vectors(vectors: "np.ndarray", index: Any) -> "pd.DataFrame":
    """A row for each text, with a column for each dimension."""
    return _frame(vectors, index)


def of_lists(results: Sequence[Iterable[Any]], index: Any, kind: type) -> "pd.DataFrame":
    """A row for each result of each text, with the text's index in a Series or DataFrame, or its number."""
    lists = [list(found) for found in results]
    numbers = pandas.RangeIndex(len(lists)) if index is None else index
    repeated = numbers.repeat(np.array([len(found) for found in lists], np.int64))
    return of_records(list(itertools.chain.from_iterable(lists)), repeated, kind)


def of_records(results: Sequence[Any], index: Any, kind: type) -> "pd.DataFrame":
    """A row for each dataclass in the results, with a column for each plain value."""
    names = [field.name for field in dataclasses.fields(kind) if field.name not in ("n_best", "null_score")]
    return _frame([[getattr(each, name) for name in names] for each in results], index, columns=names)


def _frame(rows: Any, index: Any, columns: Sequence[str] | None = None) -> "pd.DataFrame":
    return pandas.DataFrame(rows, index=index, columns=columns)
