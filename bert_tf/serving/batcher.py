"""Requests of many clients in one batch: answered together, each as if it were alone.

While batches are computed the next one gathers, so that a single client never waits and many share the work. Several
batches are computed at once: one alone leaves cores idle between its operations.
"""

import asyncio
import collections
import concurrent.futures
import dataclasses
import math

import numpy as np

from bert_tf.export import loaded_model

MOST_ROWS = 64  # of a batch
MOST_BYTES = 16_384  # of text in a batch: more is not faster, but lets those who come next wait
GATHERING = 0.002  # seconds that a batch waits for others once there are several clients


class Busy(Exception):
    """More is waiting than may wait."""


@dataclasses.dataclass(eq=False)
class _Waiting:
    """A request, or the part of one whose turn it is: {name: array [B, ...]} for a signature; who waits for it."""

    signature: object
    arrays: dict
    answer: asyncio.Future

    def __post_init__(self):
        self.rows = len(next(iter(self.arrays.values())))
        self.bytes = int(sum(_sizes(self.arrays)))

    @property
    def kind(self):
        """What batch it fits into; only its own if what comes out has no rows to hand out."""
        shared = self.signature if self.signature.has_rows else self
        return id(shared), tuple(array.shape[1:] for array in self.arrays.values())


class Batcher:
    """The queue of one model. `most_waiting` requests may wait; what comes then raises Busy. `at_once` batches are
    computed at a time, 0 for what `exported.at_once` says.

    Of a large request one part at a time is in the queue, and the next goes behind those who wait by then.
    """

    def __init__(
        self, *, most_waiting=256, most_rows=MOST_ROWS, most_bytes=MOST_BYTES, at_once=0, on_batch=lambda *_: None
    ):
        self.most_waiting, self.most_rows, self.most_bytes = most_waiting, most_rows, most_bytes
        self.at_once = at_once or loaded_model.parallel_batches()
        self.on_batch = on_batch
        self._waiting = collections.deque()
        self._work = asyncio.Event()
        self._computing = set()  # tasks of batches
        self._threads = concurrent.futures.ThreadPoolExecutor(self.at_once, "model")
        self._shared = False  # whether the last batch was of several requests
        self._loop = None

    async def answer(self, signature, arrays):
        """The outputs of a signature for a request, {name: array [B, ...]}; raises what the model raised, or Busy."""
        if self.waiting >= self.most_waiting:
            raise Busy(f"{self.waiting} requests are waiting")
        if self._loop is None:
            self._loop = asyncio.create_task(self._run())
        parts = _parts(arrays, self.most_rows, self.most_bytes) if signature.has_rows else [arrays]
        answers = []
        for part in parts:
            waiting = _Waiting(signature, part, asyncio.get_running_loop().create_future())
            self._waiting.append(waiting)
            self._work.set()
            answers.append(await waiting.answer)
            if len(parts) > 1:
                _expect_rows(answers[-1], waiting.rows)
        return _joined(answers) if len(parts) > 1 else answers[0]

    @property
    def waiting(self):
        """How many requests wait that nobody gave up."""
        return sum(not each.answer.done() for each in self._waiting)

    async def close(self):
        """Ends it; what still waits is cancelled."""
        for task in (self._loop, *self._computing):
            if task:
                task.cancel()
        for each in self._waiting:
            each.answer.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self):
        while True:
            if not self._waiting:
                self._work.clear()
                await self._work.wait()
            await asyncio.sleep(GATHERING if self._shared else 0)  # 0: who got a part of an answer asks for the next
            batch = self._next_batch()
            self._shared = len(batch) > 1
            computing = asyncio.create_task(self._attempt(batch))
            self._computing.add(computing)
            computing.add_done_callback(self._computing.discard)
            if len(self._computing) == self.at_once:
                await asyncio.wait(self._computing, return_when=asyncio.FIRST_COMPLETED)

    async def _attempt(self, batch):
        try:
            await self._compute(batch)
        except Exception as error:  # whatever it is, the next batch must be computed
            for each in batch:
                _tell(each, error=error)

    def _next_batch(self):
        """The oldest request, and those behind it that fit: a fair share of them where others can be computed too."""
        batch, rows, size, left = [], 0, 0, collections.deque()
        share = math.ceil(self.waiting / (self.at_once - len(self._computing)))
        while self._waiting:
            each = self._waiting.popleft()
            if each.answer.done():  # given up
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

    async def _compute(self, batch):
        if not batch:
            return
        self.on_batch(len(batch), sum(each.rows for each in batch))
        arrays = {name: np.concatenate([each.arrays[name] for each in batch]) for name in batch[0].arrays}
        signature, loop = batch[0].signature, asyncio.get_running_loop()
        try:
            outputs = await loop.run_in_executor(self._threads, signature, arrays)
            answers = _handed_out(outputs, batch) if len(batch) > 1 else [outputs]
        except Exception as error:
            if len(batch) == 1:
                _tell(batch[0], error=error)
                return
            for each in batch:  # one of them may be the cause: the others shall not suffer
                if not each.answer.done():
                    await self._compute([each])
            return
        for each, answer in zip(batch, answers, strict=True):
            _tell(each, answer)


def _handed_out(outputs, batch):
    """The answers to the requests of a batch."""
    _expect_rows(outputs, sum(each.rows for each in batch))
    answers, first = [], 0
    for each in batch:
        own = {name: array[first : first + each.rows] for name, array in outputs.items()}
        answers.append(each.signature.only_own(own, each.arrays))
        first += each.rows
    return answers


def _expect_rows(outputs, rows):
    for name, array in outputs.items():
        if array.shape[:1] != (rows,):
            raise ValueError(f"its output {name} has not a row for each instance: send fewer at once")


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


def _joined(answers):
    """Parts of an answer one below the other; of different widths, filled up as models fill up shorter rows."""
    joined = {}
    for name in answers[0]:
        arrays = [answer[name] for answer in answers]
        shape = np.max([array.shape[1:] for array in arrays], 0)
        filler = _filler(arrays[0].dtype, answers)
        joined[name] = np.concatenate([_filled_up(array, shape, filler) for array in arrays])
    return joined


def _filler(dtype, answers):
    """What a model puts behind the end: "" or 0; where some of its integers are negative, as no place is, -1."""
    if dtype.kind == "O":
        return b""
    integers = [array for answer in answers for array in answer.values() if array.dtype.kind == "i"]
    return -1 if dtype.kind == "i" and any((array < 0).any() for array in integers) else 0


def _filled_up(array, shape, filler):
    missing = [(0, 0), *((0, int(wide - size)) for wide, size in zip(shape, array.shape[1:], strict=True))]
    return np.pad(array, missing, constant_values=filler) if any(after for _, after in missing) else array
