"""Tables and tf.data pipelines that every task shares."""
