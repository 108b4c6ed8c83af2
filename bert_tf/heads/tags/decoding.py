"""Labels and probabilities from the logits of a text's words: independently for each word, or with a CRF.

N words, C labels. `graph_decoding` does the same in a graph, for exports on strings.
"""

import numpy as np

from bert_tf.data.tag_schemes import TagSet

ILLEGAL = -1e4  # the potential of label sequences that the scheme does not allow


def decode(tag_set: TagSet, logits: np.ndarray, potentials: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The labels of words, int [N], and the probabilities of all labels, float32 [N, C].

    With the potentials of a CRF, they are the most probable label sequence that the scheme allows (Viterbi
    1967), and the marginal probabilities, by forward-backward.

    Args:
        tag_set: the labels.
        logits: float32 [N, C], N >= 1.
        potentials: float32 [C + 2, C], see `model.crf`; None without a CRF.
    """
    if potentials is None:
        return logits.argmax(-1), _softmax(logits)
    legal = potentials + np.where(np.array(tag_set.legal_transitions()), 0, np.float32(ILLEGAL))
    size = logits.shape[-1]
    transitions, start, end = legal[:size], legal[size], legal[size + 1]
    both = np.stack([transitions, transitions.T])  # forwards and backwards
    emissions = np.stack([logits, logits[::-1]], 1)  # [N, 2, C]
    sums = [_shifted(np.stack([start, end]) + emissions[0])]
    best, back = sums[0][0], []
    for emission in emissions[1:]:
        sums.append(_shifted(_log_sum(sums[-1][:, :, None] + both) + emission))
        scores = best[:, None] + transitions
        back.append(scores.argmax(0))
        best = _shifted(scores.max(0) + emission[0])
    labels = [int((best + end).argmax())]
    for pointers in reversed(back):
        labels.append(int(pointers[labels[-1]]))
    forward, backward = np.stack(sums, 1)
    return np.array(labels[::-1]), _softmax(forward + backward[::-1] - logits)


def _softmax(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    return (shares / shares.sum(-1, keepdims=True)).astype(np.float32)


def _shifted(scores: np.ndarray) -> np.ndarray:
    """The scores [..., C] less the largest: sums over thousands of words would exceed float32's precision."""
    return scores - scores.max(-1, keepdims=True)


def _log_sum(scores: np.ndarray) -> np.ndarray:  # [2, C, C] -> [2, C], over the first C
    largest = scores.max(1)
    return largest + np.log(np.exp(scores - largest[:, None]).sum(1))
