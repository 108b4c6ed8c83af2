"""The user's own table with few labels: like the task table, but trained on pairs of texts (see `recipes.few_shot`)."""

from bert_tf.tasks.catalog import table

TASKS = {"few_shot": table.task}
