"""Several runs side by side: what was set otherwise, their curves in one plot, scores, times and environments.

Runs of different kinds are compared in what they share.
"""

import os

from bert_tf.reports import curves, report

TEMPLATE = "report_compare.html.jinja"
COLOURS = 8  # of curves; more runs take them again
NOT_COMPARED = ("output_dir",)
LOW_IS_GOOD = ("loss", "error", "entropy", "perplexity")
NEITHER = ("thresh", "total")  # ends of names of what is no score


def compare(folders):
    """What `write` shows, plain data.

    "runs": [{"name", "folder", "task", "summary", "command", "parameters"}]; "kinds": their tasks. "scores" and
    "phases": {name: one for each run, None where it has none}. By the titles "Flags", "Model", "Versions", "Machine":
    "settings", {name: one for each run} of those that are not alike, "same", how many are, and "missing", the names
    that not all runs have. "notes": sentences. Raises UserError as `report.read`.
    """
    read = [report.read(folder) for folder in folders]
    runs = [one["run"] for one in read]
    kinds = list(dict.fromkeys(str(run.get("name")) for run in runs))
    sections = {"Flags": "flags", "Model": "config", "Versions": "versions", "Machine": "machine"}
    tables = {title: _table([run.get(name) for run in runs]) for title, name in sections.items()}
    for name in NOT_COMPARED:
        tables["Flags"].pop(name, None)
    scores = _table([_once(one["scores"]) for one in read], shared=len(kinds) > 1)
    return {
        "runs": [
            {
                "name": name,
                "folder": folder,
                "task": str(run.get("name")),
                "summary": report.summary(run, one["metrics"]),
                "command": run.get("command"),
                "parameters": run.get("parameters"),
            }
            for name, folder, run, one in zip(names_of(folders), folders, runs, read, strict=True)
        ],
        "kinds": kinds,
        "scores": scores,
        "settings": {
            title: {name: values for name, values in table.items() if not _alike(values)}
            for title, table in tables.items()
        },
        "same": {title: sum(map(_alike, table.values())) for title, table in tables.items()},
        "missing": {title: _missing([run.get(name) for run in runs]) for title, name in sections.items()},
        "phases": _table([run.get("phases") for run in runs], shared=False),
        "notes": _notes(kinds, [_once(one["scores"]) for one in read], scores),
    }


def write(folders, path):
    """Writes the page that compares the runs in `folders`; returns its path."""
    found = compare(folders)
    styles = [f"run-{number % COLOURS}" for number in range(len(folders))]
    for run, style in zip(found["runs"], styles, strict=True):
        run["style"] = style
    metrics = [report.read(folder)["metrics"] for folder in folders]
    labelled = zip([run["name"] for run in found["runs"]], styles, metrics, strict=True)
    longest = max((seconds or 0 for values in found["phases"].values() for seconds in values), default=0) or 1
    return report.write_page(
        path,
        TEMPLATE,
        **found,
        best={name: best_of(name, values) for name, values in found["scores"].items()},
        charts=curves.side_by_side(list(labelled), shared=len(found["kinds"]) > 1),
        longest=longest,
    )


def names_of(folders):
    """The shortest ends of the paths that tell the runs apart: ["runs/a/export", "runs/b"] -> ["export", "b"]."""
    paths = [os.path.abspath(folder).split(os.sep) for folder in folders]
    for count in range(1, max(map(len, paths)) + 1):
        names = ["/".join(path[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({number})" for number, name in enumerate(names, 1)]  # a folder that was given twice


def best_of(name, values):
    """The places of the best of these scores; none where nothing can be said, or all are alike."""
    if name.endswith(NEITHER) or not all(map(curves.is_number, values)) or _alike(values):
        return []
    best = (min if any(part in name for part in LOW_IS_GOOD) else max)(values)
    return [place for place, value in enumerate(values) if value == best]


def _table(columns, *, shared=True):
    """{name: [one for each column, None where it has none]} of dictionaries; shared: of what all of them have."""
    columns = [report.dictionary(column) for column in columns]
    names = dict.fromkeys(name for column in columns for name in column)
    return {
        name: [column.get(name) for column in columns]
        for name in names
        if not shared or all(name in column for column in columns)
    }


def _missing(columns):
    return [name for name in _table(columns, shared=False) if name not in _table(columns)]


def _once(scores):
    """The scores without the losses of a part that is all there is."""
    return {name: value for name, value in scores.items() if name == "loss" or value != scores.get("loss")}


def _alike(values):
    return all(value == values[0] for value in values)


def _notes(kinds, scores, kept):
    if len(kinds) == 1:
        return []
    notes = [f"These runs learned different things ({', '.join(kinds)}): only what all of them have is compared."]
    left_out = [name for name in dict.fromkeys(name for own in scores for name in own) if name not in kept]
    notes += [f"Left out, as not all have it: {', '.join(left_out)}."] * bool(left_out)
    notes += ["Scores of the same name are of different data: none of them is marked as the best."] * bool(kept)
    return notes
