"""Batches the requests of many clients; batching does not change the responses.

The next batch is collected while others are computed, so a single client never waits and many share the work. Several
batches are computed at once, because a single one leaves cores idle between its operations.
"""

import asyncio
import collections
import concurrent.futures
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bert_tf.export.batches import parallel_batches
from bert_tf.runtime import stopping
from bert_tf.serving.large_requests import ROW_WORK, LargeRequests, Late
from bert_tf.serving.served import Arrays, Signature

MAX_ROWS = 64  # per batch
MAX_BYTES = 16_384  # of text per batch: more is not faster, and delays later requests
GATHER_SECONDS = 0.002  # how long a batch waits for more requests when there are several clients


class Busy(Exception):
    """The queue is full."""


@dataclasses.dataclass(eq=False)
class _Waiting:
    """A queued request, or part of one: {name: array [B, ...]} for a signature, and the future of its outputs."""

    signature: Signature
    arrays: Arrays
    answer: asyncio.Future = dataclasses.field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def __post_init__(self) -> None:
        self.rows = len(next(iter(self.arrays.values())))
        self.bytes = int(sum(_sizes(self.arrays)))
        self.work = self.bytes + ROW_WORK * self.rows

    @property
    def kind(self) -> tuple[Any, ...]:
        """Requests of the same kind may share a batch; unique if the outputs cannot be split by row."""
        shared = self.signature if self.signature.has_rows else self
        return id(shared), tuple(array.shape[1:] for array in self.arrays.values())


class Batcher:
    """The queue of one model.

    most_waiting: queue limit, beyond which requests raise Busy. at_once: batches computed concurrently, 0 for
    `batches.parallel_batches`, at least 2. on_batch: called with each batch's number of requests and of rows.

    Large requests, with more rows or text than a batch, are split and computed one at a time, see `LargeRequests`; each
    part is queued once the previous one is done, behind the small requests already waiting. A single long text is one
    part; small requests are computed alongside it. A batch is stopped once all its requests have been abandoned.
    """

    def __init__(
        self,
        *,
        most_waiting: int = 256,
        most_rows: int = MAX_ROWS,
        most_bytes: int = MAX_BYTES,
        at_once: int = 0,
        on_batch: Callable[[int, int], Any] = lambda *_: None,
    ) -> None:
        self.most_waiting, self.most_rows, self.most_bytes = most_waiting, most_rows, most_bytes
        self.at_once = at_once or max(2, parallel_batches())
        self.on_batch = on_batch
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._large = LargeRequests()
        self._work = asyncio.Event()
        self._computing: set[asyncio.Task] = set()  # tasks of batches
        self._threads = concurrent.futures.ThreadPoolExecutor(self.at_once, "model")
        self._shared = False  # whether the last batch had several requests
        self._loop: asyncio.Task | None = None

    async def answer(self, signature: Signature, arrays: Arrays, seconds: float = math.inf) -> Arrays:
        """The outputs of a signature for a request, {name: array [B, ...]}; raises the model's exception, or Busy.

        seconds: time limit; Busy if the request is estimated to take longer.
        """
        if self.waiting >= self.most_waiting:
            raise Busy(f"{self.waiting} requests are waiting")
        if self._loop is None:
            self._loop = asyncio.create_task(self._run())
        parts = _parts(arrays, self.most_rows, self.most_bytes) if signature.has_rows else [arrays]
        queued = [_Waiting(signature, part) for part in parts]
        if len(queued) == 1 and queued[0].bytes <= self.most_bytes:
            return await self._queue(queued[0])
        try:
            return await self._answer_in_parts(queued, seconds)
        except Late:
            raise Busy(f"Earlier requests would delay this one by more than {seconds:g} seconds") from None

    async def _answer_in_parts(self, parts: Sequence[_Waiting], seconds: float) -> Arrays:
        answers = []
        async with self._large.turn(sum(part.work for part in parts), seconds) as turn:
            for part in parts:
                begin = time.monotonic()
                answers.append(await self._queue(part))
                if len(parts) > 1:
                    _check_rows(answers[-1], part.rows)
                self._large.advance(turn, part.work, time.monotonic() - begin)
        return _join(answers) if len(parts) > 1 else answers[0]

    def _queue(self, waiting: _Waiting) -> asyncio.Future:
        self._waiting.append(waiting)
        self._work.set()
        return waiting.answer

    @property
    def waiting(self) -> int:
        """The number of queued requests that have not been abandoned."""
        return self._queued + self._large.waiting

    @property
    def _queued(self) -> int:
        return sum(not each.answer.done() for each in self._waiting)

    async def close(self) -> None:
        """Stops; queued requests are canceled."""
        for task in (self._loop, *self._computing):
            if task:
                task.cancel()
        for each in self._waiting:
            each.answer.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        while True:
            if not self._waiting:
                self._work.clear()
                await self._work.wait()
            await asyncio.sleep(GATHER_SECONDS if self._shared else 0)  # 0: let the next part of a request be queued
            batch = self._next_batch()
            self._shared = len(batch) > 1
            computing = asyncio.create_task(self._attempt(batch))
            self._computing.add(computing)
            computing.add_done_callback(self._computing.discard)
            if len(self._computing) == self.at_once:
                await asyncio.wait(self._computing, return_when=asyncio.FIRST_COMPLETED)

    async def _attempt(self, batch: list[_Waiting]) -> None:
        try:
            await self._compute(batch)
        except Exception as error:  # the next batch must be computed in any case
            for each in batch:
                _resolve(each, error=error)

    def _next_batch(self) -> list[_Waiting]:
        """The oldest request and later ones that fit: an equal share if more batches can be computed concurrently."""
        batch: list[_Waiting] = []
        left: collections.deque[_Waiting] = collections.deque()
        rows = size = 0
        share = math.ceil(self._queued / (self.at_once - len(self._computing)))
        while self._waiting:
            each = self._waiting.popleft()
            if each.answer.done():  # abandoned
                continue
            has_room = rows + each.rows <= self.most_rows and size + each.bytes <= self.most_bytes
            fits = has_room and len(batch) < share and each.kind == batch[0].kind if batch else True
            if fits:
                batch.append(each)
                rows += each.rows
                size += each.bytes
            else:
                left.append(each)
        self._waiting = left
        return batch

    async def _compute(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        self.on_batch(len(batch), sum(each.rows for each in batch))
        arrays = {name: np.concatenate([each.arrays[name] for each in batch]) for name in batch[0].arrays}
        loop, stop = asyncio.get_running_loop(), stopping.Stop()
        for each in batch:
            each.answer.add_done_callback(lambda _: stop.set() if all(each.answer.done() for each in batch) else None)
        try:
            outputs = await loop.run_in_executor(self._threads, _stoppable, stop, batch[0].signature, arrays)
            answers = _split(outputs, batch) if len(batch) > 1 else [outputs]
        except Exception as error:
            if len(batch) == 1:
                _resolve(batch[0], error=error)
                return
            for each in batch:  # any one of them may be the cause
                if not each.answer.done():
                    await self._compute([each])
            return
        for each, answer in zip(batch, answers, strict=True):
            _resolve(each, answer)


def _stoppable(stop: stopping.Stop, signature: Signature, arrays: Arrays) -> Arrays:
    with stop.applies():
        return signature(arrays)


def _split(outputs: Arrays, batch: Sequence[_Waiting]) -> list[Arrays]:
    """The outputs of each request of a batch."""
    _check_rows(outputs, sum(each.rows for each in batch))
    answers, first = [], 0
    for each in batch:
        own = {name: array[first : first + each.rows] for name, array in outputs.items()}
        answers.append(each.signature.trim_padding(own, each.arrays))
        first += each.rows
    return answers


def _check_rows(outputs: Arrays, rows: int) -> None:
    for name, array in outputs.items():
        if array.shape[:1] != (rows,):
            raise ValueError(f"its output {name} does not have one row per instance: send fewer at once")


def _sizes(arrays: Arrays) -> np.ndarray:
    """Bytes of text of each instance, [B]."""
    count: Any = np.frompyfunc(len, 1, 1)
    sizes = np.zeros(len(next(iter(arrays.values()))), int)
    for array in arrays.values():
        if array.dtype == object:
            sizes += count(array).reshape(len(array), -1).sum(1).astype(int)
    return sizes


def _parts(arrays: Arrays, most_rows: int, most_bytes: int) -> list[Arrays]:
    """Splits the instances of a request into non-empty parts that fit into a batch."""
    parts: list[tuple[int, int | None]] = []
    begin = size = 0
    for row, own in enumerate(_sizes(arrays)):
        if row > begin and (row - begin == most_rows or size + own > most_bytes):
            parts.append((begin, row))
            begin, size = row, 0
        size += own
    return [{name: array[first:last] for name, array in arrays.items()} for first, last in [*parts, (begin, None)]]


def _resolve(waiting: _Waiting, outputs: Arrays | None = None, error: Exception | None = None) -> None:
    if waiting.answer.done():
        return
    if error is None:
        waiting.answer.set_result(outputs)
    else:
        waiting.answer.set_exception(error)


def _join(answers: Sequence[Arrays]) -> Arrays:
    """Concatenates the outputs of a request's parts, padded to equal width the way models pad shorter rows."""
    joined = {}
    for name in answers[0]:
        arrays = [answer[name] for answer in answers]
        shape = np.max([array.shape[1:] for array in arrays], 0)
        padding = _padding_value(arrays[0].dtype, answers)
        joined[name] = np.concatenate([_pad(array, shape, padding) for array in arrays])
    return joined


def _padding_value(dtype: np.dtype, answers: Iterable[Arrays]) -> bytes | int:
    """The padding value of models: "" or 0; -1 if some integers are negative, as in padded character offsets."""
    if dtype.kind == "O":
        return b""
    integers = [array for answer in answers for array in answer.values() if array.dtype.kind == "i"]
    return -1 if dtype.kind == "i" and any((array < 0).any() for array in integers) else 0


def _pad(array: np.ndarray, shape: np.ndarray, padding: bytes | int) -> np.ndarray:
    missing = [(0, 0), *((0, int(wide - size)) for wide, size in zip(shape, array.shape[1:], strict=True))]
    return np.pad(array, missing, constant_values=padding) if any(after for _, after in missing) else array
