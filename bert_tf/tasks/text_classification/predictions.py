"""Predictions as rows of files: for people, for programs, for a leaderboard. Free of TensorFlow.

n examples, C classes, M masks of a text, K tokens for a mask or answers to a question, E entities of a text.
"""

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bert_tf.data.examples import Example
from bert_tf.runtime import files
from bert_tf.runtime.atomic_files import write_lines

if TYPE_CHECKING:
    import numpy as np

    from bert_tf.tasks.text_classification.goal import Goal
    from bert_tf.tasks.text_classification.splits import Split

    Predictions = Mapping[str, np.ndarray]

FORMULA = re.compile(r"(?:^|(?<=[\r\n]))(?=[=+\-@\t\r])")  # before what a formula of a spreadsheet begins with

# outputs that a table holds in columns of their own
TEXTS = ("text", "text_a", "text_b", "question", "context")
OWN = ("id", "label", "value", "answer", "start", "end", "score", "null_score", "scores")
NOT_COLUMNS = (*TEXTS, "choices", "probabilities", "answers", "entities", "n_best", "words")


class PredictionRows:
    """Rows of examples: id, texts, the label's name, probabilities by label (or the value), "truth" if it is known.

    A row is made when it is read: all rows of thousands of classes do not fit into memory.
    """

    def __init__(
        self, goal: "Goal", split: "Split", predictions: "Predictions", numbers: Sequence[int] | None = None
    ) -> None:
        """predictions: the task's {name: array [n, ...]} for the split. numbers: of the examples, by default all."""
        self._goal, self._split, self._predictions = goal, split, predictions
        self._names = goal.names(goal.predicted(predictions))
        self._labels = goal.names(split.labels) if split.is_known else [None] * len(self._names)
        self._numbers = range(len(self._names)) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number in self._numbers:
            example = self._split.examples[number]
            row = {"id": example.id, **texts_by_name(example.texts), "label": self._names[number]}
            row |= self._goal.row(self._predictions, number)
            if self._labels[number] is not None:
                row["truth"] = self._labels[number]
            yield row


def hardest(goal: "Goal", split: "Split", predictions: "Predictions", most: int = 12) -> list[dict[str, Any]]:
    """The rows of the examples with the largest loss, each with its "loss", largest first.

    The loss is minus the logarithm of the probability of the true class; the mean of that over several labels; the
    squared error of a number. The split's labels must be known.
    """
    losses = goal.losses(predictions, split.labels[: len(predictions["row_numbers"])])
    order = (-losses).argsort(kind="stable")[:most].tolist()
    rows = PredictionRows(goal, split, predictions, order)
    return [{**row, "loss": float(losses[number])} for number, row in zip(order, rows, strict=True)]


def texts_by_name(texts: Sequence[str]) -> dict[str, Any]:
    """Texts under the names of an export's inputs: one, a pair, or a first text and choices."""
    if len(texts) <= 2:
        return dict(zip(("text_a", "text_b"), texts, strict=False))
    return {"text_a": texts[0], "choices": list(texts[1:])}


def by_label(labels: Sequence[str], probabilities: Iterable[float]) -> dict[str, float] | list[float]:
    """{label: probability}; a list where the names of the labels are unknown."""
    values = [float(value) for value in probabilities]
    return dict(zip(labels, values, strict=True)) if len(labels) == len(values) else values


def export_row(
    example: Example, outputs: Mapping[str, Any], *, labels: Sequence[str], inputs: Mapping[str, int | None]
) -> dict[str, Any]:
    """The row of an example from the outputs of an export, as `PredictionRows` makes it from the live model's.

    Args:
        example: its texts are in the order of `inputs`.
        outputs: {name: array} of this example, as the signature names them: "label" and "probabilities" [C]; "values"
            []; of a mask-filling export "pieces" and "scores" [M, K]; of a tagger "counts" [] and its entities [E]; for
            a question "answer" [] and the n best [K]. Other outputs are kept as they are.
        labels: the names of the classes, () where the export does not name them.
        inputs: as `loaded_model.Export` has them.
    """
    row = {"id": example.id, **texts_by_input(example, inputs)}
    row = {**other_columns(example), **_predicted_row(row, outputs, labels)}
    return {"id": row.pop("id"), **row}


def other_columns(example: Example) -> dict[str, Any]:
    """The other columns of the example's row; one that a prediction has too is called "label (file)"."""
    return {f"{name} (file)" if name in NOT_COLUMNS + OWN else name: value for name, value in example.other.items()}


def _predicted_row(row: dict[str, Any], outputs: Mapping[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    if "answer" in outputs:
        return row | _question_row(outputs)
    if "probabilities" in outputs:
        if "label" in outputs:
            row["label"] = _as_text(outputs["label"])
        return row | {"probabilities": by_label(labels, outputs["probabilities"])}
    if "values" in outputs:
        return row | {"label": f"{float(outputs['values']):.3f}", "value": float(outputs["values"])}
    if "pieces" in outputs and "scores" in outputs:
        masks = _masks(outputs["pieces"], outputs["scores"])
        return row | {"label": " ".join(mask[0]["piece"] for mask in masks), "answers": masks}
    if "starts" in outputs and "counts" in outputs:
        entities = _entities(outputs)
        return row | {"label": ", ".join(f"{e['text']} {e['label']}" for e in entities), "entities": entities}
    return row | {name: _plain(value) for name, value in outputs.items()}


def texts_by_input(example: Example, inputs: Mapping[str, int | None]) -> dict[str, Any]:
    """{input of the export: text, or list of texts}."""
    texts = iter(example.texts)
    return {name: [next(texts) for _ in range(count)] if count else next(texts) for name, count in inputs.items()}


def _question_row(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The answer, its position in the context and its score, and the n best without padding."""
    row = {name: _plain(outputs[name]) for name in ("answer", "start", "end", "score", "null_score")}
    columns = (_plain(outputs[name]) for name in ("answers", "starts", "ends", "probabilities"))
    names = ("text", "start", "end", "probability")
    n_best = [dict(zip(names, answer, strict=True)) for answer in zip(*columns, strict=True)]
    return row | {"n_best": [answer for answer in n_best if answer["probability"] > 0]}


def _entities(outputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """[{"text", "label", "start", "end", "score"}] of a text, without padding."""
    columns = (outputs[name].tolist() for name in ("texts", "labels", "starts", "ends", "scores"))
    entities = list(zip(*columns, strict=True))[: int(outputs["counts"])]
    return [
        {"text": _as_text(text), "label": _as_text(label), "start": start, "end": end, "score": round(score, 6)}
        for text, label, start, end, score in entities
    ]


def _masks(tokens: Iterable, scores: Iterable) -> list[list[dict[str, Any]]]:
    """[[{"piece", "score"}, best first] for each mask], without the padding of a text with fewer masks."""
    masks = [
        [{"piece": _as_text(token), "score": float(score)} for token, score in zip(*mask, strict=True)]
        for mask in zip(tokens, scores, strict=True)
    ]
    return [mask for mask in masks if mask[0]["piece"]]


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> Any:
    """An array as lists, its bytes as text."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return _as_text(value) if isinstance(value, bytes) else value


def write(folder: str, name: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Writes `name`.jsonl (everything), `name`.tsv (the same as a table) and, as the original does, test_results.tsv.

    In .tsv tabs and ends of lines inside a text become spaces. `rows` are read several times. Returns the path of the
    .tsv file.
    """
    write_rows(os.path.join(folder, f"{name}.jsonl"), rows)
    path = os.path.join(folder, f"{name}.tsv")
    write_rows(path, rows)
    results = name.replace("predictions", "test_results")
    numbers = (list(row.get("probabilities", {"": row.get("value")}).values()) for row in rows)
    write_lines(os.path.join(folder, f"{results}.tsv"), ("\t".join(map(str, line)) + "\n" for line in numbers))
    return path


def write_rows(path: str, rows: Iterable[Mapping[str, Any]], *, shared: bool = False) -> None:
    """Writes rows as they come to a .jsonl or, by its name, a .tsv or .csv file, whole or not at all.

    shared: whether other processes may write the same file at the same time.
    """
    formats = {".tsv": tab_separated, ".csv": comma_separated}
    write_lines(path, formats.get(os.path.splitext(path)[1].lower(), json_lines)(rows), shared=shared)


def json_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields a line of JSON for each row."""
    return (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def tab_separated(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields a header, then a line for each row; all have the columns of the first."""
    for number, row in enumerate(rows):
        columns = _columns(row)
        if not number:
            yield _line(columns)
        yield _line(columns.values())


def comma_separated(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the same as CSV; a text that a spreadsheet would take for a formula begins with an apostrophe.

    So does every line of a text that would be one: programs that do not know quotes take it for a row.
    """
    for number, row in enumerate(rows):
        columns = _columns(row)
        if not number:
            yield _csv_line(columns)
        yield _csv_line(columns.values())


def _csv_line(values: Iterable[Any]) -> str:
    buffer = io.StringIO()
    # csv quotes carriage returns only where they are part of its line ends
    csv.writer(buffer, lineterminator="\r\n").writerow(map(_without_formula, values))
    return buffer.getvalue().removesuffix("\r\n") + "\n"


def _without_formula(value: Any) -> Any:
    """The value, with an apostrophe before a line of it that begins as a formula; numbers stay."""
    if not isinstance(value, str) or not FORMULA.search(value):
        return value
    try:
        float(value)
    except ValueError:
        return FORMULA.sub("'", value)
    return value


def write_submission(folder: str, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes the file that GLUE's leaderboard takes: a header, then index and label (or number) of each example."""
    files.make_folder(folder)
    lines = [f"{number}\t{row['label']}\n" for number, row in enumerate(rows)]
    write_lines(os.path.join(folder, name), ["index\tprediction\n", *lines])


def _columns(row: Mapping[str, Any]) -> dict[str, Any]:
    columns = {name: value for name, value in row.items() if name not in NOT_COLUMNS}
    probabilities = row.get("probabilities", {})
    if not isinstance(probabilities, dict):
        probabilities = dict(enumerate(probabilities))
    columns |= {f"probability {label}": f"{value:.6f}" for label, value in probabilities.items()}
    if "tags" in row:
        columns |= {name: " ".join(map(str, row[name])) for name in ("tags", "scores")}
    if "answers" in row:
        columns["scores"] = " ".join(f"{mask[0]['score']:.6f}" for mask in row["answers"])
    texts = {name: row[name] for name in TEXTS if name in row}
    texts |= {f"choice {number}": text for number, text in enumerate(row.get("choices", []))}
    return {**columns, **texts}


def _line(values: Iterable[Any]) -> str:
    return "\t".join(" ".join(str(value).split("\t")).replace("\r", " ").replace("\n", " ") for value in values) + "\n"
