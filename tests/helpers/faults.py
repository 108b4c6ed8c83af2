"""Faults from outside: a full disk, a network that is down, a signal, the end of the process."""

import contextlib
import functools

import pytest


@contextlib.contextmanager
def on_call(owner, name, act, *, at=None):
    """Inside, the function `name` of a module or class acts before it runs.

    act: an exception to raise, or a function to call with the same arguments. at: the number of the call that acts,
    from 1; None: every call.
    """
    original, calls = getattr(owner, name), []

    @functools.wraps(original)
    def acting(*arguments, **options):
        calls.append(1)
        if at in (None, len(calls)):
            if isinstance(act, BaseException):
                raise act
            act(*arguments, **options)
        return original(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, acting)
        yield
