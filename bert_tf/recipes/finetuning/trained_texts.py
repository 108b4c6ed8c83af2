"""Hashes of a model's training texts, to detect an evaluation on the same texts."""

import hashlib
import logging
import os
from collections.abc import Iterable, Sequence

import numpy as np

from bert_tf.errors import UserError, reason_of
from bert_tf.runtime import atomic_files, files
from bert_tf.tasks.labelled_rows import normalized
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training.run_directory import RunFolder

FILE = "trained_texts.u64"  # in a run folder
STORED = "<u8"
MOST = 1 << 20  # maximum hashes stored, the smallest ones: a sample of larger data
FEWEST = 0.01  # share of a file's texts that is worth a warning
log = logging.getLogger("bert_tf")


def fingerprint(texts: Sequence[str]) -> int:
    """A hash of an example's texts, ignoring case and whitespace."""
    text = "\n".join(map(normalized, texts))
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())


def of_split(task: FineTuningTask, name: str) -> np.ndarray:
    """The hashes of a split's texts, uint64 [n]; empty for preprocessed examples."""
    split = task.split(name)
    return hashes(() if split.stored else map(task.head.training.texts_of, split.items))


def hashes(examples: Iterable[Sequence[str]]) -> np.ndarray:
    """The hashes of the examples' texts, uint64 [n]."""
    return np.array(list(map(fingerprint, examples)), np.uint64)


def record(folder: RunFolder, task: FineTuningTask, evaluated: Iterable[str]) -> None:
    """Writes the hashes of the training texts into a run folder, and warns if they include texts of other splits.

    evaluated: the names of these splits.
    """
    trained = np.unique(of_split(task, "train"))[:MOST]
    if folder.is_chief and len(trained):
        with atomic_files.atomic_write(folder.file(FILE)) as partial:
            trained.astype(STORED).tofile(partial)
    for split in evaluated:
        if counts := repeated(trained, of_split(task, split)):
            log.warning(
                "%d of the %d %s rows are also in the training data: use unseen rows for a fair score.",
                *counts,
                split,
            )


def read(folder: str) -> np.ndarray | None:
    """The hashes in a run folder, or next to one of its exports; None without them."""
    path = next(filter(files.is_file, (os.path.join(each, FILE) for each in folders(folder))), None)
    if path is None:
        return None
    try:
        with files.open_binary(path) as file:
            return np.frombuffer(file.read(), STORED)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({reason_of(error)}): remove it.") from None


def folders(folder: str) -> tuple[str, str]:
    """The folders that may be the run: this one, and the parent folder of an export."""
    return folder, os.path.dirname(files.absolute(folder))


def warn(model: str, source: str, trained: np.ndarray, found: np.ndarray) -> None:
    """Warns if evaluation texts occur in the training data of a trained model."""
    if counts := repeated(trained, found):
        log.warning(
            "%s was trained on rows of %s (%d of %d): use unseen rows for a fair score.", model, source, *counts
        )


def repeated(trained: np.ndarray, found: np.ndarray) -> tuple[int, int] | None:
    """(number of evaluation texts that occur in the training data, number of those compared), if worth a warning.

    trained, found: their hashes.
    """
    found = found[found <= trained[-1]] if len(trained) == MOST else found
    count = int(np.isin(found, trained).sum())
    return (count, len(found)) if count and count >= FEWEST * len(found) else None
