"""One page about one run: reads the files of a run folder and writes report.html, which needs no other file.

A run is a dictionary: run.json as "run", the lines of metrics.jsonl as "metrics", of other files what they hold.
"""

import importlib.resources
import json
import os
import shlex
from datetime import datetime

import jinja2

from bert_tf.errors import UserError
from bert_tf.reports import curves, published, scoreboard
from bert_tf.runtime import atomic_files
from bert_tf.runtime.json_files import read_json

TEMPLATE = "report.html.jinja"
NOT_WORDS = {"lm": "LM", "id": "ID", "nsp": "NSP", "mlm": "MLM", "f1": "F1"}


def read(folder):
    """What a run left in its folder: {"run", "metrics", "scores", "details", "examples", "sweep", "manifest"}.

    Reads run.json, and as far as they are there metrics.jsonl, eval_results.json, eval_details.json, examples.json,
    sweep.json and records/manifest.json. Raises UserError where `folder` holds neither a readable run.json nor a sweep.
    """
    run = read_json(os.path.join(folder, "run.json"))
    sweep = scoreboard.sweep(read_json(os.path.join(folder, "sweep.json")))
    if sweep and not isinstance(run, dict):
        run = {"name": os.path.basename(os.path.abspath(folder))}
    if not isinstance(run, dict):
        raise UserError(f"{folder} holds no readable run.json: a report is made of the folder that a run wrote to.")
    return {
        "run": run,
        "sweep": sweep,
        "metrics": _read_lines(os.path.join(folder, "metrics.jsonl")),
        "scores": dictionary(read_json(os.path.join(folder, "eval_results.json"))),
        "details": read_json(os.path.join(folder, "eval_details.json")),
        "examples": dictionary(read_json(os.path.join(folder, "examples.json"))),
        "manifest": dictionary(read_json(os.path.join(folder, "records", "manifest.json"))),
    }


def write_report(folder, path=None):
    """Writes the page of the run in `folder`, by default to report.html there, and returns its path; see `read`."""
    found = read(folder)
    run, details = found["run"], found["details"]
    splits, asked = scoreboard.splits(details), scoreboard.asked(details)
    statistics = dictionary(run.get("text_statistics"))
    scores = scoreboard.final_scores(found["scores"], run.get("name"), splits or asked)
    return write_page(
        path or os.path.join(folder, "report.html"),
        TEMPLATE,
        run={name: run.get(name) for name in ("name", "config", "flags", "versions", "machine")},
        summary=summary(run, found["metrics"]),
        scores=scores,
        sizes=_sizes(run) if any(known for *_, known in scores) else "",
        charts=curves.charts(found["metrics"], found["scores"]),
        examples=_examples(found["examples"]),
        sweep=found["sweep"],
        splits=splits,
        asked=asked,
        statistics=_statistics(dictionary(found["manifest"].get("statistics"))),
        text_statistics=_statistics(_without_lengths(statistics)),
        text_lengths=_lengths(statistics),
        warnings=found["manifest"].get("warnings") or [],
        phases=_phases(dictionary(run.get("phases"))),
        command=command(run.get("command")),
    )


def write_page(path, template, **values):
    """Renders a template of this package into a file, whole or not at all; returns the path."""
    atomic_files.write_lines(path, [_template(template).render(**values)])
    return path


def _template(name):
    files = importlib.resources.files("bert_tf.reports")
    loader = jinja2.FunctionLoader(lambda name: files.joinpath(name).read_text(encoding="utf-8"))
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    filters = {"words": words, "shown": shown, "exactly": exactly, "duration": duration, "command": command}
    environment.filters |= filters
    return environment.get_template(name)


def _read_lines(path):
    """The dictionaries in a file of JSON lines; a run that was killed may have left half a line."""
    lines = []
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            for text in file:
                try:
                    line = json.loads(text)
                except ValueError:
                    continue
                if isinstance(line, dict):
                    lines.append(line)
    return lines


def dictionary(value):
    """The value where it is a dictionary, else an empty one."""
    return value if isinstance(value, dict) else {}


def summary(run, metrics):
    """The run in a line: how large, how long, and whether it came to its end."""
    config, parts = dictionary(run.get("config")), []
    if config.get("num_hidden_layers") and config.get("hidden_size"):
        parts.append(f"{config['num_hidden_layers']} layers of width {config['hidden_size']}")
    if curves.is_number(run.get("parameters")):
        parts.append(f"{shown(run['parameters'])} parameters")
    steps = [line["step"] for line in metrics if curves.is_number(line.get("step"))]
    if steps:
        parts.append(f"{shown(max(steps))} step{'s' if max(steps) != 1 else ''}")
    started, finished = _time(run.get("started")), _time(run.get("finished"))
    phases = [seconds for _, seconds, _ in _phases(dictionary(run.get("phases")))]
    if finished and phases:  # of all its starts: between them a night may lie
        parts.append(f"took {duration(sum(phases))}")
    elif started and finished and (started.tzinfo is None) == (finished.tzinfo is None):
        parts.append(f"took {duration((finished - started).total_seconds())}")
    if finished:
        parts.append(f"finished {finished:%Y-%m-%d %H:%M}")
    elif started:
        parts.append(f"started {started:%Y-%m-%d %H:%M}, not finished")
    return " · ".join(parts)


def _sizes(run):
    """How large this model is beside the published ones: a score without that says little."""
    theirs = ", ".join(f"{model} {count / 1e6:.0f}" for model, count in published.MODELS.items())
    ours = run.get("parameters")
    ours = f"this model has {ours / 1e6:.3g}" if curves.is_number(ours) else "of this model not known"
    return f"Million parameters: {theirs}; {ours}. Published: Devlin et al. 2018."


def _without_lengths(statistics):
    """The statistics of splits without what is drawn as bars."""
    kept = {}
    for split, values in statistics.items():
        is_split = isinstance(values, dict)
        kept[split] = {name: value for name, value in values.items() if name != "lengths"} if is_split else values
    return kept


def _lengths(statistics):
    """[(split, [(texts, height of the bar in percent, what it is)], pieces a bar, where the last begins, of what)]."""
    found = []
    for split, values in statistics.items():
        lengths = dictionary(dictionary(values).get("lengths"))
        counts, width = lengths.get("counts"), lengths.get("width")
        if not (isinstance(counts, list) and counts and all(map(curves.is_number, [width, *counts]))):
            continue
        bars = [
            (count, 100 * count / (max(counts) or 1), f"{place * width + 1} to {(place + 1) * width} pieces: {count:,}")
            for place, count in enumerate(counts)
        ]
        found.append((split, bars, width, (len(counts) - 1) * width + 1, _unit(values)))
    return found


def _unit(statistics):
    """What the lengths are of: pre-training fills rows with text, all else puts a text in a row."""
    return "row" if "rows_in_the_sample" in statistics else "text"


def _time(text):
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (AttributeError, ValueError):
        return None


def _phases(phases):
    """(name, seconds, share of the longest in percent) of each phase."""
    phases = {name: seconds for name, seconds in phases.items() if curves.is_number(seconds) and seconds >= 0}
    longest = max(phases.values(), default=0) or 1
    return [(name, seconds, 100 * seconds / longest) for name, seconds in phases.items()]


def _statistics(statistics):
    """The numbers that stand alone, and those of the splits of the corpus side by side: {name: [one a split]}."""
    splits = {name: values for name, values in statistics.items() if isinstance(values, dict)}
    names = dict.fromkeys(name for values in splits.values() for name in values)
    rows = {name: [values.get(name) for values in splits.values()] for name in names}
    alone = {name: value for name, value in statistics.items() if name not in splits}
    return {"alone": alone, "splits": list(splits), "rows": rows}


def _examples(examples):
    """Examples whose answers are ready to draw; `is_right` marks the answer that is the truth."""
    ready = {"fill_mask": [], "held_out": []}
    for kind, found in ready.items():
        for example in examples.get(kind) or []:
            if isinstance(example, dict):
                truth = example.get("truth")
                answers = [
                    _answer(answer, truth) for answer in example.get("answers") or [] if isinstance(answer, dict)
                ]
                is_right = bool(answers) and answers[0]["is_right"]
                found.append(example | {"answers": answers, "is_right": is_right})
    return ready


def _answer(answer, truth):
    score = answer.get("score")
    score = min(max(float(score), 0.0), 1.0) if curves.is_number(score) else None
    return {"piece": answer.get("piece", ""), "score": score, "is_right": answer.get("piece") == truth}


def command(arguments):
    """The command line that repeats the run, quoted for a shell, a flag a line."""
    if not isinstance(arguments, list) or not arguments:
        return ""
    words = [shlex.quote(str(argument)) for argument in arguments]
    if words[0].endswith(".py"):
        words = [f"python {words[0]}", *words[1:]]
    elif len(words) > 1 and words[0] == "bert-tf":
        words = [" ".join(words[:2]), *words[2:]]
    return " \\\n    ".join(words)


def words(name):
    """A name as words: masked_lm_loss -> Masked LM loss."""
    text = " ".join(NOT_WORDS.get(word, word) for word in str(name).split("_"))
    return text[:1].upper() + text[1:]


def shown(value):
    """Any value from a JSON file as a short text."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return curves.number_text(value) if curves.is_number(value) else "not a number"
    if isinstance(value, list):
        return ", ".join(shown(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {shown(item)}" for name, item in value.items())
    return str(value)


def exactly(value):
    """A setting as it was given, every digit of it."""
    return "–" if value in (None, "") else str(value)


def duration(seconds):
    """Seconds as a text: 0.4 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"
