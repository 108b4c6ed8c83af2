"""The Dockerfile: its commands, files and flags exist, and the server does not run as root."""

import argparse
import fnmatch
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bert_tf.cli.commands import serve
from bert_tf.serving.app import Server

ROOT = Path(__file__).resolve().parents[2]
HELPER = str(ROOT / "tests/helpers/small_installation.py")
TEXT = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
STEPS = [line.split(maxsplit=1) for line in TEXT.splitlines() if line and not line.startswith("#")]


def arguments_of(step):
    """The last arguments of a step, as a list."""
    return [arguments for name, arguments in STEPS if name == step][-1]


def test_image_starts_the_server_with_flags_that_exist():
    program, command, *flags = json.loads(arguments_of("ENTRYPOINT"))
    assert (program, command) == ("bert-tf", "serve")
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    options = parser.parse_args([*flags, *json.loads(arguments_of("CMD"))])
    assert serve.name_exports(options.exports, options.name) == {"model": "/model"}
    assert options.host == "0.0.0.0" and str(options.port) == arguments_of("EXPOSE")
    assert arguments_of("USER") not in ("root", "0")


def test_health_check_asks_a_route_of_the_server_at_its_port():
    code = json.loads(arguments_of("HEALTHCHECK").partition(" CMD ")[2])
    assert code[:2] == ["python", "-c"]
    compile(code[2], "<health check>", "exec")
    port, path = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)'", code[2]).groups()
    assert port == arguments_of("EXPOSE")
    assert path in {route.path for route in Server([]).app().app.routes}


@pytest.mark.parametrize("source", "pyproject.toml README.md LICENSE requirements-serve.txt bert_tf".split())
def test_files_are_there_and_not_ignored(source):
    assert any(name == "COPY" and source in arguments.split()[:-1] for name, arguments in STEPS)
    ignored = True
    for pattern in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if fnmatch.fnmatchcase(source, pattern.lstrip("!")):
            ignored = not pattern.startswith("!")
    assert (ROOT / source).exists() and not ignored


def test_small_installation_has_what_is_imported_to_answer():
    """In a process that lacks all other packages than requirements-serve.txt names, and those that they need."""
    commands = [f"bert_tf.cli.commands.{name}" for name in "predict serve evaluate".split()]
    commands += [f"bert_tf.extras.commands.{name}" for name in "index search extract".split()]
    engines = [
        "bert_tf.api.bert",
        "bert_tf.export.host.vectors",
        "bert_tf.extras.search.embedder",
        "bert_tf.extras.search.retrieval_scores",
        "bert_tf.extras.search.served_index",
        "bert_tf.serving.app",
    ]
    done = subprocess.run(
        [sys.executable, HELPER, "import", *commands, *engines], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
