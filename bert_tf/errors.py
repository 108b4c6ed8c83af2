"""Mistakes that one sentence explains: what was given, what was expected, what to do."""

import re


def reason_of(error):
    """The first line of what an error says, without the names of nodes and operations that TensorFlow puts around."""
    said = str(getattr(error, "message", error)).strip() or type(error).__name__
    return re.sub(r"^({{.*?}}\s*)+|\s*\[Op:.*", "", said.splitlines()[0])[:300]


class UserError(ValueError):
    """A mistake in flags, files or data. Scripts print its sentence and exit with code 2, without a traceback."""

    exit_code = 2


class TrainingError(UserError):
    """Training cannot go on (the loss is not a number, memory ran out). What was saved before it is kept."""

    exit_code = 1


class Interrupted(UserError):
    """Work was asked to stop (SIGTERM, Ctrl-C) and its state is saved; the exit code is a shell's for the signal."""

    def __init__(self, message, signal_number=15):
        super().__init__(message)
        self.exit_code = 128 + signal_number
