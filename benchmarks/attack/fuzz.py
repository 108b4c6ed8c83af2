"""Coverage-guided fuzzing of the readers of checkpoints with atheris (libFuzzer): pip install atheris

python benchmarks/attack/fuzz.py --readers=pickle,safetensors,tf_index --minutes=10 --output=fuzz

Begins with small valid files, mutates them, keeps what reaches something new, and mutates that. What is new: a branch
of our Python, of the standard library's modules for pickles, or another error, so that readers in C++ and Rust guide
the search too. Half of the cases are whole files; in the others the container around the mutation is made
afterwards, with lengths and checksums that hold.

A file must be read or be a UserError, and take no more memory than FACTOR times its size plus SLACK. Everything else is
a defect and written to the output folder, one file for each place in the code, to be given to --replay. A reader that
ends the process, as an assertion in C++ does, is started again for the rest of the time.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/helpers")]
SLACK, FACTOR = 64 << 20, 16  # bytes of memory that a file may take, and for each byte of it
ERRORS = 1024  # that are told apart
COUNTED = ("seconds", "files", "read", "refused", "memory")
SHARED_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
# Words of the formats, for libFuzzer.
WORDS = {
    "pickle": ["ctorch._utils\n_rebuild_tensor_v2\n", "ctorch\nFloatStorage\n", "ccollections\nOrderedDict\n", "cos\n"],
    "safetensors": ['"dtype"', '"shape"', '"data_offsets"', '"F32"', '"F8_E4M3"', '"__metadata__"', "[0,", "1e99"],
    "tf_index": ["\x08\x01", "\x12\x04", "\x0a\x02", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", default=",".join(WORDS), help="which, with commas")
    parser.add_argument("--minutes", type=float, default=10.0, help="of processor time for each reader")
    parser.add_argument("--output", default="fuzz", help="folder of defects")
    parser.add_argument(
        "--replay", help="a file of --output: reads it with the one of --readers and shows what happens"
    )
    parser.add_argument("--run", type=float, help=argparse.SUPPRESS)  # seconds, in the process that is fuzzed
    options = parser.parse_args()
    if options.replay:
        return Target(options.readers, options.output, math.inf).read(Path(options.replay).read_bytes())
    if options.run:
        return fuzz(options.readers, options.output, options.run)
    os.makedirs(options.output, exist_ok=True)
    print("| reader | CPU seconds | files | read | UserError | edges | defects | ended the process | memory, MiB |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in options.readers.split(","):
        print(campaign(name, options), flush=True)


def campaign(name, options):
    """Fuzzes a reader in processes of its own; returns its row."""
    crashes, edges, totals = 0, 0, dict.fromkeys(COUNTED, 0)
    with tempfile.TemporaryDirectory() as corpus:
        while (left := 60 * options.minutes - totals["seconds"]) > 1:
            command = [sys.executable, __file__, f"--readers={name}", f"--output={options.output}", f"--run={left}"]
            done = subprocess.run(command, env=os.environ | {"CORPUS": corpus}, capture_output=True)
            log = done.stderr.decode(errors="replace")
            counts = json.loads(Path(options.output, f"{name}.json").read_text())
            memory = max(totals["memory"], counts["memory"])
            totals = {key: totals[key] + counts[key] for key in COUNTED} | {"memory": memory}
            edges = max([edges, *map(int, re.findall(r"cov: (\d+)", log))])
            if done.returncode:
                crashes += 1
                Path(options.output, f"{name}-ended-{crashes}.log").write_text(log[-20_000:])
    defects = len(list(Path(options.output).glob(f"{name}-*.bin")))
    return (
        f"| {name} | {totals['seconds']:.0f} | {totals['files']:,} | {totals['read']:,} | {totals['refused']:,} "
        f"| {edges:,} | {defects} | {crashes} | {totals['memory'] / 2**20:.0f} |"
    )


def fuzz(name, output, seconds):
    """Runs libFuzzer in this process, which it ends."""
    import atheris

    target = Target(name, output, seconds)
    corpus = os.environ["CORPUS"]
    for number, seed in enumerate(target.seeds()):
        Path(corpus, f"seed-{number}").write_bytes(seed)
    words = Path(corpus).parent / f"{Path(corpus).name}.words"
    escaped = ["".join(rf"\x{ord(letter):02x}" for letter in word) for word in WORDS[name]]
    words.write_text("".join(f'"{word}"\n' for word in escaped))
    limits = ["-timeout=600", "-rss_limit_mb=8000", "-max_len=4096"]
    atheris.Setup([sys.argv[0], f"-dict={words}", f"-artifact_prefix={output}/{name}-", *limits, corpus], target)
    atheris.Fuzz()


class Target:
    """A reader as libFuzzer calls it, with its counts."""

    def __init__(self, name, output, seconds):
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        import atheris

        if name == "tf_index":
            import tensorflow  # noqa: F401, before the modules below, which alone are instrumented
        with atheris.instrument_imports(include=["bert_tf", "pickletools", "zipfile"]):
            sys.modules.pop("pickletools", None)
            import crafted_checkpoints

            from bert_tf.checkpoints import checkpoint_files, torch_pickle
            from bert_tf.errors import UserError
        self.name, self.output, self.made, self.user_error = name, output, crafted_checkpoints, UserError
        self.seconds = seconds
        self.readers = {
            "pickle": torch_pickle.read,
            "safetensors": checkpoint_files.read_safetensors,
            "tf_index": lambda path: checkpoint_files.read_tensors(path.removesuffix(".index"), bool),
        }
        self.branches = _branches(ERRORS)
        self.counts = dict.fromkeys(COUNTED, 0)
        self.folder, self.saved, self.known = tempfile.mkdtemp(dir=SHARED_MEMORY), 0.0, set()
        self.path = os.path.join(self.folder, "x.ckpt.index")
        Path(self.folder, "x.ckpt.data-00000-of-00001").write_bytes(
            crafted_checkpoints.NUMBERS + crafted_checkpoints.STRINGS
        )

    def seeds(self):
        """Files to begin with; the first byte says what of them is made afterwards."""
        made = self.made
        if self.name == "pickle":
            inner, wraps = made.pickles(), [made.zipped, made.sequence]
        elif self.name == "safetensors":
            inner, wraps = made.headers(), [made.safetensors]
        else:
            inner, wraps = [made.block(made.entries())], [made.table]
        return [b"\0" + wrap(each) for wrap in wraps for each in inner] + [
            bytes([number]) + each for number in range(1, len(wraps) + 1) for each in inner
        ]

    def content(self, data):
        """The file of a mutation."""
        made = self.made
        wraps = {"pickle": [made.zipped, made.sequence], "safetensors": [made.safetensors], "tf_index": [made.table]}
        choices = [bytes, *wraps[self.name]]
        return choices[data[0] % len(choices)](data[1:]) if data else b""

    def read(self, data):
        """Reads the file of a mutation; returns its length."""
        content = self.content(data)
        with open(self.path, "wb") as file:
            file.write(content)
        self.readers[self.name](self.path)
        return len(content)

    def __call__(self, data):
        """One case."""
        before, size, reason = memory("VmRSS"), len(data), "read"
        reset_peak()
        try:
            size = self.read(data)
            self.counts["read"] += 1
        except self.user_error as error:
            self.counts["refused"] += 1
            reason = str(error)
        except Exception as error:
            reason = f"{type(error).__name__} in {traceback.extract_tb(error.__traceback__)[-1].name}"
            self.keep(reason, data)
        taken = memory("VmHWM") - before
        if taken > SLACK + FACTOR * size:
            self.keep(f"memory out of proportion: {re.sub('[0-9]+', '', reason)[:200]}", data)
        self.counts["memory"] = max(self.counts["memory"], taken)
        self.branches[zlib.crc32(re.sub("[0-9]+|'.*?'", "", reason).encode()) % ERRORS]()
        self.count()

    def keep(self, reason, data):
        """Writes a defect, the first of its kind."""
        if reason not in self.known:
            self.known.add(reason)
            stem = f"{self.output}/{self.name}-{zlib.crc32(reason.encode()):08x}"
            Path(f"{stem}.bin").write_bytes(data)
            Path(f"{stem}.txt").write_text(reason + "\n", errors="replace")

    def count(self):
        """Writes the counts every second, as a process that crashes says nothing; ends it when its time is over."""
        self.counts["files"] += 1
        if (now := time.process_time()) > self.saved + 1:
            self.saved = self.counts["seconds"] = now
            Path(self.output, f"{self.name}.json").write_text(json.dumps(self.counts))
            if now > self.seconds:
                os._exit(0)


def _branches(count):
    """Functions without content: to call another one is what libFuzzer sees of another error in C++ or Rust."""
    import atheris

    functions = []
    for _ in range(count):
        names = {}
        exec("def branch(): pass", names)
        functions.append(atheris.instrument_func(names["branch"]))
    return functions


def memory(name):
    """Bytes of this process: VmRSS now, or VmHWM at most since `reset_peak`."""
    with open("/proc/self/status") as file:
        return 1024 * int(re.search(rf"{name}:\s*(\d+)", file.read())[1])


def reset_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


if __name__ == "__main__":
    main()
