"""Loss scaling, which keeps the gradients of float16 from underflow."""

import tensorflow as tf

FLOAT16_SCALE = 2.0**15  # the factor at the start
FLOAT16_PATIENCE = 2000  # steps without an overflow after which it doubles


class LossScale(tf.Module):
    """Dynamic loss scaling for float16 (Micikevicius et al. 2018): the factor halves at overflows and doubles later."""

    def __init__(self, *, enabled: bool) -> None:
        super().__init__()
        self.enabled = enabled
        self.factor = tf.Variable(FLOAT16_SCALE if enabled else 1.0, trainable=False)
        self.good_steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    def state(self) -> dict[str, tf.Variable]:
        """Returns what a checkpoint must contain."""
        return {"factor": self.factor, "good_steps": self.good_steps}

    def scale(self, loss: tf.Tensor) -> tf.Tensor:
        """Multiplies the loss by the factor."""
        return loss * self.factor if self.enabled else loss

    def unscale(self, gradients: list[tf.Tensor | None]) -> list[tf.Tensor | None]:
        """Divides the gradients by the factor."""
        if not self.enabled:
            return gradients
        return [None if gradient is None else gradient / self.factor for gradient in gradients]

    def update(self, norm: tf.Tensor) -> tf.Tensor:
        """Adapts the factor to the norm of a step's gradients.

        Returns whether training has diverged: the norm is not finite, and no smaller factor will help.
        """
        is_finite = tf.math.is_finite(norm)
        if not self.enabled:
            return ~is_finite
        diverged = ~is_finite & (self.factor <= 1.0)
        should_grow = self.good_steps + 1 >= FLOAT16_PATIENCE
        grown = tf.where(should_grow, self.factor * 2, self.factor)
        self.factor.assign(tf.where(is_finite, grown, tf.maximum(self.factor / 2, 1.0)))
        self.good_steps.assign(tf.where(is_finite & ~should_grow, self.good_steps + 1, 0))
        return diverged
