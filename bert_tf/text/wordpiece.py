"""The two kernels behind the tokenizer: texts to ids and places, exact where a table of characters is not enough.

B texts, N pieces in the whole batch (flat), W bytes of a model. "Normal" is the normalized text, `row` the text of a
piece; a place is a byte of the original text unless it is called normal.
"""

import unicodedata

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.errors import UserError
from bert_tf.text.characters import MAX_CHARACTERS, is_accent, is_deleted, is_space, plain_pieces
from bert_tf.text.normalizer import final_sigma_pattern, normalizer_model

UNREACHED = "\x02"  # a control: deleted from every text, so that a piece with it matches no word
EVERY_BYTE = [bytes([value]) for value in range(256)]
WIDE_LIMIT = 4 * MAX_CHARACTERS  # bytes of a word of MAX_CHARACTERS characters
HARD_STRINGS = (  # one for each rule that the data, the patterns or the retry has to get right
    "Straße ﬁnd ＡＢ， naïve cafe\u0301 İstanbul x² [MASK] don't $5.00 a+b 😀",
    "ΟΔΟΣ ΟΔΟΣ. ΑΣ\u00adΑ Σ Α\u0301Σ\u0301 ΑΣΣ",
    "a\0b a\ufffdb a\u200bb\u00adc a\u00a0b a\u3000b\u2028c\td\r\ne",
    "我爱你 豈 한국어 ひらがな A\u0327\u0301B`c m\u0308\U000e0041 \u0130\u0345 ǅ ﷺ",
    "a" * 200 + " " + "a" * 201 + " " + "я" * 150 + " " + "я" * 201,
    "",
)


def _in_one_call(function):
    """Makes a function one node of each graph, traced once: a tf.data iterator sets every node up anew."""
    return tf.function(function, autograph=False, reduce_retracing=True, experimental_attributes={"_noinline": True})


class Automaton:
    """The original tokenizer as two automata. See `bert_tf.text.tokenizer.Tokenizer`, its public face."""

    def __init__(self, vocabulary, *, lower_case):
        normalizer, lost = normalizer_model(lower_case)
        _refuse_what_cannot_be_exact(vocabulary, lost, lower_case)
        narrow, where, values = _wordpiece_models(_matchable(vocabulary))
        with tf.init_scope(), tf.device("CPU:0"):  # eager: captured, not copied into each graph
            self._normalizer = tf_text.FastBertNormalizer(model_buffer=tf.constant(normalizer))
            self._model = tf.constant(narrow)  # uint8 [W]
            self._wordpiece = tf_text.FastWordpieceTokenizer(model_buffer=self._model, token_out_type=tf.int32)
            self._wide = where[:, None], values
            self._long_words = _in_one_call(self._long_words_redone)
            self._sigma = final_sigma_pattern() if lower_case else None
            self._check_against_the_original(vocabulary, lower_case)

    def ids(self, texts):
        """texts: string [B] -> ragged int32 [B, (pieces)]."""
        return self._cut(texts, self._normalizer.normalize(self._lowered_sigma(texts)))[0]

    def ids_and_places(self, texts, *, in_characters):
        """texts: string [B] -> ids (int32), starts, ends (int64): ragged [B, (pieces)]."""
        normal, origin = self._normalizer.normalize_with_offsets(self._lowered_sigma(texts))  # origin of each byte
        ids, normal_starts, normal_ends = self._cut(texts, normal)
        row = ids.value_rowids()  # [N]
        base = tf.gather(origin.row_starts(), row)
        starts, ends, last = (
            tf.gather(origin.values, base + place) for place in (normal_starts, normal_ends, normal_ends - 1)
        )
        inside = tf.equal(ends, last)  # [N], the piece ends inside what its last character became
        ends = _when_any(inside, _ends_of_characters, (texts, row, last, inside, ends), ends)
        if in_characters:
            starts, ends = _in_characters(texts, row, starts, ends)
        return ids, ids.with_values(starts), ids.with_values(ends)

    def _lowered_sigma(self, texts):
        return _with_final_sigma(texts, self._sigma) if self._sigma else texts

    def _cut(self, texts, normal):
        """Normal texts, string [B] -> ids: ragged int32 [B, (pieces)], normal starts and ends: int64 [N]."""
        ids, starts, ends = self._wordpiece.tokenize_with_offsets(normal)
        pieces = ids.row_splits, ids.values, starts.values, ends.values
        too_long = ends.values - starts.values > MAX_CHARACTERS  # in bytes; only a word that became [UNK] can be
        splits, ids, starts, ends = _when_any(too_long, self._long_words, (normal, too_long, *pieces), pieces)
        if texts.shape[0] is not None:
            splits = tf.ensure_shape(splits, [texts.shape[0] + 1])
        return tf.RaggedTensor.from_row_splits(ids, splits, validate=False), starts, ends

    def _long_words_redone(self, normal, too_long, splits, ids, starts, ends):
        """Words above 200 bytes came out as [UNK]; those of at most 200 characters are cut again under 800 bytes."""
        where = tf.where(too_long & (ends - starts <= WIDE_LIMIT))[:, 0]  # [words]
        row = tf.searchsorted(splits, where, side="right") - 1
        words = _substrings(normal, row, tf.gather(starts, where), tf.gather(ends, where))
        short = tf.where(tf.strings.length(words, "UTF8_CHAR") <= MAX_CHARACTERS)[:, 0]
        where = tf.gather(where, short)
        wide = tf_text.FastWordpieceTokenizer(
            model_buffer=tf.tensor_scatter_nd_update(self._model, *self._wide), token_out_type=tf.int32
        )
        new_ids, new_starts, new_ends = wide.tokenize_with_offsets(tf.gather(words, short))
        shift = tf.repeat(tf.gather(starts, where), new_ids.row_lengths())
        # Each [UNK] at `where` gives way to its new pieces: `source` is the old index of each piece afterwards.
        counts = tf.tensor_scatter_nd_update(tf.ones_like(starts), where[:, None], new_ids.row_lengths())  # [N]
        source = tf.repeat(tf.range(tf.size(ids)), counts)  # [N afterwards]
        gave_way = tf.scatter_nd(where[:, None], tf.ones_like(where), tf.shape(starts, tf.int64))
        new = tf.where(tf.gather(gave_way, source) > 0)

        def filled(old, values):
            return tf.tensor_scatter_nd_update(tf.gather(old, source), new, values)

        splits = tf.gather(tf.concat([[0], tf.cumsum(counts)], 0), splits)
        return (
            splits,
            filled(ids, new_ids.values),
            filled(starts, new_starts.values + shift),
            filled(ends, new_ends.values + shift),
        )

    def _check_against_the_original(self, vocabulary, lower_case):
        """A new tensorflow-text could read the data in another way: better no tokenizer than a wrong one."""
        known = set(vocabulary)
        longest = sorted((piece for piece in known if piece.isalpha()), key=lambda piece: (len(piece), piece))[-3:]
        texts = [*HARD_STRINGS, " ".join(longest), "".join(longest).upper()]
        for text, ids in zip(texts, self.ids(tf.constant(texts)).to_list(), strict=True):
            found, expected = [vocabulary[i] for i in ids], plain_pieces(text, known, lower_case=lower_case)
            if found != expected:
                raise RuntimeError(
                    f"tensorflow-text {tf_text.__version__} cuts {text[:40]!r} into {found}, the original BERT into "
                    f"{expected}; use the versions of TensorFlow and Python that bert_tf names."
                )


def _when_any(flags, rare, arguments, otherwise):
    """`rare(*arguments)` if any flag is set. Eagerly without its graph, which costs more than a few texts."""
    function = rare.python_function if tf.executing_eagerly() else rare
    return tf.cond(tf.reduce_any(flags), lambda: function(*arguments), lambda: otherwise)


def _refuse_what_cannot_be_exact(vocabulary, lost, lower_case):
    characters = set().union(*vocabulary)
    split_at = characters & lost
    marks = {c for c in characters if lower_case and unicodedata.combining(c) and not is_accent(c)}
    for piece in vocabulary:
        if not split_at.isdisjoint(piece):
            raise UserError(f"The piece {piece!r} has a character that tensorflow-text splits at; remove it.")
        if len(piece.encode()) > MAX_CHARACTERS:
            raise UserError(f"The piece {piece[:20]!r}... has {len(piece.encode())} bytes; at most 200 can be matched.")
        if not marks.isdisjoint(piece):
            raise UserError(f"The piece {piece!r} has a combining mark whose order matters; use lower_case=False.")


def _matchable(vocabulary):
    """The vocabulary, with another name for what no word can match: overruled by a later double, or with a space."""
    last = {piece: i for i, piece in enumerate(vocabulary)}
    in_no_word = {c for c in set().union(*vocabulary) if is_space(c) or is_deleted(c)}

    def can_match(i, piece):
        return piece not in ("", "##") and last[piece] == i and in_no_word.isdisjoint(piece)

    return [piece if can_match(i, piece) else f"{UNREACHED}{i}" for i, piece in enumerate(vocabulary)]


def _wordpiece_models(vocabulary):
    """The WordPiece flatbuffer with a limit of 200 bytes a word, and which bytes to change for WIDE_LIMIT."""

    def model(limit):
        buffer = tf_text.build_fast_wordpiece_model(vocabulary, limit, "##", "[UNK]", False, False)
        return np.frombuffer(buffer, np.uint8)

    narrow, wide = model(MAX_CHARACTERS), model(WIDE_LIMIT)
    where = np.flatnonzero(narrow != wide)
    if len(narrow) != len(wide) or len(where) > 4:
        raise RuntimeError(f"tensorflow-text {tf_text.__version__} lays out its WordPiece model in a way unknown here.")
    return narrow, where, wide[where]


def _with_final_sigma(texts, pattern):
    """String [B] -> string [B]. Both sigmas have two bytes, so that no place moves.

    Next to bytes that are not UTF-8 a sigma is not made final: the pattern cannot look across them.
    """
    here = tf.strings.regex_full_match(texts, r"\C*Σ\C*")  # \C: any byte, so that a text that is not UTF-8 counts too

    return _when_any(here, _lowered, (texts, here, pattern), texts)


@_in_one_call
def _lowered(texts, here, pattern):
    finals = tf.strings.regex_replace(tf.boolean_mask(texts, here), pattern, r"\1ς\2")
    return tf.tensor_scatter_nd_update(texts, tf.where(here), finals)


@_in_one_call
def _ends_of_characters(texts, row, last, inside, ends):
    """For the pieces `inside`: the end of the character that starts at `last`, by its first byte. int64 [N]."""
    text_bytes, base = _flat_bytes(texts)
    at = tf.gather(base, tf.boolean_mask(row, inside)) + tf.boolean_mask(last, inside)
    lead = tf.gather(text_bytes, at)
    size = 1 + sum(tf.cast(lead >= first, tf.int64) for first in (0xC0, 0xE0, 0xF0))
    return tf.tensor_scatter_nd_add(ends, tf.where(inside), size)


def _in_characters(texts, row, *places):
    """Places in bytes -> places in characters, int64 [N] each: how many bytes before it start a character."""
    longer = tf.strings.length(texts, "UTF8_CHAR") < tf.strings.length(texts)  # [B]
    return _when_any(longer, _characters_counted, (texts, row, *places), list(places))


@_in_one_call
def _characters_counted(texts, row, *places):
    text_bytes, base = _flat_bytes(texts)
    is_first = (text_bytes < 0x80) | (text_bytes > 0xBF)  # the others are inner bytes
    before = tf.cumsum(tf.cast(is_first, tf.int32), exclusive=True)
    zero = tf.gather(tf.gather(before, base), row)  # [N]
    base = tf.gather(base, row)
    return [tf.cast(tf.gather(before, base + place) - zero, tf.int64) for place in places]


def _substrings(texts, row, starts, ends):
    """Pieces of texts, string [N], in time that does not grow with pieces x text (as gather and substr would)."""
    text_bytes, base = _flat_bytes(texts)
    base = tf.gather(base, row)
    places = tf.ragged.range(base + starts, base + ends)  # [N, (bytes)]
    letters = tf.gather(EVERY_BYTE, tf.cast(tf.gather(text_bytes, places.values), tf.int32))
    return tf.strings.unsorted_segment_join(letters, places.value_rowids(), places.nrows())


def _flat_bytes(texts):
    """String [B] -> all their bytes and one more, uint8 [bytes + 1], and where each text starts, int64 [B]."""
    sizes = tf.cast(tf.strings.length(texts), tf.int64)
    closed = tf.strings.reduce_join(texts) + "."  # a place may be the end of the last text
    return tf.io.decode_raw(closed, tf.uint8), tf.cumsum(sizes, exclusive=True)
