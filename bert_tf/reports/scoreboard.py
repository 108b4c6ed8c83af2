"""Results of fine-tuning, ready to draw: scores, published ones, classes, confusions, hard examples, answers, sweeps.

Everything comes from JSON files of a run folder; missing or malformed values are skipped.
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_tf.reports import published_scores
from bert_tf.reports.curves import is_number, scatter

# Keys of a combination in sweep.json other than settings.
COUNTS = ("runs", "collapsed", "failed", "scores", "scores_without_collapsed")
MAX_MATRIX_CLASSES = 10  # fits a phone
AUXILIARY = ("window_accuracy", "loss")  # scores shown last
MASKED_LM_LOSS, MAX_EXPONENT = "masked_lm_loss", 100.0
BIN = ("from", "to", "count", "confidence", "accuracy")  # of predictions with similar probability
MAX_SCORES = 4  # per form of the model
MAX_CONFUSIONS, MAX_CLASSES, MAX_EXAMPLES = 15, 40, 12

Drawn = dict[str, Any]  # values for the templates


def final_scores(
    scores: Mapping[str, Any], task_name: object, has_details: bool
) -> list[tuple[str, Any, tuple[str, dict[str, float]] | None]]:
    """[(name, value, published score or None)] from eval_results.json.

    For fine-tuning the loss comes last, and scores equal to it are omitted.
    """
    known = published_scores.scores_of(task_name)
    if is_number(scores.get(MASKED_LM_LOSS)):
        scores = {**scores, "masked_lm_perplexity": math.exp(min(scores[MASKED_LM_LOSS], MAX_EXPONENT))}
    rows = [(name, value, known.get(name)) for name, value in scores.items()]
    if not (known or has_details):
        return rows
    losses = {name for name, value in scores.items() if name == "loss" or value == scores.get("loss")}
    rows = [row for row in rows if row[0] == "loss" or row[0] not in losses]
    return sorted(rows, key=lambda row: AUXILIARY.index(row[0]) + 1 if row[0] in AUXILIARY else 0)


def class_details(details: Any) -> list[Drawn]:
    """The values shown on the page for the splits of eval_details.json.

    [{"name", "labels", "counts", "classes", "left_out", "matrix", "confusions", "hardest"}]; counts: the confusion
    matrix, or [].
    """
    drawn = []
    for name, tables in _dictionaries(details):
        classes = [row for row in tables.get("per_class") or [] if isinstance(row, dict)]
        labels = [str(row.get("label", "")) for row in classes]
        counts = _square(tables.get("confusion"), len(labels))
        shown = classes
        if len(classes) > MAX_CLASSES:
            shown = sorted(classes, key=lambda row: row.get("f1") or 0)[:MAX_CLASSES]
        split = {
            "name": name,
            "labels": labels,
            "counts": counts,
            "classes": shown,
            "left_out": len(classes) - len(shown),
            "matrix": confusion_matrix(labels, counts) if len(labels) <= MAX_MATRIX_CLASSES else None,
            "confusions": _confusions(classes, labels, counts, tables.get("most_confused")),
            "hardest": [_example(row) for row in tables.get("hardest") or [] if isinstance(row, dict)][:MAX_EXAMPLES],
        }
        if split["classes"] or split["hardest"]:
            drawn.append(split)
    return drawn


def scatter_details(details: Any) -> list[Drawn]:
    """[{"name", "dots", "ticks"}] for the splits of eval_details.json with predicted numbers."""
    drawn = []
    for name, tables in _dictionaries(details):
        pairs = [pair for pair in tables.get("values") or () if isinstance(pair, list) and len(pair) == 2]
        points = [(true, predicted) for true, predicted in pairs if is_number(true) and is_number(predicted)]
        if points:
            drawn.append({"name": name, **scatter(points)})
    return drawn


def confidence_details(details: Any) -> list[Drawn]:
    """[{"name", "error", "temperature", "with_temperature", "is_used", "bins"}] for the splits of eval_details.json.

    with_temperature: None if no temperature is proposed.
    """
    drawn = []
    for name, tables in _dictionaries(details):
        values = tables.get("confidence")
        if not isinstance(values, dict):
            continue
        error, temperature, scaled = map(values.get, ("expected_calibration_error", "temperature", "with_temperature"))
        bins = [row for row in values.get("bins") or [] if isinstance(row, dict)]
        bins = [row for row in bins if all(is_number(row.get(key)) for key in BIN)]
        if is_number(error) and is_number(temperature) and (scaled is None or is_number(scaled)) and bins:
            split = {"name": name, "error": error, "temperature": temperature, "with_temperature": scaled}
            drawn.append({**split, "is_used": bool(values.get("is_used")), "bins": bins})
    return drawn


def deployment_table(result: Any) -> Drawn:
    """{"scores": names, "rows", "errors", "count", "split"} from deployments.json, see `engine_comparison`, or {}."""
    result = result if isinstance(result, dict) else {}
    listed = [each for each in result.get("deployments") or [] if isinstance(each, dict)]
    names: dict[str, None] = {}
    rows, errors = [], []
    for each in listed:
        scores: dict[str, Any] = each["scores"] if isinstance(each.get("scores"), dict) else {}
        names |= dict.fromkeys(name for name, value in scores.items() if is_number(value))
        if each.get("error"):
            errors.append((str(each.get("name")), str(each["error"])))
        elif is_number(each.get("bytes")) and is_number(each.get("milliseconds")):
            starts = {name: x if is_number(x := each.get(name)) else None for name in ("start_seconds", "memory_bytes")}
            rows.append({**each, **starts, "megabytes": each["bytes"] / 1e6, "scores": scores})
    shown = list(names)[:MAX_SCORES]
    for row in rows:
        row["scores"] = [row["scores"].get(name) for name in shown]
    same = {"count": result.get("rows", 0), "split": result.get("split", "")}
    return {"scores": shown, "rows": rows, "errors": errors, **same} if rows else {}


def question_details(details: Any) -> list[Drawn]:
    """[{"name", "right", "partly", "wrong", "all", "examples"}] for the splits of eval_details.json."""
    drawn = []
    for name, tables in _dictionaries(details):
        questions = tables.get("questions")
        if not isinstance(questions, dict):
            continue
        counts = {key: questions.get(key) for key in ("right", "partly", "wrong")}
        if all(map(is_number, counts.values())):
            examples = [example for example in questions.get("examples") or [] if _has_parts(example)]
            drawn.append({"name": name, **counts, "all": sum(counts.values()), "examples": examples})  # type: ignore
    return drawn


def _has_parts(example: Any) -> bool:
    """Returns whether an example has parts in the format of `answer_highlights.details`."""
    parts = example.get("parts") if isinstance(example, dict) else None
    return isinstance(parts, list) and all(isinstance(part, list) and len(part) == 2 for part in parts)


def _dictionaries(value: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(name, each) for name, each in value.items() if isinstance(each, dict)] if isinstance(value, dict) else []


def _square(table: Any, size: int) -> list[list[float]]:
    """A confusion matrix, or [] if it is malformed."""
    is_square = (
        isinstance(table, list)
        and len(table) == size
        and all(isinstance(row, list) and len(row) == size and all(is_number(count) for count in row) for row in table)
    )
    return table if is_square else []


def confusion_matrix(labels: Sequence[str], counts: Sequence[Sequence[float]]) -> Drawn | None:
    """{"labels", "upright", "rows"}; a row is (label, cells), a cell (count, percentage of the row, is diagonal).

    upright: whether the column names are too long to be written horizontally.
    """
    if not counts:
        return None
    rows = []
    for number, (label, row) in enumerate(zip(labels, counts, strict=True)):
        total = sum(row) or 1
        rows.append((label, [(count, 100 * count / total, number == column) for column, count in enumerate(row)]))
    return {"labels": labels, "upright": sum(max(len(label), 4) for label in labels) > 24, "rows": rows}


def _confusions(
    classes: Sequence[Drawn], labels: Sequence[str], counts: Sequence[Sequence[float]], listed: Any
) -> list[tuple[str, str, float, float]]:
    """`most_confused`, or the same from the list that replaces the matrix for very many classes."""
    if len(labels) <= MAX_MATRIX_CLASSES:
        return []
    if counts or not isinstance(listed, list):
        return most_confused(labels, counts)
    totals = {str(row.get("label")): row.get("count") or 1 for row in classes}
    rows = [row for row in listed if isinstance(row, dict) and is_number(row.get("count"))][:MAX_CONFUSIONS]
    names = [(str(row.get("label")), str(row.get("predicted")), row["count"]) for row in rows]
    return [(label, predicted, count, 100 * count / totals.get(label, 1)) for label, predicted, count in names]


def most_confused(labels: Sequence[str], counts: Iterable[Sequence[float]]) -> list[tuple[str, str, float, float]]:
    """[(true label, predicted label, count, percentage of the true label's examples)], most frequent first."""
    confusions = []
    for true, row in enumerate(counts):
        total = sum(row) or 1
        confusions += [
            (labels[true], labels[predicted], count, 100 * count / total)
            for predicted, count in enumerate(row)
            if count and predicted != true
        ]
    return sorted(confusions, key=lambda confusion: -confusion[2])[:MAX_CONFUSIONS]


def _example(row: Mapping[str, Any]) -> Drawn:
    """An example from eval_details.json, with its labels as (kind, label, probability or None)."""
    probabilities = row.get("probabilities")
    probability_of = probabilities.get if isinstance(probabilities, dict) else lambda _: None
    true, predicted = str(row.get("truth", "")), str(row.get("label", ""))
    labels = [(kind, label, probability_of(label)) for kind, label in (("true", true), ("predicted", predicted))]
    return {
        "texts": [row[name] for name in ("text", "text_a", "text_b") if row.get(name)],
        "choices": [str(choice) for choice in row.get("choices") or []],
        "labels": [(kind, label, value if is_number(value) else None) for kind, label, value in labels],
        "marked": _marked(row),
        "is_correct": predicted == true,
        "id": str(row.get("id", "")),
    }


def _marked(row: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str, int, bool]]]]:
    """[(kind, parts)] for a text with true and predicted entities; [] if there are none.

    A part is (passage, entity label or "", hue of the label, whether both have the entity).
    """
    text, sides = row.get("text"), [row.get("true_entities"), row.get("entities")]
    if not isinstance(text, str) or not all(map(_are_entities, sides)):
        return []
    spans = [[(entity["start"], entity["end"], str(entity.get("label"))) for entity in side or []] for side in sides]
    both = set(spans[0]) & set(spans[1])
    marked = []
    for kind, own in zip(("true", "predicted"), spans, strict=True):
        parts, last = [], 0
        for start, end, label in sorted(own):
            parts.append((text[last:start], "", 0, True))
            parts.append((text[start:end], label, hue(label), (start, end, label) in both))
            last = end
        marked.append((kind, [*parts, (text[last:], "", 0, True)]))
    return marked


def _are_entities(values: Any) -> bool:
    """Returns whether these are entities in the format of taggers."""
    return isinstance(values, list) and all(
        isinstance(each, dict) and isinstance(each.get("start"), int) and isinstance(each.get("end"), int)
        for each in values
    )


def hue(label: str) -> int:
    """The hue of a label, in degrees, as on the page of `bert-tf serve`."""
    return functools.reduce(lambda total, letter: (total * 31 + ord(letter)) % 360, label, 7)


def sweep_table(values: Any) -> Drawn | None:
    """The table of sweep.json, as written by bert_tf.recipes.finetuning.sweep; None if it has no runs.

    {"varied": names, "scores": names, "rows", "criterion", "best": name of a run, "folds": count, "collapsed": count,
    "single": [(run name, its scores, whether it has collapsed)]}. A row is
    {"settings", "runs", "cells", "collapsed": names, "is_best"}, a cell (mean, sd, mean without collapsed runs).
    """
    combinations = values.get("combinations") if isinstance(values, dict) else None
    combinations = [each for each in combinations or [] if isinstance(each, dict)]
    if not combinations:
        return None
    settings = [{name: value for name, value in each.items() if name not in COUNTS} for each in combinations]
    scores = list(dict.fromkeys(name for each in combinations for name, _ in _dictionaries(each.get("scores"))))
    losses = {str(each["scores"].get("loss")) for each in combinations if isinstance(each.get("scores"), dict)}
    scores = [
        name
        for name in scores
        if name == "loss" or {str(dict(_dictionaries(each.get("scores"))).get(name)) for each in combinations} != losses
    ]
    scores.sort(key=lambda name: name != values.get("criterion"))  # the criterion comes first
    rows = [
        {
            "settings": own,
            "runs": each.get("runs"),
            "cells": _cells(each, scores),
            "collapsed": _collapsed_runs(values.get("runs"), own),
            "is_best": number == values.get("best_combination"),
        }
        for number, (own, each) in enumerate(zip(settings, combinations, strict=True))
    ]
    names = dict.fromkeys(name for own in settings for name in own)
    return {
        "varied": [name for name in names if len({str(own.get(name)) for own in settings}) > 1],
        "scores": scores,
        "rows": rows,
        "criterion": values.get("criterion"),
        "best": values.get("best_run"),
        "folds": sum(name.startswith("fold=") for name, _ in _dictionaries(values.get("runs"))),
        "collapsed": sum(len(row["collapsed"]) for row in rows),
        "single": [
            (name, run["results"], bool(run.get("collapsed")))
            for name, run in _dictionaries(values.get("runs"))
            if isinstance(run.get("results"), dict)
        ],
    }


def _cells(combination: Mapping[str, Any], scores: Iterable[str]) -> list[tuple[Any, Any, Any]]:
    means, sound = (dict(_dictionaries(combination.get(name))) for name in ("scores", "scores_without_collapsed"))
    return [
        (means.get(name, {}).get("mean"), means.get(name, {}).get("sd"), sound.get(name, {}).get("mean"))
        for name in scores
    ]


def _collapsed_runs(runs: Any, settings: Mapping[str, Any]) -> list[str]:
    """The names of the collapsed runs with these settings."""
    return [
        name
        for name, run in _dictionaries(runs)
        if run.get("collapsed") and all(run.get(key) == value for key, value in settings.items())
    ]
