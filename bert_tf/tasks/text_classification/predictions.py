"""What a model answers to texts, as rows of files: for people, for programs, for a leaderboard. Free of TensorFlow.

n examples, C classes, M masks of a text, K answers to a mask or a question, E entities of a text.
"""

import json
import os

from bert_tf.runtime.atomic_files import write_lines

# What a table has in its own way.
TEXTS = ("text", "text_a", "text_b", "question", "context")
NOT_COLUMNS = (*TEXTS, "choices", "probabilities", "answers", "entities", "n_best")


def described(goal, split, answers, numbers=None):
    """A list of n dictionaries: id, texts, the label's name, probabilities by label (or the value), the truth if known.

    answers: the task's {name: array [n, ...]} for the whole split. numbers: of the examples that are wanted, else all.
    """
    guesses = goal.guesses(answers)
    names = goal.named(guesses)
    truth = goal.named(split.truth) if split.is_known else [None] * len(names)
    rows = []
    for number in range(len(names)) if numbers is None else numbers:
        example = split.examples[number]
        row = {"id": example.id, **texts_by_name(example.texts), "label": names[number]}
        if "probabilities" in answers:
            row["probabilities"] = by_label(goal.labels, answers["probabilities"][number])
        else:
            row["value"] = float(guesses[number])
        if truth[number] is not None:
            row["truth"] = truth[number]
        rows.append(row)
    return rows


def hardest(goal, split, answers, most=12):
    """The examples with the largest loss, as `described` has them, each with its "loss", largest first.

    The loss is minus the logarithm of what the model gives the truth; of several labels the mean over them, of a number
    the squared error. answers: as of `described`; the split's truth must be known.
    """
    import numpy as np  # not above: `bert-tf predict --help` is to be quick

    if "probabilities" in answers:
        shares = np.clip(np.asarray(answers["probabilities"], np.float64), 1e-12, 1)  # [n, C]
        truth = split.truth[: len(shares)]
        if truth.ndim == 1:
            losses = -np.log(np.take_along_axis(shares, truth[:, None], 1)[:, 0])
        else:
            losses = -np.where(truth > 0, np.log(shares), np.log(np.clip(1 - shares, 1e-12, 1))).mean(1)
    else:
        guesses = np.asarray(goal.guesses(answers), np.float64)
        losses = (guesses - split.truth[: len(guesses)]) ** 2
    order = np.argsort(-losses, kind="stable")[:most].tolist()
    rows = described(goal, split, answers, order)
    return [{**row, "loss": float(losses[number])} for number, row in zip(order, rows, strict=True)]


def texts_by_name(texts):
    """Texts under the names that an export gives its inputs: one, a pair, or a first text and choices."""
    if len(texts) <= 2:
        return dict(zip(("text_a", "text_b"), texts, strict=False))
    return {"text_a": texts[0], "choices": list(texts[1:])}


def by_label(labels, probabilities):
    """{label: probability}; a list where the names of the labels are not known."""
    probabilities = [float(value) for value in probabilities]
    return dict(zip(labels, probabilities, strict=True)) if len(labels) == len(probabilities) else probabilities


def answered(example, outputs, *, labels, inputs):
    """The row of an example that an export answered, the same as `described` makes it of the live model's answers.

    outputs: {name: array} of this example, as the signature calls them: "label" and "probabilities" [C], "values" [],
        of a mask-filling export "pieces" and "scores" [M, K], of a tagger "counts" [] and its entities [E], to a
        question "answer" [] and the n best [K]; other outputs are kept as they are.
    labels: the names of the classes, () where the export does not say them. inputs: as `exported.Export` has them.
    """
    row = {"id": example.id, **_texts_of(example, inputs)}
    if "answer" in outputs:
        return row | _of_question(outputs)
    if "probabilities" in outputs:
        if "label" in outputs:
            row["label"] = _as_text(outputs["label"])
        return row | {"probabilities": by_label(labels, outputs["probabilities"])}
    if "values" in outputs:
        return row | {"label": f"{float(outputs['values']):.3f}", "value": float(outputs["values"])}
    if "pieces" in outputs and "scores" in outputs:
        answers = _answers(outputs["pieces"], outputs["scores"])
        return row | {"label": " ".join(mask[0]["piece"] for mask in answers), "answers": answers}
    if "starts" in outputs and "counts" in outputs:
        entities = _entities(outputs)
        return row | {"label": ", ".join(f"{e['text']} {e['label']}" for e in entities), "entities": entities}
    return row | {name: _plain(value) for name, value in outputs.items()}


def _texts_of(example, inputs):
    """{input of the export: text, or list of texts}."""
    texts = iter(example.texts)
    return {name: [next(texts) for _ in range(count)] if count else next(texts) for name, count in inputs.items()}


def _of_question(outputs):
    """The answer, its place in the context and its score, and the n best without what fills their row up."""
    row = {name: _plain(outputs[name]) for name in ("answer", "start", "end", "score", "null_score")}
    columns = (_plain(outputs[name]) for name in ("answers", "starts", "ends", "probabilities"))
    names = ("text", "start", "end", "probability")
    n_best = [dict(zip(names, one, strict=True)) for one in zip(*columns, strict=True)]
    return row | {"n_best": [one for one in n_best if one["probability"] > 0]}


def _entities(outputs):
    """[{"text", "label", "start", "end", "score"}] of a text, without what fills its row up."""
    columns = (outputs[name].tolist() for name in ("texts", "labels", "starts", "ends", "scores"))
    found = list(zip(*columns, strict=True))[: int(outputs["counts"])]
    return [
        {"text": _as_text(text), "label": _as_text(label), "start": start, "end": end, "score": round(score, 6)}
        for text, label, start, end, score in found
    ]


def _answers(pieces, scores):
    """[[{"piece", "score"}, best first] for each mask]; without what fills a text of fewer masks up."""
    masks = [
        [{"piece": _as_text(p), "score": float(s)} for p, s in zip(*mask, strict=True)]
        for mask in zip(pieces, scores, strict=True)
    ]
    return [mask for mask in masks if mask[0]["piece"]]


def _as_text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _plain(value):
    """An array as lists, its bytes as text."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return _as_text(value) if isinstance(value, bytes) else value


def write(folder, name, rows):
    """Writes `name`.jsonl (everything), `name`.tsv (the same as a table) and, as the original does, test_results.tsv.

    In .tsv tabs and ends of lines inside a text become spaces. Returns the path of the .tsv file.
    """
    write_rows(os.path.join(folder, f"{name}.jsonl"), rows)
    path = os.path.join(folder, f"{name}.tsv")
    write_rows(path, rows)
    results = name.replace("predictions", "test_results")
    numbers = (list(row.get("probabilities", {"": row.get("value")}).values()) for row in rows)
    write_lines(os.path.join(folder, f"{results}.tsv"), ("\t".join(map(str, line)) + "\n" for line in numbers))
    return path


def write_rows(path, rows):
    """Writes rows as they come to a .jsonl or, by its name, a .tsv file, which appears whole or not at all."""
    write_lines(path, tab_separated(rows) if path.lower().endswith(".tsv") else json_lines(rows))


def json_lines(rows):
    """Yields a line of JSON for each row."""
    return (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def tab_separated(rows):
    """Yields a header, then a line for each row; all have the columns of the first."""
    for number, row in enumerate(rows):
        columns = _columns(row)
        if not number:
            yield _line(columns)
        yield _line(columns.values())


def write_submission(folder, name, rows):
    """Writes the file that GLUE's leaderboard takes: a header, then index and label (or number) of each example."""
    os.makedirs(folder, exist_ok=True)
    lines = [f"{number}\t{row['label']}\n" for number, row in enumerate(rows)]
    write_lines(os.path.join(folder, name), ["index\tprediction\n", *lines])


def _columns(row):
    columns = {name: value for name, value in row.items() if name not in NOT_COLUMNS}
    probabilities = row.get("probabilities", {})
    if not isinstance(probabilities, dict):
        probabilities = dict(enumerate(probabilities))
    columns |= {f"probability {label}": f"{value:.6f}" for label, value in probabilities.items()}
    if "answers" in row:
        columns["scores"] = " ".join(f"{mask[0]['score']:.6f}" for mask in row["answers"])
    texts = {name: row[name] for name in TEXTS if name in row}
    texts |= {f"choice {number}": text for number, text in enumerate(row.get("choices", []))}
    return {**columns, **texts}


def _line(values):
    return "\t".join(" ".join(str(value).split("\t")).replace("\r", " ").replace("\n", " ") for value in values) + "\n"
