"""The export of a pre-trained model: fills [MASK]s, and predicts whether one text follows another.

B texts, T positions in a row, M [MASK]s in the texts of a request, V vocabulary size, K predictions for each.
"""

from __future__ import annotations

from typing import Any

from bert_tf.config.bert_config import BertConfig
from bert_tf.heads.base.string_signature import string_signature
from bert_tf.heads.masked_lm import PREDICTIONS, lm_kind
from bert_tf.model.packing import PackingSpec
from bert_tf.runtime import backend
from bert_tf.runtime.lazy import keras, tf
from bert_tf.text.ragged_scan import row_numbers
from bert_tf.text.tokenizer import Tokenizer, pack


def output_positions(config: BertConfig, positions: tf.Tensor) -> tf.Tensor:
    """The model outputs that predict the tokens at these positions; for language models the left-to-right ones."""
    kind = lm_kind(config)
    if kind == "masked":
        return positions
    before = tf.maximum(positions - 1, 0)
    return before if kind == "left_to_right" else 2 * before


def predicted_positions(config: BertConfig, outputs: Any) -> Any:
    """The positions of the tokens predicted by these outputs: inverts `output_positions`, for both directions."""
    kind = lm_kind(config)
    if kind == "masked":
        return outputs
    return outputs + 1 if kind == "left_to_right" else outputs // 2 + 1 - 2 * (outputs % 2)


def signatures(model: keras.Model, tokenizer: Tokenizer, *, next_sentence: bool = True) -> dict[str, Any]:
    """The signatures of the export: mask filling, and next sentence prediction if it was trained."""
    filling = fill_mask(model, tokenizer)
    return {**filling, **next_sentence_signature(model, tokenizer)} if next_sentence else filling


def next_sentence_signature(model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
    """The signature next_sentence: the probability that the second text follows the first.

    text_a, text_b: string [B]; pairs that are too long are truncated by `pack`. Returns "is_next" float32 [B].
    """
    strings = [tf.TensorSpec([None], tf.string, name) for name in ("text_a", "text_b")]

    def read(text_a: tf.Tensor, text_b: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        return pack(tokenizer, [text_a, text_b], model.config.max_position_embeddings), {}

    def compute(rows: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        no_positions = tf.zeros([tf.shape(rows["lengths"])[0], 0], tf.int32)
        outputs = model({**rows, "masked_lm_positions": no_positions}, packing=PackingSpec())
        return {"is_next": tf.nn.softmax(outputs["next_sentence_logits"])[:, 0]}

    return {"next_sentence": string_signature(read, compute, lambda numbers, rest: numbers, strings)}


def fill_mask(model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
    """The signature serving_default: texts with [MASK] -> the most probable tokens for each mask.

    text: string [B]. Returns "pieces" (tokens) string [B, M, K] and "scores" float32 [B, M, K], probabilities, best
    first; "" and 0 for a text with fewer than M masks. A text that is too long is truncated around its first [MASK].
    """
    room = model.config.max_position_embeddings - 2
    count = min(PREDICTIONS, model.config.vocab_size)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")], autograph=False)
    def serving_default(text: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = _truncate_around_mask(tokenizer.ids_with_masks(text), tokenizer.mask_id, room)
        inputs = _framed(ids, tokenizer)
        is_mask = tf.equal(inputs["token_ids"], tokenizer.mask_id)  # [B, T]
        all_positions = tf.broadcast_to(tf.range(tf.shape(is_mask)[1]), tf.shape(is_mask))
        positions = tf.ragged.boolean_mask(all_positions, is_mask)
        is_used = tf.sequence_mask(positions.row_lengths(), dtype=tf.float32)[:, :, None]  # [B, M, 1]
        with backend.only_values():
            outputs = model({**inputs, "masked_lm_positions": output_positions(model.config, positions.to_tensor())})
        scores, best_ids = tf.math.top_k(tf.nn.softmax(outputs["masked_lm_logits"]), count)  # [B, M, K]
        tokens = tf.where(is_used > 0, tokenizer.ids_to_tokens(best_ids), "")
        return {"pieces": tokens, "scores": scores * is_used}

    return {"serving_default": serving_default}


def _truncate_around_mask(ids: tf.RaggedTensor, mask_id: int, room: int) -> tf.RaggedTensor:
    """Keeps at most `room` tokens of each text, with its first mask in the middle if both sides are too long."""
    lengths, rows = tf.cast(ids.row_lengths(), tf.int32), row_numbers(ids)
    positions = tf.range(tf.size(ids.values)) - tf.gather(tf.cast(ids.row_starts(), tf.int32), rows)  # in its text
    places = tf.where(tf.equal(ids.values, mask_id), positions, tf.int32.max)
    first = tf.math.unsorted_segment_min(places, rows, tf.size(lengths))  # [B]
    first = tf.where(tf.equal(first, tf.int32.max), 0, first)
    start = tf.clip_by_value(first - room // 2, 0, tf.maximum(lengths - room, 0))
    offset = positions - tf.gather(start, rows)
    kept = tf.boolean_mask(ids.values, (offset >= 0) & (offset < room))
    return tf.RaggedTensor.from_row_lengths(kept, tf.cast(tf.minimum(lengths, room), tf.int64), validate=False)


def _framed(ids: tf.RaggedTensor, tokenizer: Tokenizer) -> dict[str, tf.Tensor]:
    """Ragged [B, (tokens)] -> [CLS] tokens [SEP] as model inputs [B, T]."""
    lengths = tf.cast(ids.row_lengths(), tf.int32) + 2
    token_ids = tf.pad(ids.to_tensor(tokenizer.pad_id), [[0, 0], [1, 1]], constant_values=tokenizer.pad_id)
    positions = tf.range(tf.shape(token_ids)[1])
    token_ids = tf.where(tf.equal(positions, lengths[:, None] - 1), tokenizer.sep_id, token_ids)
    token_ids = tf.where(tf.equal(positions, 0), tokenizer.cls_id, token_ids)
    return {"token_ids": token_ids, "segment_ids": tf.zeros_like(token_ids), "lengths": lengths}
