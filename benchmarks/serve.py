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
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
WARM_UP = 2.0  # seconds at the start of a level that do not count
PATIENCE = 90.0  # seconds that a client waits for an answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", help="folder of an export or of a run")
    parser.add_argument("--texts", required=True, help="text file to take requests from")
    parser.add_argument("--words", default="3,200", help="numbers of words of the shortest and the longest text")
    parser.add_argument("--clients", default="1,8,64")
    parser.add_argument("--seconds", type=float, default=15.0, help="duration of a level")
    parser.add_argument("--minutes", type=float, default=0.0, help="duration of the last level with bad clients")
    parser.add_argument("--rude", type=int, default=1, help="number of bad clients of each kind")
    parser.add_argument("--output", help="output file")
    options = parser.parse_args()
    command = [sys.executable, "-m", "bert_tf", "serve", f"model={Path(options.export).absolute()}", "--port=0"]
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
        rows += ["", *await beside_rude_ones(port, texts, most, options, process, quiet=level)]
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
        await self.send(
            f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
        )
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
    head = f"POST /v1/models/model:predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length or len(body)}\r\n\r\n"
    return head.encode() + body


ENDLESS, SLOW, LEAVES, RESETS, WAITS = "endless", "slow", "leaves", "resets", "waits"
CHUNKED = b"POST /v1/models/model:predict HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
MANY_WORDS = b'{"instances": ["' + b"word " * 200 + b'"]}'
# What clients must not send, and what they do then: send more of the same (the last item) without an end, or slowly; go
# away after a moment, or reset the connection; wait for the answer.
RUDE = {
    "garbage instead of HTTP": (b"\0\1\2\xff garbage\r\n\r\n", WAITS),
    "headers without an end": (GET, ENDLESS, b"x-header: value\r\n" * 60_000),
    "a header without an end": (GET + b"x: ", ENDLESS, b"x" * (1 << 20)),
    "a slow header": (GET + b"x: ", SLOW, b"x"),
    "garbage instead of JSON": (post(b"{]"), WAITS),
    "a body of 100 MB": (post(b"[" * (1 << 20), 100_000_000), WAITS),
    "a body without an end": (CHUNKED, ENDLESS, b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"),
    "a slow body": (post(b"{", 1000), SLOW, b" "),
    "broken UTF-8": (post(b'{"instances": ["\xff\xfe"]}'), WAITS),
    "wrong types": (post(b'{"instances": [1, null, {"x": []}]}'), WAITS),
    "lists 50 deep": (post(b'{"instances": ' + b"[" * 50 + b"]" * 50 + b"}"), WAITS),
    "lists 100,000 deep": (post(b'{"instances": ' + b"[" * 100_000), WAITS),
    "a thousand instances": (post(b'{"instances": [' + b'"some words of a text",' * 999 + b'"x"]}'), WAITS),
    "too many instances": (post(b'{"instances": [' + b'"x",' * 100_000 + b'"x"]}'), WAITS),
    "a model that is not there": (post(b"{}").replace(b"model:", b"nothing:"), WAITS),
    "goes away in the middle of the body": (post(b'{"inst', 1000), LEAVES),
    "goes away before the answer": (post(MANY_WORDS), LEAVES),
    "resets before the answer": (post(MANY_WORDS), RESETS),
    "says nothing": (b"", LEAVES),
}


async def be_rude(port, kind, seen):
    """Does it over and over; counts by kind what came of it: a code, "dropped" or "left"."""
    while True:
        client = Client(port)
        try:
            outcome = await behave_badly(client, *RUDE[kind])
        except (OSError, EOFError):
            outcome = "dropped"
        except TimeoutError:
            outcome = "no answer"
        client.close()
        seen[kind][outcome] = seen[kind].get(outcome, 0) + 1
        await asyncio.sleep(0.2)


async def behave_badly(client, content, manner, more=b""):
    """One request; returns the code of the answer, or "left"."""
    await client.send(content)
    if manner in (LEAVES, RESETS):
        await asyncio.sleep(0.05)
        if manner == RESETS:
            connection = client.streams[1].get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return "left"
    answer = asyncio.create_task(client.answer())
    try:
        while manner in (ENDLESS, SLOW) and not answer.done():
            await client.send(more)
            await asyncio.sleep(1 if manner == SLOW else 0)
        return str((await asyncio.wait_for(answer, PATIENCE))[0])
    finally:
        answer.cancel()


async def beside_rude_ones(port, texts, count, options, process, quiet):
    """What the others see meanwhile, what the rude ones get, and the server's memory, as lines of Markdown.

    quiet: the Level of as many clients without rude ones.
    """
    seen, sizes, seconds = {kind: {} for kind in RUDE}, [], 60 * options.minutes

    async def weigh():
        while True:
            sizes.append((time.monotonic(), process.memory_info().rss / 2**20))
            await asyncio.sleep(1)

    rude = [asyncio.create_task(be_rude(port, kind, seen)) for kind in RUDE for _ in range(options.rude)]
    scales = asyncio.create_task(weigh())
    level = await run_level(port, texts, count, seconds)
    await stopped([*rude, scales])
    late = sizes[len(sizes) // 2 :]  # by then it has met every length
    minutes = max(late[-1][0] - late[0][0], 1) / 60
    rows = [f"{count} clients for {seconds / 60:g} minutes, together with {options.rude} of each of these:", ""]
    rows += ["| rude client | times, by what it got |", "|---|---|"]
    for kind, outcomes in seen.items():
        rows.append(f"| {kind} | {', '.join(f'{outcome}: {times}' for outcome, times in sorted(outcomes.items()))} |")
    rows += ["", f"The others: {level.rate:.1f} requests per second, p50 {level.share(0.5):.0f} ms, "]
    rows[-1] += f"p99 {level.share(0.99):.0f} ms ({level.share(0.99) / quiet.share(0.99):.2f} times that without rude "
    rows[-1] += f"ones), errors {level.error_summary}."
    rows.append(
        f"Memory in MiB: {sizes[0][1]:.0f} at the start, {late[0][1]:.0f} half way, {late[-1][1]:.0f} at the end"
    )
    rows[-1] += (
        f", at most {max(size for _, size in sizes):.0f}; {(late[-1][1] - late[0][1]) / minutes:+.1f} per minute."
    )
    return rows


if __name__ == "__main__":
    main()
