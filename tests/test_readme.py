"""The commands of README.md, in the order in which it gives them; training cut short, everything else as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHORTER = ["--num_train_steps=4", "--model_size=tiny", "--max_seq_length=32", "--vocab_size=300"]
SHORTER += ["--max_predictions_per_seq=4", "--dupe_factor=1", "--num_warmup_steps=1", "--num_workers=1"]
TEXT = "The fox ran over the hill.\nIt saw a hound and turned.\nThe hound did not see it.\n\n"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def run(command, folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with texts in which the first two commands were run."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "my_texts").mkdir()
    for number in range(4):
        (folder / "my_texts" / f"{number}.txt").write_text(TEXT.replace("fox", f"fox {number}") * 20)
    return folder


def test_the_commands_of_the_shell_run_in_their_order(folder):
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    known = [line for line in lines if line.startswith("python run_pretraining.py")]
    convert = "bert-tf convert runs/mine exported/ --format=huggingface"
    others = ["pip install -e .", convert, 'pip install -e ".[dev]" && pytest']
    assert [line for line in lines if line not in known] == others
    assert len(known) == 2
    for line in known:
        arguments = line.split()[2:]
        result = run([sys.executable, str(ROOT / "run_pretraining.py"), *arguments, *SHORTER], folder)
        assert result.returncode == 0, result.stderr
        assert "Traceback" not in result.stderr and "The export fills masks" in result.stdout
    result = run([sys.executable, "-m", "bert_tf.commands", *convert.split()[1:]], folder)
    assert result.returncode == 0 and (folder / "exported/model.safetensors").exists(), result.stderr
    assert (folder / "runs/pretraining/report.html").exists() and (folder / "runs/mine/export").exists()


def test_the_programs_run_after_them_without_this_package_where_they_say_so(folder):
    assert (folder / "runs/pretraining/export").exists(), "the commands come first"
    serve, tokenize = blocks("python")
    assert "bert_tf import" not in serve and "from bert_tf" not in serve
    result = run([sys.executable, "-c", serve], folder)
    assert result.returncode == 0 and result.stdout.startswith("[b"), result.stderr
    result = run([sys.executable, "-c", tokenize + "\nprint(starts.to_list(), ends.to_list())"], folder)
    assert result.returncode == 0 and result.stdout.startswith("[[0,"), result.stderr


def test_what_a_run_leaves_is_what_readme_says(folder):
    listed = re.findall(r"[\w.]+\.(?:jsonl?|html|txt)|\w+(?=/ )", README.split("runs/mine/\n")[1].split("```")[0])
    assert len(listed) == 12
    for name in listed:
        assert (folder / "runs/mine" / name).exists(), name


def test_every_flag_in_readme_exists():
    sys.path.insert(0, str(ROOT))
    from run_pretraining import Flags

    names = {name.removeprefix("no") for name in re.findall(r"--(\w+)", README)}
    assert names - {"help", "format"} <= set(Flags.__dataclass_fields__), "a flag that is not there"


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
