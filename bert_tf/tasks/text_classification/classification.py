"""Examples and a goal -> a Task: what all tasks on whole texts share, whatever their files look like.

B rows of a batch, T = max_seq_length slots, F texts of an example, C classes or choices, n examples of a split.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from bert_tf.data import pipeline
from bert_tf.errors import UserError
from bert_tf.model.sequence_packing import PackingSpec
from bert_tf.tasks.function_task import FunctionReportingTask
from bert_tf.tasks.task import Objective
from bert_tf.tasks.text_classification import predictions
from bert_tf.tasks.text_classification.goals import Choice, Classes, Labels, Number
from bert_tf.tasks.text_classification.splits import Split, described, statistics
from bert_tf.tasks.text_classification.text_windows import Windows
from bert_tf.training import metrics

INPUTS = ("text_a", "text_b")  # names of texts in the export, those of the original's InputExample


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextTask(FunctionReportingTask):
    """A task about whole texts, and what only its script asks for.

    goal: see tasks.text_classification.goals; told_by(goal): the fields that depend on what it makes of the answers.
    submissions: {split: name of the file that a leaderboard takes}.
    """

    goal: Classes | Number
    told_by: Callable
    test_splits: tuple = ("test",)
    submissions: Mapping[str, str] = dataclasses.field(default_factory=dict)


def settings(options):
    """The arguments of `task` that are flags of run_classifier.py; raises UserError for windows that cannot be."""
    windows = None
    if options.long_texts == "windows":
        windows = Windows(
            stride=options.doc_stride or options.max_seq_length // 2,
            most=options.max_windows,
            pooling=options.window_pooling,
        )
        windows.check(options.max_seq_length)
    same = {name: getattr(options, name) for name in ("max_seq_length", "class_weights", "criterion")}
    return {**same, "windows": windows}


def task(
    name,
    splits,
    goal,
    tokenizer,
    *,
    max_seq_length,
    texts=1,
    scores=(),
    criterion="",
    class_weights="none",
    windows=None,
    **fields,
):
    """The task of answering `goal` (see bert_tf.tasks.text_classification.goals) about examples.

    splits: {split: function that reads its examples}, called when first needed; "train" is trained on.
    texts: how many texts an example has, 1 or 2. scores: names in metrics.SCORES; by default those of the goal.
    criterion: the score that decides which model is the best; by default the first of them.
    class_weights: "balanced" lets every class count alike in the training loss, "none" every example.
    windows: how texts longer than max_seq_length are read, a Windows; None: they are cut.
    fields: of TextTask, where they are other than: evaluate "dev", predict "test", nothing to submit.
    """
    if windows and isinstance(goal, Choice):
        raise UserError("long_texts=windows goes with texts and pairs; leave it out for choices, which are cut.")
    source = _source(name, splits, goal, balanced=class_weights == "balanced")
    scores = _deciding_first(scores or goal.scores, criterion, goal)
    # MNLI: matched_accuracy
    criterion = next((f"{prefix}{scores[0]}" for prefix in fields.get("eval_splits", {"": 0})), "")
    rows = {"max_seq_length": max_seq_length, "windows": windows}
    stream = functools.partial(batches, inputs=functools.partial(goal.inputs, tokenizer, **rows))
    told_by = functools.partial(
        _told_by, source=source, scores=scores, submissions=fields.get("submissions", {}), texts=texts, **rows
    )
    return TextTask(
        name=name,
        create_model=functools.partial(goal.model, window_pooling=windows.pooling) if windows else goal.model,
        train_batches=lambda size, seed: stream(source("train"), size, seed=seed),
        eval_batches=lambda size, split="dev": stream(source(split), size),
        predictions=functools.partial(kept_answers, goal=goal),
        told_by=told_by,
        **_measured(goal) | _head(goal) | told_by(goal),
        split=source,
        describe=lambda split: described(split, source(split), goal, tokenizer, **rows),
        statistics=lambda split: statistics(source(split), goal, tokenizer, max_seq_length=max_seq_length),
        **{"eval_splits": {"": "dev"}, "criterion": criterion, **fields},
    )


def with_thresholds(task, thresholds):
    """The task of several labels with other probabilities, one for each label, above which they hold."""
    return dataclasses.replace(task, **task.told_by(Labels(task.goal.labels, task.goal.separator, thresholds)))


def _source(name, splits, goal, balanced):
    """The function that gives the Split of a name, each read when first asked for."""

    @functools.cache
    def source(split):
        if split not in splits:
            raise UserError(f"{name} has no {split} data: give a trained model as init_checkpoint, and do_train=false.")
        return Split(splits[split](), goal, balanced=balanced and split == "train")

    return source


def _deciding_first(scores, criterion, goal):
    """The names of the scores, with the criterion in front; UserError where it cannot decide."""
    if not criterion:
        return tuple(scores)
    if criterion not in goal.criteria:
        raise UserError(f"criterion is {criterion}; expected one of {', '.join(goal.criteria)} for this task.")
    return tuple(dict.fromkeys((criterion, *scores)))


def _measured(goal):
    """What a TextTask minimises."""
    return {
        "loss_weights": lambda batch: {goal.measure: batch["row_weights"]},
        "objectives": {goal.measure: Objective()},
    }


def _head(goal):
    """What a TextTask says of its head."""
    rows = len(goal.labels) if isinstance(goal, Choice) else 1
    head = ("classifier/kernel", goal.size)
    return {"labels": goal.labels, "kind": goal.kind, "head": head, "rows_per_example": rows}


def _told_by(goal, *, source, scores, submissions, texts, **rows):
    """What a TextTask says of its answers: its measures, scores, files and export."""

    def told(answers, split):
        hardest = predictions.hardest(goal, source(split), answers)
        return {**details(goal, answers, source(split)), "hardest": hardest}

    return {
        "goal": goal,
        "metrics": functools.partial(measures_of, goal=goal),
        "signatures": functools.partial(serve, goal=goal, texts=texts, **rows),
        "scores": lambda answers, split: scored(goal, scores, answers, source(split)),
        "compare": lambda answers, split: compared(goal, answers, source(split)),
        "details": told,
        "write_predictions": lambda folder, split, answers: write_predictions(
            folder, split, predictions.described(goal, source(split), answers), submissions
        ),
        "serving_examples": lambda split: serving_examples(goal, source(split)),
    }


def batches(split, size, *, inputs, seed=None):
    """Batches of a Split: what `inputs` makes of texts [B, F], "truth" [B, ...], "row_weights", "row_numbers" [B].

    With a seed endless, in a new order every epoch; without one a pass in order, whose last batch is filled up with
    rows of number and weight 0. Every tensor has a static first dimension. The state of an iterator is one number.
    """
    count = len(split.texts)
    # An empty row behind the last, for what fills the last batch.
    texts = tf.constant(np.concatenate([split.texts, np.full_like(split.texts[:1], "")]))  # string [n + 1, F]
    truth = tf.constant(np.concatenate([split.truth, np.zeros_like(split.truth[:1])]))
    weights = tf.constant(np.append(split.weights, np.float32(0)))

    def made(rows):
        numbers = tf.where(rows < count, rows + 1, 0)
        return {
            **inputs(tf.gather(texts, rows)),
            "truth": tf.gather(truth, rows),
            "row_weights": tf.gather(weights, rows),
            "row_numbers": tf.cast(numbers, tf.int32),
        }

    return pipeline.indexed_batches(count, size, made, seed=seed)


def measures_of(outputs, batch, *, goal):
    """The loss, and accuracy where a guess is right or wrong; the latter never weighted by class."""
    measures = {goal.measure: (goal.loss(outputs, batch["truth"]), batch["row_weights"])}
    right = goal.right(outputs, batch["truth"])
    if right is not None:
        measures["accuracy"] = (right, tf.cast(batch["row_weights"] > 0, tf.float32))
    return measures


def kept_answers(outputs, batch, *, goal):
    """What is kept of a batch, float32: the goal's answers and "row_numbers"."""
    return goal.answers(outputs) | {"row_numbers": tf.cast(batch["row_numbers"], tf.float32)}


def scored(goal, names, answers, split):
    """{score: number} of the answers to the first examples of a split, as many as there are answers."""
    truth, guesses = compared(goal, answers, split)
    return {name: metrics.SCORES[name](truth, guesses) for name in names}


def compared(goal, answers, split):
    """The truth of the first examples of a split, as many as there are answers, and what was guessed."""
    return split.truth[: len(answers["row_numbers"])], goal.guesses(answers)


def details(goal, answers, split):
    """What was taken for what: {"per_class", "confusion"} (see bert_tf.training.metrics); {} for numbers and choices.

    Several labels have no "confusion"; the row of each says its "threshold".
    """
    if not goal.labels or isinstance(goal, Choice):
        return {}
    truth, guesses = compared(goal, answers, split)
    rows = metrics.per_class(truth, guesses, goal.labels)
    if isinstance(goal, Labels):
        thresholds = goal.thresholds.tolist()
        return {"per_class": [{**row, "threshold": x} for row, x in zip(rows, thresholds, strict=True)]}
    return {"per_class": rows, "confusion": metrics.confusion(truth, guesses, len(goal.labels))}


def write_predictions(folder, split, rows, submissions):
    """Writes the rows of `predictions.described` as predictions.tsv and .jsonl, of several test sets with their names,
    and what a leaderboard takes.
    """
    name = "predictions" if split == "test" else f"predictions_{split.removeprefix('test_')}"
    if split in submissions:
        predictions.write_submission(os.path.join(folder, "submission"), submissions[split], rows)
    return [f"{len(rows):,} predictions are in {predictions.write(folder, name, rows)}."]


def serve(model, tokenizer, *, goal, texts, max_seq_length, windows=None):
    """The signatures of the export: texts -> what the goal answers, and the name of the "label", string [B].

    serving_default: string [B] each of `text_a` and, for pairs, `text_b`; of a choice `text_a` and `choices` [B, C].
    tf_example: `examples`, string [B], each a serialized tf.Example with these as features.
    """
    shapes = (
        {"text_a": [], "choices": [len(goal.labels)]} if isinstance(goal, Choice) else dict.fromkeys(INPUTS[:texts], [])
    )

    def answered(*given):  # string [B] or [B, C] each
        columns = [text if len(text.shape) == 2 else text[:, None] for text in given]
        inputs = goal.inputs(tokenizer, tf.concat(columns, 1), max_seq_length, windows)
        answers = goal.answers(model(inputs, packing=PackingSpec.dynamic()))
        return {**answers, **goal.served(answers)}

    specs = [tf.TensorSpec([None, *shape], tf.string, name) for name, shape in shapes.items()]
    if len(specs) == 1:
        serving_default = tf.function(lambda text_a: answered(text_a), input_signature=specs, autograph=False)
    elif isinstance(goal, Choice):
        serving_default = tf.function(
            lambda text_a, choices: answered(text_a, choices), input_signature=specs, autograph=False
        )
    else:
        serving_default = tf.function(
            lambda text_a, text_b: answered(text_a, text_b), input_signature=specs, autograph=False
        )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")], autograph=False)
    def tf_example(examples):
        features = {name: tf.io.FixedLenFeature(shape, tf.string) for name, shape in shapes.items()}
        parsed = tf.io.parse_example(examples, features)
        return answered(*(parsed[name] for name in shapes))

    return {"serving_default": serving_default, "tf_example": tf_example}


def serving_examples(goal, split, most=8):
    """{signature: {input: values}} of the first texts of a split, to compare an export with the live model on."""
    texts = split.texts[:most]
    columns = [
        texts[:, 0].tolist(),
        texts[:, 1:].tolist() if isinstance(goal, Choice) else texts[:, 1:2].ravel().tolist(),
    ]
    names = ("text_a", "choices") if isinstance(goal, Choice) else INPUTS
    given = {name: values for name, values in zip(names, columns, strict=True) if values}
    rows = [{name: values[row] for name, values in given.items()} for row in range(len(texts))]
    return {"serving_default": given, "tf_example": {"examples": [_serialized(row) for row in rows]}}


def _serialized(row):
    features = {}
    for name, value in row.items():
        texts = [text.encode() for text in ([value] if isinstance(value, str) else value)]
        features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
