"""report.html of one run: a single page created from the files in its run folder.

A run is a dictionary: run.json as "run", the lines of metrics.jsonl as "metrics", the contents of other files.
"""

import importlib.resources
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from bert_tf import heads
from bert_tf.errors import UserError, count_text
from bert_tf.heads.multi_label import MultiLabel
from bert_tf.reports import curves, published_scores, scoreboard, text_statistics
from bert_tf.reports.wording import (
    SUBSET_ACCURACY,
    code,
    command,
    deviation_text,
    duration,
    exact_text,
    percent_text,
    prose,
    refitted,
    score_text,
    value_text,
    words,
)
from bert_tf.runtime import atomic_files, files, head_records, run_files
from bert_tf.runtime.json_files import parse, read_json, read_object
from bert_tf.runtime.lazy import module

jinja2 = module("jinja2")
TEMPLATE = "report.html.jinja"
# Values taken from the best run of a sweep for all of them.
OF_BEST_RUN = "config parameters text_statistics data criterion baselines not_beaten collapsed".split()


def read(folder: str) -> dict[str, Any]:
    """Reads the files of a run folder.

    Returns {"run", "metrics", "scores", "details", "examples", "deployments", "sweep", "kind", "manifest"}: run.json,
    metrics.jsonl, eval_results.json, eval_details.json, examples.json, deployments.json, sweep.json, the head kind in
    task.json, and records/manifest.json; all but the first may be missing. Raises UserError if there is neither a
    readable run.json nor a sweep.
    """
    run = run_files.read_run(folder)
    sweep = scoreboard.sweep_table(read_json(os.path.join(folder, "sweep.json")))
    if sweep and not run:
        run = {"name": os.path.basename(files.absolute(folder))}
    if sweep:
        best = run_files.read_run(os.path.join(folder, str(sweep["best"])))
        run = {**{name: best[name] for name in OF_BEST_RUN if name in best}, **run}
        run["phases_of_best"] = best.get("phases")
    if not run:
        raise UserError(f"{folder} has no readable run.json: pass a run folder.")
    return {
        "run": run,
        "sweep": sweep,
        "metrics": _read_lines(os.path.join(folder, "metrics.jsonl")),
        "scores": read_object(os.path.join(folder, "eval_results.json")),
        "details": run_files.read_details(folder),
        "examples": read_object(os.path.join(folder, "examples.json")),
        "deployments": read_json(os.path.join(folder, "deployments.json")),
        "kind": head_records.read_task(folder).get("kind"),
        "manifest": read_object(os.path.join(folder, "records", "manifest.json")),
    }


def write_report(folder: str, path: str | None = None) -> str:
    """Writes the report of the run in `folder`, by default to report.html there, and returns its path."""
    content = read(folder)
    run, details = content["run"], content["details"]
    classes, questions = scoreboard.class_details(details), scoreboard.question_details(details)
    statistics = dictionary(run.get("text_statistics"))
    scores = scoreboard.final_scores(content["scores"], run.get("name"), bool(classes or questions))
    return write_page(
        path or os.path.join(folder, "report.html"),
        TEMPLATE,
        title=os.path.basename(files.absolute(folder)),
        run={name: run.get(name) for name in ("config", "flags", "versions", "machine")},
        subject=subject(run),
        data=data_of(run),
        evaluated_on=evaluated_on(run),
        titles=titles(content["kind"]),
        balancing=heads.shown(content["kind"]).wording().balancing_beyond(dictionary(run.get("flags"))),
        summary=summary(run, content["metrics"]),
        scores=_shown(scores),
        baselines=baselines_of(run),
        not_beaten=run.get("not_beaten") or [],
        collapsed=run.get("collapsed"),
        refitted=refitted(run),
        verdict=text_statistics.verdict(content["scores"], classes),
        sizes=_sizes(run) if any(known for *_, known in scores) else "",
        scatters=scoreboard.scatter_details(details),
        charts=curves.charts(content["metrics"], content["scores"], curve_label(evaluated_on(run))),
        examples=_examples(content["examples"]),
        sweep=content["sweep"],
        splits=classes,
        questions=questions,
        deployments=scoreboard.deployment_table(content["deployments"]),
        confidences=scoreboard.confidence_details(details),
        statistics=text_statistics.table(dictionary(content["manifest"].get("statistics"))),
        text_statistics=text_statistics.table(statistics),
        text_lengths=text_statistics.histograms(statistics),
        warnings=content["manifest"].get("warnings") or [],
        phases=_phases(dictionary(run.get("phases"))),
        command=command(run.get("command")),
    )


def write_page(path: str, template: str, **values: Any) -> str:
    """Renders a template of this package into a file, completely or not at all; returns the path."""
    atomic_files.write_lines(path, [render(template, **values)])
    return path


def render(template: str, **values: Any) -> str:
    """Renders a template of this package; values are escaped in pages, not in Markdown."""
    return _template(template).render(**values)


def _template(name: str) -> Any:
    files = importlib.resources.files("bert_tf.reports")
    loader = jinja2.FunctionLoader(lambda name: files.joinpath(name).read_text(encoding="utf-8"))
    is_page = not name.endswith(".md.jinja")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=is_page,  # noqa: S701 - every page is escaped
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "words": words,
        "value": value_text,
        "percent": percent_text,
        "score": lambda value, name, scores: score_text(name, value, scores),
        "deviation": lambda value, name, scores: deviation_text(name, value, scores),
        "exact": exact_text,
        "duration": duration,
        "count": count_text,
        "command": command,
        "prose": prose,
        "code": code,
    }
    return environment.get_template(name)


def _read_lines(path: str) -> list[dict[str, Any]]:
    """The objects of a JSON lines file; an incomplete line, as left by a killed run, is skipped."""
    lines = []
    if files.exists(path):
        with files.open_text(path, errors="replace") as file:
            for text in file:
                try:
                    line = parse(text)
                except ValueError:
                    continue
                if isinstance(line, dict):
                    lines.append(line)
    return lines


def evaluated_on(run: Mapping[str, Any]) -> str:
    """The data a run was evaluated on: "held-out text", "the training text"."""
    return str(run.get("evaluated_on") or "held-out data")


def curve_label(data: str) -> str:
    """Label for values on data: "held out", "on the training text"."""
    return curves.HELD_OUT if data.startswith("held-out") else f"on {data}"


def subject(run: Mapping[str, Any]) -> str:
    """Name of the task or table; for rows from a program, stored in the run, the name of its folder."""
    flags = dictionary(run.get("flags"))
    path = str(flags.get("train_file") or flags.get("data_dir") or "").rstrip("/")
    folder = str(flags.get("output_dir") or "").rstrip("/")
    path = folder if folder and path.startswith(f"{folder}/") else path
    name = str(run.get("name") or "")
    return os.path.basename(path) or name if name == "table" else name


def titles(kind: str | None) -> dict[str, str]:
    """{score: title} for scores that need more than their name."""
    return {"accuracy": SUBSET_ACCURACY} if kind == MultiLabel.kind else {}


def data_of(run: Mapping[str, Any]) -> dict[str, list[str]]:
    """Notes on the data: {"splits": lines, "notes": lines}."""
    data = run.get("data") or {}
    return {name: data.get(name) or [] for name in ("splits", "notes")}


def dictionary(value: Any) -> dict[str, Any]:
    """The value if it is a dictionary, else an empty one."""
    return value if isinstance(value, dict) else {}


def summary(run: Mapping[str, Any], metrics: Iterable[Mapping[str, Any]]) -> str:
    """One line on the run: model size, steps, duration, whether it finished."""
    config, parts = dictionary(run.get("config")), []
    if config.get("num_hidden_layers") and config.get("hidden_size"):
        parts.append(f"{config['num_hidden_layers']} layers of width {config['hidden_size']}")
    if curves.is_number(run.get("parameters")):
        parts.append(f"{value_text(run['parameters'])} parameters")
    size = run.get("all_reduced_bytes")
    if curves.is_number(size) and size:
        parts.append(f"all-reduce per step: {value_text(size / 1e6)} MB, {run.get('replicas')} replicas")
    steps = [line["step"] for line in metrics if curves.is_number(line.get("step"))]
    if steps:
        parts.append(count_text(max(steps), "step"))
    started, finished = _time(run.get("started")), _time(run.get("finished"))
    phases = [seconds for _, seconds, _ in _phases(dictionary(run.get("phases")))]
    if finished and phases:  # over all starts, without the time between them
        parts.append(f"took {duration(sum(phases))}")
    elif started and finished and (started.tzinfo is None) == (finished.tzinfo is None):
        parts.append(f"took {duration((finished - started).total_seconds())}")
    if finished:
        parts.append(f"finished {finished:%Y-%m-%d %H:%M}")
    elif started:
        parts.append(f"started {started:%Y-%m-%d %H:%M}, not finished")
    return " · ".join(parts)


def _shown(scores: Sequence[tuple[str, Any, Any]]) -> list[tuple[str, str, str, dict[str, str]]]:
    """[(name, score, data set of published scores, {model: published score})] as texts; see `final_scores`."""
    names = [name for name, *_ in scores]
    shown = []
    for name, value, known in scores:
        data_set, models = known or ("", {})
        others = {model: score_text(name, score, names) for model, score in models.items()}
        shown.append((name, score_text(name, value, names), data_set, others))
    return shown


def baselines_of(run: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """{baseline name: {score: its text}} of a run; earlier versions recorded only one."""
    rows = run.get("baselines") or [run.get("baseline")]
    found = {str(row.get("name")): dictionary(row.get("scores")) for row in map(dictionary, rows)}
    return {
        name: {score: score_text(score, value, scores) for score, value in scores.items()}
        for name, scores in found.items()
        if scores
    }


def _sizes(run: Mapping[str, Any]) -> str:
    """The size of the model next to those with published scores."""
    sizes = ", ".join(f"{model} {count / 1e6:.0f}" for model, count in published_scores.MODELS.items())
    count = run.get("parameters")
    own = f"{count / 1e6:.3g}" if curves.is_number(count) else "unknown"
    return f"Millions of parameters: {sizes}, this model {own}. Published scores: Devlin et al. 2018."


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (AttributeError, ValueError):
        return None


def _phases(phases: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    phases = {name: seconds for name, seconds in phases.items() if curves.is_number(seconds) and seconds >= 0}
    longest = max(phases.values(), default=0) or 1
    return [(name, seconds, 100 * seconds / longest) for name, seconds in phases.items()]


def _examples(examples: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Examples with their predictions, ready to draw; `is_correct`: whether the true token was predicted."""
    drawn: dict[str, list[dict[str, Any]]] = {"fill_mask": [], "held_out": []}
    for kind, rows in drawn.items():
        for example in examples.get(kind) or []:
            if isinstance(example, dict):
                true = example.get("truth")
                predictions = [
                    _prediction(token, true) for token in example.get("answers") or [] if isinstance(token, dict)
                ]
                is_correct = bool(predictions) and predictions[0]["is_correct"]
                texts = {side: _without_special_tokens(example.get(side)) for side in ("before", "after")}
                rows.append(example | texts | {"predictions": predictions, "is_correct": is_correct})
    return drawn


def _without_special_tokens(text: Any) -> str:
    """A passage of a row, with a bar between its two texts."""
    return str(text or "").replace("[CLS]", "").removesuffix("[SEP]").replace("[SEP]", "|").strip()


def _prediction(token: Mapping[str, Any], true: Any) -> dict[str, Any]:
    score = token.get("score")
    score = min(max(float(score), 0.0), 1.0) if curves.is_number(score) else None
    return {"token": token.get("piece", ""), "score": score, "is_correct": token.get("piece") == true}
