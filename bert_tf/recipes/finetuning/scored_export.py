"""The scores of an export on labeled examples: the same as in training, computed by its head from the answers."""

import contextlib
import dataclasses
import importlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf import heads
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.data import tables
from bert_tf.data.examples import Example, label_columns
from bert_tf.errors import UserError
from bert_tf.export import about_file, loaded_model, opening, prediction_inputs, text_function
from bert_tf.export.batches import predict_in_order
from bert_tf.export.text_function import TextFunction
from bert_tf.heads.base.head import Head
from bert_tf.heads.base.text_head import TextHead
from bert_tf.heads.tags import Tags
from bert_tf.heads.vectors import Vectors
from bert_tf.recipes.finetuning import trained_texts
from bert_tf.runtime import files, plugins
from bert_tf.tasks import labelled_rows
from bert_tf.tasks.catalog import glue, swag
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training.run_directory import recorded_flags

WINDOW = 4096  # examples in which those of similar length share batches
Report = Callable[[Iterable], Iterable]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scored:
    """The result. details: as shown by `scoreboard`, if available."""

    task: str
    kind: str
    examples: int
    scores: dict[str, Any]
    details: dict[str, Any]


def about(folder: str) -> dict[str, Any]:
    """The about.json of an export, with "kind" and "reads"; UserError if the export cannot be scored."""
    values = loaded_model.about(folder)
    if str(values.get("task")).startswith("pretraining/"):
        raise UserError(
            f"{folder} fills masks and has no labels to score against: pass an export of a fine-tuned model."
        )
    kind = values.get("kind")
    if not kind or not isinstance(kind, str):
        raise UserError(
            f"{folder} does not specify the predictions of its head: export its run again with "
            "`bert-tf export RUN --overwrite`."
        )
    plugins.check_trusted(kind, os.path.join(folder, about_file.NAME))
    return {"labels": [], "reads": {}, **values, "kind": kind}


def check_file(path: str, about: Mapping[str, Any]) -> None:
    """Raises UserError, before a model is loaded, for a file that is missing, of the wrong type or lacks a column."""
    contents = heads.get(about["kind"]).wording().labelled_file
    if not contents and files.exists(path) and not tables.is_table(path):
        raise UserError(f"{path} is not a table with labels; expected a name ending in {', '.join(tables.EXTENSIONS)}.")
    if not files.is_file(path):
        raise UserError(f"There is no file {path}: pass {contents or 'a table'}.")
    columns = comma_separated(about["reads"].get("text_columns"))
    has_own_layout = not columns and (_glue_layout(about) or about.get("task") == "swag")
    if contents or has_own_layout or issubclass(heads.get(about["kind"]), Vectors):
        return
    for _, row in itertools.islice(tables.read(path, malformed=[]), 1):
        labels = label_columns(about["reads"].get("label_column") or "label", row)
        tables.check_columns(path, row, [*columns, *labels])


def number_of_texts(path: str, about: Mapping[str, Any]) -> int | None:
    """Number of texts per example of a table; None if unspecified, or for other files."""
    if heads.get(about["kind"]).wording().labelled_file:
        return None
    return prediction_inputs.number_of_texts(path, comma_separated(about["reads"].get("text_columns")))


def score(
    folder: str,
    path: str,
    about: Mapping[str, Any],
    *,
    batch_size: int | None,
    report: Report,
    jit_compile: str = "auto",
    texts: int | None = None,
    engine: str = opening.TENSORFLOW,
) -> Scored:
    """Scores the export in a folder on a file; starts TensorFlow.

    about: the result of `about`. batch_size: None for the device's default. report(rows): yields them, and may show
    progress.
    jit_compile, texts, engine: see `opening.open_model`.

    Raises UserError for a file without labels, for one that cannot be read, and for a label unknown to the export.
    """
    kind = heads.get(about["kind"])
    export = opening.open_model(folder, engine, jit_compile=jit_compile, texts=texts)
    if issubclass(kind, Vectors) and len(comma_separated(about["reads"].get("text_columns"))) < 2:
        raise UserError(f"{folder} was trained on single texts, which have no score: evaluate it in training.")
    layout = _glue_layout(about)
    outputs = [str(number) for number in range(sum(count or 0 for count in export.inputs.values()))]
    head: Head = kind.recorded({**about, "labels": about.get("labels") or outputs})
    if isinstance(head, TextHead):
        head = head.scored_by(layout.scores if layout else ())
    for package in head.scored_with:  # an error now, not after the last prediction
        importlib.import_module(package)
    is_own = kind.wording().labelled_file or issubclass(kind, Vectors)  # of other tables the export says what it reads
    items = head.training.labelled(path, about["reads"]) if is_own else _labelled(path, export, about)
    trained = trained_texts.read(folder) if is_own else _trained_on(folder, export, about)
    hashes: list[int] = []
    count, scores, details = _evaluate(head, export, _noted(items, head, hashes), batch_size, report)
    if trained is not None:
        trained_texts.warn(folder, path, trained, np.array(hashes, np.uint64))
    name = str(about.get("task", ""))
    return Scored(task=name, kind=about["kind"], examples=count, scores=scores, details=details)


def score_split(
    export: TextFunction, task: FineTuningTask, split: str, count: int, *, batch_size: int
) -> dict[str, float]:
    """The scores of an export on the first `count` texts, questions or sentences of a split of its task."""
    items = task.split(split).items[:count]
    return _evaluate(task.head, export, items, batch_size, iter)[1]


def _evaluate(
    head: Head, export: TextFunction, items: Iterable[Any], batch_size: int | None, report: Report
) -> tuple[int, dict[str, Any], dict[str, Any]]:
    training, is_of_words = head.training, head.kind == Tags.kind
    predictor = (is_of_words and export.word_tagger) or export
    kept: list[Any] = []

    def asked() -> Iterator[Example]:
        for item in items:
            kept.append(training.kept(item))
            yield from training.asked(item, export.inputs)

    size = batch_size or (text_function.BATCH_SIZE if is_of_words else export.batch_size)
    window = max(WINDOW // size, 1) * size
    rows = report(predict_in_order(predictor, asked(), batch_size=size, window=window))
    scores, details = training.evaluate(kept, (outputs for _, outputs in rows))
    return len(kept), scores, details


def _noted(items: Iterable[Any], head: Head, hashes: list[int]) -> Iterator[Any]:
    """The same items; adds the hashes of their texts to a list."""
    texts_of = head.training.texts_of
    for item in items:
        hashes.append(trained_texts.fingerprint(texts_of(item)))
        yield item


def _trained_on(folder: str, export: TextFunction, about: Mapping[str, Any]) -> np.ndarray | None:
    """The hashes of the training texts; for a run that did not record them, computed from its table."""
    recorded = trained_texts.read(folder)
    flags = next(filter(None, map(recorded_flags, trained_texts.folders(folder))), {})
    path, columns = flags.get("train_file") or "", comma_separated(flags.get("text_columns") or "")
    if recorded is not None or not (tables.is_table(path) and files.is_file(path)):
        return recorded
    with contextlib.suppress(UserError):  # the table has changed since
        rows = prediction_inputs.read(path, export.inputs, columns=columns, malformed=[])
        return trained_texts.hashes(row.texts for row in rows)
    return None


def _labelled(path: str, export: TextFunction, about: Mapping[str, Any]) -> Iterator[Example]:
    """Yields the examples of a table: from the specified columns, in the layout of GLUE or SWAG, or by input names.

    Raises UserError, with the place, for an example with more or fewer texts than the export takes.
    """
    reads, layout = about["reads"], _glue_layout(about)
    columns = comma_separated(reads.get("text_columns"))
    if not columns and layout:
        rows: Iterable[Example] = glue.read_file(path, layout, next(iter(layout.eval_splits.values()), "test"))
    elif not columns and about.get("task") == "swag":
        rows = swag.read(path)
    else:
        if columns:
            export.check_order()
        rows = _table_rows(path, export, about, columns)
    expected = sum(count or 1 for count in export.inputs.values())
    for example in rows:
        if len(example.texts) != expected:
            raise UserError(
                f"In {example.location} there are {len(example.texts)} texts; the export {export.source} takes "
                f"{expected}."
            )
        yield example


def _table_rows(path: str, export: TextFunction, about: Mapping[str, Any], columns: Sequence[str]) -> Iterator[Example]:
    """The rows of a table that training would use: those with label and text; labels are spelled as in training.

    Raises UserError if there are none.
    """
    label, malformed, reasons, kept = about["reads"].get("label_column") or "label", list[str](), list[str](), 0
    head, labels = heads.of_texts(about["kind"]), list(map(str, about["labels"]))
    spelled = labelled_rows.spelling(labels)
    for row in prediction_inputs.read(path, export.inputs, columns=columns, label=label, malformed=malformed):
        row = labelled_rows.with_value(row, labels, head)
        if lacks := labelled_rows.lacking(row, head):
            reasons.append(f"{row.location} has no {lacks}")
        else:
            kept += 1
            yield spelled(row) if head.is_labelled else row
    reasons = [f"{place} has too many or too few fields" for place in malformed] + reasons
    if not kept:
        raise UserError(f"No row of {path} has a text and a label in its column {label!r}.")
    labelled_rows.report_bad(path, reasons, stops=False, flag="")


def _glue_layout(about: Mapping[str, Any]) -> Any:
    return glue.LAYOUTS.get(str(about.get("task")).removeprefix("glue/"))
