"""`decoding` as a graph, for exports on strings: from the logits of the words of texts to labels and probabilities.

N words, C labels, B texts.
"""

from __future__ import annotations

import numpy as np

from bert_tf.data.tag_schemes import TagSet
from bert_tf.heads.tags.decoding import ILLEGAL
from bert_tf.model.row_blocks import concat_blocks
from bert_tf.runtime.lazy import module, tf
from bert_tf.text.ragged_scan import from_row_numbers

crf = module("bert_tf.model.crf")
TEXTS_AT_ONCE = 64


def decode(
    tag_set: TagSet, logits: tf.Tensor, owners: tf.Tensor, count: tf.Tensor, potentials: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """The labels of words, int32 [N], and the probabilities of all labels, float32 [N, C].

    With the potentials of a CRF, they are the most probable label sequence of a whole text that the scheme allows, and
    the marginal probabilities.

    Args:
        tag_set: the meaning of the labels.
        logits: float32 [N, C].
        owners: the text of each word, int32 [N], ascending.
        count: the number of texts.
        potentials: see `model.crf`; None without a CRF.
    """
    if potentials is None:
        return tf.argmax(logits, -1, tf.int32), tf.nn.softmax(logits)
    is_legal, size = np.array(tag_set.legal_transitions()), len(tag_set.labels)
    legal = potentials + tf.constant(np.where(is_legal, 0, ILLEGAL), tf.float32)

    def of_texts(first: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
        block = slice(*tf.unstack(tf.searchsorted(owners, [first, end])))
        words = from_row_numbers(logits[block], owners[block] - first, end - first)
        lengths = tf.cast(words.row_lengths(), tf.int32)
        emissions = tf.ensure_shape(tf.pad(words.to_tensor(), [[0, 0], [0, 1], [0, 0]]), [None, None, size])
        chosen = tf.one_hot(crf.viterbi(emissions, lengths, legal), size)
        both = tf.concat([crf.marginals(emissions, lengths, legal), chosen], -1)
        return tf.boolean_mask(both, tf.sequence_mask(lengths, tf.shape(both)[1]))

    probabilities, chosen = tf.split(concat_blocks(of_texts, count, [2 * size], TEXTS_AT_ONCE), 2, axis=-1)
    return tf.argmax(chosen, -1, tf.int32), probabilities
