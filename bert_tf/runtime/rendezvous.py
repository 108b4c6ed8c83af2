"""Rendezvous of a job's workers on several machines: they exchange addresses, and learn when one has ended.

Worker 0 listens; all workers, including itself, connect and keep the connection. Messages are lines of JSON:

  from worker 0  {"nonce": "..."}
  to worker 0    {"worker": 1, "workers": 4, "port": 41234, "proof": "..."}
                 then {} every few seconds, and at the end {"ended": 0}
  from worker 0  {"addresses": ["host:port", ...]}    then {} every few seconds, and {"failed": "worker 2 of 4 ..."}

A closed or silent connection means that the worker has died. The proof is an HMAC with the job's token, so that nobody
else can pose as a worker; without a token, anyone who reaches the port can. Nothing is encrypted, and TensorFlow's own
ports, where workers meet next, require no token.
"""

import asyncio
import contextlib
import hmac
import ipaddress
import json
import secrets
import time
from typing import Any

from bert_tf.errors import MachineError, UserError
from bert_tf.runtime import json_files
from bert_tf.runtime.cluster import Place, split_address

BEAT, SILENCE = 5.0, 30.0  # seconds between heartbeats, and without one until a worker counts as dead
RETRY = 0.5  # seconds between attempts to reach worker 0
ABANDONED = "stopped answering"


class Coordinator:
    """The side of worker 0."""

    def __init__(self, place: Place, token: str = "") -> None:
        self.place, self.token = place, token
        self.addresses: dict[int, str] = {}
        self.running = set(range(place.workers))
        self.writers: dict[int, asyncio.StreamWriter] = {}
        self.failure = ""
        self.all_ended = asyncio.Event()

    async def listen(self) -> None:
        """Starts listening; UserError if the port is taken."""
        port = split_address(self.place.coordinator)[1]
        try:
            self.server = await asyncio.start_server(self._serve, None, port)
        except OSError as error:
            raise UserError(f"Port {port} of this machine cannot be used ({error.strerror}): choose another.") from None

    def fail(self, reason: str) -> None:
        """Tells all workers that the job has failed; the first reason counts."""
        if not self.failure:
            self.failure = reason
            for writer in self.writers.values():
                _write(writer, failed=reason)
        self.all_ended.set()

    async def close(self) -> str:
        """Waits until all workers have ended, or one has failed; returns its failure, or ""."""
        await self.all_ended.wait()
        for writer in self.writers.values():
            with contextlib.suppress(OSError):
                await writer.drain()
        self.server.close()
        return self.failure

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonce = secrets.token_hex(16)
        _write(writer, nonce=nonce)
        hello = await _read(reader) or {}
        worker, refusal = hello.get("worker", -1), self._refusal(hello, nonce)
        if refusal:
            _write(writer, refused=refusal)
            writer.close()
            return
        self.writers[worker] = writer
        self.addresses[worker] = f"{self._host(writer)}:{hello['port']}"
        if len(self.addresses) == self.place.workers:
            for each in self.writers.values():
                _write(each, addresses=[self.addresses[number] for number in range(self.place.workers)])
        with contextlib.suppress(asyncio.CancelledError):  # this process is ending
            await self._follow(worker, reader)
        writer.close()

    def _refusal(self, hello: dict[str, Any], nonce: str) -> str:
        worker, workers = hello.get("worker"), hello.get("workers")
        if not hmac.compare_digest(_proof(self.token, nonce, worker).encode(), str(hello.get("proof")).encode()):
            return "worker 0 has a different token, or none: pass the same one to all"
        if workers != self.place.workers or not isinstance(hello.get("port"), int):
            return (
                f"worker 0 expects {self.place.workers} workers, and another worker {workers}: pass the same number "
                "to all"
            )
        if worker not in range(workers) or worker in self.addresses:
            return f"there are two workers with the number {worker}: pass each a different one"
        return ""

    def _host(self, writer: asyncio.StreamWriter) -> str:
        """A worker's host for the others: from its connection, but not a loopback address of this machine."""
        host = str(writer.get_extra_info("peername")[0])
        if ipaddress.ip_address(host.partition("%")[0]).is_loopback:
            return split_address(self.place.coordinator)[0]
        host = host.removeprefix("::ffff:")
        return f"[{host}]" if ":" in host else host

    async def _follow(self, worker: int, reader: asyncio.StreamReader) -> None:
        """Reads a worker's messages until it has ended, successfully or not."""
        while (message := await _read(reader)) is not None and "ended" not in message:
            _write(self.writers[worker])
        name = f"worker {worker} of {self.place.workers}"
        if message is None:
            self.fail(f"{name} ({self.addresses[worker]}) {ABANDONED}")
        elif message["ended"]:
            self.fail(f"{name} ({self.addresses[worker]}) {message['ended']}")
        self.running.discard(worker)
        if not self.running:
            self.all_ended.set()


class Membership:
    """The side of every worker.

    Attributes:
        failure: completed with the reason when another worker has failed.
    """

    def __init__(self, place: Place, token: str = "") -> None:
        self.place, self.token = place, token
        self.failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, port: int, timeout: float) -> list[str]:
        """Meets the others and returns the addresses HOST:PORT of all workers; `port` is this worker's.

        Raises UserError if not all have arrived within `timeout` seconds.
        """
        end = time.monotonic() + timeout
        reader, self._writer = await self._connect(end)
        proof = _proof(self.token, str((await _read(reader) or {}).get("nonce")), self.place.worker)
        _write(self._writer, worker=self.place.worker, workers=self.place.workers, port=port, proof=proof)
        self._tasks = [asyncio.create_task(self._beat())]
        while (message := await _read(reader)) == {}:
            if time.monotonic() > end:
                raise MachineError(f"Not all of {self.place.workers} workers have joined within {timeout:.0f} seconds.")
        if message is None or "addresses" not in message:
            reason = {"refused": f"worker 0 {ABANDONED}", **(message or {})}
            raise UserError(f"The workers have not met: {reason.get('failed') or reason['refused']}.")
        self._tasks.append(asyncio.create_task(self._listen(reader)))
        return list(message["addresses"])

    async def _connect(self, end: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = split_address(self.place.coordinator)
        while True:
            try:
                return await asyncio.open_connection("localhost" if self.place.worker == 0 else host, port)
            except OSError as error:
                if time.monotonic() > end:
                    raise MachineError(
                        f"Worker 0 cannot be reached at {self.place.coordinator} ({error.strerror or error}): start "
                        "it too, with the same coordinator."
                    ) from None
            await asyncio.sleep(RETRY)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while (message := await _read(reader)) is not None and "failed" not in message:
            pass
        if not self.failure.done():
            self.failure.set_result(
                f"worker 0 of {self.place.workers} ({self.place.coordinator}) {ABANDONED}"
                if message is None
                else message["failed"]
            )

    async def _beat(self) -> None:
        while True:
            _write(self._writer)
            await asyncio.sleep(BEAT)

    async def leave(self, ended: str) -> None:
        """Reports that this worker has ended: "" if successful, else the failure."""
        for task in self._tasks:
            task.cancel()
        _write(self._writer, ended=ended)
        with contextlib.suppress(OSError):
            await self._writer.drain()
            self._writer.close()
            await self._writer.wait_closed()


def _proof(token: str, nonce: str, worker: Any) -> str:
    return hmac.new(token.encode(), f"{nonce} {worker}".encode(), "sha256").hexdigest()


def _write(writer: asyncio.StreamWriter, **message: Any) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(message).encode() + b"\n")


async def _read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message; None if the connection is closed or silent, or sends anything else."""
    try:
        message = json_files.parse((await asyncio.wait_for(reader.readline(), SILENCE)).decode())
    except (OSError, ValueError, TimeoutError):
        return None
    return message if isinstance(message, dict) else None
