"""The predictions of an export for a labelled file, and the scores of its task: those of the training scripts.

n examples, C classes, Q questions, S sentences, W words.
"""

import collections
import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf import heads
from bert_tf.data import bad_rows, conll_files, examples, questions, tables
from bert_tf.data.examples import Example
from bert_tf.data.tag_schemes import TagSet
from bert_tf.errors import UserError
from bert_tf.export import about_file, engine_predictor, loaded_model, prediction_inputs, tagged_words
from bert_tf.export.loaded_model import TextFunction
from bert_tf.heads import regression
from bert_tf.heads.span import answer_highlights, squad_files
from bert_tf.heads.tags import entity_scores
from bert_tf.runtime import files, plugins
from bert_tf.runtime.json_files import read_json
from bert_tf.tasks import labelled_rows
from bert_tf.tasks.catalog import glue, swag
from bert_tf.training import metrics

if TYPE_CHECKING:
    from bert_tf.heads.base.text_head import TextHead
    from bert_tf.tasks.catalog.glue import Layout
    from bert_tf.tasks.task import FineTuningTask

QUESTIONS, TAGS, VECTORS = "span", "tags", "vectors"  # kinds of heads; all others are goals of texts
WINDOW = 4096  # examples among which those of similar length share batches
Report = Callable[[Iterable], Iterable]
UNLIKELY = 1e-38  # stands for probabilities that are too small for a float32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scored:
    """The result. details: as `scoreboard` shows them, as far as they apply."""

    task: str
    kind: str
    examples: int
    scores: dict[str, Any]
    details: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Predicting:
    """How an export is run: texts at once, None for what suits the device; `loaded_model.signatures`; progress."""

    batch_size: int | None
    jit_compile: str
    report: Report
    texts: int | None = None
    engine: str = engine_predictor.TENSORFLOW

    def load(self, folder: str) -> TextFunction:
        """The export by its engine."""
        found = engine_predictor.load(folder, self.engine)
        return found or loaded_model.Export(folder, jit_compile=self.jit_compile, texts=self.texts)

    def in_order(self, export: TextFunction, examples: Iterator[Example]) -> Iterable:
        """(example, its outputs), in order."""
        size = self.batch_size or export.batch_size
        window = max(WINDOW // size, 1) * size
        return self.report(loaded_model.predict_in_order(export, examples, batch_size=size, window=window))


def about(folder: str) -> dict[str, Any]:
    """What an export says of itself, with "kind" and "reads"; UserError if it is not one that can be scored.

    The kind of an older export is that in the folder of its run.
    """
    values = loaded_model.about(folder)
    if str(values.get("task")).startswith("pretraining/"):
        raise UserError(f"{folder} fills masks, and no file says what is right: pass an export that was fine-tuned.")
    run = read_json(os.path.join(os.path.dirname(files.absolute(folder)), "task.json")) or {}
    kind = values.get("kind", run.get("kind") if run.get("task") == values.get("task") else None)
    if not kind or not isinstance(kind, str):
        raise UserError(
            f"{folder} does not say what its head predicts: export its run anew with `bert-tf export RUN --overwrite`."
        )
    plugins.check_trusted(kind, os.path.join(folder, about_file.NAME))
    return {"labels": [], "reads": {}, **values, "kind": kind}


def check_file(path: str, kind: str) -> None:
    """Raises UserError, before TensorFlow is loaded, for a file that does not exist or is of another kind."""
    if kind not in (QUESTIONS, TAGS) and not tables.is_table(path):
        raise UserError(f"{path} is not a table with labels; expected a name ending in {', '.join(tables.EXTENSIONS)}.")
    if not files.is_file(path):
        contents = {QUESTIONS: "questions in SQuAD's layout", TAGS: "words and tags in columns"}.get(kind, "a table")
        raise UserError(f"There is no file {path}: pass {contents}.")


def score(
    folder: str,
    path: str,
    about: Mapping[str, Any],
    *,
    batch_size: int | None,
    report: Report,
    jit_compile: str = "auto",
    texts: int | None = None,
    engine: str = engine_predictor.TENSORFLOW,
) -> Scored:
    """Scores the export in a folder on a file; starts TensorFlow.

    about: of `about`. batch_size: None for what suits the device. report(rows): yields them, and may show progress.
    jit_compile, texts: see `loaded_model.signatures`. engine: see `engine_predictor.choose`.

    Raises UserError for a file without labels, for one that cannot be read, and for a label that the export does not
    know.
    """
    kind = about["kind"]
    evaluate = EVALUATE.get(kind, _texts)
    predicting = Predicting(batch_size, jit_compile, report, texts, engine)
    count, scores, details = evaluate(folder, path, about, predicting)
    return Scored(task=str(about.get("task", "")), kind=kind, examples=count, scores=scores, details=details)


def _texts(
    folder: str, path: str, about: Mapping[str, Any], predicting: Predicting
) -> tuple[int, dict[str, float], dict[str, Any]]:
    """Only predictions are kept, [n, C]: a file may have any length."""
    export = predicting.load(folder)

    if about["kind"] == "choice" and not about["labels"]:
        about = {
            **about,
            "labels": [str(number) for number in range(sum(count or 0 for count in export.inputs.values()))],
        }
    goal, labels = heads.of_texts(about["kind"]).from_about(about), []
    labelled = _check_examples(_labelled(path, export, about), export, goal)

    def with_noted_labels() -> Iterator[Example]:
        for example in labelled:
            labels.append(goal.encode([example])[0])
            yield example

    predicted = goal.predicted(_numbers(export, with_noted_labels(), predicting))
    expected = np.stack(labels)
    scores = {name: metrics.score_of(name)(expected, predicted) for name in _score_names(about) or goal.score_names}
    return len(labels), scores, goal.tables(expected, predicted)


def _numbers(export: TextFunction, examples: Iterable[Example], predicting: Predicting) -> dict[str, np.ndarray]:
    """The floating point outputs of an export for texts, in their order: {name: [n, ...]}."""
    columns: dict[str, list[np.ndarray]] = collections.defaultdict(list)
    for _, outputs in predicting.in_order(export, iter(examples)):
        for name, value in outputs.items():
            if np.asarray(value).dtype.kind == "f":
                columns[name].append(value)
    return {name: np.stack(values) for name, values in columns.items()}


def number_of_items(task: "FineTuningTask", predictions: Mapping[str, np.ndarray], split: str) -> int:
    """The texts, questions or sentences that predictions for the first rows of a split are complete for."""
    if task.head.kind == QUESTIONS:
        return len(task.head.best_answers(predictions, task.split(split)))  # type: ignore[attr-defined]
    if task.head.kind == TAGS:
        return len(task.head.word_predictions(predictions, task.split(split))[0])  # type: ignore[attr-defined]
    return len(predictions["row_numbers"])


def score_split(folder: str, task: "FineTuningTask", split: str, count: int, *, batch_size: int) -> dict[str, float]:
    """The scores of an export on the first `count` texts, questions or sentences of a split of its task."""
    data, predicting = task.split(split), Predicting(batch_size, "auto", iter)
    if task.head.kind == QUESTIONS:
        has_null = task.head.search.has_null  # type: ignore[attr-defined]
        answers = _answers(folder, data.questions[:count], predicting, has_null=has_null)
        return squad_files.scores_of(data.questions[:count], answers, has_null=has_null)
    if task.head.kind == TAGS:
        tag_set = task.head.tag_set  # type: ignore[attr-defined]
        words = [sentence.words for sentence in data.sentences[:count]]
        labels = [[tag_set.tags[number] for number in row] for row in data.by_sentence(data.word_labels)[:count]]
        return entity_scores.scores(**_tags_of(folder, words, labels, tag_set, predicting))
    if task.head.kind == VECTORS:
        has_labels = task.name in ("vectors/sts", "vectors/simcse")
        return _vector_scores(folder, data.examples[:count], has_labels=has_labels, predicting=predicting)
    predictions = _numbers(predicting.load(folder), data.examples[:count], predicting)
    return task.scores({**predictions, "row_numbers": np.arange(1, count + 1)}, split)


def _check_examples(examples: Iterable[Example], export: TextFunction, goal: "TextHead") -> Iterator[Example]:
    """Yields the examples; UserError, with its place, for one without a label, or with more or fewer texts."""
    expected = sum(count or 1 for count in export.inputs.values())
    for example in examples:
        if len(example.texts) != expected:
            raise UserError(
                f"In {example.location} there are {len(example.texts)} texts; the export {export.folder} takes "
                f"{expected}."
            )
        if example.label in goal.missing:
            raise UserError(f"There is no label in {example.location}: pass a file with a label in every row.")
        yield example


def _score_names(about: Mapping[str, Any]) -> tuple[str, ...]:
    """Those of a task of GLUE, else ()."""
    layout = _glue_layout(about)
    return layout.scores if layout else ()


def _glue_layout(about: Mapping[str, Any]) -> "Layout | None":
    return glue.LAYOUTS.get(str(about.get("task")).removeprefix("glue/"))


def _labelled(path: str, export: TextFunction, about: Mapping[str, Any]) -> Iterator[Example]:
    """The examples of the file: of the columns that are given, or as GLUE and SWAG write them, or by inputs' names."""
    reads = about["reads"]
    columns = [name.strip() for name in (reads.get("text_columns") or "").split(",") if name.strip()]
    layout = _glue_layout(about)
    if not columns and layout:
        return iter(glue.read_file(path, layout, next(iter(layout.eval_splits.values()), "test")))
    if not columns and about.get("task") == "swag":
        return iter(swag.read(path))
    if columns:
        export.check_order()
    return _labelled_rows(path, export, about, columns)


def _labelled_rows(
    path: str, export: loaded_model.Export, about: Mapping[str, Any], columns: Sequence[str]
) -> Iterator[Example]:
    """The rows of a table that training would read: without those that have no label or text, labels as it spells them.

    UserError if none is left.
    """
    label, malformed, reasons, kept = about["reads"].get("label_column") or "label", list[str](), list[str](), 0
    head, labels = heads.of_texts(about["kind"]), list(map(str, about["labels"]))
    spelled = labelled_rows.spelling(labels)
    for row in prediction_inputs.read(path, export.inputs, columns=columns, label=label, malformed=malformed):
        row = labelled_rows.with_value(row, labels, head)
        if row.label in head.missing or not any(text.strip() for text in row.texts):
            reasons.append(f"{row.location} has no {'label' if row.label in head.missing else 'text'}")
        else:
            kept += 1
            yield spelled(row) if head.has_names else row
    reasons = [f"{place} has too many or too few fields" for place in malformed] + reasons
    if not kept:
        raise UserError(f"No row of {path} has a text and a label in its column {label!r}.")
    bad_rows.report(path, reasons, stops=False, flag="")


def _questions(
    folder: str, path: str, about: Mapping[str, Any], predicting: Predicting
) -> tuple[int, dict[str, float], dict[str, Any]]:
    labelled = [question for question in questions.read(path) if question.is_answerable is not None]
    if not labelled:
        raise UserError(f"No question of {path} has a known answer: pass a file with answers.")
    has_null = bool(about["reads"].get("version_2_with_negative", about.get("task") == "squad/v2.0"))
    predictions = _answers(folder, labelled, predicting, has_null=has_null)
    scores = squad_files.scores_of(labelled, predictions, has_null=has_null)
    return len(labelled), scores, {"questions": answer_highlights.details(labelled, predictions)}


def _answers(
    folder: str, asked: Sequence[questions.Question], predicting: Predicting, *, has_null: bool
) -> list[questions.Prediction]:
    export = predicting.load(folder)
    pairs = [Example(q.id, prediction_inputs.texts_of(q, export.inputs), None, q.id) for q in asked]
    return [_prediction(values, has_null) for _, values in predicting.in_order(export, iter(pairs))]


def _prediction(outputs: Mapping[str, Any], has_null: bool) -> questions.Prediction:
    """The Prediction of an export for a question; the odds are those of the probabilities."""
    columns = (outputs[name].tolist() for name in ("answers", "starts", "ends", "probabilities"))
    n_best: list[questions.Answer] = [
        {"text": text.decode("utf-8", "replace"), "start": start, "end": end, "probability": probability}
        for text, start, end, probability in zip(*columns, strict=True)
    ]
    answer: questions.Answer = {
        "text": outputs["answer"].decode("utf-8", "replace"),
        "start": int(outputs["start"]),
        "end": int(outputs["end"]),
        "probability": float(outputs["score"]),
    }
    odds = None
    if has_null:
        null, other = (
            max([answer["probability"] for answer in n_best if bool(answer["end"]) is is_answer], default=0)
            for is_answer in (False, True)
        )
        odds = math.log(max(null, UNLIKELY)) - math.log(max(other, UNLIKELY))
    return questions.Prediction(answer, [answer for answer in n_best if answer["probability"] > 0], odds)


def _tags(
    folder: str, path: str, about: Mapping[str, Any], predicting: Predicting
) -> tuple[int, dict[str, float], dict[str, Any]]:
    fields = {"tag_scheme": "scheme"}
    layout = conll_files.ColumnLayout(**{fields.get(name, name): value for name, value in about["reads"].items()})
    tagged, tag_set = conll_files.ConllFile(path, layout), TagSet.of(about["labels"], layout.scheme)
    if tagged.scheme is None:
        raise UserError(f"{path} has words only; expected a column with their tags too.")
    from bert_tf.heads.tags.tag_rows import label_numbers

    labels = [[tag_set.tags[number] for number in row] for row in label_numbers(tagged, tag_set)]
    words = [sentence.words for sentence in tagged.sentences]
    tags = _tags_of(folder, words, labels, tag_set, predicting)
    return len(words), entity_scores.scores(**tags), {"per_class": entity_scores.per_type(**tags)}


def _tags_of(
    folder: str,
    words: Sequence[Sequence[str]],
    labels: Sequence[Sequence[str]],
    tag_set: TagSet,
    predicting: Predicting,
) -> dict[str, Any]:
    """The arguments of `entity_scores.scores`: tags of words, and those that an export predicts."""
    tagger = tagged_words.tagger_of(predicting.load(folder))
    outside = tag_set.labels[tag_set.outside]
    batch_size = predicting.batch_size or loaded_model.BATCH_SIZE
    predicted = dict(predicting.report(_predict_tags(tagger, words, outside, batch_size)))
    tags = dict(zip(tag_set.labels, tag_set.tags, strict=True))
    predictions = [[tags[label] for label in predicted[row]] for row in range(len(words))]
    return {"labels": labels, "predictions": predictions, "is_plain": tag_set.scheme == "plain"}


def _predict_tags(
    tagger: loaded_model.Predictor, words: Sequence[Sequence[str]], outside: str, batch_size: int
) -> Iterator[tuple[int, list[str]]]:
    """Yields (number of a sentence, its tags), long ones first: sentences of similar length share a batch."""
    order = sorted(range(len(words)), key=lambda row: -len(words[row]))
    for first in range(0, len(order), batch_size):
        rows = order[first : first + batch_size]
        batch = [Example(str(row), tuple(words[row]), None, f"sentence {row}") for row in rows]
        for row, tags in zip(rows, tagger.predict(batch)["tags"], strict=True):
            yield row, [tag or outside for tag in tags]


def _vectors(
    folder: str, path: str, about: Mapping[str, Any], predicting: Predicting
) -> tuple[int, dict[str, float], dict[str, Any]]:
    """Of a file with the columns that the model was trained on."""
    reads = about["reads"]
    columns = [name.strip() for name in (reads.get("text_columns") or "").split(",") if name.strip()]
    has_labels = about.get("task") == "vectors/sts"
    if len(columns) < 2:
        raise UserError(f"{folder} was trained on single texts, which nothing scores: evaluate it in training.")
    labelled = examples.read(path, texts=columns, label=reads.get("label_column") if has_labels else None)
    return len(labelled), _vector_scores(folder, labelled, has_labels=has_labels, predicting=predicting), {}


def _vector_scores(
    folder: str, labelled: Sequence[Example], *, has_labels: bool, predicting: Predicting
) -> dict[str, float]:
    """The scores of `embeddings.vector_goals`, of the vectors of an export."""
    export = predicting.load(folder)
    from bert_tf.tasks.embeddings import vector_goals, vector_losses

    single = [Example(example.id, (text,), None, example.location) for example in labelled for text in example.texts]
    vectors = _numbers(export, single, predicting)["vectors"].reshape(len(labelled), len(labelled[0].texts), -1)
    if has_labels:
        labels = regression.numbers(labelled)
        cosines = vector_losses.plain_cosines(vectors)
        return {name: metrics.score_of(name)(labels, cosines) for name in vector_goals.Similarities.score_names}
    ranks = vector_losses.ranks(vectors, np.array([example.texts for example in labelled], object))
    return {score.__name__: score(np.ones(len(ranks)), ranks) for score in vector_goals.RANK_SCORES}


EVALUATE = {QUESTIONS: _questions, TAGS: _tags, VECTORS: _vectors}  # heads other than those of texts
