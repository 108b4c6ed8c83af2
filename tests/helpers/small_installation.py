"""A process that lacks all packages but those of requirements-serve.txt and what they need.

"python small_installation.py import MODULE..." imports modules; "python small_installation.py run FILE" runs the
commands and programs in a JSON file, and prints [exit code, output] of each.
"""

import importlib
import importlib.abc
import importlib.metadata
import importlib.util
import json
import os
import re
import sys
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def requires(name):
    try:
        return importlib.metadata.requires(name) or ()
    except importlib.metadata.PackageNotFoundError:  # of another version of Python
        return ()


def missing_packages():
    """The names of modules that are installed here and are not there."""
    lines = (ROOT / "requirements-serve.txt").read_text(encoding="utf-8").splitlines()
    wanted, found = [name_of(line) for line in lines if line[:1] not in ("#", "")], {"bert-tf"}
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            wanted += [name_of(each) for each in requires(name) if "extra ==" not in each]
    return {
        package
        for package, owners in importlib.metadata.packages_distributions().items()
        if not {name_of(owner) for owner in owners} & found
    }


class Missing(importlib.abc.MetaPathFinder):
    def __init__(self):
        self.packages = missing_packages()

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def outcome(words):
    """[exit code, output] of a command or a Python program, in a process of its own."""
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if not child:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            os._exit(run(words))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return [code, output.read()]


def run(words):
    from bert_tf.cli import main

    code = 1
    try:
        code = main.main(words) if isinstance(words, list) else exec(words) or 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    missing, find_spec = Missing(), importlib.util.find_spec
    sys.meta_path.insert(0, missing)
    importlib.util.find_spec = lambda name: None if name.partition(".")[0] in missing.packages else find_spec(name)
    if sys.argv[1] == "import":
        for each in sys.argv[2:]:
            importlib.import_module(each)
    else:
        from bert_tf.api import bert, training  # noqa: F401 - loaded once for all, as every command is
        from bert_tf.cli import main

        main.parser()
        print(json.dumps([outcome(words) for words in json.loads(Path(sys.argv[2]).read_text())]))
