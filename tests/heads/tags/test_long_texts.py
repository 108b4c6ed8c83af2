"""Long texts: memory does not grow with the square of the text, and sums over their words stay precise."""

import memory
import numpy as np
import tensorflow as tf
from tagging_cases import TAG_SET

from bert_tf.heads.tags import decoding, graph_decoding
from bert_tf.heads.tags.tag_serving import _entities

TEXT, WORD = "é new yörk 科 ", 3  # words of a repetition without the ideograph


def test_memory_of_many_entities_is_not_that_of_as_many_texts():
    times = 5000
    starts, ends = (np.add.outer(np.arange(times) * len(TEXT), offsets).ravel() for offsets in ([0, 2, 6], [1, 5, 10]))
    begin = TAG_SET.labels.index("B-LOC")
    labels, owners, starts, ends = (
        tf.constant(x, tf.int32) for x in (np.full(times * WORD, begin), np.zeros(times * WORD), starts, ends)
    )
    answers = []

    def find():
        answers.append(
            _entities(TAG_SET, tf.constant([TEXT * times]), labels, tf.ones(labels.shape), owners, starts, ends)
        )

    assert memory.growth(find) < 100  # copies of the text would take 1,200 MB
    assert answers[0]["texts"].numpy()[0, -3:].tolist() == [word.encode() for word in ("é", "new", "yörk")]
    assert answers[0]["counts"].numpy().tolist() == [times * WORD]


def test_tags_of_a_long_text_are_those_of_more_precise_sums():
    size, count = len(TAG_SET.labels), 20_000
    rng = np.random.default_rng(0)
    logits, potentials = rng.normal(size=(count, size)), rng.normal(size=(size + 2, size))
    logits, potentials = logits.astype(np.float32), potentials.astype(np.float32)
    labels, probabilities = decoding.decode(TAG_SET, logits.astype(np.float64), potentials.astype(np.float64))
    found = decoding.decode(TAG_SET, logits, potentials)
    owners = tf.zeros([count], tf.int32)
    in_graph = tf.function(graph_decoding.decode)(TAG_SET, logits, owners, tf.constant(1), tf.constant(potentials))
    for tags, shares in (found, in_graph):
        np.testing.assert_array_equal(tags, labels)
        np.testing.assert_allclose(shares, probabilities, atol=1e-5)
