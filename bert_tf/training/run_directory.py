"""The run folder: run.json, metrics.jsonl, TensorBoard events, checkpoints/, results and a report."""

import contextlib
import contextvars
import datetime
import importlib.metadata
import itertools
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import psutil

from bert_tf.errors import UserError, of_os_error
from bert_tf.runtime import atomic_files, files, folder_lock, run_files
from bert_tf.runtime.json_files import parse
from bert_tf.runtime.lazy import tf
from bert_tf.training import checkpoint_paths

FORBIDDEN_IN_PATHS = set("[]*?\\") - {os.sep}  # TensorFlow treats a checkpoint path as a glob pattern
KEPT = ("micro_batches", "budget_seconds", "refit")  # kept by a resumed run
PACKAGES = ("bert-tf", "tensorflow", "tensorflow-text", "keras", "numpy", "tokenizers", "sentencex")


PRETRAINING = "pretraining"  # name of runs of run_pretraining.py


def is_pretraining(path: str) -> bool:
    """Returns whether a folder is a pre-training run."""
    return run_files.read_run(path).get("name") == PRETRAINING


def recorded_flags(path: str, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The flags of the last start of a folder's run, or some of them; {} if there is no run."""
    flags = run_files.read_run(path).get("flags") or {}
    return dict(flags) if names is None else {name: flags[name] for name in names if name in flags}


Callback = Callable[[int, Mapping[str, float]], object]
_callbacks: contextvars.ContextVar[Sequence[Callback]] = contextvars.ContextVar("callbacks", default=())


@contextlib.contextmanager
def calling(callbacks: Sequence[Callback]) -> Iterator[None]:
    """Calls each callback with the step and {name: value} whenever a run's metrics are logged."""
    token = _callbacks.set(tuple(callbacks))
    try:
        yield
    finally:
        _callbacks.reset(token)


def next_free(path: str) -> str:
    """The first of path-2, path-3, ... that does not exist."""
    path = path.rstrip("/")
    return next(name for number in itertools.count(2) if not files.exists(name := f"{path}-{number}"))


class RunFolder:
    """A run folder, which records how it was made. With several workers, only the chief writes into it.

    Attributes:
        run: the contents of run.json.
    """

    def __init__(self, path: str, *, is_chief: bool = True) -> None:
        self.path, self.is_chief = path, is_chief
        self.run: dict[str, Any] = {}
        self.events: Any = None  # TensorBoard event writer
        self._lock: folder_lock.FolderLock | folder_lock.RemoteLock | None = None
        self._last_step, self._last_lines = -1, set[str]()  # the last step's lines in metrics.jsonl

    def file(self, *parts: str) -> str:
        """Returns the path of a file in the folder."""
        return os.path.join(self.path, *parts)

    @property
    def checkpoints(self) -> str:
        """The checkpoint folder."""
        return self.file("checkpoints")

    def open(
        self,
        *,
        name: str,
        flags: Mapping[str, Any],
        decisive: Mapping[str, Any],
        compared: Mapping[str, Any] | None = None,
        command: Sequence[str] = (),
        trains: bool = True,
    ) -> None:
        """Starts a run, or resumes one with the same configuration.

        decisive: the flags that determine the result. compared: flags that must not have changed since the earlier
        start, by default all decisive ones. command: the command line, for the record. trains: if False, the record
        of the training is kept.
        Raises UserError for changed flags, a folder that is not writable, a path with glob characters, and a folder
        in use by another process.
        """
        self._check_path()
        before = run_files.read_run(self.path)
        self._check_unchanged(before.get("decisive", {}), decisive if compared is None else compared)
        if self.is_chief:
            self._create()
            self._acquire_lock()
        self.run = {
            "name": name,
            "command": list(command),
            "flags": flags,
            "decisive": decisive,
            "versions": _versions(),
            "machine": _machine(),
            "process": os.getpid(),
            "started": before.get("started") or _now(),
            "finished": before.get("finished") if before.get("flags", {}) == flags else None,
            "phases": before.get("phases", {}),
            "complete": before.get("complete", []),
            **{name: before[name] for name in KEPT if name in before},
        }
        if not trains and before:
            self.run = {**before, "process": os.getpid()}
        self.update()

    def _check_path(self) -> None:
        if not self.path:
            raise UserError("output_dir is empty: pass a run folder.")
        character = next((character for character in str(self.path) if character in FORBIDDEN_IN_PATHS), None)
        if character:
            raise UserError(
                f"{self.path} contains {character}, which keeps TensorFlow from finding checkpoints again: choose "
                "another output_dir."
            )

    def _check_unchanged(self, recorded: Mapping[str, Any], current: Mapping[str, Any]) -> None:
        changed = [
            f"{key}: {recorded[key]!r} there, {current[key]!r} now"
            for key in recorded
            if key in current and recorded[key] != current[key]
        ]
        if changed:
            raise UserError(
                f"{self.path} contains a run with a different configuration ({'; '.join(changed)}). Choose another "
                f"output_dir, such as {next_free(self.path)}, or the same flags to continue it."
            )

    def _create(self) -> None:
        try:
            files.check_writable(self.path)
        except OSError as error:
            sentence = f"The folder {self.path} cannot be written to ({error.strerror}): choose another output_dir."
            raise of_os_error(error, sentence) from None

    def claim(self) -> None:
        """Locks the folder of an earlier start, as `open` does for any; UserError if another process is using it."""
        self._check_path()
        if self.is_chief and files.exists(self.file("run.json")):
            self._acquire_lock()

    def _acquire_lock(self) -> None:
        """Locks the folder until `close` or process exit, on file systems that support it."""
        if self._lock is not None:
            return
        try:
            self._lock = folder_lock.acquire(self.path)
        except BlockingIOError:
            process = run_files.read_run(self.path).get("process", "unknown")
            user = "This process" if process == os.getpid() else f"Another process ({process})"
            raise UserError(f"{user} is using {self.path}: wait until it ends, or choose another folder.") from None

    def close(self) -> None:
        """Releases the lock and closes the events file; nothing may be written into the folder afterwards."""
        if self.events is not None:
            self.events.close()
        if self._lock is not None:
            self._lock.release()
        self.events = self._lock = None

    def last_step(self) -> int:
        """Returns the step of the newest checkpoint to resume from; 0 if there is none."""
        return max(map(checkpoint_paths.step_of, checkpoint_paths.newest_first(self.checkpoints)), default=0)

    def update(self, **values: Any) -> None:
        """Updates values in run.json."""
        self.run.update(values)
        self.write_json("run.json", self.run)

    def finish(self) -> None:
        """Records in run.json that the run has finished."""
        self.update(finished=_now())

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the seconds spent in the block to run.json, summed over the starts until the phase is complete.

        Repeating a complete phase does not count, unless training continues in it.
        """
        phases, complete = self.run["phases"], self.run.setdefault("complete", [])
        start, step, is_complete = time.monotonic(), self.last_step(), name in complete
        try:
            yield
            if not is_complete:
                complete.append(name)
        finally:
            if not is_complete or self.last_step() > step:
                phases[name] = round(phases.get(name, 0) + time.monotonic() - start, 2)
            self.update(phases=phases, complete=complete)

    def write_json(self, name: str, value: Any) -> None:
        """Writes a JSON file of the folder, completely or not at all."""
        if self.is_chief:
            atomic_files.write_json(self.file(name), value)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Adds a line to metrics.jsonl, writes TensorBoard events, and calls the callbacks of `calling`.

        A line already in the file for this step is not repeated.
        """
        if not self.is_chief:
            return
        for callback in _callbacks.get():
            callback(step, values)
        line = json.dumps({"step": step, **{name: _json_number(value) for name, value in values.items()}}) + "\n"
        if step != self._last_step:
            self._last_step, self._last_lines = step, set()
        if line in self._last_lines:  # an evaluation of the last step, repeated by a resumed run
            return
        self._last_lines.add(line)
        files.append(self.file("metrics.jsonl"), line)
        self._log_events(step, values)

    def _log_events(self, step: int, values: Mapping[str, float]) -> None:
        if self.events is None:
            self.events = tf.summary.create_file_writer(self.file("events"))
        with self.events.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self.events.flush()

    def was_evaluated(self, step: int) -> bool:
        """Returns whether metrics.jsonl contains the results of an evaluation after a step."""
        path = self.file("metrics.jsonl")
        if not files.exists(path):
            return False
        with files.open_text(path, errors="replace") as file:
            return any('"eval_' in line and line.startswith(f'{{"step": {step}, ') for line in file)

    def forget_metrics_after(self, step: int) -> None:
        """Removes the lines of steps that a resumed run will repeat, and truncated lines."""
        path = self.file("metrics.jsonl")
        if not self.is_chief or not files.exists(path):
            return
        lines: list[str] = []
        last_lines: set[str] = set()
        with files.open_text(path, errors="replace") as file:
            for line in file:
                try:
                    of_step = parse(line)["step"]
                    if of_step <= step:
                        lines.append(line.rstrip("\n") + "\n")  # the last line may lack its newline
                        last_lines |= {lines[-1]} if of_step == step else set()
                except (ValueError, KeyError, TypeError):
                    continue
        atomic_files.write_lines(path, lines)
        self._last_step, self._last_lines = step, last_lines


def _json_number(value: float) -> float | None:
    """None for NaN and infinities, which JSON lacks."""
    value = float(value)
    return value if value - value == 0 else None


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _machine() -> dict[str, Any]:
    return {
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
    }
