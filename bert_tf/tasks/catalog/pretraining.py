"""Pre-training on raw text: masked LM, with and without next sentence prediction."""

import functools

from bert_tf.tasks.pretraining.pretraining_task import PretrainingTask

TASKS = {
    "pretraining/mlm_nsp": PretrainingTask,
    "pretraining/mlm": functools.partial(PretrainingTask, next_sentence_weight=0.0),
}
