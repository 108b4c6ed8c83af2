"""The processes of `bert-tf launch`: their output with the number of the worker, and their end, that of all."""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.runtime import accelerators, cluster
from bert_tf.runtime.cluster import Place

GRACE = 20.0  # seconds that processes have to end by themselves after one has failed
STOP = 600.0  # seconds that they have to save and stop after SIGTERM
INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)  # exit codes of those that did
AGAIN = "start the same command again to continue"
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows ends a process at once with either
SET_PARENT_DEATH_SIGNAL = 1  # of Linux's prctl


class WorkerProcess:
    """A process that trains as one of the workers of a job."""

    def __init__(self, place: Place, command: Sequence[str], addresses: Sequence[str]) -> None:
        self.place, self.command = place, command
        self.environment = {**os.environ, "TF_CONFIG": cluster.tf_config(addresses, place.worker)}
        self.environment |= {"PYTHONUNBUFFERED": "1", **gpus_of(place, os.environ)}
        self.cores = cores_of(place)
        self.said_why = False  # it ends

    async def run(self) -> int:
        """Starts the process and prints its lines; returns its exit code, negative for a signal that killed it."""
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C of a terminal reaches it once, through this process
            preexec_fn=self._begin,
        )
        assert self.process.stdout is not None
        rest = b""
        while chunk := await self.process.stdout.read(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self.said_why |= line.startswith(b"bert-tf: ")
                self.say(line.decode(errors="replace"))
        if rest:
            self.say(rest.decode(errors="replace"))
        return await self.process.wait()

    def _begin(self) -> None:
        """In the new process: takes its cores, and SIGTERM when this process dies."""
        if self.cores:
            os.sched_setaffinity(0, self.cores)
        with contextlib.suppress(AttributeError, OSError):  # not Linux
            ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)

    def say(self, line: str) -> None:
        """Prints a line of this worker."""
        print(f"[{self.place.worker}] {line}", flush=True)

    def send(self, number: int) -> None:
        """Sends the process a signal, if it is still there; KILL also to those that it has started."""
        kill_group = getattr(os, "killpg", None) if number == KILL else None
        with contextlib.suppress(ProcessLookupError):
            kill_group(self.process.pid, number) if kill_group else self.process.send_signal(number)


def cores_of(place: Place) -> list[int]:
    """The cores of a worker where several share a machine; [] if it may have all, or the system knows no such thing."""
    if place.on_machine[1] == 1 or not hasattr(os, "sched_setaffinity") or accelerators.gpus():
        return []
    return cluster.share(sorted(os.sched_getaffinity(0)), *place.on_machine)


def gpus_of(place: Place, environ: Mapping[str, str]) -> dict[str, str]:
    """The variable that shows a worker its part of the GPUs of a machine; {} if nothing is to share."""
    numbers = cluster.share(range(len(accelerators.gpus())), *place.on_machine)
    if place.on_machine[1] == 1 or not numbers or "CUDA_VISIBLE_DEVICES" in environ:
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, numbers))}


def describe_end(code: int) -> str:
    """Description of the exit code of a process; "" if it ended well."""
    if code < 0:
        return f"was killed ({signal.Signals(-code).name})"
    return f"ended with exit code {code}" if code else ""


async def supervise(
    workers: Sequence[WorkerProcess], elsewhere: "asyncio.Future[str] | None" = None
) -> tuple[int, str]:
    """Waits for the end of all processes; when one fails, or something does `elsewhere`, all end.

    Returns the exit code of the first that failed (1 if it was elsewhere or killed; that of the signal if they were
    stopped by one), and what happened to it ("" if it was elsewhere).
    """
    running = {asyncio.create_task(worker.run()): worker for worker in workers}
    stopped = _forward_signals(workers)
    awaited: set[asyncio.Future[Any]] = {*running, *([elsewhere] if elsewhere else [])}
    while running:
        done, _ = await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        awaited -= done
        ended = {running.pop(task): task.result() for task in done if task in running}
        failed = next(((worker, code) for worker, code in ended.items() if code), None)
        for worker, code in ended.items():
            if code < 0:
                worker.say(f"bert-tf: {describe_end(code)}; {AGAIN}.")
        if failed:
            worker, code = failed
            patience = STOP if stopped or code in INTERRUPTED else GRACE
            await _stop(running, f"{worker.place} {describe_end(code)}", patience=patience)
            if stopped and (code in INTERRUPTED or code < 0):  # killed before it can save, or as it ends
                code = 128 + stopped[0]
            return max(code, 1), describe_end(code)
        if elsewhere and elsewhere in done:
            await _stop(running, elsewhere.result(), patience=STOP if stopped else GRACE)
            return 1, ""
    return 0, ""


def _forward_signals(workers: Sequence[WorkerProcess]) -> list[int]:
    """Passes SIGTERM and Ctrl-C on as SIGTERM, after which workers save and stop; the list receives them."""
    received: list[int] = []

    def forward(number: int) -> None:
        received.append(number)
        for worker in workers:
            worker.send(signal.SIGTERM if len(received) < 3 else KILL)

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, forward, number)
    return received


async def _stop(running: "dict[asyncio.Task[int], WorkerProcess]", reason: str, *, patience: float) -> None:
    """Waits for processes that will notice by themselves that another has ended, then kills them.

    Those that have not said by then why they end get a line.
    """
    if running:
        _, late = await asyncio.wait(running, timeout=patience)
        for task in late:
            running[task].send(KILL)
            if not running[task].said_why:
                running[task].say(f"bert-tf: stopped, as {reason}; {AGAIN}.")
        if late:
            await asyncio.wait(late)


def python_command(words: Sequence[str]) -> list[str]:
    """The words after `bert-tf` as a command of a new process."""
    return [sys.executable, "-m", "bert_tf", *words]
