"""File names of a run's checkpoints: ckpt-N is the state after step N. No TensorFlow."""

import os
import re

from bert_tf.runtime import files

STREAM_INDEX = re.compile(r"\.lane-\d+\.index")
INDEX = re.compile(r"ckpt-\d+\.index")
FILE = re.compile(r"ckpt-(\d+)[._]")
TEMPORARY = re.compile(r"_temp$|\.tempstate\d+")  # written by TensorFlow until a checkpoint is complete


def path_of(folder: str, step: int | str) -> str:
    """Returns the file prefix of a step's checkpoint."""
    return os.path.join(folder, f"ckpt-{step}")


def is_one(path: str) -> bool:
    """Returns whether a path looks like the prefix of such a checkpoint."""
    return re.fullmatch(r"ckpt-\d+", os.path.basename(path)) is not None


def step_of(path: str) -> int:
    """Returns the step in a checkpoint's name."""
    return int(path.rpartition("-")[2])


def newest_first(folder: str) -> list[str]:
    """Returns the prefixes of the checkpoints in a folder; one without the index, written last, is incomplete."""
    paths = [os.path.join(folder, name.removesuffix(".index")) for name in files.names(folder) if INDEX.fullmatch(name)]
    return sorted(paths, key=step_of, reverse=True)


def stream_path(path: str, stream: int) -> str:
    """Returns the prefix of the files, next to a checkpoint's, with the position of an input stream."""
    return f"{path}.lane-{stream:05d}"


def streams_of(path: str) -> list[str]:
    """Returns the names of the index files of a checkpoint's streams."""
    folder, prefix = os.path.split(path)
    names = (name for name in files.names(folder) if name.startswith(f"{prefix}.lane-"))
    return [name for name in names if STREAM_INDEX.fullmatch(name.removeprefix(prefix))]


def files_of(folder: str, step: int | None = None) -> set[str]:
    """Returns all files of one step's checkpoint or of all, complete or not, and temporary folders."""
    names = ((name, FILE.match(name)) for name in files.names(folder))
    return {os.path.join(folder, name) for name, match in names if match and step in (None, int(match[1]))}


def remains_of(folder: str) -> set[str]:
    """Returns the leftovers of interrupted writes: files of checkpoints without an index, and temporary files."""
    whole = {step_of(path) for path in newest_first(folder)}
    names = ((name, FILE.match(name)) for name in files.names(folder))
    return {
        os.path.join(folder, name)
        for name, match in names
        if match and (int(match[1]) not in whole or TEMPORARY.search(name))
    }
