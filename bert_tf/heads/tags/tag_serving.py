"""The export of a tagger: raw texts to entities, words to tags; texts of any length, all in the graph.

B texts, W words of a row, N words of all texts, P tokens of all words, R rows (windows), T positions in a row,
C labels, E entities of a text.

The words of a raw text are those found by BERT's basic tokenizer: split at spaces, with every punctuation mark and
CJK character separate; but marks such as the hyphen belong to the word if they are inside it: "all-rounder", "3.5",
"AT&T". Most files of tagged words are split like this. The signature `words` accepts any other words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.data.conll_files import Sentence
from bert_tf.data.tag_schemes import TagSet
from bert_tf.heads.base.string_signature import with_parameters
from bert_tf.heads.tags import graph_decoding
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.model.packing import PackingSpec
from bert_tf.model.row_blocks import concat_blocks
from bert_tf.runtime import backend
from bert_tf.runtime.lazy import keras, tf
from bert_tf.text import whitespace
from bert_tf.text.characters import is_cjk
from bert_tf.text.ragged_scan import from_row_numbers, row_numbers
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.text.wordpiece import substrings

WITHIN_WORDS = "-./&_@"  # marks that do not separate the letters and digits around them
COMPARED = 8  # sentences used to compare an export with the live model

Tensors = dict[str, "tf.Tensor"]
# Arguments: labels [N], the probabilities of all labels [N, C], and anything else that was read.
Answer = Callable[["tf.Tensor", "tf.Tensor", Tensors], Tensors]


class Words(NamedTuple):
    """Words of texts. rest: anything else that the answer needs.

    ids: the tokens of all texts, int32 [P]. bounds: token bounds of texts, [B + 1]. columns: of words, [N]: "firsts",
    its first token, "owners", its text, ascending, and "has_token".
    """

    ids: tf.Tensor
    bounds: tf.Tensor
    columns: Tensors
    rest: Tensors


class WordLogits:
    """Rows of tokens -> logits of words: here with a TokenClassifier, which labels every token.

    A word is represented by the state of its first token, float32 [*S].
    """

    def state_shape(self, model: keras.Model) -> Sequence[int]:
        """S, the shape of a token's state."""
        return model.classifier.bias.shape

    def states(self, model: keras.Model, rows: dict[str, tf.Tensor]) -> tf.Tensor:
        """The states of all positions of rows, float32 [R, T, *S]."""
        return model(rows, packing=PackingSpec())["logits"]

    def logits(self, model: keras.Model, states: tf.Tensor, owners: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """States of words -> float32 [N, C].

        states: [N, *S], zeros for a word without tokens; owners: the text of each word, int32 [N], ascending; count: B.
        """
        return states


class TagServing:
    """The signatures of an export. model: provides the weights; words: how they become logits."""

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        tag_set: TagSet,
        windows: TagWindows,
        words: WordLogits | None = None,
    ) -> None:
        self.model, self.tokenizer, self.tag_set, self.windows = model, tokenizer, tag_set, windows
        self.words = words or WordLogits()

    def signatures(self) -> dict[str, Callable]:
        """The signatures.

        serving_default(text string [B]) -> "counts" int32 [B], the number of entities of each text, and for these,
            padded with "" and 0: "texts" and "labels" string, "starts" and "ends" int32, characters of the text (an
            entity is exactly that slice), and "scores" float32, the mean of its words' probabilities: [B, E].
        words(words string [B, W], rows padded with "") -> "tags" string and "scores" float32 [B, W], for every word
            as in the predictions for a file; a word without tokens is O; "probabilities" float32 [B, W, C].
        """
        texts, words = tf.TensorSpec([None], tf.string, "text"), tf.TensorSpec([None, None], tf.string, "words")
        return {
            "serving_default": self._signature(self._read_texts, self._find_entities, texts),
            "words": self._signature(self._read_words, self._tag_words, words),
        }

    def _signature(self, read: Callable[[tf.Tensor], Words], answer: Answer, spec: tf.TensorSpec) -> Callable:
        """A signature: strings -> words of tokens -> labels and their probabilities -> answer."""

        def signature(strings: tf.Tensor) -> Tensors:
            words = read(strings)
            rest = {**words.columns, "count": tf.size(words.bounds) - 1}
            return answer(*self._labels(self._states_in_blocks(words), rest), {**words.rest, **rest})

        named = with_parameters(backend.only_values()(signature), [spec.name])
        return tf.function(named, input_signature=[spec], autograph=False)

    def _read_texts(self, text: tf.Tensor) -> Words:
        ids, starts, ends = self.tokenizer.with_offsets(text)
        firsts, owners = _split_words(self.tokenizer, ids, starts.values, ends.values)
        lasts = tf.concat([firsts, tf.shape(ids.values)], 0)[1:] - 1
        begins, stops = tf.gather(starts.values, firsts), tf.gather(ends.values, lasts)
        begins, stops = whitespace.trimmed(text, owners, tf.cast(begins, tf.int32), tf.cast(stops, tf.int32))
        is_word = stops > begins  # excludes tokens of white space
        firsts, owners, begins, stops = (tf.boolean_mask(x, is_word) for x in (firsts, owners, begins, stops))
        columns = {"firsts": firsts, "owners": owners, "has_token": tf.fill([tf.size(firsts)], True)}
        rest = {"text": text, "starts": begins, "ends": stops}
        return Words(ids.values, tf.cast(ids.row_splits, tf.int32), columns, rest)

    def _find_entities(self, labels: tf.Tensor, probabilities: tf.Tensor, rest: Tensors) -> Tensors:
        texts, places = rest["text"], (rest["owners"], rest["starts"], rest["ends"])
        return _entities(self.tag_set, texts, labels, _chosen(probabilities, labels), *places)

    def _read_words(self, words: tf.Tensor) -> Words:
        indices = tf.where(words != "")  # [N, 2]
        ids = self.tokenizer.inside_text(tf.gather_nd(words, indices))
        counts = tf.cast(ids.row_lengths(), tf.int32)
        firsts, owners = tf.cumsum(counts, exclusive=True), tf.cast(indices[:, 0], tf.int32)
        sizes = tf.math.unsorted_segment_sum(counts, owners, tf.shape(words)[0])
        bounds = tf.concat([[0], tf.cumsum(sizes)], 0)
        columns = {"firsts": firsts, "owners": owners, "has_token": counts > 0}
        return Words(ids.values, bounds, columns, {"indices": indices, "shape": tf.shape(words, tf.int64)})

    def _tag_words(self, labels: tf.Tensor, probabilities: tf.Tensor, rest: Tensors) -> Tensors:
        indices, shape, names = rest["indices"], rest["shape"], self.tag_set.labels
        return {
            "tags": tf.tensor_scatter_nd_update(tf.fill(shape, ""), indices, tf.gather(tf.constant(names), labels)),
            "scores": tf.scatter_nd(indices, _chosen(probabilities, labels), shape),
            "probabilities": tf.scatter_nd(indices, probabilities, tf.concat([shape, [len(names)]], 0)),
        }

    def _labels(self, states: tf.Tensor, words: Tensors) -> tuple[tf.Tensor, tf.Tensor]:
        """The labels of words, int32 [N], and the probabilities of all labels, float32 [N, C].

        A word without tokens is O with probability 1, and not part of the chain of a CRF.
        states: one for each word, [N, *S]. words: the columns of `Words`, and "count", the number of texts.
        """
        logits = self.words.logits(self.model, states, words["owners"], words["count"])
        potentials = self.model.crf.potentials.value if self.model.crf else None
        with_token = tf.where(words["has_token"])
        logits, owners = (tf.gather_nd(x, with_token) for x in (logits, words["owners"]))
        labels, probabilities = graph_decoding.decode(self.tag_set, logits, owners, words["count"], potentials)
        every = tf.fill([tf.size(words["owners"])], self.tag_set.outside)
        without = tf.one_hot(every, len(self.tag_set.labels))
        return (
            tf.tensor_scatter_nd_update(every, with_token, labels),
            tf.tensor_scatter_nd_update(without, with_token, probabilities),
        )

    def _rows(self, words: Words) -> tuple[Tensors, Tensors]:
        """Rows of tokens, and the place with the most context for the first token of each word that has tokens.

        Places are int32 [M], for the M words with tokens: "numbers" of rows, in the order of words, "positions" in
        them; and "with_token" int64 [M, 1], the words.
        """
        with_token = tf.where(words.columns["has_token"])
        firsts, owners = (tf.gather_nd(words.columns[name], with_token) for name in ("firsts", "owners"))
        *plan, numbers, positions = self.windows.plan(words.bounds, owners, firsts)
        rows = self.windows.rows(self.tokenizer, words.ids, *plan)
        return rows, {"numbers": numbers, "positions": positions, "with_token": with_token}

    def _states_in_blocks(self, words: Words) -> tf.Tensor:
        """The states of all words [N, *S]; states of other tokens are kept in memory for one block at a time."""
        rows, places = self._rows(words)
        numbers, positions = places["numbers"], places["positions"]

        def of_rows(first: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            block = slice(*tf.unstack(tf.searchsorted(numbers, [first, end])))
            states = self.words.states(self.model, {name: x[first:end] for name, x in rows.items()})
            return tf.gather_nd(states, tf.stack([numbers[block] - first, positions[block]], -1))

        shape = self.words.state_shape(self.model)
        states = concat_blocks(of_rows, tf.shape(rows["lengths"])[0], shape)  # [M, *S]
        every = tf.concat([tf.shape(words.columns["firsts"], tf.int64), shape], 0)
        return tf.scatter_nd(places["with_token"], states, every)  # zeros for words without tokens


def serving_examples(sentences: Sequence[Sentence]) -> dict[str, dict[str, list[list[str]]]]:
    """{signature: {input: values}} for the first sentences, to compare an export with the live model.

    Compares probabilities, not entities, because a small difference can change the number of entities.
    """
    rows = [list(sentence.words) for sentence in sentences[:COMPARED]]
    most = max(map(len, rows))
    return {"words": {"words": [row + [""] * (most - len(row)) for row in rows]}}


def _split_words(
    tokenizer: Tokenizer, ids: tf.RaggedTensor, starts: tf.Tensor, ends: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The first token of each word of raw texts, and the text of each word: int32 [N] each.

    ids: ragged [B, (tokens)]; starts, ends [P]: offsets of tokens in their text.
    """
    surfaces = [tokenizer.surface(token) for token in tokenizer.vocabulary]
    of_letters = [surface.isalnum() and not is_cjk(surface[-1]) for surface in surfaces]
    of_letters[tokenizer.unknown_id] = True  # usually a word missing in the vocabulary
    is_mark = [surface != "" and surface in WITHIN_WORDS for surface in surfaces]
    is_mark, of_letters = (tf.gather(tf.constant(np.array(table)), ids.values) for table in (is_mark, of_letters))
    continues = tokenizer.continues_word(ids.values, starts, ends)
    texts = row_numbers(ids)
    touches = tf.equal(texts, _shifted(texts, -1)) & tf.equal(starts, _shifted(ends, -1))  # the token before
    before_letters = tf.concat([(touches & of_letters)[1:], [False]], 0)[: tf.size(is_mark)]
    is_within = is_mark & touches & _shifted(of_letters, False) & before_letters
    is_first = ~(continues | is_within | _shifted(is_within, False)) | tf.not_equal(texts, _shifted(texts, -1))
    firsts = tf.cast(tf.where(is_first)[:, 0], tf.int32)
    return firsts, tf.cast(tf.gather(texts, firsts), tf.int32)


def _shifted(x: tf.Tensor, first: Any) -> tf.Tensor:
    """The value before each value, [P]; `first` before the first."""
    return tf.concat([[tf.cast(first, x.dtype)], x], 0)[:-1]


def _chosen(probabilities: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The probabilities [N] of these labels [N], from the probabilities of all labels [N, C]."""
    return tf.gather(probabilities, labels, batch_dims=1)


def _entities(
    tag_set: TagSet,
    text: tf.Tensor,
    labels: tf.Tensor,
    scores: tf.Tensor,
    owners: tf.Tensor,
    starts: tf.Tensor,
    ends: tf.Tensor,
) -> dict[str, tf.Tensor]:
    """The entities of words with these labels and scores [N], as found by `tag_schemes.tags_to_spans`."""
    codes = {name: tf.constant(np.array(values)) for name, values in tag_set.codes().items()}
    tags = {name: tf.gather(values, labels) for name, values in codes.items()}
    before = {name: _shifted(x, 0) for name, x in tags.items()}
    begins = tags["begins"] | before["closes"] | (tags["types"] != before["types"])
    begins |= tf.not_equal(owners, _shifted(owners, -1))
    begins &= ~tags["is_outside"]
    first = tf.where(begins)[:, 0]  # [entities], word numbers
    inside = tf.where(~tags["is_outside"])[:, 0]
    number, total = tf.gather(tf.cumsum(tf.cast(begins, tf.int32)) - 1, inside), tf.size(first)
    start, owner = tf.gather(starts, first), tf.gather(owners, first)
    end = tf.math.unsorted_segment_max(tf.gather(ends, inside), number, total)
    entities = {
        "texts": substrings(text, owner, start, end),
        "labels": tf.gather(tf.constant(["", *tag_set.types]), tf.gather(tags["types"], first)),
        "starts": start,
        "ends": end,
        "scores": tf.math.unsorted_segment_mean(tf.gather(scores, inside), number, total),
    }
    count = tf.size(text)
    of_texts = from_row_numbers(first, owner, count)
    padded = {name: of_texts.with_values(x).to_tensor() for name, x in entities.items()}
    return {**padded, "counts": tf.math.unsorted_segment_sum(tf.ones_like(owner), owner, count)}
