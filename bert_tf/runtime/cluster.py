"""Processes that train together: TF_CONFIG, and settings from cluster schedulers. No TensorFlow."""

import dataclasses
import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from bert_tf.errors import UserError
from bert_tf.runtime import json_files

PORT = 2222  # default port where workers meet
SLURM_PORTS = range(20_000, 40_000)  # a job's port is derived from its number
FIRST_HOST = re.compile(r"([^,\[]*)(?:\[([^\],-]*)[^\]]*\]([^,\[]*))?")  # first host in node[01-03,07]-a,other

Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class Place:
    """A worker of a job.

    Attributes:
        worker: the rank; worker 0 is the chief.
        workers: the number of workers.
        coordinator: HOST:PORT where all workers meet, on the machine of worker 0.
        on_machine: the local rank, and the number of workers on this machine.
    """

    worker: int
    workers: int
    coordinator: str
    on_machine: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        if self.workers < 1 or not 0 <= self.worker < self.workers:
            raise UserError(
                f"worker is {self.worker} of {self.workers}; expected a number from 0, below the number of workers."
            )
        split_address(self.coordinator)

    def __str__(self) -> str:
        return f"worker {self.worker} of {self.workers}"


def split_address(address: str) -> tuple[str, int]:
    """HOST:PORT -> host and port; PORT without one."""
    host, colon, port = address.rpartition(":") if ":" in address else (address, "", str(PORT))
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"The coordinator is {address!r}; expected HOST:PORT.")
    return host.strip("[]"), int(port)


def from_environment(environ: Mapping[str, str]) -> Place | None:
    """This process's place according to Slurm (`srun`), or torchrun and similar (RANK, WORLD_SIZE, MASTER_ADDR)."""
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
    """The content of TF_CONFIG for a worker, given the addresses HOST:PORT of all workers."""
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": worker}})


def free_ports(count: int) -> list[int]:
    """Returns unused ports of this machine."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def share(items: Sequence[Item], number: int, count: int) -> list[Item]:
    """The share of items, such as cores or GPUs, for one of `count` processes; all if there are too few to divide."""
    if len(items) < count:
        return list(items)
    return list(items[len(items) * number // count : len(items) * (number + 1) // count])


KINDS = ("chief", "worker")  # kinds of processes
EXAMPLE = '{"cluster": {"worker": ["host1:port", "host2:port"]}, "task": {"type": "worker", "index": 0}}'


def number_of_workers() -> int:
    """Returns the number of processes in TF_CONFIG; 0 without it."""
    cluster = _tf_config()["cluster"]
    return sum(len(cluster.get(kind, ())) for kind in ("chief", "worker"))


def check_workers() -> None:
    """Raises UserError if TF_CONFIG lists no workers."""
    if not number_of_workers():
        raise UserError(
            "distribution_strategy=multi_worker needs TF_CONFIG in the environment with the workers of the cluster, "
            f"for instance {EXAMPLE}."
        )


def worker_number() -> int:
    """Returns the rank of this process; 0 is the chief, which writes the run folder."""
    config = _tf_config()
    kind, index = config["task"].get("type"), int(config["task"].get("index", 0))
    return index + (len(config["cluster"].get("chief", ())) if kind == "worker" else 0)


def _tf_config() -> dict[str, Any]:
    """The content of TF_CONFIG; raises UserError unless its task is in its cluster."""
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        config = {"cluster": {}, "task": {}, **json_files.parse(text)}
        cluster, kind, index = config["cluster"], config["task"].get("type"), int(str(config["task"].get("index", 0)))
        lists = [cluster.get(each, []) for each in KINDS]
        is_valid = all(isinstance(address, str) for addresses in lists for address in addresses)
        is_valid &= all(isinstance(addresses, list) for addresses in lists)
    except (ValueError, TypeError, AttributeError):  # not JSON, or a different structure
        is_valid = False
    if not is_valid:
        raise UserError(f"TF_CONFIG is {text!r}; expected JSON such as {EXAMPLE}.")
    if "ps" in cluster:
        raise UserError("The cluster in TF_CONFIG has parameter servers (ps); expected only chief and worker.")
    if any(lists) and kind not in KINDS:
        raise UserError(f"The task in TF_CONFIG has the type {kind!r}; expected {' or '.join(KINDS)}.")
    if any(lists) and not 0 <= index < len(cluster.get(kind, ())):
        raise UserError(
            f"The task in TF_CONFIG is {kind} {index}, but its cluster has {len(cluster.get(kind, ()))} of these: "
            "pass an index from 0, below that."
        )
    return config
