"""The notebooks of examples/: executed, free of paths of a machine, and their code runs with a tiny checkpoint."""

import dataclasses
import json
import re
import shlex
import shutil
from pathlib import Path

import checkpoint_cases
import pytest
import tiny
import warm
import yaml

from bert_tf.config.options import fields_of
from bert_tf.model import heads

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
SHORTER = [
    (r'checkpoint = ".*"', 'checkpoint = "tiny"'),
    (r"num_train_epochs=\d+", "num_train_epochs=0.2, do_export=False"),
    (r"batch_size=16, epochs=epochs", "batch_size=96, epochs=1"),
]


@pytest.mark.parametrize("name", ["jobset", "tfjob"])
def test_manifests_name_flags_that_exist_and_as_many_workers_as_pods(name):
    from bert_tf.cli import main
    from bert_tf.extras.commands import launch
    from bert_tf.recipes.pretrain import Flags

    job = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
    spec = job["spec"]
    if name == "jobset":
        (replicated,) = spec["replicatedJobs"]
        pods = replicated["template"]["spec"]
        assert pods["completions"] == pods["parallelism"] and pods["completionMode"] == "Indexed"
    else:
        pods = spec["tfReplicaSpecs"]["Worker"]
    (container,) = pods["template"]["spec"]["containers"]
    (line,) = container["args"]
    assert container["command"] == ["sh", "-c"]
    words = shlex.split(line)
    if name == "jobset":
        arguments = main.parser({"launch": launch}).parse_args(
            [word.replace("$JOB_COMPLETION_INDEX", "3") for word in words[2:]]
        )
        assert (arguments.workers, arguments.worker_index) == (pods["completions"], 3)
        service = job["metadata"]["name"]  # JobSet's, whose pods are SET-JOB-0-INDEX.SET
        assert arguments.coordinator == f"{service}-{replicated['name']}-0-0.{service}:2222"
        words = ["exec", "bert-tf", *arguments.command[1:]]
    assert words[:3] == ["exec", "bert-tf", "pretrain"]
    names = {word[2:].partition("=")[0] for word in words[3:]}
    assert names <= fields_of(Flags).keys() and "output_dir" in names
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pods["template"]["spec"]["volumes"]}


def code_cells(path):
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_were_executed_from_the_top_and_name_no_machine(path):
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert all(output["output_type"] == "stream" for cell in cells for output in cell["outputs"]), "nothing was raised"
    assert any(cell["outputs"] for cell in cells)
    assert not re.search(r"(?<![\w:./])/(?!v1/)\w+/|[A-Z]:\\\\|site-packages", path.read_text(encoding="utf-8"))
    assert f"[{path.name}]({path.name})" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


def test_code_of_the_notebooks_runs(tmp_path):
    config = dataclasses.replace(tiny.CONFIG, max_position_embeddings=32)
    checkpoint_cases.write(tmp_path / "tiny", heads.BertModel(config))
    shutil.copy(EXAMPLES / "tickets.csv", tmp_path)
    program = "\n".join("".join(cell["source"]) for path in NOTEBOOKS for cell in code_cells(path))
    for pattern, replacement in SHORTER:
        assert re.search(pattern, program), pattern
        program = re.sub(r"\b" + pattern, replacement, program)
    result = warm.run("-c", program, cwd=tmp_path, eager=True)
    assert result.returncode == 0, result.stderr
    assert "I was charged twice: " in result.stdout and (tmp_path / "runs/tickets/report.html").exists()
