"""Requests of many clients in one batch: answered together, each as if it were alone.

While a batch is computed the next one gathers, so that a single client never waits and many share the work.
"""

import asyncio
import collections
import concurrent.futures
import dataclasses

import numpy as np

MOST_ROWS = 64  # of a batch
MOST_BYTES = 16_384  # of text in a batch: more is not faster, but lets those who come next wait
GATHERING = 0.002  # seconds that a batch waits for others once there are several clients


class Busy(Exception):
    """More is waiting than may wait."""


@dataclasses.dataclass(eq=False)
class _Waiting:
    """A request, or a part of one: {name: array [B, ...]} for a signature, and who waits for the answer."""

    signature: object
    arrays: dict
    answer: asyncio.Future

    def __post_init__(self):
        self.rows = len(next(iter(self.arrays.values())))
        self.bytes = int(sum(_sizes(self.arrays)))

    @property
    def kind(self):
        """What batch it fits into."""
        return id(self.signature), tuple(array.shape[1:] for array in self.arrays.values())


class Batcher:
    """The queue of one model. `most_waiting` requests may wait; what comes then raises Busy."""

    def __init__(self, *, most_waiting=256, most_rows=MOST_ROWS, most_bytes=MOST_BYTES, on_batch=lambda *_: None):
        self.most_waiting, self.most_rows, self.most_bytes = most_waiting, most_rows, most_bytes
        self.on_batch = on_batch
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
        parts = [
            _Waiting(signature, part, asyncio.get_running_loop().create_future())
            for part in _parts(arrays, self.most_rows, self.most_bytes)
        ]
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
        batch, rows, size, left = [], 0, 0, collections.deque()
        while self.waiting:
            each = self.waiting.popleft()
            if each.answer.done():  # given up
                continue
            has_room = rows + each.rows <= self.most_rows and size + each.bytes <= self.most_bytes
            if not batch or (has_room and each.kind == batch[0].kind):
                batch.append(each)
                rows += each.rows
                size += each.bytes
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


def _sizes(arrays):
    """Bytes of text of each instance, [B]."""
    count = np.frompyfunc(len, 1, 1)
    sizes = np.zeros(len(next(iter(arrays.values()))), int)
    for array in arrays.values():
        if array.dtype == object:
            sizes += count(array).reshape(len(array), -1).sum(1).astype(int)
    return sizes


def _parts(arrays, most_rows, most_bytes):
    """The instances of a request in parts that are a batch at most, none of them empty."""
    parts, begin, size = [], 0, 0
    for row, own in enumerate(_sizes(arrays)):
        if row > begin and (row - begin == most_rows or size + own > most_bytes):
            parts.append((begin, row))
            begin, size = row, 0
        size += own
    return [{name: array[first:last] for name, array in arrays.items()} for first, last in [*parts, (begin, None)]]


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
