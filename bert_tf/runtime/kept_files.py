"""Small files of a model kept as bytes, such as its vocabulary: {path in their folder: content}."""

import os
from collections.abc import Mapping

from bert_tf.runtime import files


def read(folder: str) -> dict[str, bytes]:
    """The files in a folder and its subfolders."""
    found = {}
    for path in files.walk(folder):
        with files.open_binary(path) as file:
            found[os.path.relpath(path, folder).replace(os.sep, "/")] = file.read()
    return found


def write(folder: str, content: Mapping[str, bytes]) -> None:
    """Writes files into a folder; skips paths outside the folder."""
    for name, data in content.items():
        if ".." not in name.split("/") and not os.path.isabs(name):
            path = os.path.join(folder, name)
            files.make_folder(os.path.dirname(path))
            files.write_small(path, data)
