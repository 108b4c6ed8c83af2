"""The JSON files of a run folder: values of other kinds than runs have."""

import copy
import json
import math

import pytest

from bert_tf.errors import UserError
from bert_tf.runtime import head_records, run_files

FILES = {
    "run.json": {
        "name": "table",
        "command": ["bert-tf", "finetune"],
        "flags": {"train_file": "a.csv", "text_columns": "text"},
        "data": {"splits": ["train: 5"], "notes": []},
        "baselines": [{"name": "the mean", "scores": {"accuracy": 0.5}}],
        "not_beaten": ["the mean"],
        "phases": {"train": 1.5},
        "text_statistics": {"train": {"examples": 5}},
        "process": 12,
    },
    "task.json": {"task": "table", "labels": ["a", "b"], "kind": "classes"},
    "eval_details.json": {"dev": {"per_class": [{}], "hardest": [{}], "confusion": [[1]], "confidence": {"bins": []}}},
}
READERS = {
    "run.json": run_files.read_run,
    "task.json": head_records.read_task,
    "eval_details.json": run_files.read_details,
}


NO_TEXT, NO_OBJECT, NO_LIST = (5, math.nan, [1], True), (5, math.nan, "x", [1], True), (5, math.nan, "x", True, [1], {})
PLACES = [  # and values that are not of their kinds
    *(("run.json", place, NO_TEXT) for place in ("name", "finished", "flags.train_file", "flags.text_columns")),
    *(("run.json", place, NO_OBJECT) for place in ("flags", "data", "phases", "text_statistics", "training")),
    *(("run.json", place, NO_LIST) for place in ("command", "not_beaten", "data.splits", "data.notes", "baselines")),
    ("run.json", "phases", [{"train": "x"}, {"train": math.nan}, {"train": 10**400}]),
    ("run.json", "baselines", [[{"name": "a"}], [{"scores": {}}], [{"name": "a", "scores": {"b": "x"}}]]),
    ("run.json", "process", ["x", -1, 10**400, 1.5, True]),
    *(("task.json", place, NO_TEXT) for place in ("task", "kind")),
    ("task.json", "labels", [*NO_LIST[:-1], {"a": 1}, [None]]),
    ("eval_details.json", "dev", NO_OBJECT),
    *(("eval_details.json", f"dev.{place}", NO_LIST) for place in ("per_class", "hardest", "confusion")),
    ("eval_details.json", "dev.confidence", NO_OBJECT),
]


@pytest.mark.parametrize(("name", "place", "bad"), PLACES)
def test_value_of_another_kind_is_named(tmp_path, name, place, bad):
    assert bad
    for value in bad:
        content = copy.deepcopy(FILES[name])
        *before, last = place.split(".")
        inner = content
        for each in before:
            inner = inner[each]
        inner[last] = value
        (tmp_path / name).write_text(json.dumps(content))
        with pytest.raises(UserError, match=f"{name}: {place} is .*; expected "):
            READERS[name](tmp_path)
    (tmp_path / name).write_text(json.dumps(FILES[name]))
    assert READERS[name](tmp_path) == FILES[name]


@pytest.mark.parametrize("name", FILES)
def test_missing_file_and_values_are_empty_and_a_list_is_refused(tmp_path, name):
    assert READERS[name](tmp_path) == {}
    (tmp_path / name).write_text("{")
    assert READERS[name](tmp_path) == {}
    (tmp_path / name).write_text("[1]")
    with pytest.raises(UserError, match=r"is \[1\]; expected an object"):
        READERS[name](tmp_path)
    content = dict.fromkeys(FILES[name])
    (tmp_path / name).write_text(json.dumps(content))
    assert READERS[name](tmp_path) == content
