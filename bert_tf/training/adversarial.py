"""FGM, adversarial training on the vectors of tokens (Miyato et al. 2017, arXiv:1605.07725, section 3, equation 5).

N tokens, E width of the embeddings.
"""

import tensorflow as tf


def perturbation(gradient: tf.Tensor, texts: tf.Tensor, epsilon: float) -> tf.Tensor:
    """The gradient of each text scaled to norm epsilon: float32 [N, E], 0 on padding and where the gradient is 0.

    A text's perturbation does not depend on others, nor therefore on micro-batches and replicas.

    Args:
        gradient: [N, E] of the loss.
        texts: int32 [N], the number of each token's text, at most N; 0 on padding.
        epsilon: the norm of a text's perturbation.
    """
    gradient = tf.where(texts[:, None] > 0, tf.cast(gradient, tf.float32), 0.0)
    squares = tf.math.unsorted_segment_sum(tf.reduce_sum(tf.square(gradient), -1), texts, tf.size(texts) + 1)
    norms = tf.sqrt(tf.gather(squares, texts))[:, None]
    return epsilon * tf.math.divide_no_nan(gradient, norms)
