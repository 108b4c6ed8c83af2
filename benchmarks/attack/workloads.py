"""Tiny runs of the scripts and commands, what they leave, and whether two of them left the same.

A run takes some seconds, for its processes are forked off one that has imported TensorFlow and used nothing of it
(tests/helpers/warm.py); the workers of records and the runs of `ablate` are forked too.
"""

import atexit
import dataclasses
import hashlib
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
import traceback
import types
from pathlib import Path

import numpy as np
import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/helpers")]

TINY = "--precision=float32 --train_batch_size=4 --eval_batch_size=4"
PRETRAIN = (
    f"{TINY} --input_file=texts.txt --bert_config_file=config.json --vocab_size=150 --max_seq_length=32 "
    "--max_predictions_per_seq=5 --dupe_factor=2 --num_train_steps=12 --num_warmup_steps=1 --save_checkpoints_steps=3 "
    "--num_workers=2"
)
TASK = f"{TINY} --init_checkpoint=model --save_checkpoints_steps=3 --keep_best --do_predict"
TABLE = "--task_name=table --data_dir=table --text_columns=text --label_column=kind --max_seq_length=12"
# {name: (command, what it writes)}; the command runs in a folder with the files of `prepare`, and "," in a flag of
# `ablate` stands for a space.
WORKLOADS = {
    "run_pretraining.py": (f"run_pretraining.py {PRETRAIN} --output_dir=out/run", "out/run"),
    "run_classifier.py": (f"run_classifier.py {TASK} {TABLE} --num_train_epochs=2 --output_dir=out/run", "out/run"),
    "run_squad.py": (
        f"run_squad.py {TASK} --train_file=squad.json --predict_file=squad.json --version_2_with_negative "
        "--max_seq_length=24 --doc_stride=8 --max_query_length=6 --num_train_epochs=1 --output_dir=out/run",
        "out/run",
    ),
    "records": (
        "-m bert_tf records texts.txt out/records --vocab_file=model/vocab.txt --max_seq_length=32 --dupe_factor=100 "
        "--num_workers=2",
        "out/records",
    ),
    "extract": (
        "-m bert_tf extract model --file lines.txt --output out/vectors.npz --max_seq_length=32",
        "out/vectors.npz",
    ),
    "convert": ("-m bert_tf convert model out/converted --format=huggingface", "out/converted"),
    "ablate": (
        "-m bert_tf ablate out/ablation --input_file=texts.txt --tables=sizes --sizes=1/16/1 --num_seeds=1 "
        "--task=table,--data_dir=table,--text_columns=text,--label_column=kind,--max_seq_length=12,"
        "--num_train_epochs=1 --fine_tuning=--precision=float32,--train_batch_size=4 --pretraining="
        "--precision=float32,--vocab_size=150,--max_seq_length=32,--dupe_factor=2,--num_train_steps=6,"
        "--train_batch_size=4,--num_workers=2,--save_checkpoints_steps=3",
        "out/ablation",
    ),
}  # fmt: skip
# Phases by the last of these that a run has printed.
PHASES = ["Learning a vocabulary", "writing records", "records are", "Training", "training", "held out", "export"]
SENTENCES = ("The fox runs over the hill.", "A dog sleeps in the sun.", "Rain falls on the old house.", "Birds sing.")
ANIMALS = ("cat", "dog", "fox", "cow")
# Times, paths and programs, which differ between any two runs: files, and keys of JSON.
TIMED_FILES = re.compile(r"events/|logs/|report\.html$|run\.json$|README\.md$|\.pb$|\.png$|\.index$|checkpoint$|/\.")
TIMED_KEYS = {"time", "seconds", "tokens_per_second", "examples_per_second", "memory", "started", "finished", "date"}


def prepare(folder):
    """Writes the files that the commands read."""
    folder.mkdir(parents=True)
    documents = ["\n".join(SENTENCES[i % 4 :] + SENTENCES[: i % 4]) for i in range(24)]
    (folder / "texts.txt").write_text("\n\n".join(documents) + "\n")
    (folder / "lines.txt").write_text("".join(f"{text}\n" for text in SENTENCES * 40))
    (folder / "table").mkdir()
    for name, count in (("train", 24), ("dev", 8), ("test", 8)):
        rows = [{"text": SENTENCES[i % 4], "kind": ANIMALS[i % 2]} for i in range(count)]
        (folder / f"table/{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    context = " ".join(f"The {animal} sat on a mat, it was happy." for animal in ANIMALS)
    answers = [[{"text": each, "answer_start": context.index(each)}] for each in ANIMALS]
    entries = [
        {"id": str(i), "question": "Who sat?", "is_impossible": i % 3 == 0, "answers": answers[i % 4] if i % 3 else []}
        for i in range(12)
    ]
    content = {"version": "v2.0", "data": [{"title": "a", "paragraphs": [{"context": context, "qas": entries}]}]}
    (folder / "squad.json").write_text(json.dumps(content))
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    (folder / "config.json").write_text(json.dumps({"vocab_size": 150, "max_position_embeddings": 32, **shape}))


@dataclasses.dataclass
class Run:
    """A process of a command that was started, and its children."""

    pid: int
    log: Path

    def tree(self):
        """The living processes, itself first."""
        try:
            return [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def seconds(self):
        """Processor time of itself and its children, the ended ones too."""
        total = 0.0
        for process in self.tree():
            try:
                times = process.cpu_times()
                total += sum(times[:4]) if process.pid == self.pid else sum(times[:2])
            except psutil.NoSuchProcess:
                continue
        return total

    def poll(self):
        """The exit code, None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def wait(self):
        """Waits for the end; returns the exit code."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def phase(self):
        """What it was doing, by what it printed."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return max(PHASES, key=text.rfind) if any(each in text for each in PHASES) else "start"


def start(name, folder):
    """Forks a process that runs a workload in a folder; returns its Run."""
    words = WORKLOADS[name][0].split()
    if name == "ablate":
        words = [word.replace(",", " ") for word in words]
    for stream in ("stdout", "stderr"):  # both names of the log
        if not os.path.lexists(folder / stream):
            os.symlink("log.txt", folder / stream)
    pid = os.fork()
    if not pid:
        _end_like_python(_become, words, folder)
    return Run(pid, folder / "log.txt")


def _become(words, folder):
    import multiprocessing

    import warm

    from bert_tf.data.pretraining import workers
    from bert_tf.extras.paper import ablation

    signal.signal(signal.SIGINT, signal.default_int_handler)
    fork = multiprocessing.get_context("fork")
    # Workers begin with the handler of the command, as spawned ones do not.
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    names = {name: getattr(multiprocessing, name) for name in ("active_children", "parent_process")}
    workers.multiprocessing = types.SimpleNamespace(get_context=lambda _: fork, **names)
    ablation.subprocess = types.SimpleNamespace(Popen=Forked, STDOUT=subprocess.STDOUT)
    options = dict.fromkeys(("eager", "optimizes_graphs", "without_package"), False)
    warm._become({"command": words, "cwd": str(folder), "env": {}, "folder": str(folder), **options})


def _end_like_python(function, *arguments):
    """Calls a function and ends this forked process with the exit code that Python would have."""
    try:
        function(*arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class Forked:
    """What `ablate` uses of subprocess.Popen: a command of bert_tf in a fork of this process."""

    def __init__(self, command, stdout, stderr):
        self.returncode, self.pid = None, os.fork()
        if not self.pid:
            os.dup2(stdout.fileno(), 1)
            os.dup2(stdout.fileno(), 2)
            sys.argv = ["bert-tf", *command[command.index("bert_tf") + 1 :]]
            _end_like_python(runpy.run_module, "bert_tf", None, "__main__", True)

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self):
        while self.poll() is None:
            time.sleep(0.05)

    def terminate(self):
        os.kill(self.pid, signal.SIGTERM)


def left(name, folder):
    """{file or tensor: hash} of what a workload wrote, without times."""
    path = folder / WORKLOADS[name][1]
    found = {}
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        place = str(file.relative_to(folder))
        if file.suffix == ".index":
            found |= {f"{file.with_suffix('')}:{key}".removeprefix(str(folder)): each for key, each in _tensors(file)}
        elif file.is_file() and not TIMED_FILES.search(f"/{place}") and ".data-0" not in place:
            found[place] = _hash(_content(file))
    return found


def _tensors(index):
    """(name, hash) of each tensor of a checkpoint but the description of its objects."""
    from tensorflow.core.protobuf import tensor_bundle_pb2

    from bert_tf.checkpoints import tf_index

    data = index.with_suffix(".data-00000-of-00001").read_bytes()
    for key, value in list(tf_index._entries(index.read_bytes()))[1:]:
        entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
        if b"OBJECT_GRAPH" not in key:
            yield key.decode(), _hash(data[entry.offset : entry.offset + entry.size])


def _content(file):
    """The bytes of a file; of JSON and archives what is in them, without times."""
    if file.suffix == ".npz":
        arrays = np.load(file, allow_pickle=False)
        return b"".join(name.encode() + arrays[name].tobytes() for name in sorted(arrays.files))
    if file.suffix in (".json", ".jsonl"):
        lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
        return json.dumps([_without_times(json.loads(line)) for line in lines], sort_keys=True).encode()
    return file.read_bytes()


def _without_times(value):
    if isinstance(value, dict):
        return {key: _without_times(each) for key, each in value.items() if key not in TIMED_KEYS}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


def _hash(content):
    return hashlib.blake2b(content, digest_size=8).hexdigest()
