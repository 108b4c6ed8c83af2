"""With only the packages of requirements-serve.txt, every command works or names the package to install."""

import json
import re
import subprocess
import sys
from pathlib import Path

import faults
import pytest
import quick_exports
import tiny

from bert_tf import errors
from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.cli import main
from bert_tf.errors import UserError
from bert_tf.recipes.finetuning import scored_export
from bert_tf.runtime import plugins

ROOT = Path(__file__).resolve().parents[2]
HELPER = str(ROOT / "tests/helpers/small_installation.py")
TENSORFLOW, SENTENCEX, JINJA2 = "TensorFlow is not installed: pip install", "sentencex is not", "jinja2 is not"
# {command: what it ends with}
ENDS = {
    "ablate out --input_file=texts --task=table --tables=sizes --sizes=1/64/1": (TENSORFLOW, SENTENCEX),
    "compare run": (TENSORFLOW,),
    "completion bash": ("shtab is not",),
    "convert checkpoint out --format=huggingface": (TENSORFLOW,),
    "evaluate checkpoint --file=table.csv": (TENSORFLOW,),
    "export checkpoint out": (TENSORFLOW,),
    "extract checkpoint --file=table.csv": (TENSORFLOW,),
    "finetune table.csv": (TENSORFLOW,),
    "finetune": (TENSORFLOW,),
    "index texts/a.txt out --model=checkpoint": (TENSORFLOW,),
    "launch --workers=1 -- pretrain --input_file=nothing": (TENSORFLOW,),
    "mine table.csv out.jsonl --index=out --text_columns=text,label": ("out is not an index",),
    "predict checkpoint --text=a": (TENSORFLOW,),
    "pretrain": (TENSORFLOW,),
    "push checkpoint owner/name --dry_run": ("no README.md",),
    "records texts out --vocab_file=vocab.txt": (SENTENCEX,),
    "report run": (JINJA2,),
    "report run run": (JINJA2,),
    "search out query": ("out is not an index",),
    "serve checkpoint": (TENSORFLOW,),
    "squad": (TENSORFLOW,),
    "vocabulary texts new.txt": (SENTENCEX,),
}
PROGRAMS = {
    "bert_tf.load('checkpoint')": TENSORFLOW,
    "bert_tf.fine_tune([('a', 'x'), ('b', 'y')] * 9, output_dir='out')": TENSORFLOW,
    "bert_tf.fine_tune('table.csv', output_dir='out')": TENSORFLOW,
    "bert_tf.pretrain(texts=['One. Two.'], output_dir='out')": TENSORFLOW,
    "from bert_tf.text.tokenizer import Tokenizer; Tokenizer.from_file('vocab.txt')(['a'])": TENSORFLOW,
    "from bert_tf.model import heads": TENSORFLOW,
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """[exit code, output] of every command and program, in that installation."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "texts").mkdir()
    (folder / "texts/a.txt").write_text("One text.\nAnother text.\n")
    (folder / "vocab.txt").write_text("\n".join([*tiny.SPECIAL, *"abcdef"]))
    (folder / "table.csv").write_text("text,label\na,x\nb,y\nc,x\nd,y\n")
    (folder / "run").mkdir()
    (folder / "run/run.json").write_text(json.dumps({"name": "run", "flags": {"task_name": "table"}}))
    weights = tiny.random_weights(tiny.pretrainer()[0])
    formats.write(Checkpoint(config=tiny.CONFIG, weights=weights), folder / "checkpoint", "native")
    programs = [f"import bert_tf; {each}" for each in PROGRAMS]
    helps = [[name, "--help"] for name in plugins.names(main.COMMANDS)]
    (folder / "jobs.json").write_text(json.dumps([*(each.split() for each in ENDS), *programs, *helps]))
    done = subprocess.run(
        [sys.executable, HELPER, "run", "jobs.json"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == len(ENDS) + len(PROGRAMS) + len(helps)
    return found


def test_every_command_ends_in_one_sentence(outcomes):
    assert {each.split()[0] for each in ENDS} == set(plugins.names(main.COMMANDS))
    for (command, ends), (code, output) in zip(ENDS.items(), outcomes, strict=False):
        last = output.strip().splitlines()[-1]
        assert code == 2 and "Traceback" not in output, f"{command}: {output}"
        assert any(end in last for end in ends) and "bert-tf: " in last, f"{command}: {output}"


def test_python_raises_a_user_error(outcomes):
    for (program, end), (code, output) in zip(PROGRAMS.items(), outcomes[len(ENDS) :], strict=False):
        assert code == 1 and re.search(rf"^bert_tf.errors.UserError: {end}", output, re.MULTILINE), (
            f"{program}: {output}"
        )


def test_help_needs_no_other_package(outcomes):
    for code, output in outcomes[len(ENDS) + len(PROGRAMS) :]:
        assert code == 0 and "bert-tf" in output, output


def test_each_package_of_the_full_installation_is_known():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[(.*?)^\]", project, re.DOTALL | re.MULTILINE)[1]
    full = set(re.findall(r'^    "([\w-]+)', listed, re.MULTILINE))
    small = set(re.findall(r"^([\w-]+)", (ROOT / "requirements-serve.txt").read_text(encoding="utf-8"), re.MULTILINE))
    assert full - small == set(errors.PACKAGES.values())


def test_a_missing_package_is_an_error_before_the_first_prediction(tmp_path, monkeypatch):
    folder = quick_exports.saved(tmp_path / "export", quick_exports.shares, ("text", quick_exports.tf.string, []))
    about = {"task": "sizes", "kind": "classes", "labels": list(quick_exports.LABELS), "reads": {}}
    (tmp_path / "table.csv").write_text("text,label\na,short\n")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    predicts = faults.on_call(scored_export, "predict_in_order", AssertionError("It predicts."))
    with predicts, pytest.raises(ModuleNotFoundError) as raised:
        scored_export.score(str(folder), str(tmp_path / "table.csv"), about, batch_size=None, report=iter)
    expected = "scikit-learn is not installed: pip install scikit-learn (or bert-tf)."
    assert errors.describe_failure(raised.value, memory="") == (expected, UserError.exit_code)
