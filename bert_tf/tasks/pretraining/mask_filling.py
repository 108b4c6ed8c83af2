"""The export of a pre-trained model: fills [MASK]s, and says whether one text goes on from another.

B texts, T slots in a row, P places, M [MASK]s in the texts of a request, V vocabulary, K answers for each.
"""

import tensorflow as tf

from bert_tf.model.sequence_packing import PackingSpec
from bert_tf.text.tokenizer import pack

MASK = "[MASK]"
ANSWERS = 10  # pieces returned for each [MASK] by the export


def guesses_of(config):
    """What a model of that configuration guesses.

    "masked": masked pieces. "left_to_right", of a causal model (paper section 5.1, "LTR"): every piece but the first,
    at the place before it. "both_ways", of two language models: moreover every piece but the last, at the place after.
    """
    if config.encoder_traits.pretraining == "both_ways":
        return "both_ways"
    return "left_to_right" if config.is_causal else "masked"


def slots_that_guess(config, places):
    """Where a model guesses the pieces at these places: a language model must not see them, but what is before."""
    guesses = guesses_of(config)
    if guesses == "masked":
        return places
    before = tf.maximum(places - 1, 0)
    return before if guesses == "left_to_right" else 2 * before


def places_guessed(config, slots):
    """The reverse, also for slots that guess from behind: which pieces these slots guess."""
    guesses = guesses_of(config)
    if guesses == "masked":
        return slots
    return slots + 1 if guesses == "left_to_right" else slots // 2 + 1 - 2 * (slots % 2)


def serve(model, tokenizer, *, next_sentence=True):
    """The signatures of the export: `fill_mask`, and `follows` where next sentence prediction was learned."""
    return {**fill_mask(model, tokenizer), **(follows(model, tokenizer) if next_sentence else {})}


def follows(model, tokenizer):
    """The signature next_sentence: how likely the second text is what comes behind the first.

    text_a, text_b: string [B]; pairs that are too long are cut as `pack` does. Returns "is_next" float32 [B].
    """
    strings = [tf.TensorSpec([None], tf.string, name) for name in ("text_a", "text_b")]

    @tf.function(input_signature=strings, autograph=False)
    def next_sentence(text_a, text_b):
        inputs = pack(tokenizer, [text_a, text_b], model.config.max_position_embeddings)
        nothing = tf.zeros([tf.shape(text_a)[0], 0], tf.int32)  # no piece is asked for
        outputs = model({**inputs, "masked_lm_positions": nothing}, packing=PackingSpec.dynamic())
        logits = outputs["next_sentence_logits"]
        return {"is_next": tf.nn.softmax(logits)[:, 0]}

    return {"next_sentence": next_sentence}


def fill_mask(model, tokenizer):
    """The signature serving_default: texts with [MASK] in them -> the likeliest pieces for each, with scores.

    text: string [B]. Returns "pieces" string [B, M, K] and "scores" float32 [B, M, K], probabilities, best first; for
    a text with fewer than M masks the rest is "" and 0. A text that is too long is cut around its first [MASK].
    """
    room = model.config.max_position_embeddings - 2
    best = min(ANSWERS, model.config.vocab_size)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")], autograph=False)
    def serving_default(text):
        ids = _around_first_mask(ids_with_masks(tokenizer, text), tokenizer.mask_id, room)
        inputs = _framed(ids, tokenizer)
        is_mask = tf.equal(inputs["token_ids"], tokenizer.mask_id)  # [B, T]
        places = tf.ragged.boolean_mask(tf.broadcast_to(tf.range(tf.shape(is_mask)[1]), tf.shape(is_mask)), is_mask)
        known = tf.sequence_mask(places.row_lengths(), dtype=tf.float32)[:, :, None]  # [B, M, 1]
        looks = slots_that_guess(model.config, places.to_tensor())
        outputs = model({**inputs, "masked_lm_positions": looks})
        scores, best_ids = tf.math.top_k(tf.nn.softmax(outputs["masked_lm_logits"]), best)  # [B, M, K]
        pieces = tf.where(known > 0, tokenizer.ids_to_tokens(best_ids), "")
        return {"pieces": pieces, "scores": scores * known}

    return {"serving_default": serving_default}


def ids_with_masks(tokenizer, texts):  # string [B] -> ragged int32 [B, pieces]
    """Pieces of the texts, with the id of [MASK] where they say "[MASK]"; the tokenizer itself would split that up."""
    parts = tf.strings.split(texts, MASK)  # ragged [B, parts]
    ids = tokenizer(parts.values)  # ragged [all parts, pieces]
    masks = tf.fill([ids.nrows(), 1], tf.constant(tokenizer.mask_id, tf.int32))
    ids = tf.concat([ids, masks], 1).with_row_splits_dtype(tf.int64)
    together = tf.RaggedTensor.from_row_splits(ids, parts.row_splits, validate=False).merge_dims(1, 2)
    return together[:, :-1]  # the last part is followed by no mask


def _around_first_mask(ids, mask_id, room):
    """Keeps at most `room` pieces of each text, with its first mask in the middle where both sides are too long."""
    is_mask = tf.equal(ids.to_tensor(default_value=-1, shape=[None, None]), mask_id)
    is_mask = tf.pad(is_mask, [[0, 0], [0, 1]])  # argmax of no column fails
    first = tf.argmax(is_mask, -1, tf.int32)
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    start = tf.clip_by_value(first - room // 2, 0, tf.maximum(lengths - room, 0))  # [B]
    place = tf.ragged.range(lengths)
    begin = tf.gather(start, place.value_rowids())
    kept = (place.values >= begin) & (place.values < begin + room)
    return tf.ragged.boolean_mask(ids, place.with_values(kept))


def _framed(ids, tokenizer):  # ragged [B, pieces] -> model inputs [B, T]
    ends = [tf.fill([ids.nrows(), 1], tf.constant(end, tf.int32)) for end in (tokenizer.cls_id, tokenizer.sep_id)]
    framed = tf.concat([ends[0], ids, ends[1]], 1)
    token_ids = framed.to_tensor(default_value=tokenizer.pad_id)
    return {
        "token_ids": token_ids,
        "segment_ids": tf.zeros_like(token_ids),
        "lengths": tf.cast(framed.row_lengths(), tf.int32),
    }
