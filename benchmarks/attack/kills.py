"""Kills, full disks, vanished folders and jumps of the clock: does the same command end as if nothing had happened?

python benchmarks/attack/kills.py --disturb=kill --times=100 --output=kills.jsonl
python benchmarks/attack/kills.py --disturb=disk,readonly,vanish --times=20 --output=kills.jsonl    (needs root: mounts)
python benchmarks/attack/kills.py --disturb=clock --times=10 --output=kills.jsonl                   (needs a C compiler)

First each command runs undisturbed. Then it runs in a new folder and is disturbed when it and its children have used a
random share of the processor time that it needs, and is started again, up to --again times. What it has left at the end
(weights, moments of the optimizer, step, records, vocabulary, predictions, scores) must be equal byte for byte, and
until then it must end by itself with one sentence, without a traceback.

Campaigns are long: an undisturbed run takes 1 to 20 seconds of a processor, and each disturbance half of that again.

kill      SIGKILL of the main process or of one of its children, half and half where it has any
disk      a file system with a random part of the room that it needs, later enlarged
readonly  killed, then its file system is mounted read-only for one start
vanish    its folder is renamed while it works, and back after it has ended
clock     the time of day jumps by days, forwards and backwards, every half a second

Appends a line of JSON for each disturbance and comparison to --output, and prints a table of all in the file.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import workloads

POLL = 0.02  # seconds
PATIENCE = 3600  # seconds that a start may take
DISTURBANCES = ("kill", "disk", "readonly", "vanish", "clock")
DAY = 86_400
JUMPS = (0, -3 * DAY, 400 * DAY, -20 * 365 * DAY, 3600)  # seconds from the time of day
CLOCK = "FALSE_CLOCK"  # environment variable of false_clock.c


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--disturb", default="kill", help=f"which, with commas: {', '.join(DISTURBANCES)}")
    parser.add_argument("--times", type=int, default=100, help="disturbances of each kind")
    parser.add_argument("--workloads", default=",".join(workloads.WORKLOADS), help="which, with commas, in turns")
    parser.add_argument("--again", type=int, default=3, help="kills of one run at most, before it may end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", default="kills.jsonl", help="file that lines are added to")
    options = parser.parse_args()
    if "clock" in options.disturb and CLOCK not in os.environ:
        return start_with_false_clock()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))  # no TemporaryDirectory: forks would remove it when they end
    try:
        campaign = Campaign(options, folder)
        for kind in options.disturb.split(","):
            campaign.run(kind)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(table(options.output))
    return 0


def start_with_false_clock():
    """Starts this program again with a clock that `set_clock` moves."""
    with tempfile.TemporaryDirectory(prefix="clock-") as folder:
        library, file = os.path.join(folder, "clock.so"), os.path.join(folder, "seconds")
        source = Path(__file__).with_name("false_clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
        Path(file).write_bytes(bytes(8))
        environment = os.environ | {"LD_PRELOAD": library, CLOCK: file}
        return subprocess.run([sys.executable, *sys.argv], env=environment).returncode


def set_clock(seconds):
    """Moves the time of day of this process and all that it has started."""
    with open(os.environ[CLOCK], "r+b") as file:
        file.write(seconds.to_bytes(8, sys.byteorder, signed=True))


class Campaign:
    """Disturbed runs of the workloads in folders of one folder."""

    def __init__(self, options, folder):
        import warm

        warm._load_and_precompute()
        self.options, self.folder, self.random = options, folder, random.Random(options.seed)
        self.names = options.workloads.split(",")
        self.expected, self.seconds, self.bytes = {}, {}, {}
        self.inputs = folder / "inputs"
        workloads.prepare(self.inputs)
        self._undisturbed("run_pretraining.py")
        shutil.copytree(self.expected_folder / "out/run", self.inputs / "model")

    def _undisturbed(self, name):
        """What a workload leaves, the processor time that it needs and the room."""
        if name in self.expected:
            return
        self.expected_folder = self.new_folder()
        run = workloads.start(name, self.expected_folder)
        code, self.seconds[name] = watch(run)
        if code:
            sys.exit(f"{name} ends with {code} undisturbed:\n{run.log.read_text()[-2000:]}")
        self.expected[name] = workloads.left(name, self.expected_folder)
        files = [file for file in (self.expected_folder / "out").rglob("*") if file.is_file()]
        self.bytes[name] = sum(file.stat().st_size for file in files)

    def new_folder(self):
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        for path in self.inputs.iterdir():
            os.symlink(path, folder / path.name)
        (folder / "out").mkdir()
        return folder

    def run(self, kind):
        """Disturbs runs until --times is reached."""
        count = turn = 0
        while count < self.options.times:
            name = self.names[turn % len(self.names)]
            turn += 1
            self._undisturbed(name)
            folder = self.new_folder()
            with self.mounted(folder, kind) as mount:
                disturbances = getattr(self, kind)(name, folder, mount)
                count += disturbances
                self.end(kind, name, folder, disturbances)
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def mounted(self, folder, kind):
        """Mounts a file system in memory where the command writes, for disk and readonly."""
        if kind not in ("disk", "readonly"):
            yield None
            return
        mount = folder / "out"
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512m", "tmpfs", mount], check=True)
        try:
            yield mount
        finally:
            subprocess.run(["umount", "-l", mount], check=True)

    def end(self, kind, name, folder, disturbances):
        """Starts the command once more, lets it end, and compares."""
        run = workloads.start(name, folder)
        code, _ = watch(run)
        log = run.log.read_text(errors="replace") if run.log.exists() else ""
        if "exists already" in log:  # killed after its output was whole, which `convert` and `extract` do not replace
            code = 0
        now, before = workloads.left(name, folder), self.expected[name]
        differing = sorted(key for key in now.keys() | before.keys() if now.get(key) != before.get(key))
        facts = {"end": kind, "workload": name, "disturbances": disturbances, "code": code, "differing": differing[:20]}
        if code or differing:
            facts["log"] = log[-2000:]
        self.note(**facts)

    def note(self, **facts):
        with open(self.options.output, "a") as file:
            print(json.dumps(facts), file=file)

    def disturbed(self, kind, name, run, act):
        """Calls act(run) at a random time; returns whether it came to it, and notes what became of the command."""
        moment = self.random.uniform(0, 1) * self.seconds[name]
        while (code := run.poll()) is None and run.seconds() < moment:
            time.sleep(POLL)
        if code is not None:
            return False
        phase, victim = run.phase(), act(run)
        code, _ = watch(run)
        self.note(disturbed=kind, workload=name, phase=phase, victim=victim, code=code, **said(run))
        return True

    def kill(self, name, folder, _):
        count = 0
        while count < self.options.again:
            if not self.disturbed("kill", name, workloads.start(name, folder), self.kill_one):
                break
            count += 1
        return count

    def kill_one(self, run):
        """Kills the process, or a child of it that works."""
        children = [process for process in run.tree()[1:] if process.status() != psutil.STATUS_ZOMBIE]
        pid = self.random.choice(children).pid if children and self.random.random() < 0.5 else run.pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return "main" if pid == run.pid else "child"

    def disk(self, name, folder, mount):
        size = int(self.random.uniform(0.02, 0.95) * self.bytes[name]) // 4096 * 4096 + 4096
        subprocess.run(["mount", "-o", f"remount,size={size}", mount], check=True)
        run = workloads.start(name, folder)
        code, _ = watch(run)
        self.note(disturbed="disk", workload=name, phase=run.phase(), victim=f"{size} bytes", code=code, **said(run))
        subprocess.run(["mount", "-o", "remount,size=512m", mount], check=True)
        return 1

    def readonly(self, name, folder, mount):
        self.disturbed("before readonly", name, workloads.start(name, folder), self.kill_one)
        time.sleep(1)  # children that are left end
        subprocess.run(["mount", "-o", "remount,ro", mount], check=True)
        run = workloads.start(name, folder)
        code, _ = watch(run)
        self.note(disturbed="readonly", workload=name, phase=run.phase(), victim="", code=code, **said(run))
        subprocess.run(["mount", "-o", "remount,rw", mount], check=True)
        return 1

    def vanish(self, name, folder, _):
        place, away = folder / "out", folder / "away"

        def rename(run):
            os.rename(place, away)
            return ""

        count = self.disturbed("vanish", name, workloads.start(name, folder), rename)
        if away.exists():
            shutil.rmtree(place, ignore_errors=True)
            os.rename(away, place)
        return int(count)

    def clock(self, name, folder, _):
        run, jumps = workloads.start(name, folder), 0
        while (code := run.poll()) is None:
            jumps += 1
            set_clock(JUMPS[jumps % len(JUMPS)])
            time.sleep(0.5)
        set_clock(JUMPS[0])
        self.note(disturbed="clock", workload=name, phase="all", victim=f"{jumps} jumps", code=code, **said(run))
        return 1


def watch(run):
    """Waits for the end of a run; returns its exit code and the processor time that it took."""
    seconds, last = 0.0, time.monotonic() + PATIENCE
    while (code := run.poll()) is None:
        seconds = max(seconds, run.seconds())
        if time.monotonic() > last:
            os.kill(run.pid, signal.SIGKILL)
        time.sleep(POLL)
    return code, seconds


def said(run):
    """Whether a command has shown a traceback, which, and its last line."""
    text = run.log.read_text(errors="replace") if run.log.exists() else ""
    run.log.unlink(missing_ok=True)
    last = (text.strip().splitlines() or [""])[-1]
    begin = text.find("Traceback (most recent call last)")
    return {"traceback": begin >= 0, "last": last[-300:]} | ({"shown": text[begin:][-3000:]} if begin >= 0 else {})


def table(path):
    """The counts of a file of results as Markdown."""
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    rows = ["| disturbance | command | times | of children | phases | tracebacks | runs compared | that differ |"]
    rows.append("|---|---|---:|---:|---|---:|---:|---:|")
    for kind in DISTURBANCES:
        for name in workloads.WORKLOADS:
            cases = [line for line in lines if line.get("disturbed") == kind and line["workload"] == name]
            ends = [line for line in lines if line.get("end") == kind and line["workload"] == name]
            if not cases and not ends:
                continue
            phases = collections.Counter(case["phase"] for case in cases)
            shown = ", ".join(f"{phase} {count}" for phase, count in phases.most_common())
            children = sum(case["victim"] == "child" for case in cases)
            tracebacks = sum(case["traceback"] for case in cases)
            differing = sum(bool(end["code"] or end["differing"]) for end in ends)
            rows.append(
                f"| {kind} | {name} | {len(cases)} | {children} | {shown} | {tracebacks} | {len(ends)} | {differing} |"
            )
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
