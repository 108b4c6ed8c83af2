"""Comparison of several runs: different settings, curves in shared charts, scores, times and environments.

Runs of different tasks are compared by their common values.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_tf.reports import curves, report, wording
from bert_tf.runtime import files

TEMPLATE = "report_compare.html.jinja"
NUM_COLOURS = 8  # reused by additional runs
NOT_COMPARED = ("output_dir",)
LOWER_IS_BETTER = ("loss", "error", "entropy", "perplexity")  # parts of score names
# Flags that determine a run's evaluation data without eval_file.
EVALUATED = ("data_dir", "train_file", "input_file", "eval_fraction", "fold", "tfds_name", "predict_file")
NOT_RANKED = ("thresh", "total")  # suffixes of score names


def compare(folders: Sequence[str]) -> dict[str, Any]:
    """Compares run folders; returns plain data.

    "runs": [{"name", "folder", "task", "summary", "command", "parameters", "seconds"}]; "kinds": their tasks. "scores"
    and "phases": {name: one value per run, None if missing}; for a sweep, means of its best combination over the
    seeds, with their standard deviations in "deviations". "is_ranked": whether all were evaluated on the same rows
    with the same labels. "baselines": {criterion and model: one text per run}. By the titles "Flags", "Model",
    "Versions", "Machine": "settings", {name: one value per run} for those that differ, "same", the number of equal
    ones, and "missing", the names that some runs lack. "notes": sentences. Raises UserError like `report.read`.
    """
    files = [report.read(folder) for folder in folders]
    runs = [each["run"] for each in files]
    tasks = list(dict.fromkeys(str(run.get("name")) for run in runs))
    sections = {"Flags": "flags", "Model": "config", "Versions": "versions", "Machine": "machine"}
    tables = {title: _table([run.get(name) for run in runs]) for title, name in sections.items()}
    for name in NOT_COMPARED:
        tables["Flags"].pop(name, None)
    own_scores, deviations = zip(*map(_scores, files), strict=True)
    scores = _table(own_scores, shared=len(tasks) > 1)
    is_ranked = len({_evaluated_on(each) for each in files}) == 1
    return {
        "runs": [
            {
                "name": name,
                "folder": folder,
                "task": report.subject(run),
                "summary": report.summary(run, each["metrics"]),
                "command": run.get("command"),
                "parameters": run.get("parameters"),
                "seconds": _seconds(run),
            }
            for name, folder, run, each in zip(short_names(folders), folders, runs, files, strict=True)
        ],
        "kinds": tasks,
        "scores": scores,
        "baselines": _table(map(_baselines, runs), shared=False),
        "deviations": {name: [own.get(name) for own in deviations] for name in scores},
        "is_ranked": is_ranked,
        "settings": {
            title: {name: values for name, values in table.items() if not _are_equal(values)}
            for title, table in tables.items()
        },
        "same": {title: sum(map(_are_equal, table.values())) for title, table in tables.items()},
        "missing": {title: _missing([run.get(name) for run in runs]) for title, name in sections.items()},
        "phases": _table([run.get("phases") or run.get("phases_of_best") for run in runs], shared=False),
        "notes": _notes(tasks, own_scores, scores, is_ranked=is_ranked),
    }


def write(folders: Sequence[str], path: str) -> str:
    """Writes the page that compares the runs in `folders`; returns its path."""
    comparison = compare(folders)
    styles = [f"run-{number % NUM_COLOURS}" for number in range(len(folders))]
    for run, style in zip(comparison["runs"], styles, strict=True):
        run["style"] = style
    read = [report.read(folder) for folder in folders]
    labelled = zip([run["name"] for run in comparison["runs"]], styles, [each["metrics"] for each in read], strict=True)
    data = {report.evaluated_on(each["run"]) for each in read}
    evaluated_on = data.pop() if len(data) == 1 else "the data of each run"
    longest = max((seconds or 0 for values in comparison["phases"].values() for seconds in values), default=0) or 1
    return report.write_page(
        path,
        TEMPLATE,
        **comparison,
        best={
            name: best_of(name, values) if comparison["is_ranked"] else []
            for name, values in comparison["scores"].items()
        },
        charts=curves.charts_of_runs(
            labelled, shared=len(comparison["kinds"]) > 1, evaluated_on=report.curve_label(evaluated_on)
        ),
        evaluated_on=evaluated_on,
        longest=longest,
    )


def short_names(folders: Sequence[str]) -> list[str]:
    """The shortest distinct ends of the paths: ["runs/a/export", "runs/b"] -> ["export", "b"]."""
    paths = [files.absolute(folder).split(os.sep) for folder in folders]
    names = list(folders)
    for count in range(1, max(map(len, paths)) + 1):
        names = ["/".join(path[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({number})" for number, name in enumerate(names, 1)]  # the same folder appears twice


def _baselines(run: Mapping[str, Any]) -> dict[str, str]:
    """{"Accuracy of a simpler model": its text}, for the run's criterion."""
    criterion = str(run.get("criterion"))
    found = {model: scores.get(criterion) for model, scores in report.baselines_of(run).items()}
    return {f"{wording.words(criterion)}, {model}": text for model, text in found.items() if text}


def best_of(name: str, values: Sequence[Any]) -> list[int]:
    """The indices of the best of these scores; none if they cannot be ranked or are equal."""
    if name.endswith(NOT_RANKED) or not all(map(curves.is_number, values)) or _are_equal(values):
        return []
    best = (min if any(part in name for part in LOWER_IS_BETTER) else max)(values)
    return [index for index, value in enumerate(values) if value == best]


def _table(columns: Iterable[Any], *, shared: bool = True) -> dict[str, list[Any]]:
    """{name: one value per column, None if missing} from dictionaries; shared: only names common to all."""
    columns = [report.dictionary(column) for column in columns]
    names = dict.fromkeys(name for column in columns for name in column)
    return {
        name: [column.get(name) for column in columns]
        for name in names
        if not shared or all(name in column for column in columns)
    }


def _scores(files: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The scores of a run, and {}; for a sweep the means of the best combination, and their standard deviations."""
    best = next((row for row in (files["sweep"] or {}).get("rows", ()) if row["is_best"]), None)
    if best is None or not curves.is_number(best["runs"]) or best["runs"] < 2:
        return _distinct(files["scores"]), {}
    cells = dict(zip(files["sweep"]["scores"], best["cells"], strict=True))
    names = [name for name in _distinct(files["scores"]) if name in cells]
    return {name: cells[name][0] for name in names}, {name: cells[name][1] for name in names}


def _seconds(run: Mapping[str, Any]) -> float | None:
    phases = report.dictionary(run.get("phases") or run.get("phases_of_best"))
    seconds = [value for value in phases.values() if curves.is_number(value)]
    return sum(seconds) if seconds else None


def _evaluated_on(files: Mapping[str, Any]) -> str:
    """Everything except the model that affects the scores of a run: task, files, labels and their counts."""
    run, details = files["run"], report.dictionary(files["details"])
    flags = report.dictionary(run.get("flags"))
    source = flags.get("eval_file") or [flags.get(name) for name in EVALUATED]
    labels = {
        split: [(row.get("label"), row.get("count")) for row in tables.get("per_class") or () if isinstance(row, dict)]
        for split, tables in details.items()
        if isinstance(tables, dict)
    }
    vocabulary = None if files["kind"] else report.dictionary(run.get("config")).get("vocab_size")  # for masked LM
    return repr((run.get("name"), source, sorted(labels.items()), vocabulary))


def _missing(columns: Sequence[Any]) -> list[str]:
    return [name for name in _table(columns, shared=False) if name not in _table(columns)]


def _distinct(scores: Mapping[str, Any]) -> dict[str, Any]:
    """The scores except those that repeat the loss."""
    return {name: value for name, value in scores.items() if name == "loss" or value != scores.get("loss")}


def _are_equal(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)


def _notes(
    tasks: Sequence[str], scores: Iterable[Mapping[str, Any]], compared: Mapping[str, Any], *, is_ranked: bool
) -> list[str]:
    if len(tasks) == 1:
        other = "These runs were not evaluated on the same rows with the same labels, so none is marked as best."
        return [] if is_ranked else [other]
    notes = [f"These runs have different tasks ({', '.join(tasks)}): only their common scores are compared."]
    left_out = [name for name in dict.fromkeys(name for own in scores for name in own) if name not in compared]
    notes += [f"Omitted because not all runs have it: {', '.join(left_out)}."] * bool(left_out)
    notes += ["Scores are on different data sets, so none is marked as best."] * bool(compared)
    return notes
