"""Exports of every kind that are made in no time: their answers are lengths of texts."""

import json

import tensorflow as tf

LABELS = ("short", "long")


def saved(folder, function, *shapes, labels=LABELS):
    """Saves a function of strings as an export."""
    specs = [tf.TensorSpec([None, *shape], kind, name) for name, kind, shape in shapes]
    module = tf.Module()
    module.signature = tf.function(function, input_signature=specs)
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.signature})
    (folder / "about.json").write_text(json.dumps({"task": "sizes", "labels": list(labels)}))
    return folder


def shares(*amounts):
    """Outputs of a classifier: shares of the sum of the amounts, and the name of the largest."""
    amounts = tf.cast(tf.stack(amounts, -1), tf.float32)
    probabilities = amounts / tf.reduce_sum(amounts, -1, keepdims=True)
    label = tf.gather(tf.constant(LABELS), tf.argmax(probabilities, -1))
    return {"logits": amounts, "probabilities": probabilities, "label": label}


def filled(text):
    """Outputs of an export that fills masks: for each "[MASK]" of the text two pieces."""
    masks = tf.strings.length(
        tf.strings.regex_replace(tf.strings.regex_replace(text, r"\[MASK\]", "\x01"), "[^\x01]", "")
    )
    is_mask = tf.sequence_mask(masks)[:, :, None]
    return {
        "pieces": tf.where(is_mask, tf.constant([["a", "b"]]), ""),
        "scores": tf.where(is_mask, tf.constant([[0.75, 0.25]]), 0.0),
    }


def make(folder):
    """{kind: folder of an export}, made in a folder."""
    length = tf.strings.length
    text_a, text_b = ("text_a", tf.string, ()), ("text_b", tf.string, ())
    return {
        "single": saved(folder / "single", lambda text_a: shares(4 + 0 * length(text_a), length(text_a)), text_a),
        "pair": saved(
            folder / "pair", lambda text_a, text_b: shares(1 + length(text_b), 1 + length(text_a)), text_a, text_b
        ),
        "choice": saved(
            folder / "choice",
            lambda text_a, choices: shares(*tf.unstack(1 + length(choices), axis=1)),
            text_a,
            ("choices", tf.string, (2,)),
        ),
        "number": saved(folder / "number", lambda text_a: {"values": tf.cast(length(text_a), tf.float32) / 3}, text_a),
        "mask": saved(folder / "mask", filled, ("text", tf.string, ()), labels=()),
        "other": saved(folder / "other", lambda ids: {"ids": ids}, ("ids", tf.int32, ())),
    }
