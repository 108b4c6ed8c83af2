"""Pre-training on raw text: masked LM, with and without next sentence prediction; replaced token detection."""

import functools

from bert_tf.tasks.pretraining.pretraining_task import PretrainingTask
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokenTask

TASKS = {
    "pretraining/mlm_nsp": PretrainingTask,
    "pretraining/replaced_tokens": functools.partial(ReplacedTokenTask, next_sentence_weight=0.0),
    "pretraining/mlm": functools.partial(PretrainingTask, next_sentence_weight=0.0),
}
