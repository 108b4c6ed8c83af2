"""Tables and tf.data pipelines shared by all tasks."""
