"""The export of a tagger: raw texts to entities, given words to tags; any length, all of it in the graph.

B texts, W words of a row, N words of all texts, P pieces of them all, R rows (windows), T slots, C labels, E entities
of a text; S the shape of what is known of a slot, and of a word.

In a raw text a word is what the original's basic tokenizer parts: between spaces, every punctuation mark and ideograph
by itself; but marks such as the hyphen belong to the word if they stand within it: "all-rounder", "3.5", "AT&T". So
most files of tagged words part them. Who has words of his own gives them as `words`.
"""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from bert_tf.model.sequence_packing import PackingSpec
from bert_tf.tasks.token_classification.tag_schemes import OUTSIDE
from bert_tf.tasks.token_classification.tag_windows import tokenize_words
from bert_tf.text.characters import is_cjk

ROWS_AT_ONCE = 16  # memory does not depend on the length of a text
WITHIN_WORDS = "-./&_@"  # marks that do not part letters and digits that they touch on both sides
COMPARED = 8  # sentences that an export is compared with the live model on


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """How a tagger comes from rows of pieces to the labels of words.

    shape(model) -> S; states(model, rows) -> float32 [R, T, *S], a word is what its first piece is.
    logits(model, states, owners, count) -> float32 [N, C], of states [N, *S], zeros for a word without a piece; owners:
    the text of each word, int32 [N], ascending; count: B.
    """

    shape: Callable
    states: Callable
    logits: Callable


PIECES = Reading(  # a TokenClassifier, which labels every piece
    shape=lambda model: model.classifier.bias.shape,
    states=lambda model, rows: model(rows, packing=PackingSpec.dynamic())["logits"],
    logits=lambda model, states, owners, count: states,
)


def serve(model, tokenizer, *, tag_set, windows, reading=PIECES):
    """The signatures of the export.

    serving_default(text string [B]) -> "counts" int32 [B], how many entities each text has, and of these, filled up
        with "" and 0: "texts" and "labels" string, "starts" and "ends" int32, characters of the text (an entity is
        exactly that slice), and "scores" float32, the mean of its words' probabilities: [B, E].
    words(words string [B, W], rows filled up with "") -> "tags" string and "scores" float32 [B, W], of every word as
        predicting a file gives them; a word without a piece is O; "probabilities" float32 [B, W, C].
    """
    shares_of = functools.partial(_shares, model, tokenizer, tag_set, windows, reading)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")], autograph=False)
    def serving_default(text):
        ids, starts, ends = tokenizer.with_offsets(text)
        firsts, owners = _words_of(tokenizer, ids, starts.values, ends.values)
        words = {"firsts": firsts, "owners": owners, "has_piece": tf.fill([tf.size(firsts)], True)}
        shares = shares_of(ids.values, tf.cast(ids.row_splits, tf.int32), words)  # [N, C]
        lasts = tf.concat([firsts, tf.shape(ids.values)], 0)[1:] - 1
        places = (tf.cast(tf.gather(x.values, where), tf.int32) for x, where in ((starts, firsts), (ends, lasts)))
        return _entities(tag_set, text, shares, owners, *places)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.string, "words")], autograph=False)
    def given(words):
        where = tf.where(words != "")  # [N, 2]
        ids, counts = tokenize_words(tokenizer, tf.gather_nd(words, where))
        firsts, owners = tf.cumsum(counts, exclusive=True), tf.cast(where[:, 0], tf.int32)
        sizes = tf.math.unsorted_segment_sum(counts, owners, tf.shape(words)[0])
        bounds = tf.concat([[0], tf.cumsum(sizes)], 0)
        shares = shares_of(ids, bounds, {"firsts": firsts, "owners": owners, "has_piece": counts > 0})  # [N, C]
        shape = tf.shape(words, tf.int64)
        tags = tf.gather(tf.constant(tag_set.labels), tf.argmax(shares, -1))
        return {
            "tags": tf.tensor_scatter_nd_update(tf.fill(shape, ""), where, tags),
            "scores": tf.scatter_nd(where, tf.reduce_max(shares, -1), shape),
            "probabilities": tf.scatter_nd(where, shares, tf.concat([shape, [len(tag_set.labels)]], 0)),
        }

    return {"serving_default": serving_default, "words": given}


def examples(sentences):
    """{signature: {input: values}} of the first sentences, to compare an export with the live model on.

    Probabilities are compared, not entities, of which a small difference makes another number.
    """
    rows = [list(sentence.words) for sentence in sentences[:COMPARED]]
    most = max(map(len, rows))
    return {"words": {"words": [row + [""] * (most - len(row)) for row in rows]}}


def _outside(tag_set):
    """The label of a word without a piece."""
    return tag_set.labels.index(OUTSIDE) if OUTSIDE in tag_set.labels else 0


def _words_of(tokenizer, ids, starts, ends):
    """The first piece of each word of raw texts, and whose word it is: int32 [N] each.

    ids: ragged [B, (pieces)]; starts, ends [P]: where the pieces stand.
    """
    of_letters = [piece.removeprefix("##").isalnum() and not is_cjk(piece[-1]) for piece in tokenizer.vocabulary]
    of_letters[tokenizer.unknown_id] = True  # mostly a word that the vocabulary lacks
    is_mark = [piece in WITHIN_WORDS for piece in tokenizer.vocabulary]
    is_mark, of_letters, continues = (
        tf.gather(tf.constant(np.array(table)), ids.values)
        for table in (is_mark, of_letters, tokenizer.is_continuation)
    )
    rows = ids.value_rowids()
    touches = tf.equal(rows, _shifted(rows, -1)) & tf.equal(starts, _shifted(ends, -1))  # the piece before
    behind = tf.concat([(touches & of_letters)[1:], [False]], 0)[: tf.size(is_mark)]  # letters behind, at once
    is_within = is_mark & touches & _shifted(of_letters, False) & behind
    is_first = ~(continues | is_within | _shifted(is_within, False))
    firsts = tf.cast(tf.where(is_first)[:, 0], tf.int32)
    return firsts, tf.cast(tf.gather(rows, firsts), tf.int32)


def _shifted(x, first):
    """What stood before each value, [P]; `first` before the first."""
    return tf.concat([[tf.cast(first, x.dtype)], x], 0)[:-1]


def _shares(model, tokenizer, tag_set, windows, reading, ids, bounds, words):
    """The probabilities of the labels of words, float32 [N, C]; a word without a piece is O, surely.

    ids: int32 [P]; bounds [B + 1]: the pieces of each text; words: "firsts" (pieces), "owners" (texts), "has_piece".
    """
    states = _states(model, tokenizer, windows, reading, ids, bounds, words)  # [N, *S]
    shares = tf.nn.softmax(reading.logits(model, states, words["owners"], tf.size(bounds) - 1))
    return tf.where(words["has_piece"][:, None], shares, tf.one_hot(_outside(tag_set), len(tag_set.labels)))


def _states(model, tokenizer, windows, reading, ids, bounds, words):
    """What is known of each word, float32 [N, *S]: of its first piece in the row that shows the most around it."""
    known = tf.where(words["has_piece"])  # [M, 1], M of the words have pieces
    firsts, owners = (tf.gather_nd(words[name], known) for name in ("firsts", "owners"))
    starts, ends = bounds[:-1], bounds[1:]
    plan = windows.plan(starts, ends, starts, ends)
    numbers = plan.best_rows(owners, firsts)  # [M], ascending as words are
    slots = 1 + firsts - tf.gather(plan.firsts, numbers)
    rows = windows.rows(tokenizer, ids, plan.firsts, plan.sizes)
    shape = reading.shape(model)

    def of_rows(first, end):
        here = slice(*tf.unstack(tf.searchsorted(numbers, [first, end])))
        states = reading.states(model, {name: x[first:end] for name, x in rows.items()})
        return tf.gather_nd(states, tf.stack([numbers[here] - first, slots[here]], -1))

    found = in_parts(of_rows, tf.shape(rows["lengths"])[0], shape)  # [M, *S]
    return tf.scatter_nd(known, found, tf.concat([tf.shape(words["firsts"], tf.int64), shape], 0))


def in_parts(made, count, shape):
    """made(first, end) -> float32 [any, *shape], for ROWS_AT_ONCE of `count` at a time, one behind the other."""
    parts = -(-count // ROWS_AT_ONCE)
    array = tf.TensorArray(tf.float32, parts, infer_shape=False, element_shape=[None, *shape])

    def step(number, array):
        first = number * ROWS_AT_ONCE
        found = made(first, tf.minimum(first + ROWS_AT_ONCE, count))
        return number + 1, array.write(number, tf.ensure_shape(found, [None, *shape]))

    _, array = tf.while_loop(lambda number, _: number < parts, step, (0, array), parallel_iterations=1)
    return tf.cond(parts > 0, array.concat, lambda: tf.zeros([0, *shape]))


def _entities(tag_set, text, shares, owners, starts, ends):
    """The entities of words with these probabilities, as `tag_schemes.spans` finds them; see `serve`."""
    codes = {name: tf.constant(np.array(values)) for name, values in tag_set.codes().items()}
    labels = tf.argmax(shares, -1, tf.int32)  # [N]
    here = {name: tf.gather(values, labels) for name, values in codes.items()}
    before = {name: _shifted(x, 0) for name, x in here.items()}
    begins = here["begins"] | before["closes"] | (here["types"] != before["types"])
    begins |= tf.not_equal(owners, _shifted(owners, -1))
    begins &= ~here["is_outside"]
    first = tf.where(begins)[:, 0]  # [entities], in words
    inside = tf.where(~here["is_outside"])[:, 0]
    number, total = tf.gather(tf.cumsum(tf.cast(begins, tf.int32)) - 1, inside), tf.size(first)
    start, owner = tf.gather(starts, first), tf.gather(owners, first)
    end = tf.math.unsorted_segment_max(tf.gather(ends, inside), number, total)
    texts = tf.strings.substr(tf.gather(text, owner), start, end - start, unit="UTF8_CHAR")
    found = {
        "texts": texts,
        "labels": tf.gather(tf.constant(["", *tag_set.types]), tf.gather(here["types"], first)),
        "starts": start,
        "ends": end,
        "scores": tf.math.unsorted_segment_mean(tf.gather(tf.reduce_max(shares, -1), inside), number, total),
    }
    count = tf.size(text)
    padded = {name: tf.RaggedTensor.from_value_rowids(x, owner, nrows=count).to_tensor() for name, x in found.items()}
    return {**padded, "counts": tf.math.unsorted_segment_sum(tf.ones_like(owner), owner, count)}
