"""Formats of checkpoints of extras, which the set of formats has beside those of `bert_tf.checkpoints.formats`."""
