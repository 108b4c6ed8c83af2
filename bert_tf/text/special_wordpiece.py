"""WordPiece with special tokens recognized in texts: `ExactWordpiece` between them, in the graph.

B texts, P parts of all texts (special tokens and what is between them), N tokens of all texts.
"""

from collections.abc import Sequence

import tensorflow as tf

from bert_tf.text.characters import special_token_pattern
from bert_tf.text.ragged_scan import row_numbers
from bert_tf.text.text_kernels import tf_text
from bert_tf.text.wordpiece import ExactWordpiece, character_offsets

DELETED = "\x01"  # a control of one byte, deleted from every text as U+0000 is


class SpecialWordpiece:
    """Has the methods of ExactWordpiece. `characters.reference_tokenize` is the same in plain Python.

    Args:
        wordpiece: splits what is no special token.
        tokens: the special tokens, see `special_tokens.choose`.
        ids: of these tokens.
    """

    def __init__(self, wordpiece: ExactWordpiece, tokens: Sequence[str], ids: Sequence[int]) -> None:
        self._wordpiece = wordpiece
        self._pattern = special_token_pattern(tokens)
        with tf.init_scope(), tf.device("CPU:0"):  # eager: captured, not copied into each graph
            self._tokens, self._ids = tf.constant(list(tokens)), tf.constant(list(ids), tf.int32)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """texts: string [B] -> ragged int32 [B, (tokens)]."""
        parts, _, _ = self._parts(texts)
        is_special, special_ids = self._find(parts.values)
        ids = self._wordpiece.tokenize(tf.where(is_special, "", parts.values))
        return _join(parts, ids, special_ids)

    def tokenize_with_offsets(
        self, texts: tf.Tensor, *, in_characters: bool
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """texts: string [B] -> ids (int32), starts, ends (int64): ragged [B, (tokens)]."""
        parts, begins, ends = self._parts(texts)
        is_special, special_ids = self._find(parts.values)
        ordinary = tf.where(is_special, "", parts.values)
        ids, *offsets = self._wordpiece.tokenize_with_offsets(ordinary, in_characters=False)
        all_ids = _join(parts, ids, special_ids)
        begin_of_token = tf.gather(begins.values, row_numbers(ids))
        flat = [
            _join(parts, inside.with_values(inside.values + begin_of_token), special_ids.with_values(bound)).values
            for inside, bound in zip(
                offsets, (tf.boolean_mask(x.values, is_special) for x in (begins, ends)), strict=True
            )
        ]
        if in_characters:
            flat = character_offsets(texts, row_numbers(all_ids), *flat)
        return all_ids, all_ids.with_values(flat[0]), all_ids.with_values(flat[1])

    def _parts(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """String [B] -> parts, and where they begin and end in bytes (int64): ragged [B, (parts)]; none is empty."""
        texts = tf.strings.regex_replace(texts, r"\x00", DELETED)  # U+0000 would end the text
        parts, begins, ends = tf_text.regex_split_with_offsets(texts, self._pattern, self._pattern)
        splits = parts.row_splits
        if texts.shape[0] is not None:
            splits = tf.ensure_shape(splits, [texts.shape[0] + 1])
        parts = tf.RaggedTensor.from_row_splits(parts.values, splits, validate=False)
        return parts, parts.with_values(begins.values), parts.with_values(ends.values)

    def _find(self, parts: tf.Tensor) -> tuple[tf.Tensor, tf.RaggedTensor]:
        """String [P] -> whether each part is a special token, bool [P]; its id: ragged int32 [P, (1 or 0)]."""
        is_token = tf.equal(parts[:, None], self._tokens[None, :])
        is_special = tf.reduce_any(is_token, 1)
        ids = tf.gather(self._ids, tf.boolean_mask(tf.argmax(is_token, 1), is_special))
        return is_special, tf.RaggedTensor.from_row_lengths(ids, tf.cast(is_special, tf.int64), validate=False)


def _join(parts: tf.RaggedTensor, ordinary: tf.RaggedTensor, special: tf.RaggedTensor) -> tf.RaggedTensor:
    """Values of the tokens of each part, ragged [P, (tokens)] twice, one of them empty -> ragged [B, (tokens)]."""
    return parts.with_values(tf.concat([ordinary, special], 1)).merge_dims(1, 2)
