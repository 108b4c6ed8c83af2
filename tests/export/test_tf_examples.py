"""The signature `tf_example` of every head: the answers to the same strings."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.data.tag_schemes import TagSet
from bert_tf.export import saved_model, tf_examples
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.masked_lm import mask_filling
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.span.answering import Answering
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.heads.tags.tagging import Tagging
from bert_tf.heads.vectors.extraction import Features
from bert_tf.heads.vectors.vector_choice import VectorChoice, choose_layers
from bert_tf.model import heads
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer

WORDS = "the fox dog ran sat it ann in ulm sings . who".split()
TOKENIZER = Tokenizer([*tiny.SPECIAL, *WORDS])
CONFIG = dataclasses.replace(tiny.CONFIG, vocab_size=TOKENIZER.size)
TEXTS = ["The fox ran.", "", "Ann sings in Ülm."]


class Masks:
    """What the export of a masked LM needs of its task."""

    def create_model(self, config):
        return heads.Pretrainer(config)

    def signatures(self, model, tokenizer):
        return mask_filling.signatures(model, tokenizer)


def fine_tuned(head):
    return FineTuningTask("tiny", {}, head, TOKENIZER, test_splits=())


TASKS = {
    "tags": (
        fine_tuned(Tagging(TagSet(("O", "B-PER", "I-PER"), "iob2"), TagWindows(max_seq_length=9, stride=3))),
        {"text": TEXTS},
    ),
    "questions": (
        fine_tuned(Answering(QuestionWindows(12, 3, 4), Search(n_best_size=4))),
        {"question": ["Who sings?"] * 3, "context": TEXTS},
    ),
    "choice": (
        fine_tuned(MultipleChoice(2).configured(max_seq_length=12, texts=3)),
        {"text_a": TEXTS, "choices": [["It ran.", "Who sat?"]] * 3},
    ),
    "vectors": (
        Features(VectorChoice(layers=choose_layers("last", 2), unit="sentence", max_seq_length=9)),
        {"text": TEXTS},
    ),
    "masks": (Masks(), {"text": ["The [MASK] ran.", "", "[MASK] sings."]}),
}


@pytest.mark.eager
@pytest.mark.parametrize("kind", TASKS)
def test_examples_have_the_answers_of_their_strings(kind):
    task, inputs = TASKS[kind]
    model = tiny.randomized(task.create_model(CONFIG))
    signatures = saved_model.signatures_of(task, model, TOKENIZER)
    records = tf.constant(tf_examples.serialized(inputs))
    expected = signatures["serving_default"](**{name: tf.constant(values) for name, values in inputs.items()})
    answers = signatures["tf_example"](records)
    assert answers.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(answers[name], values)
    (spec,) = signatures["tf_example"].input_signature
    assert (spec.name, spec.shape.as_list(), spec.dtype) == ("examples", [None], tf.string)
