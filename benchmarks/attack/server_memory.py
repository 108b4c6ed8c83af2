"""Does the server's memory grow with the number of requests? One kind of client after the other, in rounds.

python benchmarks/attack/server_memory.py runs/classifier --texts=texts.txt --requests=200 --rounds=6

A leak grows by the same amount in every round, and in Python by objects too; caches and the pools of allocators fill up
and stop. Prints for each kind of client (the good one and those of benchmarks/serve.py) the objects and the memory that
a request has added in the rounds after the second, and the server's memory after each round.
"""

import argparse
import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import serve  # noqa: E402

GOOD = "good: one text"
SERVER = """
import gc, signal, sys
def show(*_):
    gc.collect()
    print("objects", len(gc.get_objects()), flush=True)
signal.signal(signal.SIGUSR1, show)
from bert_tf.cli.main import main
main()
"""
SETTLED = 2  # rounds before memory is compared
QUIET = 35.0  # seconds after a round, in which the time limits of its connections end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", help="folder of an export or of a run")
    parser.add_argument("--texts", required=True, help="text file to take requests from")
    parser.add_argument("--words", default="3,50", help="numbers of words of the shortest and the longest text")
    parser.add_argument("--requests", type=int, default=200, help="of each kind in a round")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--clients", type=int, default=8, help="of one kind at the same time")
    parser.add_argument("--kinds", default="", help="parts of the names of kinds, with commas; by default all")
    options = parser.parse_args()
    command = [
        sys.executable,
        "-c",
        SERVER,
        "serve",
        f"model={Path(options.export).absolute()}",
        "--port=0",
        "--allowed_hosts=*",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        port = int(re.search(r":(\d+)", server.stdout.readline())[1])
        asyncio.run(measured(options, port, server))
    finally:
        server.terminate()
        server.wait()


async def measured(options, port, server):
    """Prints the tables."""
    process = psutil.Process(server.pid)
    words = [int(count) for count in options.words.split(",")]
    texts = serve.Texts(options.texts, words, await serve.inputs(port))
    wanted = options.kinds.split(",")
    kinds = [kind for kind in (GOOD, *serve.RUDE) if any(part in kind for part in wanted)]
    sizes = {kind: [] for kind in kinds}
    whole = []
    for number in range(options.rounds):
        for kind in kinds:
            before = weigh(server, process)
            await send(kind, port, texts, options.requests, options.clients)
            sizes[kind].append([after - first for first, after in zip(before, weigh(server, process), strict=True)])
        await asyncio.sleep(QUIET)
        whole.append(weigh(server, process))
        print(f"round {number + 1}: {whole[-1][1] / 2**20:.1f} MiB", file=sys.stderr, flush=True)
    print("| client | objects a request | KiB a request |\n|---|---:|---:|")
    for kind, rounds in sizes.items():
        late = rounds[SETTLED:]
        objects, size = (sum(each) / (len(late) * options.requests) for each in zip(*late, strict=True))
        print(f"| {kind} | {objects:+.3f} | {size / 1024:+.2f} |")
    print("\nMiB after each round:", ", ".join(f"{size / 2**20:.1f}" for _, size in whole))
    print("Objects after each round:", ", ".join(f"{objects:,}" for objects, _ in whole))


def weigh(server, process):
    """Python's objects and the resident memory of the server."""
    server.send_signal(signal.SIGUSR1)
    line = next(line for line in server.stdout if line.startswith("objects "))
    return int(line.split()[1]), process.memory_info().rss


async def send(kind, port, texts, count, clients):
    """So many requests by several clients of a kind."""
    left = iter(range(count))

    async def one():
        for _ in left:
            client = serve.Client(port)
            try:
                if kind == GOOD:
                    await client.request("POST", "/v1/models/model:predict", texts.body())
                else:
                    await asyncio.wait_for(serve.behave_badly(client, *serve.RUDE[kind]), serve.PATIENCE)
            except (OSError, EOFError, TimeoutError):
                pass
            client.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    await asyncio.sleep(1)  # connections end


if __name__ == "__main__":
    main()
