"""The answers of an export to a labelled file, and the scores that its task has: those of the training scripts.

n examples, C classes, Q questions, S sentences, W words.
"""

import dataclasses
import math
import os
import types

import numpy as np

from bert_tf.data import tables
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import loaded_model, prediction_inputs
from bert_tf.runtime.json_files import read_json
from bert_tf.tasks.question_answering import questions
from bert_tf.tasks.token_classification import conll_files, entity_scores
from bert_tf.tasks.token_classification.tag_schemes import OUTSIDE, TagSet

TEXTS, QUESTIONS, TAGS = ("class", "several", "number", "choice"), "span", "tags"
WINDOW = 4096  # examples among which those of like length are put together
UNLIKELY = 1e-38  # stands for probabilities that are too small for a float32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scored:
    """What came of it. details: as `scoreboard.splits` and `scoreboard.asked` know them, as far as there is such."""

    task: str
    kind: str
    examples: int
    scores: dict
    details: dict


def about(folder):
    """What an export says of itself, with "kind" and "reads"; UserError where it is not one that can be scored.

    Of an older export the kind is that in the folder of its run.
    """
    told = loaded_model.about(folder)
    if str(told.get("task")).startswith("pretraining/"):
        raise UserError(f"{folder} fills masks, and no file says what is right: give an export that was fine-tuned.")
    beside = read_json(os.path.join(os.path.dirname(os.path.abspath(folder)), "task.json")) or {}
    kind = told.get("kind", beside.get("kind") if beside.get("task") == told.get("task") else None)
    if kind not in (*TEXTS, QUESTIONS, TAGS):
        again = "export its run anew with `bert-tf export RUN --overwrite`"
        raise UserError(f"{folder} does not say what its answers are: {again}.")
    return {"labels": [], "reads": {}, **told, "kind": kind}


def expect_readable(path, kind):
    """Raises UserError, before TensorFlow is loaded, for a file that is not there or of another kind."""
    if kind in TEXTS and os.path.splitext(path)[1].lower() not in tables.EXTENSIONS:
        raise UserError(f"{path} is no table with labels; expected a name that ends in {', '.join(tables.EXTENSIONS)}.")
    if not os.path.isfile(path):
        what = {QUESTIONS: "questions in SQuAD's layout", TAGS: "words and tags in columns"}.get(kind, "a table")
        raise UserError(f"There is no file {path}: give {what}.")


def score(folder, path, told, *, batch_size, watched):
    """Scores the export in a folder on a file, as a Scored; starts TensorFlow.

    told: of `about`. watched(rows): yields them, and may say how far they are. Raises UserError for a file without
    labels, for one that cannot be read, and for a label that the export does not know.
    """
    kind = told["kind"]
    function = {QUESTIONS: _questions, TAGS: _tags}.get(kind, _texts)
    count, scores, details = function(folder, path, told, batch_size, watched)
    return Scored(task=str(told.get("task", "")), kind=kind, examples=count, scores=scores, details=details)


def _texts(folder, path, told, batch_size, watched):
    """Of texts only the answers are kept, [n, C]: a file may be of any length."""
    export = loaded_model.Export(folder)
    from bert_tf.tasks.text_classification import classification

    goal, answers, truth = _goal(told), {}, []
    labelled = _expected(_labelled(path, export, told), export, goal)
    window = max(WINDOW // batch_size, 1) * batch_size
    for example, outputs in watched(
        loaded_model.predict_in_order(export, labelled, batch_size=batch_size, window=window)
    ):
        truth.append(goal.truth([example])[0])
        for name in ("logits", "probabilities", "values"):
            if name in outputs:
                answers.setdefault(name, []).append(outputs[name])
    answers = {name: np.stack(values) for name, values in answers.items()} | {"row_numbers": np.arange(len(truth))}
    split = types.SimpleNamespace(truth=np.stack(truth))
    scores = classification.scored(goal, _names_of_scores(told) or goal.scores, answers, split)
    return len(truth), scores, classification.details(goal, answers, split)


def _expected(examples, export, goal):
    """Yields the examples; UserError, with its place, for one without a label, or with more or fewer texts."""
    expected = sum(count or 1 for count in export.inputs.values())
    for example in examples:
        if len(example.texts) != expected:
            given = f"In {example.location} there are {len(example.texts)} texts"
            raise UserError(f"{given}; the export {export.folder} takes {expected}.")
        if example.label in goal.missing:
            raise UserError(f"There is no label in {example.location}: give a file with a label in every row.")
        yield example


def _goal(told):
    from bert_tf.tasks.text_classification import goals

    labels, separator = [str(label) for label in told["labels"]], told["reads"].get("label_separator", ",")
    if told["kind"] == "number":
        return goals.Number()
    if told["kind"] == "choice":
        return goals.Choice(len(labels))
    if told["kind"] == "several":
        return goals.Labels(labels, separator, told.get("thresholds", 0.5))
    return goals.Classes(labels)


def _names_of_scores(told):
    """Those of a task of GLUE; of others none, that is, those of the goal."""
    layout = _glue(told)
    return layout.scores if layout else ()


def _glue(told):
    from bert_tf.tasks.catalog import glue

    return glue.LAYOUTS.get(str(told.get("task")).removeprefix("glue/"))


def _labelled(path, export, told):
    """The examples of the file: columns that were told, or else as GLUE and SWAG write them, or the inputs' names."""
    from bert_tf.tasks.catalog import glue, swag

    columns = [name.strip() for name in (told["reads"].get("text_columns") or "").split(",") if name.strip()]
    if not columns and _glue(told):
        layout = _glue(told)
        return iter(glue.read_file(path, layout, next(iter(layout.eval_splits.values()), "test")))
    if not columns and told.get("task") == "swag":
        return iter(swag.read(path))
    return prediction_inputs.read(
        path, export.inputs, columns=columns, label=told["reads"].get("label_column") or "label"
    )


def _questions(folder, path, told, batch_size, watched):
    found = [question for question in questions.read(path) if question.is_answerable is not None]
    if not found:
        raise UserError(f"No question of {path} has a known answer: give a file with answers.")
    export = loaded_model.Export(folder)
    from bert_tf.tasks.question_answering import answer_highlights, squad_files

    has_null = bool(told["reads"].get("version_2_with_negative", told.get("task") == "squad/v2.0"))
    pairs = [Example(q.id, (q.context, q.question), None, path) for q in found]  # in the order of export.inputs
    answered = loaded_model.predict_in_order(export, iter(pairs), batch_size=batch_size, window=WINDOW)
    predictions = [_prediction(outputs, has_null) for _, outputs in watched(answered)]
    scores = squad_files.scores_of(found, predictions, has_null=has_null)
    return len(found), scores, {"questions": answer_highlights.details(found, predictions)}


def _prediction(outputs, has_null):
    """The questions.Prediction of an export for a question; the odds are those of the probabilities."""
    columns = (outputs[name].tolist() for name in ("answers", "starts", "ends", "probabilities"))
    n_best = [
        {"text": text.decode("utf-8", "replace"), "start": start, "end": end, "probability": probability}
        for text, start, end, probability in zip(*columns, strict=True)
    ]
    answer = {"text": outputs["answer"].decode("utf-8", "replace"), "probability": float(outputs["score"])}
    answer |= {side: int(outputs[side]) for side in ("start", "end")}
    odds = None
    if has_null:
        null, other = (
            max([answer["probability"] for answer in n_best if bool(answer["end"]) is is_answer], default=0)
            for is_answer in (False, True)
        )
        odds = math.log(max(null, UNLIKELY)) - math.log(max(other, UNLIKELY))
    return questions.Prediction(answer, [answer for answer in n_best if answer["probability"] > 0], odds)


def _tags(folder, path, told, batch_size, watched):
    names = {"tag_scheme": "scheme"}
    layout = conll_files.ColumnLayout(**{names.get(name, name): value for name, value in told["reads"].items()})
    tagged, tag_set = conll_files.ConllFile(path, layout), TagSet.of(told["labels"], layout.scheme)
    if tagged.scheme is None:
        raise UserError(f"{path} has words only; expected a column with their tags too.")
    signature = loaded_model.signatures(folder)["words"]
    from bert_tf.tasks.token_classification.tag_splits import label_numbers

    labels = [[tag_set.labels[number] for number in row] for row in label_numbers(tagged, tag_set)]
    words = [sentence.words for sentence in tagged.sentences]
    predicted = dict(watched(_tagged(signature, words, batch_size)))
    tags = {"labels": labels, "predictions": [predicted[row] for row in range(len(words))]}
    tags["is_plain"] = tag_set.scheme == "plain"
    return len(words), entity_scores.scores(**tags), {"per_class": entity_scores.per_type(**tags)}


def _tagged(signature, words, batch_size):
    """Yields (number of a sentence, its tags), long ones first: sentences of like length share a batch."""
    import tensorflow as tf

    order = sorted(range(len(words)), key=lambda row: -len(words[row]))
    for first in range(0, len(order), batch_size):
        rows = order[first : first + batch_size]
        longest = len(words[rows[0]])
        given = tf.constant([[*words[row], *[""] * (longest - len(words[row]))] for row in rows])  # [B, W]
        tags = signature(words=given)["tags"].numpy()
        for row, found in zip(rows, tags, strict=True):
            yield row, [tag.decode() or OUTSIDE for tag in found[: len(words[row])]]
