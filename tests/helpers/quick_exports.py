"""Exports of every kind that are made in no time: their answers are lengths of texts."""

import json

import tensorflow as tf

LABELS = ("short", "long")


def saved(folder, function, *shapes, labels=LABELS, words=None, **more):
    """Saves a function of strings as an export, and more functions of `text` under their names.

    words: a function of sentences split into words, string [B, W].
    """
    specs = [tf.TensorSpec([None, *shape], kind, name) for name, kind, shape in shapes]
    text = [tf.TensorSpec([None], tf.string, "text")]
    module = tf.Module()
    module.functions = {name: tf.function(each, input_signature=text) for name, each in more.items()}
    if words:
        sentences = [tf.TensorSpec([None, None], tf.string, "words")]
        module.functions["words"] = tf.function(words, input_signature=sentences)
    module.functions["serving_default"] = tf.function(function, input_signature=specs)
    tf.saved_model.save(module, str(folder), signatures=dict(module.functions))
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


def first_word(question, context):
    """Outputs of an export that answers questions: the first word of the context, or with less probability nothing."""
    word = tf.strings.regex_replace(context, r"(?s)\s.*", "")
    end = tf.strings.length(word, "UTF8_CHAR")
    start, score = tf.zeros_like(end), tf.fill(tf.shape(end), 0.75)
    answers = tf.stack([word, tf.fill(tf.shape(end), "")], -1)
    lists = {"answers": answers, "probabilities": tf.stack([score, 1 - score], -1)}
    lists |= {"starts": tf.stack([start, start], -1), "ends": tf.stack([end, start], -1)}
    return {"answer": word, "start": start, "end": end, "score": score, "null_score": score - 1, **lists}


def names(text):
    """Outputs of an export that finds names: the first word of every text is one."""
    word = first_word(text, text)
    outputs = {"texts": word["answer"], "starts": word["start"], "ends": word["end"], "scores": word["score"]}
    outputs["labels"] = tf.fill(tf.shape(text), "WORD")
    outputs = {name: x[:, None] for name, x in outputs.items()}
    return outputs | {"counts": tf.cast(outputs["texts"][:, 0] != "", tf.int32)}


def looks(text):
    """A signature of attention: tokens are letters; in layer l of 2, head h of 3, each looks 3 l + h letters on."""
    letters = tf.strings.unicode_split(text, "UTF-8")
    lengths = tf.cast(letters.row_lengths(), tf.int32)
    slots = tf.reduce_max(lengths)
    steps = tf.reshape(tf.range(6), [2, 3])[None, :, :, None]
    targets = (tf.range(slots) + steps) % lengths[:, None, None, None]  # [B, 2, 3, T]
    used = tf.sequence_mask(lengths, dtype=tf.float32)[:, None, None, :, None]
    return {"tokens": letters.to_tensor(""), "attention": used * tf.one_hot(targets, slots), "lengths": lengths}


def counted(text):
    """A signature of attribution: letters count 1, -2, 3, ..., all with the same outputs."""
    letters = tf.strings.unicode_split(text, "UTF-8")
    lengths = tf.cast(letters.row_lengths(), tf.int32)
    numbers = tf.range(1.0, tf.cast(tf.reduce_max(lengths), tf.float32) + 1)
    values = tf.sequence_mask(lengths, dtype=tf.float32) * numbers * (-1.0) ** (numbers + 1)
    baseline = tf.fill(tf.shape(text), 0.5)
    outputs = {"outputs": baseline + tf.reduce_sum(values, 1), "baseline_outputs": baseline}
    targets = tf.zeros_like(lengths)
    return {"tokens": letters.to_tensor(""), "attributions": values, "lengths": lengths, "targets": targets, **outputs}


def vectors(text):
    """Outputs of an export that gives texts vectors, of two layers: two numbers each, the length and ten."""
    lengths = tf.strings.length(text)
    layer = tf.stack([lengths, tf.fill(tf.shape(lengths), 10)], -1)
    return {"vectors": tf.stack([layer, layer], 1)}


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
        "number": saved(
            folder / "number",
            lambda text_a: {"values": tf.cast(length(text_a), tf.float32) / 3},
            text_a,
            attention=looks,
            attribution=counted,
        ),
        "mask": saved(folder / "mask", filled, ("text", tf.string, ()), labels=()),
        "other": saved(folder / "other", lambda ids: {"ids": ids}, ("ids", tf.int32, ())),
    }


def for_the_page(folder):
    """{kind: folder of an export} of the kinds that only a page shows."""
    text, question, context = ((name, tf.string, ()) for name in ("text", "question", "context"))
    return {
        "question": saved(folder / "question", first_word, question, context),
        "entities": saved(folder / "entities", names, text),
        "vectors": saved(folder / "vectors", vectors, text),
    }
