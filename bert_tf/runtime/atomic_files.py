"""Files that appear whole or not at all: written beside their place, then renamed."""

import contextlib
import json
import os


@contextlib.contextmanager
def atomic_write(path, *, shared=False, folder=None):
    """Yields the path of a file to write, which takes the place of `path` at the end, and goes away if anything fails.

    shared: other processes may write the same file at the same moment. folder: where to write it, on the same disk;
    without, in the folder of `path`.
    """
    path = os.fspath(path)
    place = os.path.join(folder or os.path.dirname(path), os.path.basename(path))
    partial = f"{place}.{os.getpid()}.partial" if shared else f"{place}.partial"
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:  # Ctrl-C too
        with contextlib.suppress(OSError):
            os.remove(partial)
        raise


def write_lines(path, lines, *, shared=False):
    """Writes strings, which bring their own ends of lines, as UTF-8."""
    with atomic_write(path, shared=shared) as partial, open(partial, "w", encoding="utf-8", newline="") as file:
        file.writelines(lines)


def write_json(path, value, *, indent=2, shared=False):
    """Writes a value as JSON that a person can read."""
    write_lines(path, [json.dumps(value, indent=indent, ensure_ascii=False), "\n"], shared=shared)
