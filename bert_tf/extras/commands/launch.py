"""Trains in several processes: on this machine, or as one worker of a job on several machines.

  bert-tf launch --workers=2 -- pretrain --input_file=my_texts --output_dir=runs/mine
  srun --ntasks-per-node=1 bert-tf launch -- pretrain --input_file=my_texts --output_dir=/shared/mine
  bert-tf launch --workers=4 --worker_index=1 --coordinator=first:2222 -- pretrain --output_dir=/shared/mine

With --workers alone all of them start on this machine, which share its cores and GPUs. Under Slurm, torchrun (RANK,
WORLD_SIZE, MASTER_ADDR) or with --worker_index one worker starts, which meets the others at the coordinator, a port of
the machine of worker 0, all with the token of --token_file or the environment variable BERT_TF_TOKEN, if there is one.
Each line of output begins with the number of its worker. When a worker dies, all end within a
minute; the same command continues from the last checkpoint.
"""

import argparse
import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.cli.main import COMMANDS, is_recipe
from bert_tf.config.flag_parsers import positive
from bert_tf.errors import UserError
from bert_tf.runtime import access_token, cluster, machine, plugins, tensorflow_startup
from bert_tf.runtime.cluster import Place
from bert_tf.runtime.rendezvous import Coordinator, Membership

GRACE = 20.0  # seconds for the other processes to exit after one has failed
STOP = 600.0  # seconds for processes to save and stop after SIGTERM
INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)  # exit codes after that
AGAIN = "start the same command again to continue"
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # either ends a process at once on Windows
SET_PARENT_DEATH_SIGNAL = 1  # of Linux's prctl


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bert-tf launch [--workers=N] [--worker_index=I --coordinator=HOST:PORT] -- COMMAND FLAGS"
    parser.add_argument("--workers", type=int, default=0, help="number of processes that train together")
    parser.add_argument("--worker_index", type=int, default=-1, help="start this one of them only, counted from 0")
    parser.add_argument(
        "--coordinator",
        default="",
        help=f"HOST:PORT of worker 0, which the workers connect to (default port: {cluster.PORT})",
    )
    parser.add_argument("--timeout", type=positive, default=600, help="seconds to wait for the others (default: 600)")
    parser.add_argument("--token_file", help="file whose first line is the token that workers must have to connect")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="pretrain, finetune or squad, and its flags")


def run(arguments: argparse.Namespace) -> None:
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not words or not is_recipe(plugins.member(COMMANDS, words[0], kind="command")):
        raise UserError(
            f"{' '.join(words[:1]) or 'Nothing'} cannot be launched: pass pretrain, finetune or squad after --."
        )
    if not hasattr(os, "fork"):
        raise UserError("launch needs Linux or macOS: here start the command itself, without launch.")
    if os.environ.get("TF_CONFIG"):
        raise UserError("TF_CONFIG is set and already names the workers: start the command itself, without launch.")
    tensorflow_startup.check_installed()  # once here instead of in every worker
    place = _place(arguments)
    token = access_token.read(arguments.token_file, os.environ.get(access_token.VARIABLE))
    code = asyncio.run(_one(place, words, arguments.timeout, token) if place else _all(arguments.workers, words))
    if code:
        sys.exit(code)


def _place(arguments: argparse.Namespace) -> Place | None:
    """The place of the only worker started here; None if all are."""
    place = cluster.from_environment(os.environ)
    if arguments.worker_index >= 0:
        if not arguments.coordinator:
            raise UserError("worker_index requires coordinator: pass HOST:PORT of worker 0.")
        return Place(arguments.worker_index, arguments.workers, arguments.coordinator)
    if place and arguments.workers in (0, place.workers):
        return Place(place.worker, place.workers, arguments.coordinator or place.coordinator, place.on_machine)
    if arguments.workers < 1:
        raise UserError(
            f"workers={arguments.workers}: expected 1 or more unless Slurm or torchrun starts the processes."
        )
    return None


async def _all(count: int, words: list[str]) -> int:
    """Runs all workers of a job on this machine."""
    addresses = [f"127.0.0.1:{port}" for port in cluster.free_ports(count)]
    places = [Place(number, count, addresses[0], (number, count)) for number in range(count)]
    code, _ = await supervise([WorkerProcess(place, python_command(words), addresses) for place in places])
    return code


async def _one(place: Place, words: list[str], timeout: float, token: str = "") -> int:
    """Runs one worker, which joins the others and ends if one of them fails."""
    coordinator = Coordinator(place, token) if place.worker == 0 else None
    if coordinator:
        await coordinator.listen()
    membership = Membership(place, token)
    addresses = await membership.join(cluster.free_ports(1)[0], timeout)
    worker = WorkerProcess(place, python_command(words), addresses)
    code, end = await supervise([worker], membership.failure)
    await membership.leave(end)
    if coordinator and (failure := await coordinator.close()) and not code:
        worker.say(f"bert-tf: {failure}.")
        return 1
    return code


class WorkerProcess:
    """A training process, one of the workers of a job."""

    def __init__(self, place: Place, command: Sequence[str], addresses: Sequence[str]) -> None:
        self.place, self.command = place, command
        self.environment = {**os.environ, "TF_CONFIG": cluster.tf_config(addresses, place.worker)}
        self.environment |= {"PYTHONUNBUFFERED": "1", **gpus_of(place, os.environ)}
        self.cores = cores_of(place)
        self.said_why = False  # it has printed the reason of its end

    async def run(self) -> int:
        """Starts the process and prints its lines; returns its exit code, negative for a signal that killed it."""
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in a terminal reaches it once, through this process
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
        """In the new process: sets its cores, and asks for SIGTERM when the parent dies."""
        if self.cores:
            os.sched_setaffinity(0, self.cores)
        with contextlib.suppress(AttributeError, OSError):  # not Linux
            ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)

    def say(self, line: str) -> None:
        """Prints a line of this worker."""
        print(f"[{self.place.worker}] {line}", flush=True)

    def send(self, number: int) -> None:
        """Sends the process a signal, if it still exists; KILL also goes to its child processes."""
        kill_group = getattr(os, "killpg", None) if number == KILL else None
        with contextlib.suppress(ProcessLookupError):
            kill_group(self.process.pid, number) if kill_group else self.process.send_signal(number)


def cores_of(place: Place) -> list[int]:
    """The cores of a worker if several share a machine; [] if it may use all, or the system does not support this."""
    if place.on_machine[1] == 1 or not hasattr(os, "sched_setaffinity") or machine.gpus():
        return []
    return cluster.share(sorted(os.sched_getaffinity(0)), *place.on_machine)


def gpus_of(place: Place, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variable with a worker's share of the machine's GPUs; {} if there is nothing to share."""
    numbers = cluster.share(range(len(machine.gpus())), *place.on_machine)
    if place.on_machine[1] == 1 or not numbers or "CUDA_VISIBLE_DEVICES" in environ:
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, numbers))}


def describe_end(code: int) -> str:
    """Description of a process's exit code; "" for success."""
    if code < 0:
        return f"was killed ({signal.Signals(-code).name})"
    return f"ended with exit code {code}" if code else ""


async def supervise(
    workers: Sequence[WorkerProcess], elsewhere: "asyncio.Future[str] | None" = None
) -> tuple[int, str]:
    """Waits until all processes end; if one fails here or `elsewhere`, stops all.

    Returns the exit code of the first failure (1 if it was elsewhere or killed; the signal's code if a signal stopped
    them), and its description ("" if it was elsewhere).
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
            if stopped and (code in INTERRUPTED or code < 0):  # killed before it could save, or while exiting
                code = 128 + stopped[0]
            return max(code, 1), describe_end(code)
        if elsewhere and elsewhere in done:
            await _stop(running, elsewhere.result(), patience=STOP if stopped else GRACE)
            return 1, ""
    return 0, ""


def _forward_signals(workers: Sequence[WorkerProcess]) -> list[int]:
    """Forwards SIGTERM and Ctrl-C as SIGTERM, so that workers save and stop; the returned list collects them."""
    received: list[int] = []

    def forward(number: int) -> None:
        received.append(number)
        for worker in workers:
            worker.send(signal.SIGTERM if len(received) < 3 else KILL)

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, forward, number)
    return received


async def _stop(running: "dict[asyncio.Task[int], WorkerProcess]", reason: str, *, patience: float) -> None:
    """Waits for processes that will notice that another has ended, then kills those left.

    Prints a line for each of these that has not printed its reason.
    """
    if running:
        _, late = await asyncio.wait(running, timeout=patience)
        for task in late:
            running[task].send(KILL)
            if not running[task].said_why:
                running[task].say(f"bert-tf: stopped because {reason}; {AGAIN}.")
        if late:
            await asyncio.wait(late)


def python_command(words: Sequence[str]) -> list[str]:
    """The command line of a new process for the words after `bert-tf`."""
    return [sys.executable, "-m", "bert_tf", *words]
