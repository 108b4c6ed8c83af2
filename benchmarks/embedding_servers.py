"""Load on servers with OpenAI's route for vectors, in turns: requests per second and latency with several clients.

python benchmarks/embedding_servers.py texts.txt bert_tf=127.0.0.1:8511 infinity=127.0.0.1:7997 --model=NAME

The servers run already, such as `bert-tf serve EXPORT --port=8511` and `infinity_emb v2 --url-prefix=/v1`. Each client
sends one text after another over a connection of its own; clients and servers share the machine. Prints Markdown.
"""

import argparse
import asyncio
import itertools
import json
import statistics
import time
from pathlib import Path

WARM_UP = 1.0  # seconds of a level that do not count


async def client(address, model, texts, until, latencies):
    """Sends texts until a time; adds (when it ended, seconds) of each."""
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    while time.perf_counter() < until:
        body = json.dumps({"model": model, "input": next(texts)}).encode()
        head = f"POST /v1/embeddings HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        start = time.perf_counter()
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status = await reader.readline()
        length = 0
        while line := (await reader.readline()).strip().lower():
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        answer = await reader.readexactly(length)
        if b" 200 " not in status:
            raise SystemExit(f"{address} answered {status!r} {answer[:200]!r}")
        latencies.append((time.perf_counter(), time.perf_counter() - start))
    writer.close()


async def level(address, model, texts, count, seconds):
    """Latencies in seconds of all requests of a level that ended after the warm-up."""
    begin, latencies = time.perf_counter(), []
    until = begin + WARM_UP + seconds
    await asyncio.gather(*(client(address, model, texts, until, latencies) for _ in range(count)))
    return [latency for end, latency in latencies if end > begin + WARM_UP]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", help="one text per line")
    parser.add_argument("servers", nargs="+", metavar="NAME=HOST:PORT")
    parser.add_argument("--model", required=True, help="name in the requests, or names of the servers, with commas")
    parser.add_argument("--clients", default="1,8,64")
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of a turn")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    texts = itertools.cycle(Path(options.texts).read_text(encoding="utf-8").splitlines())
    servers = [server.split("=", 1) for server in options.servers]
    models = options.model.split(",") * len(servers)
    print("| clients | server | requests per second | p50, ms | p99, ms |\n|---:|---|---:|---:|---:|")
    for count in map(int, options.clients.split(",")):
        found = {name: [] for name, _ in servers}
        for _ in range(options.rounds):
            for (name, address), model in zip(servers, models, strict=False):
                found[name] += asyncio.run(level(address, model, texts, count, options.seconds))
        for name, latencies in found.items():
            cuts = statistics.quantiles(latencies, n=100)
            rate = len(latencies) / (options.rounds * options.seconds)
            print(f"| {count} | {name} | {rate:,.1f} | {1e3 * cuts[49]:,.1f} | {1e3 * cuts[98]:,.1f} |", flush=True)


if __name__ == "__main__":
    main()
