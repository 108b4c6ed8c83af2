"""Commands of extras, which the set of commands has beside those of `bert_tf.cli.commands`."""
