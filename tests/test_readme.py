"""Runs the commands of README.md and its pages in order, with shortened training; checks flags, links and paths."""

import dataclasses
import functools
import inspect
import re
import shlex
import sys
from pathlib import Path

import checkpoint_cases
import pages
import pytest
import tiny
import warm

import bert_tf
from bert_tf.api.bert import Bert
from bert_tf.api.training import Run
from bert_tf.model import heads
from bert_tf.text.tokenizer import Tokenizer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
NAMES = ["classification", "questions", "pretraining", "checkpoints", "tagging", "vectors", "ablations"]
NAMES += ["accelerators", "troubles", "python", "scaling", "keras", "index", "coming_from"]
PAGES = {"README": README, **{name: (ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in NAMES}}
DOCUMENTS = [ROOT / "README.md", ROOT / "benchmarks/README.md", *sorted((ROOT / "docs").glob("*.md"))]
DEFAULTS = {
    "run_pretraining.py": "runs/pretraining",
    "run_classifier.py": "runs/classifier",
    "run_squad.py": "runs/squad",
}
RECIPES = {"pretrain": "run_pretraining.py", "finetune": "run_classifier.py", "squad": "run_squad.py"}
SHORTER = ["--num_train_steps=4", "--model_size=tiny", "--max_seq_length=32", "--vocab_size=300"]
SHORTER += ["--max_predictions_per_seq=4", "--dupe_factor=1", "--num_warmup_steps=1"]
SHORTER_CLASSIFIER = ["--num_train_epochs=0.1", "--max_seq_length=32"]
SHORTER_SQUAD = ["--num_train_epochs=0.02", "--max_seq_length=64", "--doc_stride=44", "--max_query_length=8"]
SHORTER_SQUAD += ["--eval_batch_size=64"]
# Files of google-research/bert, transformers and Model Garden.
ORIGINAL = {"extract_features.py", "create_pretraining_data.py", "run_mlm.py", "train.py"}
TEXT = "The fox ran over the hill.\nIt saw a hound and turned.\nThe hound did not see it.\n\n"


def blocks(language, *pages):
    """The code blocks of a language on the named pages, by default on all of PAGES."""
    fences = [re.findall(r"^```(\w*)\n(.*?)^```$", PAGES[page], re.DOTALL | re.MULTILINE) for page in pages or PAGES]
    return [block for matches in fences for name, block in matches if name == language]


def commands_of(*languages):
    """The arguments of every command on any page."""
    lines = [line for language in languages for block in blocks(language) for line in block.splitlines()]
    return [part for line in lines for part in parts_of(shlex.split(line))]


def parts_of(words):
    """A command without variables and what starts it on other machines; `bert-tf launch` and what it launches."""
    words = [word for word in words if not re.match(r"[A-Z_]+=", word)]
    if words[0] == "torchrun":
        words = ["bert-tf", *words[words.index("bert_tf") + 1 :]]
    if words[0] == "srun":
        words = words[words.index("bert-tf") :]
    if words[1] != "launch":
        return [words]
    end = words.index("--")
    return [words[:end], ["bert-tf", *words[end + 1 :]]]


def run(command, folder, **options):
    return warm.run(*command, cwd=folder, env={"PYTHONPATH": str(ROOT)}, **options)


def test_readme_names_the_supported_python_versions():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    first, end = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', project).groups()
    assert f"Python 3.{first} to 3.{int(end) - 1} on Linux" in README


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The working directory of the commands, with texts and a table."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("my_texts", "my_table"):
        (folder / name).mkdir()
    for number in range(4):
        (folder / "my_texts" / f"{number}.txt").write_text(TEXT.replace("fox", f"fox {number}") * 20)
    rows = [f"The {'fox' if number % 2 else 'hound'} ran {number},{number % 2}\n" for number in range(40)]
    for split in ("train", "dev", "test"):
        (folder / "my_table" / f"{split}.csv").write_text("text,kind\n" + "".join(rows))
    return folder


# What each command must print; commands that are not listed here are not run.
PRINTS = {
    "bert-tf pretrain": "The export fills masks",
    "bert-tf finetune": "verified against the model",
    "python run_pretraining.py": "The export fills masks",
    "python run_classifier.py": "verified against the model",
    "python run_squad.py": "verified against the model",
    "bert-tf convert": "as huggingface",
    "bert-tf predict": "",
    "bert-tf evaluate": "macro_f1",
    "bert-tf report": "The report is compare.html",
}
NOT_RUN = ["pip install -e .", 'pip install -e ".[dev]" && pytest', "bert-tf push runs/classifier my-name/classifier"]
NOT_RUN += ['bert-tf predict hf://owner/nli --text="A man eats." --text_b="A person eats."']
NOT_RUN += ["bert-tf export my_hugging_face_folder exports/mine", "bert-tf serve hf://owner/reranker --num_texts=2"]


@pytest.mark.slow
def test_shell_commands_run_in_order(folder):
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    not_run = [line for line in lines if line in NOT_RUN or not line.startswith(tuple(PRINTS))]
    assert sorted(not_run) == sorted(NOT_RUN)
    assert len(lines) == 16
    for line in lines:
        kind = None if line in NOT_RUN else next((kind for kind in PRINTS if line.startswith(kind)), None)
        if kind is None:
            continue
        program, *arguments = shlex.split(line)
        shorter = {
            "run_pretraining.py": SHORTER,
            "run_classifier.py": SHORTER_CLASSIFIER,
            "run_squad.py": SHORTER_SQUAD,
        }.get(RECIPES.get(arguments[0], arguments[0]), [])
        command = [*(["-m", "bert_tf"] if program == "bert-tf" else []), *arguments, *shorter]
        result = run(command, folder, eager="runs/mine" in line)
        assert result.returncode == 0, f"{line}: {result.stderr}"
        assert "Traceback" not in result.stderr and PRINTS[kind] in result.stdout, line
    for path in ("runs/pretraining/report.html", "runs/mine/export", "runs/classifier/export", "answers.jsonl"):
        assert (folder / path).exists(), path
    assert (folder / "exported/model.safetensors").exists() and (folder / "runs/table/predictions.tsv").exists()


@pytest.mark.slow
def test_python_programs_run(folder):
    assert (folder / "runs/pretraining/export").exists(), "the shell commands run first"
    (ask,) = blocks("python", "questions")
    serve = pages.blocks("serving.md", "python")[-1]
    for program, start in ((serve, "tf.Tensor([b"), (ask, "True ")):
        result = run(["-c", program], folder, without_package=True)
        assert result.returncode == 0 and result.stdout.startswith(start), result.stderr
    result = run(["-c", "\n".join(blocks("python", "python"))], folder)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("Token(token=") and "\n(2, 128)\n" in result.stdout


@pytest.mark.slow
def test_first_blocks_of_the_readme_run_as_printed(tmp_path):
    config = dataclasses.replace(tiny.CONFIG, max_position_embeddings=128)
    for name in ("MiniLM-L12-H384-uncased", "all-MiniLM-L6-v2"):  # a folder of that name comes before a download
        checkpoint_cases.write(tmp_path / name, heads.BertModel(config))
    table = [f"A {word} film number {n}.,{stars}\n" for n in range(4) for word, stars in (("fine", 5), ("bad", 1))]
    (tmp_path / "reviews.csv").write_text("".join(["review,stars\n", *table]))
    table_block, keras_block = blocks("python", "README")
    for program in (f"{table_block}print(sorted(set(reviews['predicted'])))", keras_block):
        result = run(["-c", program], tmp_path, eager=True)
        assert result.returncode == 0, result.stderr
        assert "accuracy" in result.stdout
    assert (tmp_path / "runs/table/report.html").exists()


def test_reference_lists_everything_public():
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    page, classes = page.split("|---|---|---|\n")
    tables = dict(zip(("", "Bert", "Run", "Tokenizer"), page.split("|---|---|\n")[1:], strict=True))
    public = {"Bert": Bert, "Run": Run, "Tokenizer": Tokenizer}
    for name, kind in public.items():
        members = inspect.getmembers(kind, inspect.isroutine)  # with cached properties, which are attributes
        members = [(each, value) for each, value in members if not isinstance(value, functools.cached_property)]
        methods = {each for each, _ in members if not each.startswith("_")}
        assert set(re.findall(r"`(\w+)\(", tables[name])) == methods, name
    functions = {name for name in bert_tf.__all__ if inspect.isfunction(getattr(bert_tf, name))}
    assert set(re.findall(r"`bert_tf\.(\w+)\(", tables[""])) == functions
    layers = {name for name in bert_tf.__all__ if not name.endswith("Error")} - functions
    assert set(re.findall(r"`bert_tf\.(\w+)`", classes.split("\n\n")[0])) == layers
    assert len(bert_tf.__all__) > len(functions) > 2


@pytest.mark.slow
def test_run_leaves_the_files_listed_in_the_readme(folder):
    contents = PAGES["index"].split("runs/my_model/\n")[1].split("```")[0]
    listed = re.findall(r"[\w.]+\.(?:jsonl?|html|txt)|\w+(?=/ )", contents)
    assert len(listed) == 12
    for name in listed:
        assert (folder / "runs/mine" / name).exists(), name


def flags_of(kind):
    """The flags of a dataclass, and their other names."""
    from bert_tf.config.options import fields_of

    fields = fields_of(kind)
    return set(fields) | {alias for field in fields.values() for alias in field.metadata.get("aliases", ())}


def known_flags():
    """{script or command of bert-tf: names of its flags}."""
    sys.path.insert(0, str(ROOT))
    from bert_tf.cli import main
    from bert_tf.recipes import finetune, finetune_squad, pretrain

    scripts = {"run_pretraining.py": pretrain, "run_classifier.py": finetune, "run_squad.py": finetune_squad}
    known = {name: flags_of(recipe.Flags) for name, recipe in scripts.items()}
    known |= {command: known[script] for command, script in RECIPES.items()}
    parsers = next(action.choices for action in main.parser()._actions if action.choices)
    for name, parser in parsers.items():
        if name in known:
            continue
        options = (option for action in parser._actions for option in action.option_strings)
        known[name] = {option.removeprefix("--") for option in options}
    return known


def test_every_flag_on_the_pages_exists():
    known = known_flags()
    for program, name, *arguments in commands_of("bash", "sh"):
        if program in ("python", "bert-tf"):
            names = {argument[2:].split("=")[0] for argument in arguments if argument.startswith("--")}
            assert names <= known[name], f"{name}: unknown flags {names - known[name]}"
    anywhere = set.union(*known.values()) | {"help", "flagfile", "logdir"}  # absl's own, and TensorBoard's
    anywhere |= {"deps", "force", "experiment"}  # pip's --no-deps and --force-reinstall, Model Garden's
    anywhere |= {"nodes", "ntasks", "nnodes", "nproc_per_node", "rdzv_endpoint"}  # Slurm's and torchrun's
    anywhere |= {
        *("tf_xla_persistent_cache_directory", "xla_allow_excess_precision"),  # XLA's
        *("device", "tiny", "work_dir", "glue_dir"),  # benchmarks/gpu.py's
    }
    for page, text in PAGES.items():
        names = set(re.findall(r"--(?:no-)?(\w+)", text))
        assert {name for name in names if not {name, name.removeprefix("no")} & anywhere} == set(), page


def test_no_two_commands_share_a_run_folder():
    runs = []
    for program, name, *arguments in dict.fromkeys(map(tuple, commands_of("bash", "sh"))):
        values = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        if program == "python":
            runs.append(values.get("--output_dir", DEFAULTS[name]))
        elif name in RECIPES and "--write_examples" not in values:  # which writes no run
            is_table = name == "finetune" and arguments and not arguments[0].startswith("-")
            default = f"runs/{Path(arguments[0]).stem}" if is_table else DEFAULTS[RECIPES[name]]
            runs.append(values.get("--output_dir", default))
    assert len(runs) > 10 and len(set(runs)) == len(runs)
    for program, name, *arguments in commands_of("bash", "sh"):
        if program == "bert-tf" and name not in ("ablate", "completion"):
            assert [path for path in arguments if path.startswith("runs/") and path not in runs] == []


def anchors_of(text):
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_has_a_target(path):
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", path.read_text(encoding="utf-8")):
        if target.startswith("https:"):
            continue
        page = path.parent / target if target else path
        assert page.exists(), target
        assert not anchor or anchor in anchors_of(page.read_text(encoding="utf-8")), f"{target}#{anchor}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_named_source_file_and_function_exists(path):
    roots = (ROOT, ROOT / "bert_tf", ROOT / "benchmarks", ROOT / "bert_tf" / "families" / "bert")
    named = re.findall(r"`(?:pytest |python )?([\w/]+\.(?:py|c))(?:: (\w+))?[` ]", path.read_text(encoding="utf-8"))
    for name, function in named:
        if name in ORIGINAL or name.startswith("my_lab/"):
            continue
        source = next((root / name for root in roots if (root / name).exists()), None)
        assert source, name
        assert (
            re.search(rf"^(def|class) {function}\b", source.read_text(encoding="utf-8"), re.MULTILINE) or not function
        )
