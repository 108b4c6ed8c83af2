"""Contenders in turns: each a process of its own, one after the other, round after round; medians and ratios.

A contender is a program that prepares, prints "ready", and for every line it reads does its work once and prints
{"seconds": ..., "peak_mb": ...} (`peers/turns.py`). The others wait meanwhile. A round in which unrelated processes
took more than a tenth of the machine is repeated, and counted as disturbed.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import venv

import psutil

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE / "peers"
REQUIREMENTS = {
    "torch": ("torch==2.13.0", "transformers==5.23.0"),
    "openvino": ("openvino==2026.4.1", "torch==2.13.0", "transformers==5.23.0"),
    "keras_hub": ("tensorflow==2.21.0", "keras==3.15.1", "keras-hub==0.32.0"),
    "xla": ("jax[tpu]==0.9.2", "jax-cuda12-plugin==0.9.2", "jax-cuda12-pjrt==0.9.2", "nvidia-cuda-nvcc-cu12==12.9.86"),
    "garden": ("tf-models-official==2.19.1", "tf-keras==2.19.0"),
}
STOLEN, TRIES = 0.1, 5  # the share of the machine that other processes may use; how often a turn is repeated


@dataclasses.dataclass(frozen=True)
class Contender:
    """A program under `peers/` with its flags, and the environment it needs: a key of REQUIREMENTS, or None: this."""

    name: str
    script: str
    flags: tuple[str, ...] = ()
    environment: str | None = None


class Runner:
    """A contender that is running and ready."""

    def __init__(self, contender, python):
        self.contender, self.seconds, self.peak_mb, self.disturbed = contender, [], 0, 0
        command = [python, str(PEERS / contender.script), *contender.flags]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while (line := self.process.stdout.readline()).strip() != "ready":
            if not line:
                raise SystemExit(f"{contender.name} ended before it was ready: {' '.join(command)}")

    def turn(self):
        """Does the work once; repeats it if other processes disturbed it."""
        for _ in range(TRIES):
            before = _busy(), self._own()
            result = self.once()
            others = (_busy() - before[0]) - (self._own() - before[1])
            if others < STOLEN * result["seconds"] * psutil.cpu_count():
                break
            self.disturbed += 1
        self.seconds.append(result["seconds"])
        self.peak_mb = result["peak_mb"]

    def once(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.contender.name} ended in the middle of its work; its output is above.")
        return json.loads(line)

    def _own(self):
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def race(contenders, rounds, work_dir):
    """Runs `rounds` turns of each, after one that is not counted; returns their runners."""
    runners = []
    try:
        for contender in contenders:
            runners.append(Runner(contender, python_of(contender.environment, work_dir)))
        for runner in runners:
            runner.once()
        for _ in range(rounds):
            for runner in runners:
                runner.turn()
    finally:
        for runner in runners:
            runner.close()
    return runners


def run(description, kind, works, *, peers, rounds):
    """The main function of scripts that start races: flags, a race per workload, its table printed and saved.

    works: {name: (title, function of the flags -> workload as plain data)}. kind: how titles of the tables begin.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("vocab_file", "sentences", "work_dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--size", default="base", help="tiny tries the script and writes no table")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--works", default=",".join(works))
    parser.add_argument("--peers", default=peers, help="comma-separated, optionally with a precision: torch:bfloat16")
    arguments = parser.parse_args()
    for name in arguments.works.split(","):
        title, make = works[name]
        file = pathlib.Path(arguments.work_dir) / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(make(arguments)))
        flags = (f"--work={file}", f"--size={arguments.size}")
        names = ["bert_tf", *filter(None, arguments.peers.split(","))]
        result = table(race([contender(name, flags) for name in names], arguments.rounds, arguments.work_dir))
        print(f"{title}\n{result}", flush=True)
        if arguments.size != "tiny":  # which tries the script
            save_section(f"{kind}, {arguments.size}: {title}", result)


def contender(named, flags):
    """A contender named like its file in `peers/`, optionally with a precision: torch:bfloat16."""
    peer, _, precision = named.partition(":")
    flags += (f"--precision={precision}",) if precision else ()
    return Contender(named, f"race_{peer}.py", flags, peer if peer in REQUIREMENTS else None)


def _busy():
    """Seconds of work that all cores have done since the machine started."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system


def python_of(environment, work_dir):
    """A Python with what a contender needs, in a virtual environment that is created on first use."""
    if environment is None:
        return sys.executable
    folder = pathlib.Path(work_dir).resolve() / f"venv_{environment}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *REQUIREMENTS[environment]], check=True)
        (folder / "complete").touch()
    return str(python)


def table(runners):
    """Markdown: median and best time, ratio to the first contender (ours), and memory of each."""
    ours = statistics.median(runners[0].seconds)
    lines = [
        "| | median, ms | best, ms | ratio to bert_tf | peak memory, MB | rounds, disturbed |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for runner in runners:
        median, best = statistics.median(runner.seconds), min(runner.seconds)
        ratio = f"{median / ours:.2f} ×" if runner is not runners[0] else ""
        times = f"{1000 * median:,.1f} | {1000 * best:,.1f} | {ratio}"
        turns = f"{len(runner.seconds)}, {runner.disturbed}"
        lines.append(f"| {runner.contender.name} | {times} | {runner.peak_mb:,.0f} | {turns} |")
    return "\n".join(lines)


def save_section(title, text, path=HERE / "README.md"):
    """Writes the section `title` of the file of results, replacing an existing one."""
    head = f"## {title}\n"
    day = datetime.date.today().isoformat()
    section = f"{head}\n{day}, commit {_commit()}, {machine()}: `{_command()}`\n\n{text}\n"
    before = (
        path.read_text(encoding="utf-8")
        if path.exists()
        else "# Measurements\n\nWritten by the scripts in this folder.\n"
    )
    parts = before.split("\n## ")
    others = [part for part in parts[1:] if not part.startswith(f"{title}\n")]
    written = "\n".join([parts[0].rstrip() + "\n", *(f"## {part.rstrip()}\n" for part in others), section])
    partial = path.with_suffix(".new")
    partial.write_text(written, encoding="utf-8")
    os.replace(partial, path)


def _commit():
    """The commit that is measured, "-dirty" if more is changed than the tables that the measurements write."""
    name, changed = (
        subprocess.run(["git", "-C", HERE, *arguments], capture_output=True, text=True).stdout.strip()
        for arguments in (
            ["describe", "--always"],
            ["status", "--porcelain", "-uno", "--", ":/", ":(exclude)README.md"],
        )
    )
    return f"{name or 'unknown'}{'-dirty' if changed else ''}"


def _command():
    """The command line, with the last part of each path only."""
    flags = [f"{name}={pathlib.Path(value).name}" for name, _, value in (flag.partition("=") for flag in sys.argv[1:])]
    return " ".join(["python", f"benchmarks/{pathlib.Path(sys.argv[0]).name}", *flags])


def machine():
    """What the figures apply to: processor, cores, and the instructions that matter."""
    lines = (
        pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if platform.system() == "Linux" else []
    )
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    flags = facts.get("flags", "").split()
    best = next((flag for flag in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if flag in flags), "no AVX2")
    return f"{facts.get('model name', platform.processor())}, {psutil.cpu_count()} cores, {best}"
