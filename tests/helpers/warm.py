"""Processes that begin with TensorFlow loaded: forked off one that has imported it and used nothing of it.

Importing TensorFlow takes some six seconds of a core, and the tests start hundreds of scripts. Apart from that a script
runs as if it were started by itself: another working directory, environment, standard output and end. The first process
is forked off the one that runs the tests, before it uses TensorFlow: conftest.py calls `prepare`.

    done = warm.run("run_classifier.py", "--task_name=MRPC")    # done.returncode, done.stdout, done.stderr
    done = warm.run("-m", "bert_tf", "predict", ...)
    process = warm.start("run_classifier.py", ...)    # for a process.stdout to read from, and signals to send
"""

import atexit
import contextlib
import faulthandler
import gc
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_pipes = {}  # "jobs" to the first process, "answers" from it


def prepare():
    """Loads TensorFlow and forks the first process.

    CUDA does not survive a fork: on a machine with a GPU the first process loads TensorFlow itself and sees no GPU, so
    scripts run on CPUs there, and what tests do in their own process on the GPU.
    """
    has_gpu = os.path.exists("/dev/nvidia0") and os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1")
    if not has_gpu:
        _load_and_precompute()
    (jobs, jobs_in), (answers, answers_in) = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the thread of pytest-xdist, which only reads
        child = os.fork()
    if child:
        os.close(jobs)
        os.close(answers_in)
        _pipes["jobs"], _pipes["answers"] = os.fdopen(jobs_in, "w"), os.fdopen(answers)
        return
    _forget_pytest(keep=(2, *sorted([jobs, answers_in])))
    if has_gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        _load_and_precompute()
    _become(_jobs(os.fdopen(jobs), os.fdopen(answers_in, "w")))


def run(*command, cwd=ROOT, env=None, **options):
    """Runs a script of the project (a path below its top), a program ("-c") or a module ("-m"); as subprocess.run."""
    process = start(*command, cwd=cwd, env=env, **options)
    return subprocess.CompletedProcess(command, *process.finish())


def start(*command, cwd=ROOT, env=None, eager=False, optimizes_graphs=False, without_package=False):
    """Starts what `run` runs; returns a Process.

    eager: without graphs, which take longer to build than a few steps of a small model. TensorFlow's graph optimizer
    takes a fifth of a short run and changes no result by more than rounding: it is off unless asked for.
    without_package: as where bert_tf is not installed.
    """
    folder = tempfile.TemporaryDirectory()
    os.mkfifo(os.path.join(folder.name, "stdout"))
    job = {"command": list(map(str, command)), "cwd": str(cwd), "env": env or {}, "folder": folder.name}
    job |= {"eager": eager, "optimizes_graphs": optimizes_graphs, "without_package": without_package}
    return Process(_ask(job), folder)


def _ask(job):
    """The number with which the first process answers."""
    print(json.dumps(job), file=_pipes["jobs"], flush=True)
    return int(_pipes["answers"].readline())


class Process:
    """A started process: its number, its standard output as a text file, and its end."""

    def __init__(self, pid, folder):
        self.pid, self.folder = pid, folder
        self.stdout = open(os.path.join(folder.name, "stdout"), encoding="utf-8")  # noqa: SIM115 - finish() closes it

    def send_signal(self, number):
        os.kill(self.pid, number)

    def finish(self):
        """Waits for the end; returns the exit code and the texts of standard output and error."""
        with self.folder, self.stdout:
            output = self.stdout.read()
            code = _ask({"wait_for": self.pid})
            return code, output, Path(self.folder.name, "stderr").read_text(encoding="utf-8")


def _forget_pytest(keep):
    """Empties files of the process that runs the tests, and undoes what pytest does to imports.

    keep: numbers of files that stay open; those before the first of them do too. The others become /dev/null: objects
    that own them may close them at any time, which must not hit a file that got the number since.
    """
    faulthandler.disable()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in {*map(int, os.listdir("/dev/fd"))} - {*range(keep[0]), *keep, nothing}:
        with contextlib.suppress(OSError):  # that of the listing itself
            os.fstat(number)
            os.dup2(nothing, number)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_pytest")]
    tests = str(ROOT / "tests")
    sys.path[:] = [str(ROOT), *(path for path in sys.path if path and path != str(ROOT) and not path.startswith(tests))]
    sys.path.append(os.path.dirname(__file__))


def _jobs(jobs, answers):
    """Forks for each job that comes in and answers with the number of the new process; there it returns the job."""
    for line in jobs:
        job = json.loads(line)
        if "wait_for" in job:
            print(os.waitstatus_to_exitcode(os.waitpid(job["wait_for"], 0)[1]), file=answers, flush=True)
            continue
        child = os.fork()
        if not child:
            jobs.close()
            answers.close()
            return job
        print(child, file=answers, flush=True)
    os._exit(0)


def _become(job):
    """Becomes the process that the job asks for, and ends it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        path = os.devnull if name == "stdin" else os.path.join(job["folder"], name)
        mode = os.O_RDONLY if name == "stdin" else os.O_WRONLY | os.O_CREAT | os.O_APPEND  # both may be the same file
        os.dup2(os.open(path, mode), number)
    sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")  # noqa: SIM115 - until the end
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    os.chdir(job["cwd"])
    os.environ.update(job["env"])
    import tensorflow as tf

    tf.config.run_functions_eagerly(job["eager"])
    if not job["optimizes_graphs"]:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    if job["without_package"]:
        for name in [name for name in sys.modules if name.partition(".")[0] == "bert_tf"]:
            del sys.modules[name]
        sys.modules["bert_tf"] = None  # importing it fails
    code = 0
    try:
        _execute(job["command"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except Exception:
        sys.excepthook(*sys.exc_info())
        code = 1
    _exit(code)


def _execute(command):
    kind, *rest = command
    sys.argv = rest if kind in ("-m", "-c") else [str(ROOT / kind), *rest]
    if kind == "-m":
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        exec(compile(sys.argv[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path.insert(0, os.path.dirname(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")


def _exit(code):
    """Ends as Python does, but leaves the modules to the system: taking them apart takes a quarter of a second."""
    threading._shutdown()  # waits for threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _forget_where_operations_are_made():
    """Gives all operations of graphs the same stack: to take theirs down is a tenth of the time of building a graph."""
    from tensorflow.python.util import tf_stack

    stack = tf_stack.extract_stack()
    tf_stack.extract_stack = lambda stacklevel=1: stack


def _load_and_precompute():
    """Imports what scripts import and computes the tables of every tokenizer, without starting TensorFlow's threads."""
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    import keras  # noqa: F401
    import sentencex  # noqa: F401
    import sklearn.metrics  # noqa: F401
    import tensorboard.summary.writer.event_file_writer  # noqa: F401
    import tensorflow_text  # noqa: F401
    from huggingface_hub import metadata_load  # noqa: F401

    from bert_tf.recipes import finetune  # noqa: F401
    from bert_tf.tasks import catalog
    from bert_tf.text import normalizer
    from bert_tf.training import loop  # noqa: F401

    _forget_where_operations_are_made()
    catalog.known()
    with multiprocessing.get_context("fork").Pool(1) as pool:  # these need TensorFlow
        classes = pool.apply(normalizer._kernel_classes)
    normalizer._kernel_classes = lambda: classes
    for lower_case in (True, False):
        normalizer.build_normalizer_model(lower_case, lower_case, True)
    normalizer.final_sigma_pattern()
    gc.freeze()  # the garbage collector does not look through all this again and again
    gc.set_threshold(200_000, 50, 1000)
