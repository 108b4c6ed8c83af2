"""The commands as Python functions: `bert_tf.load`, `bert_tf.fine_tune` and `bert_tf.pretrain`."""
