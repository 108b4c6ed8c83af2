"""Load test of `bert-tf serve` on this machine: throughput, latency and memory, with well-behaved and bad clients.

python benchmarks/serve.py runs/sst2 --texts=texts.txt --clients=1,8,64 --seconds=20 --minutes=10 --output=serve.md

Every client sends one text after another, with a number of words in the range --words, over a connection of its own.
Each level of --clients takes --seconds; then, for --minutes, the last level runs together with clients that violate the
protocol (see RUDE). The output is Markdown. Clients and server share this machine's cores.
"""

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
WARM_UP = 2.0  # seconds at the start of a level that do not count
PATIENCE = 30.0  # seconds that a client waits for an answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", help="folder of an export or of a run")
    parser.add_argument("--texts", required=True, help="text file to take requests from")
    parser.add_argument("--words", default="3,200", help="numbers of words of the shortest and the longest text")
    parser.add_argument("--clients", default="1,8,64")
    parser.add_argument("--seconds", type=float, default=15.0, help="duration of a level")
    parser.add_argument("--minutes", type=float, default=0.0, help="duration of the last level with bad clients")
    parser.add_argument("--output", help="output file")
    options = parser.parse_args()
    command = [sys.executable, "-m", "bert_tf", "serve", f"model={options.export}", "--port=0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        line = server.stdout.readline()
        port = int(re.search(r"127\.0\.0\.1:(\d+)", line)[1])
        page = asyncio.run(measured(options, port, psutil.Process(server.pid)))
    finally:
        server.terminate()
        server.wait()
    print(page)
    if options.output:
        Path(options.output).write_text(page + "\n", encoding="utf-8")


async def measured(options, port, process):
    """Everything, as Markdown."""
    texts = Texts(options.texts, [int(count) for count in options.words.split(",")], await inputs(port))
    counts = [int(count) for count in options.clients.split(",")]
    rows = ["| clients | requests per second | p50 ms | p99 ms | errors |", "|---|---|---|---|---|"]
    rates = {}
    for count in counts:
        level = await run_level(port, texts, count, options.seconds)
        rates[count] = level.rate
        rows.append(
            f"| {count} | {level.rate:.1f} | {level.share(0.5):.0f} | {level.share(0.99):.0f} | {level.error_summary} |"
        )
    most = counts[-1]
    rows += ["", f"{most} clients together: {rates[most] / rates[counts[0]]:.2f} times what {counts[0]} got."]
    if options.minutes:
        rows += ["", *await beside_rude_ones(port, texts, most, 60 * options.minutes, process)]
    return "\n".join(rows)


async def inputs(port):
    """{name of an input: how many texts of it a request has, None for one} of the default signature."""
    code, body = await Client(port).request("GET", "/v1/models/model/metadata")
    assert code == 200, body
    signature = json.loads(body)["metadata"]["signature_def"]["signature_def"]["serving_default"]
    sizes = {name: spec["tensor_shape"]["dim"] for name, spec in signature["inputs"].items()}
    return {name: int(dims[1]["size"]) if len(dims) > 1 else None for name, dims in sizes.items()}


class Texts:
    """Endless bodies of requests: texts of mixed lengths, cut out of a file; the same in every run."""

    def __init__(self, path, lengths, sizes):
        self.words = Path(path).read_text(encoding="utf-8", errors="replace").split()
        self.lengths, self.sizes = lengths, sizes
        self.random = random.Random(1)

    def text(self):
        """Short ones are as frequent as long ones, by the order of their length."""
        low, high = self.lengths
        count = round(low * (high / low) ** self.random.random())
        first = self.random.randrange(max(1, len(self.words) - count))
        return " ".join(self.words[first : first + count])

    def body(self):
        """One instance."""
        instance = {name: [self.text() for _ in range(n)] if n else self.text() for name, n in self.sizes.items()}
        return json.dumps({"instances": [instance]}).encode()


class Client:
    """One persistent connection with a minimal HTTP client."""

    def __init__(self, port):
        self.port, self.streams = port, None

    async def request(self, method, path, body=b""):
        """(code, body) of the answer."""
        await self.send(f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        return await asyncio.wait_for(self.answer(), PATIENCE)

    async def send(self, content):
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        self.streams[1].write(content)
        await self.streams[1].drain()

    async def answer(self):
        reader = self.streams[0]
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").lower()
        size = re.search(r"content-length: (\d+)", head)
        return int(head.split()[1]), await reader.readexactly(int(size[1]) if size else 0)

    def close(self):
        if self.streams:
            self.streams[1].close()
            self.streams = None


class Level:
    """The results of the well-behaved clients: seconds per answer, and errors."""

    def __init__(self):
        self.seconds, self.errors, self.begun = [], [], time.monotonic()

    def begin(self):
        """Drops the times of the warm-up, but no error."""
        self.seconds, self.begun = [], time.monotonic()

    def end(self):
        self.rate = len(self.seconds) / (time.monotonic() - self.begun)
        self.seconds.sort()

    def share(self, part):
        """Milliseconds within which this share of the answers arrived."""
        return 1000 * self.seconds[min(len(self.seconds) - 1, int(part * len(self.seconds)))] if self.seconds else 0.0

    @property
    def error_summary(self):
        return f"{len(self.errors)}: {self.errors[0]}" if self.errors else "0"


async def behave(port, texts, level):
    """Sends a request, waits for the answer, repeats."""
    client = Client(port)
    try:
        while True:
            body, begun = texts.body(), time.monotonic()
            try:
                code, answer = await client.request("POST", "/v1/models/model:predict", body)
                if code != 200 or "predictions" not in json.loads(answer):
                    level.errors.append(f"{code} {answer[:80]}")
            except (OSError, EOFError, TimeoutError) as error:
                level.errors.append(repr(error))
                client.close()
            level.seconds.append(time.monotonic() - begun)
    finally:
        client.close()


async def run_level(port, texts, count, seconds):
    """The Level of `count` clients."""
    level = Level()
    clients = [asyncio.create_task(behave(port, texts, level)) for _ in range(count)]
    await asyncio.sleep(WARM_UP)
    level.begin()
    await asyncio.sleep(seconds)
    level.end()
    await stopped(clients)
    return level


async def stopped(tasks):
    """Ends them: over and over, as wait_for loses a cancellation that comes with its answer (before Python 3.12)."""
    while not all(task.done() for task in tasks):
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=0.1)


def post(body, length=None):
    head = f"POST /v1/models/model:predict HTTP/1.1\r\nhost: x\r\ncontent-length: {length or len(body)}\r\n\r\n"
    return head.encode() + body


# What clients must not send, and whether they go away without waiting for what they get.
RUDE = {
    "garbage instead of HTTP": (b"\0\1\2\xff garbage\r\n\r\n", False),
    "garbage instead of JSON": (post(b"{]"), False),
    "a body of 100 MB": (post(b"[" * (1 << 20), 100_000_000), False),
    "a body without an end": (
        b"POST /v1/models/model:predict HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        + b"100000\r\n" + b"x" * (1 << 20) + b"\r\n",
        False,
    ),
    "broken UTF-8": (post(b'{"instances": ["\xff\xfe"]}'), False),
    "wrong types": (post(b'{"instances": [1, null, {"x": []}]}'), False),
    "a list in a list in a list ...": (post(b'{"instances": ' + b"[" * 100_000), False),
    "too many instances": (post(b'{"instances": [' + b'"x",' * 100_000 + b'"x"]}'), False),
    "a model that is not there": (post(b"{}").replace(b"model:", b"nothing:"), False),
    "goes away in the middle of the body": (post(b'{"inst', 1000), True),
    "goes away before the answer": (post(b'{"instances": ["' + b"word " * 200 + b'"]}'), True),
    "says nothing": (b"", True),
}  # fmt: skip


async def be_rude(port, kind, seen):
    """Does it over and over; counts by kind what came of it: a code, "dropped" or "left"."""
    content, leaves = RUDE[kind]
    while True:
        client = Client(port)
        try:
            await client.send(content)
            if leaves:
                await asyncio.sleep(0.05)
                outcome = "left"
            else:
                if kind == "a body without an end":
                    for _ in range(8):
                        await client.send(b"100000\r\n" + b"x" * (1 << 20) + b"\r\n")
                outcome = str((await asyncio.wait_for(client.answer(), PATIENCE))[0])
        except (OSError, EOFError):
            outcome = "dropped"
        except TimeoutError:
            outcome = "no answer"
        client.close()
        seen[kind][outcome] = seen[kind].get(outcome, 0) + 1
        await asyncio.sleep(0.2)


async def beside_rude_ones(port, texts, count, seconds, process):
    """What the others see meanwhile, what the rude ones get, and the server's memory, as lines of Markdown."""
    seen, sizes = {kind: {} for kind in RUDE}, []

    async def weigh():
        while True:
            sizes.append((time.monotonic(), process.memory_info().rss / 2**20))
            await asyncio.sleep(1)

    rude = [asyncio.create_task(be_rude(port, kind, seen)) for kind in RUDE]
    scales = asyncio.create_task(weigh())
    level = await run_level(port, texts, count, seconds)
    await stopped([*rude, scales])
    late = sizes[len(sizes) // 2 :]  # by then it has met every length
    minutes = max(late[-1][0] - late[0][0], 1) / 60
    rows = [f"{count} clients for {seconds / 60:g} minutes, together with one of each of these:", ""]
    rows += ["| rude client | times, by what it got |", "|---|---|"]
    for kind, outcomes in seen.items():
        rows.append(f"| {kind} | {', '.join(f'{outcome}: {times}' for outcome, times in sorted(outcomes.items()))} |")
    rows += ["", f"The others: {level.rate:.1f} requests per second, p50 {level.share(0.5):.0f} ms, "]
    rows[-1] += f"p99 {level.share(0.99):.0f} ms, errors {level.error_summary}."
    rows.append(
        f"Memory in MiB: {sizes[0][1]:.0f} at the start, {late[0][1]:.0f} half way, {late[-1][1]:.0f} at the end"
    )
    rows[-1] += (
        f", at most {max(size for _, size in sizes):.0f}; {(late[-1][1] - late[0][1]) / minutes:+.1f} per minute."
    )
    return rows


if __name__ == "__main__":
    main()
