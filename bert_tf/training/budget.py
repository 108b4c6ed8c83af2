"""A budget of time: training ends after so many minutes, and its schedule follows the share of them that is used.

As in Izsak et al. 2021 ("How to Train BERT with an Academic Budget", section 3.1): the learning rate reaches 0 when the
time is over, however fast the machine is.
"""

import time
from typing import Any

import tensorflow as tf

clock = time.monotonic


class Budget:
    """The time that training has taken, over all starts of a run.

    Steps count. The first of each start, which compiles, does not, nor do evaluations, checkpoints, and steps that were
    lost because a process was killed. A resumed run goes on with the time of its checkpoint.

    minutes: 0 for no budget.
    """

    def __init__(self, minutes: float) -> None:
        self.minutes = minutes
        self.used = tf.Variable(0.0, dtype=tf.float64, trainable=False)  # seconds
        self._since: float | None = None

    def state(self) -> dict[str, Any]:
        """Variables that a checkpoint must contain."""
        return {"budget": self.used} if self.minutes else {}

    def share(self) -> tf.Tensor:
        """The share that is used, float32, at most 1; what a training step reads."""
        return tf.cast(tf.minimum(self.used / (60 * self.minutes), 1), tf.float32)

    def count(self) -> None:
        """Counts the time since the last call, or since `restart_clock`; to be called after each step."""
        if self.minutes and self._since is not None:
            self.used.assign_add(clock() - self._since)
        self.restart_clock()

    def restart_clock(self) -> None:
        """Begins to measure: what was before is not a training."""
        self._since = clock()

    @property
    def is_over(self) -> bool:
        """Returns whether all minutes are used."""
        return bool(self.minutes) and float(self.used.numpy()) >= 60 * self.minutes

    def __str__(self) -> str:
        return f"{self.used.numpy() / 60:.1f} of {self.minutes:g} minutes"
