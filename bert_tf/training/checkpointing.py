"""The state of a training run on disk: saved completely or not at all, restored from the last complete checkpoint."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from bert_tf.errors import TrainingError, UserError, reason_of, what_to_do
from bert_tf.runtime import files
from bert_tf.runtime.lazy import tf
from bert_tf.training import checkpoint_paths


class TrainState:
    """Weights, optimizer, step and data position as one `tf.train.Checkpoint` in `folder`, saved by step.

    Args:
        folder: the checkpoint folder.
        parts: {name: variables, dictionaries of them, or an iterator}.
        writes: whether this process writes into the folder. A process other than the chief must take part in saving,
            but writes into a temporary folder.
        max_to_keep: number of newest checkpoints to keep; 0: all.
    """

    def __init__(self, folder: str, parts: Mapping[str, Any], *, writes: bool = True, max_to_keep: int = 3) -> None:
        self.folder = folder
        self.checkpoint = tf.train.Checkpoint(**parts)
        self.scratch = None if writes else tempfile.mkdtemp()
        self.manager = tf.train.CheckpointManager(
            self.checkpoint, self.scratch or folder, max_to_keep=1 if self.scratch else max_to_keep or None
        )
        self._damaged: set[str] = set()  # checkpoints that could not be restored

    def save(self, step: int) -> None:
        """Saves under the number of the step; earlier checkpoints stay if that fails."""
        folder = self.scratch or self.folder
        path = checkpoint_paths.path_of(folder, step)
        if path in self._damaged:  # its old index must not be combined with new data
            files.remove(f"{path}.index")
            self._damaged.remove(path)
        before = checkpoint_paths.files_of(folder, step)
        self.checkpoint.save_counter.assign(step - 1)  # saving adds 1; independent of how often a run was stopped
        try:
            self.manager.save(checkpoint_number=step)
        except tf.errors.OpError as error:
            for partial in checkpoint_paths.files_of(folder, step) - before:
                files.remove(partial)
            names = map(os.path.basename, checkpoint_paths.newest_first(self.folder))
            raise TrainingError(
                f"The checkpoint of step {step} could not be written to {folder} ({reason_of(error)}). "
                f"Kept: {', '.join(names) or 'none'}. {what_to_do(error)} and run the same command again."
            ) from None
        if not self.scratch:  # stream positions of checkpoints no longer kept
            for remains in checkpoint_paths.remains_of(folder):
                files.remove(remains)

    def restore(self) -> int:
        """Restores the newest complete checkpoint and returns its step; 0 if there is none.

        Leftovers of an interrupted save are removed first.

        Raises UserError if there are checkpoints but none can be read.
        """
        if not self.scratch:
            for remains in checkpoint_paths.remains_of(self.folder):
                files.remove(remains)
        paths = checkpoint_paths.newest_first(self.folder)
        for path in paths:
            try:
                self.checkpoint.restore(path).assert_consumed()
            except Exception as error:  # a damaged file raises anything from DataLossError to IndexError
                reason = reason_of(error)
                logging.getLogger("bert_tf").warning("Skipped the damaged checkpoint %s (%s).", path, reason)
                self._damaged.add(path)
            else:
                return checkpoint_paths.step_of(path)
        if paths:
            raise UserError(
                f"None of the checkpoints in {self.folder} can be read: remove the folder to start from scratch."
            )
        return 0

    def rewind(self, **parts: Any) -> int:
        """Restores only some new parts, such as an iterator, from the newest checkpoint; returns its step, or 0."""
        for path in checkpoint_paths.newest_first(self.folder):
            with contextlib.suppress(Exception):  # a damaged file raises anything
                tf.train.Checkpoint(**parts).restore(path).expect_partial().assert_existing_objects_matched()
                return checkpoint_paths.step_of(path)
        return 0

    def close(self) -> None:
        """Removes the temporary folder of a process that is not the chief."""
        if self.scratch:
            files.remove(self.scratch)


def load_weights(variables: Mapping[str, tf.Variable], folder: str) -> None:
    """Loads the weights of the newest checkpoint in `folder` into {name: variable}, without the rest of its state."""
    paths = checkpoint_paths.newest_first(folder)
    if not paths:
        raise UserError(f"There is no checkpoint in {folder}: train first (do_train).")
    tf.train.Checkpoint(weights=variables).restore(paths[0]).expect_partial().assert_existing_objects_matched()
