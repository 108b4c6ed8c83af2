"""Pre-training on raw text: masked LM, with and without next sentence prediction; replaced token detection."""

import functools

from bert_tf.tasks.pretraining.pretraining_task import PretrainingTask

TASKS = {
    "pretraining/mlm_nsp": PretrainingTask,
    "pretraining/replaced_tokens": functools.partial(PretrainingTask, next_sentence_weight=0.0, finds_replaced=True),
    "pretraining/mlm": functools.partial(PretrainingTask, next_sentence_weight=0.0),
}
