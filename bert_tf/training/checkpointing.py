"""The state of a training run on disk: saved whole, restored from the last one that is whole."""

import logging
import os
import shutil
import tempfile

import tensorflow as tf

from bert_tf.errors import TrainingError, UserError, reason_of
from bert_tf.training import checkpoint_paths


class TrainState:
    """Weights, optimizer, step and data position as one `tf.train.Checkpoint` in `folder`, saved by step.

    `parts` is {name: variables, dictionaries of them, or an iterator}. A process that is not the chief must take part
    in saving but must not write into the run folder: it writes into a folder of its own, which is thrown away.
    The newest `kept` checkpoints stay, with 0 all; of those that are thrown away the newest one.
    """

    def __init__(self, folder, parts, *, writes=True, kept=3):
        self.folder = folder
        self.checkpoint = tf.train.Checkpoint(**parts)
        self.scratch = None if writes else tempfile.mkdtemp()
        kept = 1 if self.scratch else kept or None
        self.manager = tf.train.CheckpointManager(self.checkpoint, self.scratch or folder, max_to_keep=kept)

    def save(self, step):
        """Saves under the number of the step; what was saved before stays if that fails."""
        folder = self.scratch or self.folder
        before = checkpoint_paths.files_of(folder, step)
        try:
            self.manager.save(checkpoint_number=step)
        except tf.errors.OpError as error:
            for partial in checkpoint_paths.files_of(folder, step) - before:
                shutil.rmtree(partial) if os.path.isdir(partial) else os.remove(partial)
            raise TrainingError(
                f"The checkpoint of step {step} could not be written to {folder} ({reason_of(error)}). "
                f"Kept: {', '.join(map(os.path.basename, checkpoint_paths.newest_first(self.folder))) or 'none'}. "
                "Make room and start the same command again."
            ) from None

    def restore(self):
        """Restores the newest whole checkpoint and returns its step; 0 if there is none.

        Raises UserError if there are some and none can be read.
        """
        paths = checkpoint_paths.newest_first(self.folder)
        for path in paths:
            try:
                self.checkpoint.restore(path).assert_consumed()
            except Exception as error:  # a damaged file raises anything from DataLossError to IndexError
                reason = reason_of(error)
                logging.getLogger("bert_tf").warning("Passed over the damaged checkpoint %s (%s).", path, reason)
            else:
                return checkpoint_paths.step_of(path)
        if paths:
            raise UserError(f"None of the checkpoints in {self.folder} can be read: remove the folder to start anew.")
        return 0

    def close(self):
        """Throws away the folder of a process that is not the chief."""
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)


def load_weights(variables, folder):
    """Puts the weights of the newest checkpoint in `folder` into {name: variable}; the rest of it is left aside."""
    paths = checkpoint_paths.newest_first(folder)
    if not paths:
        raise UserError(f"There is no checkpoint in {folder}: train first (do_train).")
    tf.train.Checkpoint(weights=variables).restore(paths[0]).expect_partial().assert_existing_objects_matched()
