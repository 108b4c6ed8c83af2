"""The commands of README.md and of the pages after it, in their order; training cut short, the rest as it stands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import warm

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
NAMES = "classification questions pretraining checkpoints tagging vectors ablations troubles".split()
PAGES = {"README": README, **{name: (ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in NAMES}}
DEFAULTS = {
    "run_pretraining.py": "runs/pretraining",
    "run_classifier.py": "runs/classifier",
    "run_squad.py": "runs/squad",
}
SHORTER = ["--num_train_steps=4", "--model_size=tiny", "--max_seq_length=32", "--vocab_size=300"]
SHORTER += ["--max_predictions_per_seq=4", "--dupe_factor=1", "--num_warmup_steps=1", "--num_workers=1"]
SHORTER_CLASSIFIER = ["--num_train_epochs=0.1", "--max_seq_length=32"]
SHORTER_SQUAD = ["--num_train_epochs=0.04", "--max_seq_length=32", "--doc_stride=16", "--max_query_length=8"]
TEXT = "The fox ran over the hill.\nIt saw a hound and turned.\nThe hound did not see it.\n\n"


def blocks(language, *pages):
    """What stands between ```language and ``` on pages, all of them if none is named."""
    return [
        block for page in pages or PAGES for block in re.findall(rf"```{language}\n(.*?)```", PAGES[page], re.DOTALL)
    ]


def commands_of(*languages):
    """The arguments of every command on any page."""
    lines = [line for language in languages for block in blocks(language) for line in block.splitlines()]
    return [[part for part in shlex.split(line) if not part.startswith("TF_CONFIG=")] for line in lines]


def run(command, folder):
    return warm.run(*command, cwd=folder, env={"PYTHONPATH": str(ROOT)})


def test_the_readme_names_the_pythons_that_it_installs_on():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (least, above) = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', project).groups()
    assert f"Python 3.{least} to 3.{int(above) - 1} on Linux" in README


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
    assert sorted(line for line in lines if not line.startswith(tuple(PRINTS))) == sorted(NOT_RUN)
    assert len(lines) == 12
    for line in lines:
        kind = next((kind for kind in PRINTS if line.startswith(kind)), None)
        if kind is None:
            continue
        program, *arguments = shlex.split(line)
        if program == "bert-tf":
            command = ["-m", "bert_tf", *arguments]
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
    (serve, tokenize), (ask,), (load,) = (blocks("python", page) for page in ("README", "questions", "checkpoints"))
    for program, starts in ((serve, "[b"), (ask, "True ")):
        assert "import bert_tf" not in program and "from bert_tf" not in program
        alone = [sys.executable, "-c", program]  # a process that has nothing of this package
        result = subprocess.run(alone, cwd=folder, capture_output=True, text=True, timeout=300)
        assert result.returncode == 0 and result.stdout.startswith(starts), result.stderr
    for program, starts in ((tokenize + "\nprint(starts.to_list(), ends.to_list())", "[[0,"), (load, "(1, ")):
        result = run(["-c", program], folder)
        assert result.returncode == 0 and result.stdout.startswith(starts), result.stderr


def test_what_a_run_leaves_is_what_readme_says(folder):
    listed = re.findall(r"[\w.]+\.(?:jsonl?|html|txt)|\w+(?=/ )", README.split("runs/mine/\n")[1].split("```")[0])
    assert len(listed) == 12
    for name in listed:
        assert (folder / "runs/mine" / name).exists(), name


def known_flags():
    """{script, or command of bert-tf: names of its flags}."""
    sys.path.insert(0, str(ROOT))
    from bert_tf.cli import main
    from bert_tf.recipes import finetune, finetune_squad, pretrain

    scripts = {"run_pretraining.py": pretrain, "run_classifier.py": finetune, "run_squad.py": finetune_squad}
    known = {name: set(recipe.Flags.__dataclass_fields__) for name, recipe in scripts.items()}
    parsers = next(action.choices for action in main.parser()._actions if action.choices)
    for name, parser in parsers.items():
        options = (option for action in parser._actions for option in action.option_strings)
        known[name] = {option.removeprefix("--") for option in options}
    return known


def test_every_flag_on_the_pages_exists_in_its_command():
    known = known_flags()
    for program, name, *arguments in commands_of("bash", "sh"):
        if program in ("python", "bert-tf"):
            given = {argument[2:].split("=")[0] for argument in arguments if argument.startswith("--")}
            assert given <= known[name], f"{name}: {given - known[name]} is not there"
    anywhere = set.union(*known.values()) | {"help", "flagfile", "logdir"}  # absl's own, and TensorBoard's
    for page, text in PAGES.items():
        names = set(re.findall(r"--(\w+)", text))
        assert {name for name in names if not {name, name.removeprefix("no")} & anywhere} == set(), page


def test_no_command_on_the_pages_writes_into_the_run_of_another_one():
    runs = []
    for program, name, *arguments in commands_of("bash", "sh"):
        given = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        if program == "python":
            runs.append(given.get("--output_dir", DEFAULTS[name]))
    assert len(runs) > 10 and len(set(runs)) == len(runs)
    for program, name, *arguments in commands_of("bash", "sh"):
        if program == "bert-tf" and name not in ("ablate", "completion"):
            assert [path for path in arguments if path.startswith("runs/") and path not in runs] == []


def test_links_lead_somewhere():
    for page, text in PAGES.items():
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert ((ROOT if page == "README" else ROOT / "docs") / target).exists(), f"{page}: {target}"
