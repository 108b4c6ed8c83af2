"""The place of a process among those that train together: from flags, Slurm or torchrun to TF_CONFIG. No TensorFlow."""

import dataclasses
import json
import re
import socket
from collections.abc import Mapping, Sequence
from typing import TypeVar

from bert_tf.errors import UserError

PORT = 2222  # where workers meet, if nobody says otherwise
SLURM_PORTS = range(20_000, 40_000)  # that of a job follows from its number
FIRST_HOST = re.compile(r"([^,\[]*)(?:\[([^\],-]*)[^\]]*\]([^,\[]*))?")  # of node[01-03,07]-a,other

Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class Place:
    """A worker of a job.

    Attributes:
        worker: its number; worker 0 is the chief.
        workers: how many there are.
        coordinator: HOST:PORT where all meet, on the machine of worker 0.
        on_machine: its number among the workers of its machine, and how many these are.
    """

    worker: int
    workers: int
    coordinator: str
    on_machine: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        if self.workers < 1 or not 0 <= self.worker < self.workers:
            raise UserError(
                f"worker {self.worker} of {self.workers} was given; expected numbers from 0, below the sum."
            )
        split_address(self.coordinator)

    def __str__(self) -> str:
        return f"worker {self.worker} of {self.workers}"


def split_address(address: str) -> tuple[str, int]:
    """HOST:PORT -> host and port; PORT without one."""
    host, colon, port = address.rpartition(":") if ":" in address else (address, "", str(PORT))
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"{address!r} was given as the place where workers meet; expected HOST:PORT.")
    return host.strip("[]"), int(port)


def from_environment(environ: Mapping[str, str]) -> Place | None:
    """The place that Slurm (`srun`), or torchrun and its like (RANK, WORLD_SIZE, MASTER_ADDR), gave this process."""
    try:
        if "RANK" in environ and "WORLD_SIZE" in environ:
            return _of_torchrun(environ)
        if "SLURM_PROCID" in environ and "SLURM_NTASKS" in environ:
            return _of_slurm(environ)
    except ValueError as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"The variables of the scheduler are not numbers ({error}): unset them, or pass flags."
        ) from None
    return None


def _of_torchrun(environ: Mapping[str, str]) -> Place:
    # torchrun itself listens at MASTER_PORT
    port = int(environ.get("MASTER_PORT", PORT)) + ("TORCHELASTIC_RUN_ID" in environ)
    on_machine = int(environ.get("LOCAL_RANK", 0)), int(environ.get("LOCAL_WORLD_SIZE", 1))
    host = environ.get("MASTER_ADDR", "localhost")
    return Place(int(environ["RANK"]), int(environ["WORLD_SIZE"]), f"{host}:{port}", on_machine)


def _of_slurm(environ: Mapping[str, str]) -> Place:
    match = FIRST_HOST.match(environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST", ""))
    host = "".join(part or "" for part in match.groups()) if match else ""
    job = int(environ.get("SLURM_JOB_ID", 0)) + int(environ.get("SLURM_STEP_ID", 0))
    port = SLURM_PORTS[job % len(SLURM_PORTS)]
    return Place(int(environ["SLURM_PROCID"]), int(environ["SLURM_NTASKS"]), f"{host or 'localhost'}:{port}")


def tf_config(addresses: Sequence[str], worker: int) -> str:
    """The content of TF_CONFIG for a worker of a job, from the addresses HOST:PORT of all."""
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": worker}})


def free_ports(count: int) -> list[int]:
    """Returns ports of this machine that nobody listens at."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def share(items: Sequence[Item], number: int, count: int) -> list[Item]:
    """The items, such as cores or GPUs, of one of `count` processes; all of them if there are too few to divide."""
    if len(items) < count:
        return list(items)
    return list(items[len(items) * number // count : len(items) * (number + 1) // count])
