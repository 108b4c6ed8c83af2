"""keras-hub in a race: see race_bert_tf.py. Needs no bert_tf."""

import os

import turns

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def main():
    arguments = turns.parse_arguments(__doc__, ("float32", "bfloat16"))
    turns.keep_freed_memory()
    import keras
    import keras_hub

    is_training = arguments.work["kind"] in ("fine_tune", "pretrain")
    if arguments.precision == "bfloat16":  # for inference the weights too: no cast in every call
        keras.config.set_dtype_policy("mixed_bfloat16" if is_training else "bfloat16")

    layers, width, heads = turns.SHAPES[arguments.size]
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=arguments.work["vocab_size"],
        num_layers=layers,
        num_heads=heads,
        hidden_dim=width,
        intermediate_dim=4 * width,
    )
    kinds = {"encode": encoding, "classify": classifying, "fine_tune": fine_tuning, "pretrain": pretraining}
    turns.serve(kinds[arguments.work["kind"]](arguments.work, backbone))


def inputs_of(texts, seq_length=None):
    import tensorflow as tf

    padded, lengths = turns.padded(texts, seq_length)
    ids = tf.constant(padded, tf.int32)
    mask = tf.sequence_mask(lengths, ids.shape[1])
    return {"token_ids": ids, "segment_ids": tf.zeros_like(ids), "padding_mask": mask}


def encoding(work, backbone):
    import tensorflow as tf

    encode = tf.function(lambda inputs: backbone(inputs, training=False), reduce_retracing=True)
    texts = work["texts"]
    inputs = [inputs_of([texts[i] for i in rows]) for rows in turns.batches(texts, work["batch_size"])]
    return lambda: [encode(batch)["sequence_output"].numpy() for batch in inputs]


def classifying(work, backbone):
    import keras_hub
    import tensorflow as tf

    model = keras_hub.models.BertTextClassifier(backbone, num_classes=2)
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=work["vocab_file"], lowercase=True)
    logits = tf.function(lambda inputs: model(inputs, training=False), reduce_retracing=True)
    first, last = tokenizer.cls_token_id, tokenizer.sep_token_id

    def classify():
        texts = [[first, *ids[: work["seq_length"] - 2], last] for ids in tokenizer(work["texts"])]
        for rows in turns.batches(texts, work["batch_size"]):
            logits(inputs_of([texts[i] for i in rows])).numpy()

    return classify


def stepping(model, loss, batches):
    import keras
    import tensorflow as tf

    optimizer = keras.optimizers.AdamW(5e-5, weight_decay=0.01, global_clipnorm=1.0)
    optimizer.build(model.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(inputs, labels):
        with tf.GradientTape() as tape:
            value = loss(labels, model(inputs, training=True))
        variables = [variable.value for variable in model.trainable_variables]
        optimizer.apply(tape.gradient(value, variables), model.trainable_variables)
        return value

    return lambda: [step(inputs, labels).numpy() for inputs, labels in batches]


def fine_tuning(work, backbone):
    import keras
    import keras_hub
    import tensorflow as tf

    model = keras_hub.models.BertTextClassifier(backbone, num_classes=2)
    batches = [(inputs_of(texts), tf.zeros([len(texts)], tf.int32)) for texts in work["batches"]]
    return stepping(model, keras.losses.SparseCategoricalCrossentropy(from_logits=True), batches)


def pretraining(work, backbone):
    """Masked LM alone: it has no next-sentence prediction."""
    import keras
    import keras_hub
    import tensorflow as tf

    model = keras_hub.models.BertMaskedLM(backbone)
    batches = []
    for texts in work["batches"]:
        positions = tf.tile(tf.range(1, 1 + work["num_predictions"])[None, :], [len(texts), 1])
        batches.append((inputs_of(texts, work["seq_length"]) | {"mask_positions": positions}, positions + 1000))
    return stepping(model, keras.losses.SparseCategoricalCrossentropy(from_logits=False), batches)


if __name__ == "__main__":
    main()
