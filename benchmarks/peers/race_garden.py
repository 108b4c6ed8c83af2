"""TensorFlow Model Garden in a race of training steps: see race_bert_tf.py. Needs no bert_tf."""

import os

import turns

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TF_USE_LEGACY_KERAS"] = "1"  # it is written for Keras 2


def main():
    arguments = turns.parse_arguments(__doc__, ("float32", "bfloat16"))
    turns.keep_freed_memory()
    import tf_keras
    from official.nlp.modeling import networks

    if arguments.precision == "bfloat16":
        tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
    layers, width, heads = turns.SHAPES[arguments.size]
    encoder = networks.BertEncoderV2(
        vocab_size=arguments.work["vocab_size"],
        hidden_size=width,
        num_layers=layers,
        num_attention_heads=heads,
        inner_dim=4 * width,
        max_sequence_length=512,
    )
    kinds = {"fine_tune": fine_tuning, "pretrain": pretraining}
    turns.serve(kinds[arguments.work["kind"]](arguments.work, encoder, width))


def inputs_of(texts, seq_length=None):
    import tensorflow as tf

    padded, lengths = turns.padded(texts, seq_length)
    ids = tf.constant(padded, tf.int32)
    mask = tf.sequence_mask(lengths, ids.shape[1], tf.int32)
    return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": tf.zeros_like(ids)}


def stepping(model, losses, batches):
    import tensorflow as tf
    import tf_keras

    optimizer = tf_keras.optimizers.AdamW(5e-5, weight_decay=0.01, global_clipnorm=1.0)

    @tf.function(reduce_retracing=True)
    def step(inputs, labels):
        with tf.GradientTape() as tape:
            value = losses(model(inputs, training=True), labels)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
        return value

    return lambda: [step(inputs, labels).numpy() for inputs, labels in batches]


def cross_entropy(logits, labels):
    import tensorflow as tf

    logits = tf.cast(logits, tf.float32)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def fine_tuning(work, encoder, width):
    import tensorflow as tf
    from official.nlp.modeling import models

    model = models.BertClassifier(encoder, num_classes=2)
    batches = [(inputs_of(texts), tf.zeros([len(texts)], tf.int32)) for texts in work["batches"]]
    return stepping(model, cross_entropy, batches)


def pretraining(work, encoder, width):
    """Masked LM and next-sentence prediction."""
    import tensorflow as tf
    from official.nlp.modeling import layers, models

    head = layers.ClassificationHead(inner_dim=width, num_classes=2, name="next_sentence")
    model = models.BertPretrainerV2(encoder, mlm_activation="gelu", classification_heads=[head])
    batches = []
    for texts in work["batches"]:
        positions = tf.tile(tf.range(1, 1 + work["num_predictions"])[None, :], [len(texts), 1])
        labels = positions + 1000, tf.zeros([len(texts)], tf.int32)
        batches.append((inputs_of(texts, work["seq_length"]) | {"masked_lm_positions": positions}, labels))

    def losses(outputs, labels):
        return cross_entropy(outputs["mlm_logits"], labels[0]) + cross_entropy(outputs["next_sentence"], labels[1])

    return stepping(model, losses, batches)


if __name__ == "__main__":
    main()
