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
import os
import sys

from bert_tf.cli import recipe_flags
from bert_tf.cli.main import COMMANDS
from bert_tf.config.flag_parsers import positive
from bert_tf.errors import UserError
from bert_tf.extras.worker_processes import WorkerProcess, python_command, supervise
from bert_tf.runtime import access_token, cluster, plugins, tensorflow_startup
from bert_tf.runtime.cluster import Place
from bert_tf.runtime.rendezvous import Coordinator, Membership


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bert-tf launch [--workers=N] [--worker_index=I --coordinator=HOST:PORT] -- COMMAND FLAGS"
    parser.add_argument("--workers", type=int, default=0, help="number of processes that train together")
    parser.add_argument("--worker_index", type=int, default=-1, help="start this one of them only, counted from 0")
    parser.add_argument(
        "--coordinator",
        default="",
        help=f"HOST:PORT of the machine of worker 0 where the workers meet (default port: {cluster.PORT})",
    )
    parser.add_argument("--timeout", type=positive, default=600, help="seconds to wait for the others (default: 600)")
    parser.add_argument(
        "--token_file", help="file whose first line is the token that workers must have where they meet"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="pretrain, finetune or squad, and its flags")


def run(arguments: argparse.Namespace) -> None:
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not words or not recipe_flags.is_recipe(plugins.member(COMMANDS, words[0], kind="command")):
        raise UserError(
            f"{' '.join(words[:1]) or 'Nothing'} cannot be launched: pass pretrain, finetune or squad after --."
        )
    if not hasattr(os, "fork"):
        raise UserError("launch needs Linux or macOS: here start the command itself, without launch.")
    if os.environ.get("TF_CONFIG"):
        raise UserError("TF_CONFIG is set, which names the workers already: start the command itself, without launch.")
    tensorflow_startup.check_installed()  # once, and not in every worker
    place = _place(arguments)
    token = access_token.read(arguments.token_file, os.environ.get(access_token.VARIABLE))
    code = asyncio.run(_one(place, words, arguments.timeout, token) if place else _all(arguments.workers, words))
    if code:
        sys.exit(code)


def _place(arguments: argparse.Namespace) -> Place | None:
    """The place of the only worker that starts here; None if all do."""
    place = cluster.from_environment(os.environ)
    if arguments.worker_index >= 0:
        if not arguments.coordinator:
            raise UserError("worker_index was given without coordinator: pass the HOST:PORT where the workers meet.")
        return Place(arguments.worker_index, arguments.workers, arguments.coordinator)
    if place and arguments.workers in (0, place.workers):
        return Place(place.worker, place.workers, arguments.coordinator or place.coordinator, place.on_machine)
    if arguments.workers < 1:
        raise UserError(
            f"workers={arguments.workers} was given; expected 1 or more where neither Slurm nor torchrun starts the "
            "processes."
        )
    return None


async def _all(count: int, words: list[str]) -> int:
    """All workers of a job on this machine."""
    addresses = [f"127.0.0.1:{port}" for port in cluster.free_ports(count)]
    places = [Place(number, count, addresses[0], (number, count)) for number in range(count)]
    code, _ = await supervise([WorkerProcess(place, python_command(words), addresses) for place in places])
    return code


async def _one(place: Place, words: list[str], timeout: float, token: str = "") -> int:
    """One worker, which meets the others and ends when one of them fails."""
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
