"""Finds the folder of a served model, and newer versions that replace it while the server runs.

A folder with numbered subfolders, models/sections/1, models/sections/2, contains the versions of a model, as in
TensorFlow Serving; the highest is served. Any other folder is version 1.
"""

import os
from collections.abc import Callable
from typing import Generic, TypeVar

from bert_tf.errors import UserError, reason_of
from bert_tf.runtime import files

VERSION = "1"  # for a folder without versions
WHOLE = {"saved_model.pb", "export", "run.json", "config.json", "index.json"}  # any of these: no versions
SECONDS = 1.0  # polling interval, as in TensorFlow Serving
REST = 5  # unchanged polls before trying to load a version with fewer parts than the served one
FIRST_WAIT, LONGEST_WAIT = 10, 600  # polls until a version that failed to load is retried; doubled each time

Files = tuple[tuple[str, int, int], ...]  # path in the folder, size and modification time
Model = TypeVar("Model")


def newest(path: str) -> tuple[str, str]:
    """The folder with the highest version in a path, and its number; the path itself and VERSION if there is none."""
    names = files.names(path)
    numbers = [] if WHOLE & set(names) else [name for name in names if name.isascii() and name.isdecimal()]
    found = max(numbers, key=int, default=None)
    return (path, VERSION) if found is None else (os.path.join(path, found), found)


class NotComplete(UserError):
    """A version that cannot be loaded, perhaps because its files are still being written."""


class Watch(Generic[Model]):
    """Watches a path for a newer version than the served one.

    Attributes:
        is_loading: whether a version is being loaded.
    """

    def __init__(self, path: str, load: Callable[[str, str], Model]) -> None:
        """load: (folder, version) -> the model; raises an exception if loading fails."""
        self._path, self._load = path, load
        self._served = self._last = self._state()
        self._same = 0  # polls since the last change
        self._wait = self._left = 0  # polls until the next attempt after a failure
        self._said = ""
        self.is_loading = False

    def first(self) -> Model:
        """The model present at the start."""
        return self._load(*self._served[:2])

    def look(self) -> Model | None:
        """Loads and returns the current model; None if it is unchanged, or still being written.

        A folder counts as complete once it is unchanged for one more poll, or for REST polls. A version that fails to
        load is retried when its files change, and after a while, because memory may have been short. The first failure
        raises NotComplete, later ones UserError with the reason; each error is raised once.
        """
        before, self._last = self._last, self._state()
        self._same = self._same + 1 if self._last == before else 0
        if not self._same:
            self._wait = self._left = 0
        is_new = self._last != self._served and self._last[2]
        if not is_new or self._same < (1 if _names(self._served[2]) <= _names(self._last[2]) else REST):
            return None
        if self._left:
            self._left -= 1
            return None
        self.is_loading = True
        try:
            model = self._load(*self._last[:2])
        except Exception as error:
            refusal: UserError = NotComplete(f"version {self._last[1]} is not complete yet; it is tried again.")
            if self._wait:
                refusal = error if isinstance(error, UserError) else UserError(reason_of(error))
            self._wait = self._left = min(2 * self._wait, LONGEST_WAIT) or FIRST_WAIT
            if self._said == str(refusal):
                return None
            self._said = str(refusal)
            raise refusal from None
        finally:
            self.is_loading = False
        self._served, self._wait, self._said = self._last, 0, ""
        return model

    def _state(self) -> tuple[str, str, Files]:
        """The newest version: its folder, its number, and its files."""
        try:
            folder, version = newest(self._path)
            export = os.path.join(folder, "export")
            root = export if files.is_folder(export) else folder
            found = ((path[len(root) :], files.size(path), _changed(path)) for path in files.walk(root))
            return folder, version, tuple(found)
        except (OSError, UserError):  # being replaced, or the store is unreachable: the next poll will tell
            return self._path, VERSION, ()


def _names(content: Files) -> set[str]:
    """The parts of a folder that determine how it is loaded; without `engines`, TensorFlow would start."""
    return {path.strip(os.sep).partition(os.sep)[0] for path, *_ in content} & (WHOLE | {"engines"})


def _changed(path: str) -> int:
    """Modification time of a file, in nanoseconds; 0 in a store, where only versions and sizes count."""
    return 0 if files.is_remote(path) else os.stat(path).st_mtime_ns
