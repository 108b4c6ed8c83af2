"""The order of requests that are larger than a batch: few at a time, the others wait for their turn."""

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
    is_computed: bool = False


class LargeRequests:
    """Computes `at_once` large requests at a time, in the order of arrival.

    If all were computed in turns, part by part, all would be finished at the end, and none in time. A request that
    would not be finished before its deadline, by the time that earlier parts took, is refused while it waits.
    """

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self._turns: list[Turn] = []
        self._seconds = 0.0  # per unit of work, while `at_once` requests are computed; 0 for unknown

    @property
    def waiting(self) -> int:
        """The number of requests whose turn has not come."""
        return sum(not turn.begun.done() for turn in self._turns)

    @contextlib.asynccontextmanager
    async def turn(self, work: float, seconds: float) -> AsyncIterator[Turn]:
        """Waits until the request is to be computed; raises Late if it cannot be within so many seconds."""
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
        """Notes that a part of a request was computed, within so many seconds."""
        turn.work -= work
        rate = seconds / work
        self._seconds = rate if not self._seconds else (1 - WEIGHT) * self._seconds + WEIGHT * rate
        self._update()

    def _update(self) -> None:
        """Begins the next requests and refuses those that would be late."""
        now, ahead, begun = time.monotonic(), 0.0, sum(turn.is_computed for turn in self._turns)
        for turn in self._turns:
            if not turn.is_computed:
                if turn.begun.done():  # refused or given up
                    continue
                seconds = (ahead / self.at_once + turn.work) * self._seconds
                if begun and now + seconds > turn.deadline:  # without others it is tried: the average may be wrong
                    turn.begun.set_exception(Late())
                    continue
                if begun < self.at_once:
                    turn.is_computed = True
                    turn.begun.set_result(None)
                    begun += 1
            ahead += turn.work
