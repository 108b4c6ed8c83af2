"""The commands of README.md, in the order in which it gives them; training cut short, everything else as it stands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import warm

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHORTER = ["--num_train_steps=4", "--model_size=tiny", "--max_seq_length=32", "--vocab_size=300"]
SHORTER += ["--max_predictions_per_seq=4", "--dupe_factor=1", "--num_warmup_steps=1", "--num_workers=1"]
SHORTER_CLASSIFIER = ["--num_train_epochs=0.1", "--max_seq_length=32"]
SHORTER_SQUAD = ["--num_train_epochs=0.04", "--max_seq_length=32", "--doc_stride=16", "--max_query_length=8"]
TEXT = "The fox ran over the hill.\nIt saw a hound and turned.\nThe hound did not see it.\n\n"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def run(command, folder):
    return warm.run(*command, cwd=folder, env={"PYTHONPATH": str(ROOT)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with texts and a table, in which the commands are run."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("my_texts", "my_table"):
        (folder / name).mkdir()
    for number in range(4):
        (folder / "my_texts" / f"{number}.txt").write_text(TEXT.replace("fox", f"fox {number}") * 20)
    rows = [f"The {'fox' if number % 2 else 'hound'} ran {number},{number % 2}\n" for number in range(40)]
    for split in ("train", "dev", "test"):
        (folder / "my_table" / f"{split}.csv").write_text("text,kind\n" + "".join(rows))
    return folder


# What each command must print; those that are not here are not run.
PRINTS = {
    "python run_pretraining.py": "The export fills masks",
    "python run_classifier.py": "answers as the model does",
    "python run_squad.py": "answers as the model does",
    "bert-tf convert": "as huggingface",
    "bert-tf predict": "",
    "bert-tf evaluate": "macro_f1",
    "bert-tf report": "Look at compare.html",
}
NOT_RUN = ["pip install -e .", 'pip install -e ".[dev]" && pytest']


def test_the_commands_of_the_shell_run_in_their_order(folder):
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    assert [line for line in lines if not line.startswith(tuple(PRINTS))] == NOT_RUN
    assert len(lines) == 12
    for line in lines:
        kind = next((kind for kind in PRINTS if line.startswith(kind)), None)
        if kind is None:
            continue
        program, *arguments = shlex.split(line)
        if program == "bert-tf":
            command = ["-m", "bert_tf.commands", *arguments]
        else:
            shorter = SHORTER if "pretraining" in arguments[0] else SHORTER_CLASSIFIER
            shorter = SHORTER_SQUAD if "squad" in arguments[0] else shorter
            command = [*arguments, *shorter]
        result = run(command, folder)
        assert result.returncode == 0, f"{line}: {result.stderr}"
        assert "Traceback" not in result.stderr and PRINTS[kind] in result.stdout, line
    for made in ("runs/pretraining/report.html", "runs/mine/export", "runs/classifier/export", "answers.jsonl"):
        assert (folder / made).exists(), made
    assert (folder / "exported/model.safetensors").exists() and (folder / "runs/table/predictions.tsv").exists()


def test_the_programs_run_after_them_without_this_package_where_they_say_so(folder):
    assert (folder / "runs/pretraining/export").exists(), "the commands come first"
    serve, tokenize = blocks("python")
    assert "bert_tf import" not in serve and "from bert_tf" not in serve
    alone = [sys.executable, "-c", serve]  # a process that has nothing of this package
    result = subprocess.run(alone, cwd=folder, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0 and result.stdout.startswith("[b"), result.stderr
    result = run(["-c", tokenize + "\nprint(starts.to_list(), ends.to_list())"], folder)
    assert result.returncode == 0 and result.stdout.startswith("[[0,"), result.stderr


def test_what_a_run_leaves_is_what_readme_says(folder):
    listed = re.findall(r"[\w.]+\.(?:jsonl?|html|txt)|\w+(?=/ )", README.split("runs/mine/\n")[1].split("```")[0])
    assert len(listed) == 12
    for name in listed:
        assert (folder / "runs/mine" / name).exists(), name


def test_every_flag_in_readme_exists():
    sys.path.insert(0, str(ROOT))
    import run_classifier
    import run_pretraining
    import run_squad
    from bert_tf import commands

    scripts = run_classifier, run_pretraining, run_squad
    known = {"help", *(name for script in scripts for name in script.Flags.__dataclass_fields__)}
    parsers = next(action.choices for action in commands.parser()._actions if action.choices)
    for parser in parsers.values():
        known |= {option.removeprefix("--") for action in parser._actions for option in action.option_strings}
    names = set(re.findall(r"--(\w+)", README))
    missing = {name for name in names if not {name, name.removeprefix("no")} & known}
    assert missing == set(), "flags that are not there"


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
