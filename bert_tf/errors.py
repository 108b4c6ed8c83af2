"""Errors explained in one sentence: the input, the expected input, and the remedy."""

import difflib
import errno
import os
import re
import sys
from collections.abc import Iterable

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


MAX_LISTED = 30  # names listed in a sentence
# {module: its package}, for all installations except that of requirements-serve.txt
PACKAGES = {
    **{each: each for each in "flatbuffers huggingface_hub jinja2 keras scipy sentencex seqeval shtab".split()},
    **{each: each.replace("_", "-") for each in ("tensorboard", "tensorflow", "tensorflow_text")},
    "sklearn": "scikit-learn",
}


def listed(names: Iterable[object]) -> str:
    """Names separated by commas, at most MAX_LISTED of them."""
    shown = list(map(str, names))
    return ", ".join(shown[:MAX_LISTED]) + (f" and {len(shown) - MAX_LISTED:,} more" * (len(shown) > MAX_LISTED))


def count_text(number: float, noun: str, nouns: str = "") -> str:
    """A number with its noun: 1 epoch, 2.5 epochs, 1,000 steps, 2 queries (nouns: a plural without "s")."""
    number = int(number) if number == int(number) else number
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def meant(name: str, known: Iterable[str], most: int = 3) -> str:
    """A sentence with a leading space that suggests the names most like a wrong one; "" if there are none.

    Example:
        >>> meant("fintune", ["finetune", "serve"])
        ' Did you mean finetune?'
    """
    lower = {each.lower(): each for each in known}
    close = [lower[each] for each in difflib.get_close_matches(name.lower(), lower, n=most)]
    return f" Did you mean {' or '.join(close)}?" if close else ""


def reason_of(error: BaseException) -> str:
    """Returns the first line of an error's message, without TensorFlow's names of nodes and operations."""
    message = str(getattr(error, "message", error)).strip() or type(error).__name__
    return re.sub(r"^({{.*?}}\s*)+|\s*\[Op:.*", "", message.splitlines()[0])[:300]


def missing_package(error: BaseException) -> str | None:
    """A sentence about an import that failed because one of PACKAGES is not installed; None for other errors."""
    name = ((isinstance(error, ModuleNotFoundError) and error.name) or "").partition(".")[0]
    package = PACKAGES.get(name)
    return f"{package} is not installed: pip install {package} (or bert-tf)." if package else None


def what_to_do(error: BaseException) -> str:
    """Remedy for a failed write: free space if the disk is full, else according to the reason."""
    full = [os.strerror(number) for number in NO_SPACE]
    is_full = any(each in str(error) for each in full) or "Resource exhausted" in str(error)
    return "Free some space" if is_full else "Fix that"


def describe_os_error(error: OSError) -> tuple[str, int]:
    """Returns a sentence about an operating system error, and the exit code of a process that it ends.

    2: the user can fix the path or its permissions. 1: the machine failed, such as a full disk.
    """
    path, reason = error.filename or "a file", error.strerror or reason_of(error)
    if error.errno in NO_SPACE:
        named = f" ({path})" if error.filename else ""
        return f"no space left on the disk{named}: free some and run the same command again.", 1
    if error.errno == errno.EFBIG:
        return f"{path} would be larger than this process may write ({reason}): raise `ulimit -f`.", 1
    if error.errno in WRONG_PATH:
        return f"{path} cannot be used ({reason}): pass a path that can be read and written.", 2
    return f"{path} could not be read or written ({reason}): fix that and run the same command again.", 1


def stop_of(error: BaseException | None) -> KeyboardInterrupt | None:
    """The KeyboardInterrupt that led to an exception, or that it is; None for other exceptions.

    For example, the initialization of a C extension turns it into an ImportError.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return error


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether the machine or a device ran out of memory; by name, because TensorFlow may not be loaded."""
    return isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError"


def describe_failure(error: Exception, *, memory: str) -> tuple[str, int] | None:
    """Returns a sentence and an exit code for faults of the machine, a path, a file or the installation; else None.

    Handles errors of Python and of TensorFlow, which reports file errors as "PATH; REASON". memory: what to do if it
    ran out.
    """
    if isinstance(error, OSError):
        return describe_os_error(error)
    if missing := missing_package(error):
        return missing, 2
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        shown = error.object[max(error.start - 30, 0) : error.end + 30]
        return f"{shown!r} is not UTF-8 text: rename the file, folder or label, or correct the text.", 2
    errors = getattr(sys.modules.get("tensorflow"), "errors", None)
    reason = reason_of(error)
    if errors is None or not isinstance(error, errors.OpError):
        return (f"memory ran out ({reason}): {memory}.", 1) if is_out_of_memory(error) else None
    path, _, cause = reason.rpartition("; ")
    numbers = {os.strerror(number): number for number in errno.errorcode}
    if path and cause in numbers and numbers[cause] != errno.ENOMEM:
        return describe_os_error(OSError(numbers[cause], cause, path))
    if is_out_of_memory(error):
        return f"memory ran out ({reason}): {memory}.", 1
    if isinstance(error, errors.DataLossError) or "Read less bytes" in reason or "Read fewer bytes" in reason:
        return f"a file is damaged or cut short ({reason}): fetch or write it again.", 2
    if "Collective ops is aborted" in str(error.message):
        # the message may name tasks of this process, or of one that only passes the failure on
        return "another worker of this job has ended: start the same command again on all machines to continue.", 1
    if isinstance(error, errors.UnavailableError | errors.DeadlineExceededError | errors.UnauthenticatedError):
        return f"a store or another machine does not answer ({reason}): run the same command again.", 1
    if isinstance(error, errors.PermissionDeniedError) or "File system scheme" in reason:
        return f"a path cannot be used ({reason}): pass a path that can be read and written.", 2
    return None


class UserError(ValueError):
    """A mistake in flags, files or data. Scripts print its sentence and exit with code 2, without a traceback."""

    exit_code = 2

    def _render_traceback_(self) -> list[str]:
        """Text shown in a notebook instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


def leave_out(reason: str) -> UserError:
    """The error for an option that has no effect; reason: the sentence without its end.

    Example:
        >>> str(leave_out("text_columns requires file"))
        'text_columns requires file: remove it.'
    """
    return UserError(f"{reason}: remove it.")


class NoEngine(UserError):
    """An engine does not support a model. reason: the sentence without its end."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: omit engine; nothing was written.")
        self.reason = reason


class MachineError(UserError):
    """The machine failed, such as a full disk; complete results are kept."""

    exit_code = 1


def of_os_error(error: OSError, sentence: str) -> UserError:
    """Returns the error with a sentence about the failed write: a MachineError unless the path is wrong."""
    return (UserError if error.errno in WRONG_PATH else MachineError)(sentence)


class TrainingError(UserError):
    """Training cannot continue (the loss is not a number, memory ran out). Earlier saved results are kept."""

    exit_code = 1


class Interrupted(UserError):
    """Work was interrupted (SIGTERM, Ctrl-C) and its state is saved; the exit code is a shell's for the signal."""

    def __init__(self, message: str, signal_number: int = 15) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number
