"""A contender's side of a race: prepare, then work whenever a line arrives. Needs only Python."""

import argparse
import ctypes
import json
import pathlib
import resource
import sys
import time

SHAPES = {"minilm": (6, 384, 12), "base": (12, 768, 12), "large": (24, 1024, 16)}
SHAPES["tiny"] = (1, 32, 2)  # layers, hidden size, heads


def parse_arguments(description, precisions=None):
    """Parses the flags of a contender; `work` is the workload. precisions: choices of --precision, default first."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--work", required=True, help="a workload, as JSON")
    parser.add_argument("--size", default="base", choices=SHAPES)
    if precisions:
        parser.add_argument("--precision", default=precisions[0], choices=precisions)
    flags = parser.parse_args()
    flags.work = json.loads(pathlib.Path(flags.work).read_text(encoding="utf-8"))
    return flags


def keep_freed_memory():
    """As bert_tf does: otherwise glibc returns the memory of large tensors and requests it again in every turn."""
    for option, value in ((-1, 2**31 - 1), (-3, 2**30)):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
        ctypes.CDLL(None).mallopt(option, value)


def serve(work):
    """Calls `work` once for every line on standard input, and prints seconds and peak memory as JSON."""
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        work()
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "peak_mb": peak}), flush=True)


def repeated(work, repeats):
    """A function that does `work` once when first called, to time compilation, and later `repeats` times."""
    counts = iter((1,))

    def run():
        for _ in range(next(counts, repeats)):
            work()

    return run


def padded(texts, width=None):
    """Lists of ids -> lists of one width (by default that of the longest), and their lengths."""
    width = width or max(map(len, texts))
    return [text + [0] * (width - len(text)) for text in texts], [len(text) for text in texts]


def batches(texts, size):
    """Batches of `size` texts of similar length, the longest first, as lists of indices."""
    order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
    return [order[first : first + size] for first in range(0, len(order), size)]
