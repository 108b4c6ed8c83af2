"""File names of a run's checkpoints: ckpt-N has the state after step N. No TensorFlow."""

import glob
import os
import re


def path_of(folder: str, step: int | str) -> str:
    """Returns the prefix of the files of a step's checkpoint."""
    return os.path.join(folder, f"ckpt-{step}")


def is_one(path: str) -> bool:
    """Whether a path is the prefix of such a checkpoint, by its name alone."""
    return re.fullmatch(r"ckpt-\d+", os.path.basename(path)) is not None


def step_of(path: str) -> int:
    """Returns the step in the name of a checkpoint."""
    return int(path.rpartition("-")[2])


def newest_first(folder: str) -> list[str]:
    """Returns the prefixes of the checkpoints in a folder; one without the index, written last, is incomplete."""
    indices = glob.glob(path_of(glob.escape(folder), "*.index"))
    paths = [path for path in (index.removesuffix(".index") for index in indices) if is_one(path)]
    return sorted(paths, key=step_of, reverse=True)


def files_of(folder: str, step: int | str = "*") -> set[str]:
    """Returns all files of a step's checkpoint, or of all steps, complete or not, and temporary folders."""
    return set(glob.glob(path_of(glob.escape(folder), f"{step}[._]*")))
