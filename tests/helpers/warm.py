"""Processes that begin with TensorFlow loaded: forked off one that has imported it and used nothing of it.

Importing TensorFlow takes some six seconds of a core, and the tests start dozens of scripts. Apart from that a script
runs as if it were started by itself: another working directory, environment, standard output and end.

    done = warm.run("run_classifier.py", "--task_name=MRPC")    # done.returncode, done.stdout, done.stderr
    done = warm.run("-m", "bert_tf", "predict", ...)
"""

import atexit
import gc
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_source = None


def run(*command, cwd=ROOT, env=None, optimizes_graphs=False):
    """Runs a script of the project (a path below its top), a program ("-c") or a module ("-m"); as subprocess.run.

    TensorFlow's graph optimizer takes a fifth of a short run and changes no result by more than rounding: it is off
    unless asked for.
    """
    global _source
    if _source is None or _source.poll() is not None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        _source = subprocess.Popen([sys.executable, __file__], env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}, **pipes)
        atexit.register(_source.stdin.close)
    with tempfile.TemporaryDirectory() as folder:
        job = {"command": list(map(str, command)), "cwd": str(cwd), "env": env or {}, "folder": folder}
        job["optimizes_graphs"] = optimizes_graphs
        print(json.dumps(job), file=_source.stdin, flush=True)
        code = int(_source.stdout.readline())
        texts = [Path(folder, name).read_text(encoding="utf-8") for name in ("stdout", "stderr")]
    return subprocess.CompletedProcess(command, code, *texts)


def _jobs():
    """Forks for each job that comes in; returns it, in the new process only."""
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            return job
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit()


def _begin(job):
    """Becomes the process that the job asks for."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        path = os.devnull if name == "stdin" else os.path.join(job["folder"], name)
        os.dup2(os.open(path, os.O_RDONLY if name == "stdin" else os.O_WRONLY | os.O_CREAT), number)
    os.chdir(job["cwd"])
    os.environ.update(job["env"])
    if not job["optimizes_graphs"]:
        import tensorflow as tf

        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    kind, *rest = job["command"]
    sys.argv = rest if kind in ("-m", "-c") else [str(ROOT / kind), *rest]
    if kind == "-m":
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        exec(compile(sys.argv[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path.insert(0, os.path.dirname(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")


def _load_and_precompute():
    """Imports what scripts import and computes the tables of every tokenizer, without starting TensorFlow's threads."""
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    import keras  # noqa: F401
    import tensorboard.summary.writer.event_file_writer  # noqa: F401
    import tensorflow_text  # noqa: F401

    from bert_tf.recipes.finetuning import run  # noqa: F401
    from bert_tf.tasks import catalog
    from bert_tf.text import normalizer
    from bert_tf.training import loop  # noqa: F401

    catalog.known()
    with multiprocessing.get_context("fork").Pool(1) as pool:  # these need TensorFlow
        classes = pool.apply(normalizer._kernel_classes)
    normalizer._kernel_classes = lambda: classes
    for lower_case in (True, False):
        normalizer.build_normalizer_model(lower_case)
    normalizer.final_sigma_pattern()
    gc.freeze()  # the garbage collector does not look through all this again and again
    gc.set_threshold(200_000, 50, 1000)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    _load_and_precompute()
    _begin(_jobs())
