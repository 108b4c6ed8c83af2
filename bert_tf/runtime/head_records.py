"""Records of how a head answers: task.json of a run, labels.json of a checkpoint, host.json of an export."""

from collections.abc import Mapping
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.run_files import Kinds, check_known, read_checked
from bert_tf.runtime.settings import (
    FLAG,
    OBJECT,
    TEXT,
    TEXTS,
    Kind,
    Settings,
    check,
    list_of,
    number,
    one_of,
    optional,
    whole,
)

TASK = "task.json"
HEAD_KINDS: Mapping[str, Kind[Any]] = {
    **dict.fromkeys(("task", "kind"), TEXT),
    "labels": TEXTS,
    "temperature": number(above=0),
    "thresholds": list_of(number(0, 1), "numbers from 0 to 1"),
}
MOST = 1 << 20
LENGTH, POSITIVE, COUNT = whole(3, MOST), whole(1, MOST), whole(0, MOST)
LAYER: Kind[dict[str, Any]] = Kind(
    "a layer with kind, activation, is_residual and arrays",
    lambda value: (
        isinstance(value, dict)
        and value.get("kind") in ("dense", "layer_norm", "normalize")
        and value.get("activation", "identity") in ("identity", "tanh", "relu", "gelu", "sigmoid", "silu")
        and FLAG.holds(value.get("is_residual", False))
        and OBJECT.holds(value.get("arrays"))
    ),
)
TOKEN_POOLINGS = ("cls", "mean", "max", "mean_max", "mean_sqrt_len", "weighted_mean", "last")
POOLING: Kind[str] = Kind(
    f"one of pooled, {', '.join(TOKEN_POOLINGS)}, or several joined by +",
    lambda value: isinstance(value, str) and (value == "pooled" or set(value.split("+")) <= set(TOKEN_POOLINGS)),
)
OF_HOST: Mapping[str, Kinds] = {  # {stages: `host_settings` of the heads}; third-party stages have their own
    "texts": {
        "texts": whole(1, 1000),
        "max_seq_length": LENGTH,
        "truncation": optional(one_of("longest_first", "only_first", "only_second")),
        "windows": {**dict.fromkeys(("stride", "most"), POSITIVE), "pooling": one_of("mean", "max")},
    },
    "tags": {
        "scheme": one_of("iob1", "iob2", "bioes", "plain"),
        "windows": {"max_seq_length": LENGTH, "stride": POSITIVE},
    },
    "questions": {
        "windows": {
            **dict.fromkeys(("doc_stride", "separators"), POSITIVE),
            "max_seq_length": LENGTH,
            "max_query_length": COUNT,
        },
        "search": {
            **dict.fromkeys(("n_best_size", "max_answer_length"), POSITIVE),
            "temperature": number(above=0),
            "threshold": number(),
            "has_null": FLAG,
        },
    },
    "masks": {"lm_kind": one_of("masked", "left_to_right", "both_ways"), "predictions": POSITIVE},
    "vectors": {
        "unit": one_of("token", "word", "sentence"),
        "pooling": POOLING,
        "word_vectors": one_of("first", "mean"),
        "words": one_of("text", "spaces"),
        "max_seq_length": LENGTH,
        "stride": COUNT,
        "truncate_dim": optional(POSITIVE),
        "prompt": TEXT,
        **dict.fromkeys(("include_prompt", "is_normalized_last"), FLAG),
        "after": list_of(LAYER, "layers"),
    },
}
OF_TASK: Kinds = {**HEAD_KINDS, "calibration": OBJECT}


def read_task(folder: files.StrPath) -> dict[str, Any]:
    """task.json: the task and its head's output, see `Checkpoint.answers`; {} if missing or unreadable."""
    values = read_checked(folder, TASK, OF_TASK)
    check_host(values.inside("host"))
    return values


def check_task(values: Settings) -> None:
    """Raises UserError for a value of an unexpected kind in task.json or labels.json."""
    check_known(values, OF_TASK)
    check_host(values.inside("host"))
    check_thresholds(values)


def check_host(values: Settings) -> None:
    """Raises UserError for a missing or unexpected value in the `host_settings` of a head, which may be empty."""
    if values:
        stages = check(values.source, f"{values.place}stages", values.get("stages"), TEXT)
        if stages in OF_HOST:
            check_present(values, OF_HOST[stages])
            _check_room(values.inside("windows"))


def _check_room(windows: Settings) -> None:
    """Raises UserError unless windows leave room for a text next to the question, or show every token of a text."""
    length = windows.get("max_seq_length")
    if length and "max_query_length" in windows:
        check_present(windows, {"max_query_length": whole(0, length - 3 - windows["separators"])})
    elif length and "stride" in windows:
        check_present(windows, {"stride": whole(1, length - 2)})


def check_present(values: Settings, kinds: Kinds) -> None:
    """Raises UserError for a missing value, or one of an unexpected kind; whole objects may be missing."""
    for name, kind in kinds.items():
        if isinstance(kind, Kind):
            check(values.source, values.place + name, values.get(name), kind)
        elif inner := values.inside(name):
            check_present(inner, kind)


def check_thresholds(values: Settings) -> None:
    """Raises UserError unless there are as many thresholds as labels, or no thresholds."""
    labels, thresholds = values.get("labels"), values.get("thresholds")
    if labels and thresholds and len(labels) != len(thresholds):
        raise UserError(
            f"{values.source} has {len(thresholds)} thresholds for {len(labels)} labels; expected one for each."
        )
