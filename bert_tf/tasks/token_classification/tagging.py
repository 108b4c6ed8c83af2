"""Tagged sentences and a tag set -> a Task: named entities, chunks, parts of speech.

B rows of a batch, T slots, C labels, N words of a split, R rows of a split, S sentences.
"""

import dataclasses
import functools
import os

import numpy as np
import tensorflow as tf

from bert_tf.data import pipeline
from bert_tf.model import heads
from bert_tf.tasks.function_task import FunctionReportingTask
from bert_tf.tasks.task import Objective
from bert_tf.tasks.text_classification import predictions
from bert_tf.tasks.token_classification import entity_scores, tag_schemes, tag_serving
from bert_tf.tasks.token_classification.conll_files import joined
from bert_tf.tasks.token_classification.tag_schemes import TagSet
from bert_tf.tasks.token_classification.tag_splits import UNKNOWN, Split, described, named, spans_in_text, statistics
from bert_tf.tasks.token_classification.tag_windows import TagWindows

HARDEST = 12  # sentences that are shown with what was wrong in them


@dataclasses.dataclass(frozen=True, kw_only=True)
class TagTask(FunctionReportingTask):
    """A task about words, and what only its own parts ask for."""

    tag_set: TagSet
    windows: TagWindows
    tokenizer: object


def task(name, files, tag_set, tokenizer, *, windows):
    """The task of giving each word a tag (Devlin et al. 2018, section 5.3: a dense layer on first pieces, no CRF).

    files: {split: function that reads it as a conll_files.Tagged}, called when first needed; "train" is trained on.
    """

    @functools.cache
    def source(split):
        return Split(files[split](), tag_set, tokenizer, windows)

    stream = functools.partial(batches, tokenizer=tokenizer, windows=windows)
    return TagTask(
        name=name,
        create_model=functools.partial(heads.TokenClassifier, size=len(tag_set.labels)),
        train_batches=lambda size, seed: stream(source("train"), size, seed=seed),
        eval_batches=lambda size, split="dev": stream(source(split), size),
        loss_weights=lambda batch: {"tag_loss": _asked(batch)},
        metrics=measures_of,
        objectives={"tag_loss": Objective()},
        signatures=functools.partial(tag_serving.serve, tag_set=tag_set, windows=windows),
        eval_splits={"": "dev"},
        predictions=functools.partial(kept_answers, slots=windows.max_seq_length),
        scores=lambda answers, split: scored(answers, source(split)),
        criterion="f1",
        labels=tag_set.labels,
        kind="tags",
        head=("classifier/kernel", len(tag_set.labels)),
        split=source,
        describe=lambda split: described(split, source(split), windows),
        statistics=lambda split: statistics(source(split), windows),
        test_splits=("test",),
        compare=lambda answers, split: compared(answers, source(split)),
        details=lambda answers, split: details(answers, source(split)),
        write_predictions=lambda folder, split, answers: write_predictions(folder, split, answers, source(split)),
        serving_examples=lambda split: tag_serving.examples(source(split).sentences),
        tag_set=tag_set,
        windows=windows,
        tokenizer=tokenizer,
    )


def batches(split, size, *, tokenizer, windows, seed=None):
    """Batches of rows of a Split: inputs of the model, "labels" int32 [B, T], -1 in slots that are not asked for, and
    "row_numbers" [B].

    With a seed endless, in a new order every epoch; without one a pass in order, whose last batch is filled up with
    rows of number 0. All shapes are static. The state of an iterator is one number.
    """
    count = split.count
    ids, labels = (tf.constant(x) for x in (split.ids, split.labels))
    columns = [tf.constant(x) for x in (split.firsts, split.sizes, split.asked, split.asked_end)]

    def made(places):
        is_row = places < count
        first, room, asked, asked_end = (tf.gather(x, tf.minimum(places, count - 1)) for x in columns)
        packed = windows.rows(tokenizer, ids, first, room)
        piece = first[:, None] + tf.range(windows.max_seq_length)[None, :] - 1  # [B, T], behind [CLS]
        is_asked = (piece >= asked[:, None]) & (piece < asked_end[:, None]) & is_row[:, None]
        return {
            **packed,
            "labels": tf.where(is_asked, tf.gather(labels, tf.where(is_asked, piece, 0)), UNKNOWN),
            "row_numbers": tf.cast(tf.where(is_row, places + 1, 0), tf.int32),
        }

    return pipeline.indexed_batches(count, size, made, seed=seed)


def _asked(batch):
    """1.0 in the slots of words whose label is known and asked for, [B, T]."""
    return tf.cast(batch["labels"] != UNKNOWN, tf.float32)


def measures_of(outputs, batch):
    """The loss, the mean cross entropy of all words of a batch, and the share of words that are right."""
    logits = outputs["logits"]  # [B, T, C], with as many slots as the longest row
    slots = tf.shape(logits)[1]
    labels, weights = batch["labels"][:, :slots], _asked(batch)[:, :slots]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(labels, 0), logits)
    right = tf.cast(tf.equal(tf.argmax(logits, -1, tf.int32), labels), tf.float32)
    return {"tag_loss": (losses, weights), "accuracy": (right, weights)}


def kept_answers(outputs, batch, *, slots):
    """What is kept of a batch, float32: "guesses", the number of the best label of each slot, and "shares", its
    probability, [B, slots], and "row_numbers".
    """
    shares = tf.nn.softmax(outputs["logits"])
    behind = [[0, 0], [0, slots - tf.shape(shares)[1]]]
    kept = {"guesses": tf.cast(tf.argmax(shares, -1), tf.float32), "shares": tf.reduce_max(shares, -1)}
    kept = {name: tf.ensure_shape(tf.pad(x, behind), [None, slots]) for name, x in kept.items()}
    return kept | {"row_numbers": tf.cast(batch["row_numbers"], tf.float32)}


def of_words(answers, split):
    """The labels of words, as numbers, and their probabilities: two lists of arrays, for sentences answered whole.

    A word without a piece is O, surely.
    """
    is_missing = split.rows >= len(answers["row_numbers"])
    count = int(is_missing.argmax()) if is_missing.any() else len(is_missing)
    rows, slots = split.rows[:count], split.slots[:count]
    outside = split.tag_set.labels.index(tag_schemes.OUTSIDE) if tag_schemes.OUTSIDE in split.tag_set.labels else 0
    has_piece = rows >= 0
    guesses = np.where(has_piece, answers["guesses"][rows, slots], outside).astype(np.int32)
    shares = np.where(has_piece, answers["shares"][rows, slots], 1.0)
    return split.by_sentence(guesses), split.by_sentence(shares)


def compared(answers, split):
    """The truth and what was guessed, numbers of labels int32 [N] each, as far as there are answers."""
    guesses = np.concatenate([np.zeros(0, np.int32), *of_words(answers, split)[0]])
    return split.truth[: len(guesses)], guesses


def scored(answers, split):
    """{"f1", "precision", "recall"} of the entities of a split, as far as there are answers."""
    return entity_scores.scores(**_tags(answers, split)) if split.is_known else {}


def _tags(answers, split):
    """The arguments of entity_scores.scores."""
    labels = np.array(split.tag_set.labels, object)
    guesses = of_words(answers, split)[0]
    truth = split.by_sentence(split.truth)[: len(guesses)]
    sides = ([labels[row].tolist() for row in side] for side in (truth, guesses))
    return dict(zip(("truth", "guesses"), sides, strict=True), is_plain=split.tag_set.scheme == "plain")


def details(answers, split):
    """{"per_class": scores of each type, "hardest": the sentences with most that was missed or made up}.

    Of these "truth" names what was missed, and "label" what was made up.
    """
    tags = _tags(answers, split)
    rows = []
    for row in told(answers, split):
        missed, made_up = _only(row["truth"], row["entities"]), _only(row["entities"], row["truth"])
        named_ones = {"label": named(made_up) or "nothing", "truth": named(missed) or "nothing else"}
        rows.append({"id": row["id"], "text": row["text"], **named_ones, "wrong": len(missed) + len(made_up)})
    rows = sorted((row for row in rows if row["wrong"]), key=lambda row: -row["wrong"])
    return {"per_class": entity_scores.per_type(**tags), "hardest": rows[:HARDEST]}


def _only(entities, others):
    """The entities that are not among the others, in their order."""
    known = {(entity["label"], entity["start"], entity["end"]) for entity in others}
    return [entity for entity in entities if (entity["label"], entity["start"], entity["end"]) not in known]


def told(answers, split):
    """What was found in each sentence: dictionaries with "id", "text", "entities" and, where it is known, "truth".

    An entity is {"text", "label", "start", "end", "score"}: characters of the text, and the mean of its words' best
    probabilities.
    """
    rows = []
    for number, (guesses, shares) in enumerate(zip(*of_words(answers, split), strict=True)):
        sentence = split.sentences[number]
        text, places = joined(sentence.words)
        spans = split.tag_set.spans(guesses)
        entities = spans_in_text(spans, text, places)
        for entity, (_, first, end) in zip(entities, spans, strict=True):
            entity["score"] = round(float(shares[first:end].mean()), 6)
        row = {"id": str(number), "text": text, "entities": entities}
        if split.is_known:
            row["truth"] = spans_in_text(split.spans_of(sentence), text, places)
        rows.append(row)
    return rows


def write_predictions(folder, name, answers, split):
    """Writes `name`.jsonl, what was found in each sentence, and `name`.txt, the file with a column more: tags of the
    scheme that it has itself. Returns sentences on it, and the scores where the truth is known.
    """
    name = "predictions" if name == "test" else f"predictions_{name}"
    rows, guesses = told(answers, split), of_words(answers, split)[0]
    predictions.write_rows(os.path.join(folder, f"{name}.jsonl"), rows)
    scheme, path = split.tagged.scheme or split.tag_set.scheme, os.path.join(folder, f"{name}.txt")
    spans = (split.tag_set.spans(numbers) for numbers in guesses)
    split.tagged.write(path, [tag_schemes.tags(s, len(g), scheme) for s, g in zip(spans, guesses, strict=True)])
    said = [f"{len(rows):,} predictions are in {path}."]
    return said + [f"  {score:26} {value:.4f}" for score, value in scored(answers, split).items()]
