"""Muon (Jordan et al. 2024): orthogonalizes the momentum of each hidden matrix; other weights use LAMB.

From scratch it needs less than half of LAMB's steps, each a fifth slower on a small model: see
docs/results_history.md.
"""

import functools
import re

import tensorflow as tf

from bert_tf.training.optimizers.adamw import Rates, Slot
from bert_tf.training.optimizers.lamb import FUSED, Lamb

HIDDEN = re.compile(r"(layers/\d+/.*|pooler|pooler/dense|transform)/kernel$")  # neither tables nor head kernels
RMS = 0.2  # root mean square of an update, similar to Adam's (Liu et al. 2025, section 2.2)
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the polynomial that moves singular values towards 1
ITERATIONS = 5


class Muon(Lamb):
    """Lamb with orthogonal updates of hidden matrices, scaled to a root mean square of RMS."""

    def _uses_v(self, name: str, weight: tf.Variable) -> bool:
        return len(weight.shape) != 2 or not HIDDEN.search(name)

    def _update(self, slot: Slot, gradient: tf.Tensor, scale: tf.Tensor, rates: Rates) -> None:
        name, weight, m, _ = slot
        if self._uses_v(name, weight):
            super()._update(slot, gradient, scale, rates)
            return
        gradient = gradient * scale
        new_m = rates.betas[0] * m + rates.complements[0] * gradient
        m.assign(new_m)
        momentum = rates.betas[0] * new_m + rates.complements[0] * gradient  # Nesterov's
        matrices = tf.split(momentum, 3 if name.endswith(FUSED) else 1, axis=1)
        size = max(matrices[0].shape)
        update = tf.concat([orthogonal(matrix) for matrix in matrices], axis=1) * (RMS * size**0.5)
        rate = rates.learning[self.factors.get(name, 1.0)]
        weight.assign_sub(rate * (update + self.weight_decay * weight))


def orthogonal(matrix: tf.Tensor) -> tf.Tensor:
    """The nearest orthogonal matrix, approximately: same singular vectors, singular values from 0.7 to 1.2.

    Newton-Schulz iteration with Jordan's coefficients. A zero matrix stays zero.
    """
    rows, columns = matrix.shape
    x = tf.transpose(matrix) if rows > columns else matrix
    x = tf.math.divide_no_nan(x, tf.norm(x))
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        square = tf.matmul(x, x, transpose_b=True)
        x = a * x + tf.matmul(b * square + c * tf.matmul(square, square), x)
    return tf.transpose(x) if rows > columns else x


create = functools.partial(Muon, bias_correction=True)
