"""Python functions for what the commands do: `bert_tf.load`, `bert_tf.fine_tune` and `bert_tf.pretrain`."""
