"""A small pre-training model and what its export should answer."""

import numpy as np
import oracle
import tensorflow as tf
import tiny

from bert_tf.heads.masked_lm import mask_filling

WORDS = "the fox dog ran sat on a mat and cat red big old . , ! it is was he she to of in ##s".split()
VOCABULARY = [*tiny.SPECIAL, *WORDS]
TEXTS = ["the [MASK] ran.", "no mask", "", "[MASK] and [MASK]", "Foxes [MASK] THE\tOLD mat é [MASK]"]


def filler(model, tokenizer):
    """The live signature: list of texts -> (pieces, scores) as NumPy arrays."""
    function = mask_filling.fill_mask(model, tokenizer)["serving_default"]
    return lambda texts: [value.numpy() for value in tf.nest.flatten(function(tf.constant(texts, tf.string)))]


def expected_answers(arrays, text):
    """What stands at each "[MASK]" of pieces that are given as words: [M, 10] pieces and scores, by the oracle."""
    ids = [VOCABULARY.index(piece) for piece in f"[CLS] {text} [SEP]".split()]
    masks = [place for place, number in enumerate(ids) if number == VOCABULARY.index("[MASK]")]
    inputs = {
        "token_ids": [ids],
        "segment_ids": [[0] * len(ids)],
        "lengths": [len(ids)],
        "masked_lm_positions": [masks],
    }
    arrays_of = {name: np.array(values) for name, values in inputs.items()}
    scores = oracle.softmax(oracle.pretraining_logits(arrays, tiny.CONFIG, arrays_of)["masked_lm_logits"][0])
    best = np.argsort(-scores, axis=-1)[:, :10]
    return [[VOCABULARY[i].encode() for i in row] for row in best], np.take_along_axis(scores, best, -1)
