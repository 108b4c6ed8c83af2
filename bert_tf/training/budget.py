"""A time budget: training ends after that many minutes, and the schedule follows the share used.

As in Izsak et al. 2021 ("How to Train BERT with an Academic Budget", section 3.1): the learning rate reaches 0 when the
time is over, however fast the machine is.
"""

import time
from typing import Any

import tensorflow as tf


class Budget:
    """Training time, summed over all starts of a run.

    Only steps count, except the first of each start, which compiles, and steps lost to a killed process. Evaluations
    and checkpoints do not count. A resumed run continues with the time in its checkpoint.

    minutes: the budget; 0 for none.
    """

    def __init__(self, minutes: float) -> None:
        self.minutes = minutes
        self.used = tf.Variable(0.0, dtype=tf.float64, trainable=False)  # seconds
        self._since: float | None = None

    def state(self) -> dict[str, Any]:
        """The variables to checkpoint."""
        return {"budget": self.used} if self.minutes else {}

    def share(self) -> tf.Tensor:
        """The share of the budget used so far, float32, at most 1; read by the training step."""
        return tf.cast(tf.minimum(self.used / (60 * self.minutes), 1), tf.float32)

    def count(self) -> None:
        """Adds the time since the last call, or since `restart_clock`; call it after each step."""
        if self.minutes and self._since is not None:
            self.used.assign_add(time.monotonic() - self._since)
        self.restart_clock()

    def restart_clock(self) -> None:
        """Restarts the measurement: time before this call is not training."""
        self._since = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Returns whether all minutes are used."""
        return bool(self.minutes) and float(self.used.numpy()) >= 60 * self.minutes

    def __str__(self) -> str:
        return f"{self.used.numpy() / 60:.1f} of {self.minutes:g} minutes"
