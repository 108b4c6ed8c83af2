"""The queue of requests larger than a batch: one is computed at a time, the others wait their turn."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator

ROW_WORK = 32  # fixed work per row, as bytes of text
WEIGHT = 0.3  # weight of the latest part in the average time


class Late(Exception):
    """A request cannot be computed in time."""


@dataclasses.dataclass(eq=False)
class Turn:
    """A large request. work: the remaining work. deadline: as time.monotonic()."""

    work: float
    deadline: float
    begun: asyncio.Future


class LargeRequests:
    """Computes one large request at a time, in order of arrival.

    If their parts were interleaved, all would finish at the end, and none in time. A waiting request is refused if,
    judging by the time that earlier parts took, it would miss its deadline.
    """

    def __init__(self) -> None:
        self._turns: list[Turn] = []  # the first is being computed
        self._seconds = 0.0  # per unit of work; 0: unknown

    @property
    def waiting(self) -> int:
        """The number of requests that wait for their turn."""
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
        if self._turns and not self._turns[0].begun.done():  # even if late: the average may be wrong
            self._turns[0].begun.set_result(None)
        now, work = time.monotonic(), 0.0
        for turn in self._turns:
            if not turn.begun.done() and now + (work + turn.work) * self._seconds > turn.deadline:
                turn.begun.set_exception(Late())
            elif not turn.begun.done() or turn is self._turns[0]:  # neither refused nor abandoned
                work += turn.work
