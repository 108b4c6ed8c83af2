"""Checkpoints in every format, read and written; `bert_tf.load`."""
