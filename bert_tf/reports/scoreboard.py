"""How well texts were sorted, ready to draw: scores, published ones, classes, confusions, hardest, answers, sweeps.

Everything comes from JSON files of a run folder, and may be absent or not as expected: then it is left out.
"""

from bert_tf.reports import published
from bert_tf.reports.curves import is_number

# Of a combination of settings in sweep.json; what else it holds are the settings.
COUNTS = ("runs", "collapsed", "failed", "scores", "scores_without_collapsed")
MOST_CLASSES = 10  # of a matrix that a phone can show
MOST_PAIRS, MOST_ROWS, MOST_EXAMPLES = 15, 40, 12


def final_scores(scores, task_name, details):
    """[(name, value, what was published: see `published.of`, or None)] of eval_results.json.

    Of a task on whole texts what is good when it is high comes first, and a loss of one part is not told twice.
    """
    known = published.of(task_name)
    rows = [(name, value, known.get(name)) for name, value in scores.items()]
    if not (known or details):
        return rows
    losses = {name for name, value in scores.items() if name == "loss" or value == scores.get("loss")}
    return sorted((row for row in rows if row[0] == "loss" or row[0] not in losses), key=lambda row: row[0] == "loss")


def splits(details):
    """[{"name", "classes", "left_out", "matrix", "pairs", "hardest"}] of eval_details.json, splits in their order."""
    found = []
    for name, tables in _items(details):
        classes = [row for row in tables.get("per_class") or [] if isinstance(row, dict)]
        labels = [str(row.get("label", "")) for row in classes]
        counts = _counts(tables.get("confusion"), len(labels))
        shown = sorted(classes, key=lambda row: row.get("f1") or 0)[:MOST_ROWS] if len(classes) > MOST_ROWS else classes
        split = {
            "name": name,
            "classes": shown,
            "left_out": len(classes) - len(shown),
            "matrix": matrix(labels, counts) if len(labels) <= MOST_CLASSES else None,
            "pairs": most_confused(labels, counts) if len(labels) > MOST_CLASSES else [],
            "hardest": [_hard(row) for row in tables.get("hardest") or [] if isinstance(row, dict)][:MOST_EXAMPLES],
        }
        if split["classes"] or split["hardest"]:
            found.append(split)
    return found


def asked(details):
    """[{"name", "right", "partly", "wrong", "all", "examples"}] of eval_details.json: answers to questions."""
    found = []
    for name, tables in _items(details):
        questions = tables.get("questions")
        counts = [questions.get(key) for key in ("right", "partly", "wrong")] if isinstance(questions, dict) else []
        if counts and all(map(is_number, counts)):
            right, partly, wrong = counts
            examples = [one for one in questions.get("examples") or [] if _is_marked(one)]
            found.append(
                {
                    "name": name,
                    "right": right,
                    "partly": partly,
                    "wrong": wrong,
                    "all": sum(counts),
                    "examples": examples,
                }
            )
    return found


def _is_marked(example):
    """Whether an example has parts as `marked_answers.details` makes them."""
    marked = example.get("parts") if isinstance(example, dict) else None
    return isinstance(marked, list) and all(isinstance(part, list) and len(part) == 2 for part in marked)


def _items(value):
    """The dictionaries in a dictionary, with their names."""
    return [(name, each) for name, each in value.items() if isinstance(each, dict)] if isinstance(value, dict) else []


def _counts(table, size):
    """The rows of a confusion matrix, [] if it is none of that size."""
    is_square = (
        isinstance(table, list)
        and len(table) == size
        and all(isinstance(row, list) and len(row) == size and all(is_number(count) for count in row) for row in table)
    )
    return table if is_square else []


def matrix(labels, counts):
    """{"labels", "upright", "rows"}; a row is (label, cells), a cell (count, percentage of the row, whether right).

    upright: whether the names of the columns are too long to lie.
    """
    if not counts:
        return None
    rows = []
    for number, (label, row) in enumerate(zip(labels, counts, strict=True)):
        total = sum(row) or 1
        cells = [(count, 100 * count / total, number == place) for place, count in enumerate(row)]
        rows.append((label, cells))
    return {"labels": labels, "upright": sum(max(len(label), 4) for label in labels) > 24, "rows": rows}


def most_confused(labels, counts, most=MOST_PAIRS):
    """[(truth, guess, count, percentage of the truth's examples)], most frequent first."""
    found = []
    for truth, row in enumerate(counts):
        total = sum(row) or 1
        found += [
            (labels[truth], labels[guess], count, 100 * count / total)
            for guess, count in enumerate(row)
            if count and guess != truth
        ]
    return sorted(found, key=lambda pair: -pair[2])[:most]


def _hard(row):
    """An example whose texts and probabilities are ready to draw."""
    texts = [row[name] for name in ("text", "text_a", "text_b") if row.get(name)]
    probabilities = row.get("probabilities")
    of = probabilities.get if isinstance(probabilities, dict) else lambda _: None
    guess, truth = str(row.get("label", "")), str(row.get("truth", ""))
    said = [(name, label, of(label)) for name, label in (("truth", truth), ("guess", guess))]
    return {
        "texts": texts,
        "choices": [str(choice) for choice in row.get("choices") or []],
        "said": [(name, label, value if is_number(value) else None) for name, label, value in said],
        "is_right": guess == truth,
        "id": str(row.get("id", "")),
    }


def sweep(values):
    """What the page shows of sweep.json, as bert_tf.recipes.finetuning.sweep writes it; None where it holds no runs.

    {"varied": names, "scores": names, "rows", "criterion", "best": name of a run, "collapsed": how many}. A row is
    {"settings", "runs", "cells", "collapsed": names, "is_best"}, a cell (mean, sd, mean without collapsed runs).
    """
    combinations = values.get("combinations") if isinstance(values, dict) else None
    combinations = [each for each in combinations or [] if isinstance(each, dict)]
    if not combinations:
        return None
    settings = [{name: value for name, value in each.items() if name not in COUNTS} for each in combinations]
    scores = list(dict.fromkeys(name for each in combinations for name, _ in _items(each.get("scores"))))
    scores.sort(key=lambda name: name != values.get("criterion"))  # the one that decides comes first
    rows = [
        {
            "settings": own,
            "runs": each.get("runs"),
            "cells": _cells(each, scores),
            "collapsed": _collapsed(values.get("runs"), own),
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
        "collapsed": sum(len(row["collapsed"]) for row in rows),
    }


def _cells(combination, scores):
    found, sound = (dict(_items(combination.get(name))) for name in ("scores", "scores_without_collapsed"))
    return [
        (*(found.get(name, {}).get(key) for key in ("mean", "sd")), sound.get(name, {}).get("mean")) for name in scores
    ]


def _collapsed(runs, settings):
    """The names of the collapsed runs of a combination."""
    return [
        name
        for name, run in _items(runs)
        if run.get("collapsed") and all(run.get(key) == value for key, value in settings.items())
    ]
