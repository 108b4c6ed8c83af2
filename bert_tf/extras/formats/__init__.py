"""Checkpoint formats in extras, registered in addition to those in `bert_tf.checkpoints.formats`."""
