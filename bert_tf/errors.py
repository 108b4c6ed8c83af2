"""Errors that one sentence explains: what was given, what was expected, what to do."""

import re


def reason_of(error: BaseException) -> str:
    """Returns the first line of an error's message, without TensorFlow's names of nodes and operations."""
    message = str(getattr(error, "message", error)).strip() or type(error).__name__
    return re.sub(r"^({{.*?}}\s*)+|\s*\[Op:.*", "", message.splitlines()[0])[:300]


class UserError(ValueError):
    """A mistake in flags, files or data. Scripts print its sentence and exit with code 2, without a traceback."""

    exit_code = 2


class TrainingError(UserError):
    """Training cannot continue (the loss is not a number, memory ran out). What was saved before it is kept."""

    exit_code = 1


class Interrupted(UserError):
    """Work was interrupted (SIGTERM, Ctrl-C) and its state is saved; the exit code is a shell's for the signal."""

    def __init__(self, message: str, signal_number: int = 15) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number
