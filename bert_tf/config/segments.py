"""Segments of the texts of a pair, for checkpoints loaded in a call that chooses them."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Literal, get_args

from bert_tf.errors import leave_out

Segments = Literal["one", "two"]  # one for both texts, or two
SEGMENTS = get_args(Segments)
HELP = "segments of the texts of a pair: one for both, or two (as in the checkpoint)"
_chosen: contextvars.ContextVar[str | None] = contextvars.ContextVar("segments", default=None)


@contextlib.contextmanager
def choosing(segments: str | None) -> Iterator[None]:
    """Loads checkpoints in the block with these segments; None: as specified in their files."""
    token = _chosen.set(segments)
    try:
        yield
    finally:
        _chosen.reset(token)


def chosen() -> str | None:
    """The segments chosen by the call."""
    return _chosen.get()


def check_unused(path: str) -> None:
    """Raises UserError if the call chooses segments for a model that keeps its own."""
    if chosen():
        raise leave_out(f"segments={chosen()} has no effect on {path}, which keeps its own")
