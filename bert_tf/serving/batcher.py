"""Requests of many clients in one batch: answered together, each as if it were alone.

While a batch is computed the next one gathers, so that a single client never waits and many share the work.
"""

import asyncio
import collections
import concurrent.futures
import dataclasses

import numpy as np

MOST_ROWS = 64  # of a batch
GATHERING = 0.002  # seconds that a batch waits for others once there are several clients


class Busy(Exception):
    """More is waiting than may wait."""


@dataclasses.dataclass(eq=False)
class _Waiting:
    """A request, or a part of one: {name: array [B, ...]} for a signature, and who waits for the answer."""

    signature: object
    arrays: dict
    answer: asyncio.Future

    @property
    def rows(self):
        return len(next(iter(self.arrays.values())))

    @property
    def kind(self):
        """What batch it fits into."""
        return id(self.signature), tuple(array.shape[1:] for array in self.arrays.values())


class Batcher:
    """The queue of one model. `most_waiting` requests may wait; what comes then raises Busy."""

    def __init__(self, *, most_waiting=256, most_rows=MOST_ROWS, on_batch=lambda requests, rows: None):
        self.most_waiting, self.most_rows, self.on_batch = most_waiting, most_rows, on_batch
        self.waiting = collections.deque()
        self._work = asyncio.Event()
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "model")
        self._shared = False  # whether the last batch was of several requests
        self._loop = None

    async def answer(self, signature, arrays):
        """The outputs of a signature for a request, {name: array [B, ...]}; raises what the model raised, or Busy."""
        if len(self.waiting) >= self.most_waiting:
            raise Busy(f"{len(self.waiting)} requests are waiting")
        if self._loop is None:
            self._loop = asyncio.create_task(self._run())
        rows = len(next(iter(arrays.values())))
        parts = []
        for first in range(0, rows, self.most_rows):
            part = {name: array[first : first + self.most_rows] for name, array in arrays.items()}
            parts.append(_Waiting(signature, part, asyncio.get_running_loop().create_future()))
        self.waiting.extend(parts)
        self._work.set()
        try:
            answers = await asyncio.gather(*(part.answer for part in parts))
        finally:
            for part in parts:
                part.answer.cancel()  # nobody waits any more: what is not begun is not done
        return {name: _joined([answer[name] for answer in answers]) for name in answers[0]}

    async def close(self):
        """Ends it; what still waits is cancelled."""
        if self._loop:
            self._loop.cancel()
        for each in self.waiting:
            each.answer.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self):
        while True:
            if not self.waiting:
                self._work.clear()
                await self._work.wait()
            if self._shared:
                await asyncio.sleep(GATHERING)
            batch = self._next_batch()
            self._shared = len(batch) > 1
            try:
                await self._compute(batch)
            except Exception as error:  # whatever it is, the next batch must be computed
                for each in batch:
                    _tell(each, error=error)

    def _next_batch(self):
        """The oldest request, and those behind it that fit."""
        batch, rows, left = [], 0, collections.deque()
        while self.waiting:
            each = self.waiting.popleft()
            if each.answer.done():  # given up
                continue
            fits = not batch or (each.kind == batch[0].kind and rows + each.rows <= self.most_rows)
            if fits:
                batch.append(each)
                rows += each.rows
            else:
                left.append(each)
        self.waiting = left
        return batch

    async def _compute(self, batch):
        if not batch:
            return
        self.on_batch(len(batch), sum(each.rows for each in batch))
        arrays = {name: np.concatenate([each.arrays[name] for each in batch]) for name in batch[0].arrays}
        signature, loop = batch[0].signature, asyncio.get_running_loop()
        try:
            outputs = await loop.run_in_executor(self._thread, signature, arrays)
        except Exception as error:
            if len(batch) == 1:
                _tell(batch[0], error=error)
                return
            for each in batch:  # one of them may be the cause: the others shall not suffer
                await self._compute([each])
            return
        first = 0
        for each in batch:
            own = {name: array[first : first + each.rows] for name, array in outputs.items()}
            _tell(each, signature.only_own(own))
            first += each.rows


def _tell(waiting, outputs=None, error=None):
    if waiting.answer.done():
        return
    if error is None:
        waiting.answer.set_result(outputs)
    else:
        waiting.answer.set_exception(error)


def _joined(arrays):
    """Parts of an answer one below the other; of different widths, filled up with empty columns."""
    if len(arrays) == 1:
        return arrays[0]
    shape = np.max([array.shape[1:] for array in arrays], 0)
    made = []
    for array in arrays:
        missing = [(0, 0), *((0, int(wide - size)) for wide, size in zip(shape, array.shape[1:], strict=True))]
        empty = b"" if array.dtype == object else 0
        made.append(np.pad(array, missing, constant_values=empty) if any(after for _, after in missing) else array)
    return np.concatenate(made)
