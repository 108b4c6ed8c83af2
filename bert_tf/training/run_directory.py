"""What a run leaves behind: run.json, metrics.jsonl, TensorBoard events, checkpoints/, results and a report."""

import datetime
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
import time

from bert_tf.errors import UserError
from bert_tf.runtime import atomic_files, folder_lock
from bert_tf.runtime.json_files import read_json
from bert_tf.training import checkpoint_paths

NOT_IN_PATHS = set("[]*?\\") - {os.sep}  # TensorFlow takes the path of a checkpoint for a pattern
PACKAGES = ("bert-tf", "tensorflow", "tensorflow-text", "keras", "numpy", "tokenizers", "sentencex")


class RunFolder:
    """A folder that explains itself. Only the chief of several workers writes into it."""

    def __init__(self, path, *, writes=True):
        self.path, self.writes = path, writes
        self.run = {}
        self.events = self._held = None

    def file(self, *parts):
        """The path of something in the folder."""
        return os.path.join(self.path, *parts)

    @property
    def checkpoints(self):
        return self.file("checkpoints")

    def open(self, *, name, flags, decisive, compared=None, upgrade=dict):
        """Begins a run, or goes on with one of the same configuration.

        decisive: the flags that determine what is learned. compared: those that must not have changed since the earlier
        start, by default all decisive ones. upgrade: translates flags that an earlier version recorded.
        Raises UserError for flags that have changed, a folder that cannot be written to, a path with characters of glob
        patterns, and a folder that another process is using.
        """
        self._check_path()
        before = read_json(self.file("run.json")) or {}
        self._check_same(upgrade(before.get("decisive", {})), decisive if compared is None else compared)
        if self.writes:
            self._make()
            self._lock()
        self.run = {
            "name": name,
            "command": [os.path.basename(sys.argv[0]), *sys.argv[1:]],
            "flags": flags,
            "decisive": decisive,
            "versions": _versions(),
            "machine": _machine(),
            "process": os.getpid(),
            "started": before.get("started") or _now(),
            "finished": before.get("finished") if upgrade(before.get("flags", {})) == flags else None,
            "phases": before.get("phases", {}),
        }
        self.update()

    def _check_path(self):
        found = next((character for character in str(self.path) if character in NOT_IN_PATHS), None)
        if found:
            raise UserError(
                f"{self.path} has a {found} in it, with which TensorFlow cannot find checkpoints again: "
                "choose another output_dir."
            )

    def _check_same(self, recorded, decisive):
        changed = [
            f"{key}: {recorded[key]!r} there, {decisive[key]!r} now"
            for key in recorded
            if key in decisive and recorded[key] != decisive[key]
        ]
        if changed:
            raise UserError(
                f"{self.path} holds a run of another configuration ({'; '.join(changed)}). "
                "Choose another output_dir, or the same flags to go on with it."
            )

    def _make(self):
        try:
            os.makedirs(self.path, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass  # now it is known that files can be made here
        except OSError as error:
            raise UserError(
                f"The folder {self.path} cannot be written to ({error.strerror}): choose another output_dir."
            ) from None

    def _lock(self):
        """Holds the folder until `close` or the end of this process; where a file system has no locks, does nothing."""
        try:
            self._held = folder_lock.hold(self.path)
        except BlockingIOError:
            process = (read_json(self.file("run.json")) or {}).get("process", "unknown")
            raise UserError(
                f"Another process ({process}) is at work in {self.path}: wait for its end, or choose another folder."
            ) from None

    def close(self):
        """Lets go of the folder and of the file of events; nothing is to be written into it any more."""
        if self.events is not None:
            self.events.close()
        if self._held is not None:
            os.close(self._held)
        self.events = self._held = None

    def last_step(self):
        """The step of the newest checkpoint to go on from; 0 if there is none."""
        return max(map(checkpoint_paths.step_of, checkpoint_paths.newest_first(self.checkpoints)), default=0)

    def update(self, **values):
        """Writes run.json with some values changed."""
        self.run.update(values)
        self.write_json("run.json", self.run)

    def finish(self):
        """Notes in run.json that the run came to its end."""
        self.update(finished=_now())

    def phase(self, name):
        """A context that adds the seconds it took to run.json; the phases of several starts are added up."""
        return _Phase(self, name)

    def write_json(self, name, value):
        """Writes a file of the folder whole or not at all."""
        if not self.writes:
            return
        atomic_files.write_json(self.file(name), value)

    def log(self, step, values):
        """Adds a line to metrics.jsonl and to the TensorBoard events."""
        if not self.writes:
            return
        with open(self.file("metrics.jsonl"), "a", encoding="utf-8") as file:
            file.write(
                json.dumps({"step": step, **{name: _json_number(value) for name, value in values.items()}}) + "\n"
            )
        self._log_events(step, values)

    def _log_events(self, step, values):
        import tensorflow as tf

        if self.events is None:
            self.events = tf.summary.create_file_writer(self.file("events"))
        with self.events.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self.events.flush()

    def forget_metrics_after(self, step):
        """Drops lines of steps that a resumed run will do again, and a line that was cut off."""
        path = self.file("metrics.jsonl")
        if not self.writes or not os.path.exists(path):
            return
        kept = []
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    if json.loads(line)["step"] <= step:
                        kept.append(line.rstrip("\n") + "\n")  # the last may have been cut off before its end
                except (ValueError, KeyError, TypeError):
                    continue
        atomic_files.write_lines(path, kept)


class _Phase:
    def __init__(self, folder, name):
        self.folder, self.name = folder, name

    def __enter__(self):
        self.start = time.monotonic()

    def __exit__(self, *_):
        phases = self.folder.run["phases"]
        phases[self.name] = round(phases.get(self.name, 0) + time.monotonic() - self.start, 2)
        self.folder.update(phases=phases)


def _json_number(value):
    """NaN and infinities are not JSON."""
    value = float(value)
    return value if value - value == 0 else None


def _now():
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _versions():
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _machine():
    import psutil

    return {
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
    }
