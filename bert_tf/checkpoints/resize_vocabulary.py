"""A checkpoint that gets another vocabulary: words of a field added, pieces of other languages left out.

V pieces before, W pieces after, D hidden size.
"""

import dataclasses

import numpy as np

from bert_tf.errors import UserError
from bert_tf.text import vocabulary
from bert_tf.text.characters import basic_tokenize, wordpiece

BY_PIECE = ("token_table", "masked_lm/output_bias")  # ends of the names of weights with a row for each piece


@dataclasses.dataclass(frozen=True)
class Change:
    """How many pieces kept their vectors, are new, and were left out."""

    kept: int
    new: int
    left_out: int

    def __str__(self):
        return (
            f"{self.kept:,} pieces keep their vectors, {self.new:,} are new (each the mean of the pieces that it was "
            f"cut into before), {self.left_out:,} are left out."
        )


def with_vocabulary(checkpoint, pieces):
    """The Checkpoint with `pieces` [W] for its vocabulary [V], in any order, and a Change.

    A piece that both have keeps its row of every table. A new one begins as the mean of the pieces that the old
    vocabulary cuts it into, or of all where it knows none: it is to be trained further. Raises UserError where the
    checkpoint does not say vocabulary or casing, and for what `vocabulary.check_special_tokens` refuses.
    """
    before, lower_case = checkpoint.vocabulary, checkpoint.lower_case
    if before is None or lower_case is None:
        missing, flag = ("vocabulary", "vocab_file") if before is None else ("word on casing", "do_lower_case")
        raise UserError(
            f"The checkpoint has no {missing}, which a new vocabulary must be compared with: give --{flag}."
        )
    vocabulary.check_special_tokens(pieces, "The new vocabulary")
    ids = {piece: number for number, piece in enumerate(before)}
    sources = [[ids[piece]] if piece in ids else _parts(piece, ids, lower_case) for piece in pieces]
    weights = {
        name: _moved(array, sources) if name.endswith(BY_PIECE) else array for name, array in checkpoint.weights.items()
    }
    config = dataclasses.replace(checkpoint.config, vocab_size=len(pieces))
    kept = len(ids.keys() & set(pieces))
    change = Change(kept, len(pieces) - kept, len(ids) - kept)
    return dataclasses.replace(checkpoint, config=config, weights=weights, vocabulary=list(pieces)), change


def _parts(piece, ids, lower_case):
    """The numbers of the old pieces that a new one consists of; all there are where one of them is unknown."""
    inside = piece.startswith("##")
    cut = basic_tokenize(piece.removeprefix("##"), lower_case=lower_case)
    found = [part for number, word in enumerate(cut) for part in wordpiece(word, ids, inside=inside and not number)]
    return list(range(len(ids))) if not found or "[UNK]" in found else [ids[part] for part in found]


def _moved(array, sources):  # [V, D] or [V], W lists of rows -> [W, D] or [W]
    return np.stack([array[rows[0]] if len(rows) == 1 else array[rows].mean(0) for rows in sources])
