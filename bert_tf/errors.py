"""Errors that one sentence explains: what was given, what was expected, what to do."""

import errno
import re

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
WRONG_PATH = (
    errno.EACCES,
    errno.EEXIST,
    errno.EINVAL,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
    errno.EPERM,
    errno.EROFS,
)


def reason_of(error: BaseException) -> str:
    """Returns the first line of an error's message, without TensorFlow's names of nodes and operations."""
    message = str(getattr(error, "message", error)).strip() or type(error).__name__
    return re.sub(r"^({{.*?}}\s*)+|\s*\[Op:.*", "", message.splitlines()[0])[:300]


def describe_os_error(error: OSError) -> tuple[str, int]:
    """Returns a sentence on an error of the operating system, and the exit code of a process that it ends.

    2: the path or its permissions are the user's to change. 1: the machine failed, such as a full disk.
    """
    path, reason = error.filename or "a file", error.strerror or reason_of(error)
    if error.errno in NO_SPACE:
        return f"no space left on the disk ({path}): free some and run the same command again.", 1
    if error.errno == errno.EFBIG:
        return f"{path} would be larger than this process may write ({reason}): raise `ulimit -f`.", 1
    if error.errno in WRONG_PATH:
        return f"{path} cannot be used ({reason}): give a path that can be read and written.", 2
    return f"{path} could not be read or written ({reason}): mend that and run the same command again.", 1


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, of the machine or of a device; known by name, as TensorFlow may not be loaded."""
    return isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError"


class UserError(ValueError):
    """A mistake in flags, files or data. Scripts print its sentence and exit with code 2, without a traceback."""

    exit_code = 2


class MachineError(UserError):
    """The machine failed, such as a full disk; what was complete is kept."""

    exit_code = 1


def of_os_error(error: OSError, sentence: str) -> UserError:
    """Returns the error with a sentence on what could not be written: a MachineError unless the path is wrong."""
    return (UserError if error.errno in WRONG_PATH else MachineError)(sentence)


class TrainingError(UserError):
    """Training cannot continue (the loss is not a number, memory ran out). What was saved before it is kept."""

    exit_code = 1


class Interrupted(UserError):
    """Work was interrupted (SIGTERM, Ctrl-C) and its state is saved; the exit code is a shell's for the signal."""

    def __init__(self, message: str, signal_number: int = 15) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number
