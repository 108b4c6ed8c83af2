"""Time and memory of a new process until its first answer."""

import statistics
import subprocess
import sys
import time

from bert_tf.data.examples import Example

STARTS = 3
CODE = """
import pathlib, sys
from bert_tf.data.examples import Example
from bert_tf.export import opening

folder, engine, *texts = sys.argv[1:]
opening.open_model(folder, engine).predict([Example("0", tuple(texts))])
status = pathlib.Path("/proc/self/status")  # getrusage has the memory of the process that started this one
print(1024 * int(status.read_text().split("VmHWM:")[1].split()[0]) if status.exists() else 0)
"""


def measure(folder: str, engine: str, example: Example) -> tuple[float | None, int | None]:
    """The median time of a process to load an export and answer one example, in seconds, and its peak memory.

    The memory is None without /proc; both are None if the process fails, as with code outside of this package, which
    it does not trust.
    """
    seconds, memory = [], 0
    for _ in range(STARTS):
        command = [sys.executable, "-c", CODE, folder, engine, *example.texts]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds.append(time.perf_counter() - start)
        if done.returncode:
            return None, None
        memory = max(memory, int(done.stdout.split()[-1]))
    return statistics.median(seconds), memory or None
