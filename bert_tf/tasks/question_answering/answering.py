"""Questions -> a Task: finding the answer to a question in a text of any length.

B rows of a batch (each a window of a question's context), T slots, Q questions, W windows of a split, M candidates.
"""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from bert_tf.data import pipeline
from bert_tf.model import heads
from bert_tf.model.sequence_packing import PackingSpec
from bert_tf.tasks.function_task import FunctionFineTuningTask
from bert_tf.tasks.question_answering import original_alignment, squad_scores
from bert_tf.tasks.question_answering.question_splits import AT_ONCE, Split, described, statistics
from bert_tf.tasks.question_answering.question_windows import QuestionWindows
from bert_tf.tasks.question_answering.spans import IMPOSSIBLE, Search
from bert_tf.tasks.task import Objective

WINDOWS_AT_ONCE = 16  # of the export: memory does not depend on the length of a context
CANDIDATES = ("start_scores", "end_scores", "starts", "ends", "null_scores")


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionTask(FunctionFineTuningTask):
    """A task about questions, and what only its script asks for.

    windows, search: how contexts are cut and what may be an answer.
    """

    windows: QuestionWindows
    search: Search
    tokenizer: object


def task(name, splits, tokenizer, *, windows, search):
    """The task of answering questions.

    splits: {split: function that reads its questions}, called when first needed; "train" is trained on.
    """

    @functools.cache
    def source(split):
        return Split(splits[split](), tokenizer, windows)

    stream = functools.partial(batches, tokenizer=tokenizer, windows=windows)
    return QuestionTask(
        name=name,
        create_model=heads.SpanFinder,
        train_batches=lambda size, seed: stream(source("train").training(), size, seed=seed),
        eval_batches=lambda size, split="dev": stream(source(split), size),
        loss_weights=lambda batch: {"span_loss": batch["row_weights"]},
        metrics=measures_of,
        objectives={"span_loss": Objective()},
        signatures=functools.partial(serve, windows=windows, search=search),
        eval_splits={"": "dev"},
        predictions=functools.partial(kept_answers, windows=windows, search=search),
        scores=functools.partial(_scores_of, source, search),
        criterion="best_f1" if search.has_null else "f1",
        kind="span",
        head=("span/kernel", 2),
        split=source,
        describe=lambda split: described(split, source(split), windows),
        statistics=lambda split: statistics(source(split), windows),
        windows=windows,
        search=search,
        tokenizer=tokenizer,
    )


def batches(split, size, *, tokenizer, windows, seed=None):
    """Batches of windows: inputs of the model, "start_slots", "end_slots" [B], the truth (0: [CLS]), "row_weights" and
    "row_numbers" [B].

    With a seed endless, in a new order every epoch; without one a pass in order, whose last batch is filled up with
    rows of number and weight 0, and with the rest of `QuestionWindows.rows`. All shapes are static. The state of an
    iterator is one number.
    """
    count = len(split.rows)
    rows = tf.constant(np.append(split.rows, 0))
    columns = {name: tf.constant(getattr(split, name)) for name in ("owners", "numbers")}
    of_question = ("context_numbers", "first_pieces", "last_pieces")
    columns |= {name: tf.constant(getattr(split, name)) for name in of_question}
    is_known = tf.constant(split.can_be_learned.astype(np.float32))

    def made(places):
        window = tf.gather(rows, places)
        owner, number = tf.gather(columns["owners"], window), tf.gather(columns["numbers"], window)
        context, first, last = (tf.gather(columns[name], owner) for name in of_question)
        made = windows.rows(tokenizer, split.pieces, owner, context, number)
        start_slots, end_slots = windows.targets(made, first, last)
        is_row = places < count
        if seed is not None:
            made = {name: made[name] for name in ("token_ids", "segment_ids", "lengths")}
        return {
            **made,
            "start_slots": start_slots,
            "end_slots": end_slots,
            "row_weights": tf.gather(is_known, owner) * tf.cast(is_row, tf.float32),
            "row_numbers": tf.cast(tf.where(is_row, places + 1, 0), tf.int32),
        }

    return pipeline.indexed_batches(count, size, made, seed=seed)


def measures_of(outputs, batch):
    """The loss: the mean of the cross entropies of start and end over the slots in use; and how often both are right.

    The original counts the slots of padding too; here they are none, so that the length of rows does not matter.
    """
    start_logits, end_logits = (_in_use(outputs[name], batch["lengths"]) for name in ("start_logits", "end_logits"))
    losses = [
        tf.nn.sparse_softmax_cross_entropy_with_logits(batch[f"{side}_slots"], logits)
        for side, logits in (("start", start_logits), ("end", end_logits))
    ]
    right = tf.equal(tf.argmax(start_logits, -1, tf.int32), batch["start_slots"])
    right &= tf.equal(tf.argmax(end_logits, -1, tf.int32), batch["end_slots"])
    return {
        "span_loss": ((losses[0] + losses[1]) / 2, batch["row_weights"]),
        "window_accuracy": (tf.cast(right, tf.float32), batch["row_weights"]),
    }


def _in_use(logits, lengths):
    return tf.where(tf.range(tf.shape(logits)[1])[None, :] < lengths[:, None], logits, IMPOSSIBLE)


def kept_answers(outputs, batch, *, windows, search):
    """The candidates of each window (see Search.candidates) and its "row_numbers", all float32: enough for characters
    of a context below 16 million.
    """
    rows = _trimmed_rows(batch, outputs)
    found = search.candidates(outputs["start_logits"], outputs["end_logits"], rows, windows)
    return {name: tf.cast(x, tf.float32) for name, x in {**found, "row_numbers": batch["row_numbers"]}.items()}


def _trimmed_rows(rows, outputs):
    """The rows of a batch with as many slots as the outputs have."""
    slots = tf.shape(outputs["start_logits"])[1]
    return {name: x[:, :slots] if name in ("starts", "ends") else x for name, x in rows.items()}


def answered(split, answers, search):
    """What is answered to each question of a split, as far as there are answers of its windows: list of dictionaries.

    "answers": n best, {"text", "start", "end", "probability", "start_logit", "end_logit"}; "answer": the one to give;
    "null_odds": null score minus the best other, None without has_null.
    """
    count = len(answers["row_numbers"])
    complete = int(split.owners[count]) if count < len(split.owners) else len(split.questions)
    best = tf.function(lambda found, owners, contexts: _with_choice(search, found, owners, contexts), autograph=False)
    firsts = np.searchsorted(split.owners, np.arange(len(split.questions) + 1))
    told = []
    for first in range(0, complete, AT_ONCE):
        last = min(first + AT_ONCE, complete)
        part = slice(firsts[first], firsts[last])
        found = {name: tf.constant(answers[name][part]) for name in CANDIDATES}
        found |= {name: tf.cast(found[name], tf.int32) for name in ("starts", "ends")}
        contexts = tf.constant(split.contexts[split.context_numbers[first:last]])
        result = best(found, tf.constant(split.owners[part] - first), contexts)
        result = {name: x.numpy() for name, x in result.items()}
        told += [_told(result, row, search.has_null) for row in range(last - first)]
    return told


def _with_choice(search, found, owners, contexts):
    answers = search.answers(found, owners, contexts)
    return {**answers, "chosen": search.chosen(answers)}


def _told(result, row, has_null):
    there = np.flatnonzero(result["probabilities"][row] > 0)
    listed = [
        {
            "text": result["texts"][row, place].decode("utf-8", "replace"),
            "start": int(result["starts"][row, place]),
            "end": int(result["ends"][row, place]),
            "probability": float(result["probabilities"][row, place]),
            "start_logit": float(result["start_scores"][row, place]),
            "end_logit": float(result["end_scores"][row, place]),
        }
        for place in there
    ]
    chosen = int(result["chosen"][row])
    best = next((one for one, place in zip(listed, there, strict=True) if place == chosen), None)
    nothing = {"text": "", "start": 0, "end": 0, "probability": 0.0}
    odds = float(result["score_differences"][row]) if has_null else None
    return {"answers": listed, "answer": best or nothing, "null_odds": odds}


def scored(told, split, search):
    """The official scores of what was answered to the first questions of a split; of 2.0 with the best thresholds.

    The thresholds are found on what is answered if there must be an answer.
    """
    questions = split.questions[: len(told)]
    given = {q.id: one["answer"]["text"] for q, one in zip(questions, told, strict=True)}
    if not search.has_null:
        return squad_scores.evaluate(questions, given)
    found = squad_scores.evaluate_with_null(questions, given)
    odds = {q.id: one["null_odds"] for q, one in zip(questions, told, strict=True)}
    forced = {q.id: best_other(one)["text"] for q, one in zip(questions, told, strict=True)}
    best = squad_scores.evaluate_with_null(questions, forced, odds)
    return found | {name: value for name, value in best.items() if name.startswith("best_")}


def best_other(one):
    """The best answer to a question that is one; an empty one where there is none."""
    return next((answer for answer in one["answers"] if answer["text"]), {"text": "", "start": 0, "end": 0})


def with_threshold(task, threshold):
    """The task with another threshold for "no answer"."""
    search = dataclasses.replace(task.search, threshold=threshold)
    scores = functools.partial(_scores_of, task.split, search)
    return dataclasses.replace(
        task, search=search, scores=scores, signatures=functools.partial(serve, windows=task.windows, search=search)
    )


def _scores_of(source, search, answers, split):
    return scored(answered(source(split), answers, search), source(split), search)


def realigned(split, told, task):
    """The same answers cut out of the texts as the original does, see tasks.question_answering.original_alignment; for
    parity.
    """
    return [_realigned(question, one, task.tokenizer) for question, one in zip(split.questions, told, strict=False)]


def _realigned(question, one, tokenizer):
    def cut(answer):
        words = tokenizer.detokenize(tokenizer([answer["text"]]))[0].split() if answer["text"] else []
        if not words:
            return answer
        place = question.context, answer["start"], answer["end"]
        return {**answer, "text": original_alignment.answer(*place, words, lower_case=tokenizer.lower_case)}

    different = {}
    for answer in map(cut, one["answers"]):
        different.setdefault(answer["text"], answer)  # of two with the same text the better one
    return {**one, "answers": list(different.values()), "answer": cut(one["answer"])}


def serve(model, tokenizer, *, windows, search):
    """serving_default(question string [Q], context string [Q]) -> the answer, its place, and the n best.

    "answer" string [Q], "start" and "end" int32 [Q] in characters of the context: the answer is exactly that slice;
    "score" float32 [Q], its probability among the n best; "null_score" float32 [Q], the sum of the scores of [CLS].
    "answers", "starts", "ends", "probabilities" [Q, n] (n + 1 with "no answer"), best first.
    """

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name) for name in ("question", "context")], autograph=False
    )
    def serving_default(question, context):
        rows = windows.all_rows(tokenizer, question, context)
        found = _in_parts(lambda part: _candidates(model, windows, search, part), rows)
        answers = search.answers(found, rows["owners"], context)
        chosen = search.chosen(answers)
        names = {"answer": "texts", "start": "starts", "end": "ends", "score": "probabilities"}
        one = {name: tf.gather(answers[theirs], chosen, batch_dims=1) for name, theirs in names.items()}
        lists = {"answers": answers["texts"], **{name: answers[name] for name in ("starts", "ends", "probabilities")}}
        return {**one, **lists, "null_score": answers["null_scores"]}

    return {"serving_default": serving_default}


def _candidates(model, windows, search, rows):
    outputs = model(rows, packing=PackingSpec.dynamic())
    rows = _trimmed_rows(rows, outputs)
    return search.candidates(outputs["start_logits"], outputs["end_logits"], rows, windows)


def _in_parts(function, rows):
    """A function of rows, on some of them at a time; the results joined."""
    count = tf.size(rows["owners"])
    parts = -(-count // WINDOWS_AT_ONCE)
    dtypes = dict.fromkeys(CANDIDATES, tf.float32) | {"starts": tf.int32, "ends": tf.int32}
    arrays = {name: tf.TensorArray(dtypes[name], parts, infer_shape=False) for name in CANDIDATES}

    def step(number, arrays):
        first = number * WINDOWS_AT_ONCE
        found = function({name: x[first : first + WINDOWS_AT_ONCE] for name, x in rows.items()})
        return number + 1, {name: array.write(number, found[name]) for name, array in arrays.items()}

    _, arrays = tf.while_loop(lambda number, _: number < parts, step, (0, arrays), parallel_iterations=1)
    return {name: array.concat() for name, array in arrays.items()}
