"""Stopping computations while another thread imports TensorFlow, here a package that takes its time."""

import os
import subprocess
import sys

SLOW = """
import __main__ as main
main.begun.set()
main.rest.wait()
class errors: CancelledError = OSError
"""
CANCELLATION = """
class CancellationManager: pass
class CancellationManagerContext:
    def __init__(self, manager): print("TensorFlow stops it")
    def __enter__(self): pass
    def __exit__(self, *error): pass
"""
SCRIPT = """
import sys, threading
from bert_tf.runtime import stopping
begun, rest = threading.Event(), threading.Event()
loading = threading.Thread(target=lambda: __import__("tensorflow"))
loading.start()
begun.wait()
for _ in range(2):
    with stopping.Stop().applies():
        print("computed", "tensorflow.python" in sys.modules)
    rest.set()
    loading.join()
"""


def test_import_in_another_thread_is_not_waited_for(tmp_path):
    for name, content in (("", SLOW), ("python", ""), ("python/eager", ""), ("python/eager/cancellation", "")):
        folder = tmp_path / "tensorflow" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text(CANCELLATION if name.endswith("cancellation") else content)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == ["computed False", "TensorFlow stops it", "computed True"], done.stderr
