"""What a table that is given alone is fine-tuned with: its columns, the run folder and the checkpoint to start from."""

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.data import tables
from bert_tf.errors import UserError

ROWS = 1000  # read to tell texts from labels
MOST_LABELS, MOST_LABELS_PER_ROW = 50, 0.3  # different values in a column of labels
START = "MiniLM-L12-H384-uncased"  # quick on a CPU, and nearly as good as BERT-base


def defaults(path: str, options: Mapping[str, str]) -> dict[str, str]:
    """Default flags for a table, and a line that says what was chosen, which is printed.

    options: flags with values that the user chose: text_columns, label_column, output_dir, init_checkpoint.

    Raises:
        UserError: the table cannot be read, or it is not clear which columns hold texts and labels.
    """
    rows = [row for _, row in itertools.islice(tables.read(path, malformed=[]), ROWS)]  # bad rows are reported later
    label = options.get("label_column") or label_column(path, rows)
    text = options.get("text_columns") or text_column(path, rows, label)
    chosen = {
        "task_name": "table",
        "label_column": label,
        "text_columns": text,
        "output_dir": os.path.join("runs", os.path.splitext(os.path.basename(path))[0]),
        "init_checkpoint": START,
    }
    chosen |= options
    print(
        f"{path}: texts from the column {chosen['text_columns']!r}, labels from {chosen['label_column']!r}; the run is "
        f"{chosen['output_dir']}, from {chosen['init_checkpoint'] or 'scratch'}.",
        flush=True,
    )
    return chosen


def label_column(path: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The column called label, or the only one with few different short values."""
    if "label" in rows[0]:
        return "label"
    candidates = [name for name in rows[0] if _is_label(_values(rows, name))]
    return _only(path, candidates, rows, "labels", "label")


def text_column(path: str, rows: Sequence[Mapping[str, Any]], label: str) -> str:
    """The column called text, or the one with by far the longest values."""
    if "text" in rows[0]:
        return "text"
    lengths = {name: sum(map(len, _values(rows, name))) for name in rows[0] if name != label}
    longest = max(lengths.values(), default=0)
    return _only(path, [name for name in lengths if longest and lengths[name] * 2 > longest], rows, "texts", "text")


def _values(rows: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    return [str(row[name]) for row in rows if row.get(name) not in (None, "")]


def _is_label(values: Sequence[str]) -> bool:
    """Whether there are several values, each of them often enough, and all short."""
    different = set(values)
    few = min(MOST_LABELS, max(2, MOST_LABELS_PER_ROW * len(values)))
    return 2 <= len(different) <= few and max(map(len, different)) <= 40


def _only(path: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]], kind: str, flag: str) -> str:
    if len(names) != 1:
        reason = f"{' and '.join(names)} may hold them" if names else "none looks like it"
        raise UserError(
            f"Which column of {path} holds the {kind}? {reason}; its columns: {', '.join(rows[0])}. Give --{flag}=NAME."
        )
    return names[0]
