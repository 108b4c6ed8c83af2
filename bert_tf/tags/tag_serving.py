"""The export of a tagger: raw texts to entities, given words to tags; any length, all of it in the graph.

B texts, W words of a row, N words of all texts, P pieces of them all, R rows (windows), T slots, C labels, E entities
of a text.

In a raw text a word is what the original's basic tokenizer parts: between spaces, every punctuation mark and ideograph
by itself; but marks such as the hyphen belong to the word if they stand within it: "all-rounder", "3.5", "AT&T". So
most files of tagged words part them. Who has words of his own gives them as `words`.
"""

import numpy as np
import tensorflow as tf

from bert_tf.encoder import trimmed
from bert_tf.tags.tag_schemes import OUTSIDE
from bert_tf.tags.tag_windows import pieces_of_words
from bert_tf.tokenization.characters import is_cjk

ROWS_AT_ONCE = 16  # memory does not depend on the length of a text
WITHIN_WORDS = "-./&_@"  # marks that do not part letters and digits that they touch on both sides
COMPARED = 8  # sentences that an export is compared with the live model on


def serve(model, tokenizer, *, tag_set, windows):
    """The signatures of the export.

    serving_default(text string [B]) -> "counts" int32 [B], how many entities each text has, and of these, filled up
        with "" and 0: "texts" and "labels" string, "starts" and "ends" int32, characters of the text (an entity is
        exactly that slice), and "scores" float32, the mean of its words' probabilities: [B, E].
    words(words string [B, W], rows filled up with "") -> "tags" string and "scores" float32 [B, W], of every word as
        predicting a file gives them; a word without a piece is O; "probabilities" float32 [B, W, C].
    """

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")], autograph=False)
    def serving_default(text):
        ids, starts, ends = tokenizer.with_offsets(text)
        firsts, owners = _words_of(tokenizer, ids, starts.values, ends.values)
        bounds = tf.cast(ids.row_splits, tf.int32)
        shares = _shares(model, tokenizer, windows, ids.values, bounds, firsts, owners)  # [N, C]
        lasts = tf.concat([firsts, tf.shape(ids.values)], 0)[1:] - 1
        places = (tf.cast(tf.gather(x.values, where), tf.int32) for x, where in ((starts, firsts), (ends, lasts)))
        return _entities(tag_set, text, shares, owners, *places)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.string, "words")], autograph=False)
    def given(words):
        where = tf.where(words != "")  # [N, 2]
        ids, counts = pieces_of_words(tokenizer, tf.gather_nd(words, where))
        firsts, owners = tf.cumsum(counts, exclusive=True), tf.cast(where[:, 0], tf.int32)
        sizes = tf.math.unsorted_segment_sum(counts, owners, tf.shape(words)[0])
        bounds = tf.concat([[0], tf.cumsum(sizes)], 0)
        has_piece = tf.where(counts > 0)  # [., 1]
        known = _shares(model, tokenizer, windows, ids, bounds, *(tf.gather_nd(x, has_piece) for x in (firsts, owners)))
        outside = tf.one_hot(tf.fill([tf.size(counts)], _outside(tag_set)), len(tag_set.labels))
        shares = tf.tensor_scatter_nd_update(outside, has_piece, known)  # [N, C]
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


def _shares(model, tokenizer, windows, ids, bounds, firsts, owners):
    """The probabilities of the labels of words, float32 [N, C].

    ids: int32 [P]; bounds [B + 1]: the pieces of each text; firsts, owners: the first piece and the text of each word.
    """
    starts, ends = bounds[:-1], bounds[1:]
    plan = windows.plan(starts, ends, starts, ends)
    rows = windows.best_rows(plan, starts, owners, firsts)
    slots = 1 + firsts - tf.gather(plan["firsts"], rows)
    packed = windows.rows(tokenizer, ids, plan["firsts"], plan["sizes"])
    logits = _in_parts(model, packed, windows.max_seq_length)  # [R, T, C]
    return tf.nn.softmax(tf.gather_nd(logits, tf.stack([rows, slots], -1)))


def _in_parts(model, rows, slots):
    """The logits of rows, some at a time: [R, T, C], 0 behind the longest of each part."""
    count = tf.shape(rows["lengths"])[0]
    size = model.classifier.bias.shape[0]
    parts = -(-count // ROWS_AT_ONCE)
    array = tf.TensorArray(tf.float32, parts, infer_shape=False, element_shape=[None, slots, size])

    def step(number, array):
        first = number * ROWS_AT_ONCE
        logits = model(trimmed({name: x[first : first + ROWS_AT_ONCE] for name, x in rows.items()}))["logits"]
        behind = [[0, 0], [0, slots - tf.shape(logits)[1]], [0, 0]]
        return number + 1, array.write(number, tf.ensure_shape(tf.pad(logits, behind), [None, slots, size]))

    _, array = tf.while_loop(lambda number, _: number < parts, step, (0, array), parallel_iterations=1)
    return tf.cond(parts > 0, array.concat, lambda: tf.zeros([0, slots, size]))


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
