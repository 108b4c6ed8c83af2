"""Strings to ids and back: the original BERT tokenizer as TensorFlow ops, and pack(): [CLS] a [SEP] b [SEP].

B texts, L = max_seq_length slots, V vocabulary. A "word" is what lies between spaces and punctuation.

Two stock tensorflow-text kernels do the work, driven by the data of `bert_tf.text.normalizer`. Four things do
not fit into a table of characters; each is dealt with where it occurs:

  final sigma                   the one rule of `str.lower` that looks around     -> `wordpiece._with_final_sigma`
  a word above 200 characters   the limit of the kernel is in bytes               -> `Automaton._long_words_redone`
  several pieces per character  the kernel maps the starts of characters only     -> `wordpiece._ends_of_characters`
  order of combining marks      NFD reorders them; it matters only to marks that are not Mn, none of which is in a BERT
                                vocabulary (their word is [UNK] in any order)     -> refused if one ever is
"""

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.text import vocabulary as vocabularies
from bert_tf.text.wordpiece import Automaton


class Tokenizer:
    """Cuts texts into WordPiece ids exactly as google-research/bert `tokenization.py` does (`FullTokenizer`).

    tokenizer(["The foxes ran."])  ->  ids of  the fox ##es ran .

    Stock TensorFlow and tensorflow-text ops only: works eagerly, in `Dataset.map` and inside a SavedModel. Holds no
    variable, table or asset. Special names in a text are text: "[MASK]" gives "[", "mask", "]", as in the original.

    vocabulary: the pieces, list index = id. lower_case: lower-case and drop accents ("uncased" models).
    Raises UserError for a vocabulary without the five special pieces or with pieces that cannot be handled exactly.
    """

    def __init__(self, vocabulary, lower_case=True):
        vocabularies.check_special_pieces(vocabulary, "The vocabulary")
        self.vocabulary = list(vocabulary)
        self.lower_case = bool(lower_case)
        self.size = len(self.vocabulary)
        ids = {piece: i for i, piece in enumerate(self.vocabulary)}  # of doubles the later wins, as in the original
        self.pad_id, self.unknown_id, self.cls_id, self.sep_id, self.mask_id = (
            ids[piece] for piece in vocabularies.SPECIAL_PIECES
        )
        self.is_continuation = np.array([piece.startswith("##") for piece in self.vocabulary])  # bool [V]
        self._automaton = Automaton(self.vocabulary, lower_case=self.lower_case)
        with tf.init_scope(), tf.device("CPU:0"):  # eager: captured once, even when built inside a trace
            self._pieces = tf.constant(self.vocabulary)  # string [V]

    @classmethod
    def from_file(cls, vocab_file, lower_case=True):
        """Reads `vocab.txt` (one piece per line, line number = id). Raises UserError where `vocabulary.read` does."""
        return cls(vocabularies.read(vocab_file), lower_case)

    def __call__(self, texts):
        """String [B] or a list of str -> ids: ragged int32 [B, (pieces)]. Bytes that are not UTF-8 are dropped."""
        return self._automaton.ids(_as_texts(texts))

    def with_offsets(self, texts, unit="character"):
        """Ids and where each piece stands in the original text.

        texts: string [B], or a list of str -> ids (int32), starts, ends (int64): ragged [B, (pieces)].
        unit: "character" counts code points as `str` does (bytes that start one, if the text is not UTF-8), "byte"
        counts bytes. `text[start:end]` normalizes to the piece; it may end in deleted characters (the accents of a
        decomposed letter). The pieces of one character (Hangul syllables) all have the place of that character.
        """
        if unit not in ("character", "byte"):
            raise UserError(f'unit={unit!r} was given for offsets; use "character" or "byte".')
        return self._automaton.ids_and_places(_as_texts(texts), in_characters=unit == "character")

    def pieces(self, ids):
        """ids: integers of any shape, ragged too -> the pieces themselves, string of the same shape."""
        return tf.gather(self._pieces, ids)

    def detokenize(self, ids):
        """Readable texts of rows of ids (list of lists, array or ragged [B, (pieces)]) -> list of B str.

        Pieces are joined by spaces and ## pieces to the piece before; [PAD] is left out. One row of ids gives one str.
        """
        rows = ids.to_list() if isinstance(ids, tf.RaggedTensor) else [np.asarray(row).tolist() for row in ids]
        if rows and not isinstance(rows[0], list):
            return self._readable(rows)
        return [self._readable(row) for row in rows]

    def _readable(self, row):
        return " ".join(self.vocabulary[i] for i in row if i != self.pad_id).replace(" ##", "")


def pack(tokenizer, segments, max_seq_length):
    """Joins one or two segments into fixed-length model inputs, trimming the longer first.

    pack(tokenizer, [["the fox"], ["ran"]], 8)  ->  [CLS] the fox [SEP] ran [SEP] [PAD] [PAD]

    segments: a list of one or two, each string [B], a list of str, or ragged ids [B, (pieces)].
    Returns "token_ids" and "segment_ids" int32 [B, L] (0 up to the first [SEP], 1 up to the second, then 0) and
    "lengths" int32 [B], the slots in use. Truncation is `_truncate_seq_pair` of google-research/bert
    `run_classifier.py`: pieces go from the end of the longer segment, of the second when both are equally long.
    """
    room = max_seq_length - 1 - len(segments)
    if len(segments) not in (1, 2) or room < 1:
        raise UserError(
            f"pack was given {len(segments)} segments and max_seq_length={max_seq_length}; give one segment and at "
            "least 3, or two segments and at least 4."
        )
    segments = [s if isinstance(s, tf.RaggedTensor) and s.dtype != tf.string else tokenizer(s) for s in segments]
    kept = kept_lengths([tf.cast(segment.row_lengths(), tf.int32) for segment in segments], room)
    slots = tf.range(max_seq_length)[None, :]  # [1, L]
    batch = tf.shape(kept[0])[0]
    token_ids = tf.where(tf.equal(slots, 0), tokenizer.cls_id, tf.fill([batch, max_seq_length], tokenizer.pad_id))
    segment_ids = tf.zeros_like(token_ids)  # [B, L]
    lengths = tf.ones_like(kept[0])  # [B]
    for number, (segment, size) in enumerate(zip(segments, kept, strict=True)):
        place = slots - lengths[:, None]  # [B, L], the place inside this segment
        inside = (place >= 0) & (place < size[:, None])
        closing = tf.equal(place, size[:, None])
        values = tf.concat([tf.cast(segment.values, tf.int32), [tokenizer.pad_id]], 0)  # never empty
        source = tf.where(inside, tf.cast(segment.row_starts(), tf.int32)[:, None] + place, 0)
        token_ids = tf.where(inside, tf.gather(values, source), tf.where(closing, tokenizer.sep_id, token_ids))
        segment_ids = tf.where(inside | closing, number, segment_ids)
        lengths += size + 1
    return {"token_ids": token_ids, "segment_ids": segment_ids, "lengths": lengths}


def kept_lengths(lengths, room):
    """How many pieces of each segment fit: int32 [B] each. Equal to popping from the longer, the second on a tie."""
    if len(lengths) == 1:
        return [tf.minimum(lengths[0], room)]
    first, second = lengths
    return [
        tf.minimum(first, tf.maximum(room - second, (room + 1) // 2)),
        tf.minimum(second, tf.maximum(room - first, room // 2)),
    ]


def _as_texts(texts):
    """Anything that is a batch of strings -> string [B]."""
    if isinstance(texts, str | bytes):
        raise UserError("One string was given where a batch of texts is expected; put it into a list: [text].")
    return tf.ensure_shape(tf.convert_to_tensor(texts, tf.string), [None])
