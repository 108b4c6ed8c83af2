"""The checkpoints of a run by their names: ckpt-N has the state after step N. No TensorFlow."""

import glob
import os
import re


def path_of(folder, step):
    """The prefix of the files of a step's checkpoint."""
    return os.path.join(folder, f"ckpt-{step}")


def is_one(path):
    """Whether a path is the prefix of such a checkpoint, by its name alone."""
    return re.fullmatch(r"ckpt-\d+", os.path.basename(path)) is not None


def step_of(path):
    """The step in the name of a checkpoint."""
    return int(path.rpartition("-")[2])


def newest_first(folder):
    """Prefixes of the checkpoints in a folder. TensorFlow writes the index last: one without is not whole."""
    indices = glob.glob(path_of(glob.escape(folder), "*.index"))
    paths = [path for path in (index.removesuffix(".index") for index in indices) if is_one(path)]
    return sorted(paths, key=step_of, reverse=True)


def files_of(folder, step="*"):
    """All files of a step's checkpoint, or of all steps, whole or not; and folders in which TensorFlow wrote some."""
    return set(glob.glob(path_of(glob.escape(folder), f"{step}[._]*")))
