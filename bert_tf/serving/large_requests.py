"""The order of requests that are larger than a batch: one at a time, the others wait for their turn."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator

ROW_WORK = 32  # work of a row in bytes of text, besides its text
WEIGHT = 0.3  # of the last part in the average time


class Late(Exception):
    """A request cannot be computed in time."""


@dataclasses.dataclass(eq=False)
class Turn:
    """A large request. work: what is left of it. deadline: of time.monotonic()."""

    work: float
    deadline: float
    begun: asyncio.Future


class LargeRequests:
    """Computes one large request at a time, in the order of arrival.

    If they were computed in turns, part by part, all would be finished at the end, and none in time. A request that
    would not be finished before its deadline, by the time that earlier parts took, is refused while it waits.
    """

    def __init__(self) -> None:
        self._turns: list[Turn] = []  # the first is computed
        self._seconds = 0.0  # per unit of work; 0 for unknown

    @property
    def waiting(self) -> int:
        """The number of requests whose turn has not come."""
        return sum(not turn.begun.done() for turn in self._turns)

    @contextlib.asynccontextmanager
    async def turn(self, work: float, seconds: float) -> AsyncIterator[Turn]:
        """Waits for the turn of a request; raises Late if it cannot be finished within `seconds`."""
        turn = Turn(work, time.monotonic() + seconds, asyncio.get_running_loop().create_future())
        self._turns.append(turn)
        try:
            self._update()
            await turn.begun
            yield turn
        finally:
            self._turns.remove(turn)
            self._update()

    def advance(self, turn: Turn, work: float, seconds: float) -> None:
        """Records that a part of a request took `seconds`."""
        turn.work -= work
        rate = seconds / work
        self._seconds = rate if not self._seconds else (1 - WEIGHT) * self._seconds + WEIGHT * rate
        self._update()

    def _update(self) -> None:
        """Begins the first request, and refuses those that would be late."""
        if self._turns and not self._turns[0].begun.done():  # in any case: the average may be wrong
            self._turns[0].begun.set_result(None)
        now, work = time.monotonic(), 0.0
        for turn in self._turns:
            if not turn.begun.done() and now + (work + turn.work) * self._seconds > turn.deadline:
                turn.begun.set_exception(Late())
            elif not turn.begun.done() or turn is self._turns[0]:  # neither refused nor given up
                work += turn.work
