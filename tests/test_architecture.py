"""Imports go one way, few files read flags, TensorFlow is loaded only where it is needed: read from the sources."""

import ast
import functools
import graphlib
import importlib
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bert_tf"
SOURCES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted(ROOT.glob("run_*.py"))

# The folders of bert_tf, from the ground up: each imports only those before it. errors.py is below all of them.
FLOORS = """
runtime config text data model families training heads checkpoints tasks export reports serving recipes api cli extras
""".split()
# What loads modules of extras, by name (`runtime/lazy.py`); commands and formats are found in their sets.
DOORS = {
    "cli/commands/evaluate.py": {"search.index_files", "search.retrieval_scores", "search.search_flags"},
    "cli/commands/predict.py": {"beam.bulk_files"},
    "cli/commands/serve.py": {"search.index_files", "search.served_index"},
    "cli/commands/vocabulary.py": {"beam.beam_pipeline", "beam.beam_runner"},
    "data/pretraining/records.py": {"beam.beam_pipeline", "beam.beam_runner"},
    "tasks/catalog/ner.py": {"paper.feature_tagging"},
}
AT_THE_TOP = {"__init__", "__main__", "errors"}  # the files of bert_tf itself
# Folders of which no module loads TensorFlow when it is imported: flags are checked and files read without it.
NO_TENSORFLOW = ("runtime", "config", "reports", "recipes", "cli", "text", "data", "heads", "tasks")
# Functions of the operating system that do not know the stores (gs://...) that runtime/files.py does.
LOCAL_ONLY = {
    *("open", "glob.glob", "os.path.exists", "os.path.isfile", "os.path.isdir", "os.path.getsize", "os.path.abspath"),
    *("os.path.realpath", "os.path.samefile", "os.listdir", "os.scandir", "os.walk", "os.remove", "os.unlink"),
    *("os.rename", "os.replace", "os.makedirs", "os.mkdir", "shutil.copyfile", "shutil.copytree", "shutil.rmtree"),
}
# What may call them, as its paths are never those of a user, or are local for certain.
LOCAL_PATHS = {
    "runtime/files.py": "the one room",
    "runtime/atomic_files.py": "local paths are renamed, those of stores go to runtime/files.py",
    "runtime/backend.py": "/proc/cpuinfo",
    "runtime/tensorflow_startup.py": "TensorFlow's own library",
    "runtime/machine.py": "devices and control groups",
    "extras/paper/ablation.py": "the log that a process writes to",
    "extras/beam/beam_pipeline.py": "the temporary file of atomic_write",
    "data/pretraining/record_files.py": "the temporary file of atomic_write",
    "data/pretraining/records.py": "the temporary file of atomic_write",
    "data/pretraining/workers.py": "records are prepared on this machine, then uploaded",
    "training/nonfinite.py": "the temporary file of atomic_write",
    "extras/features/feature_files.py": "the temporary file of atomic_write",
    "export/engines/litert.py": "the temporary folder of atomic_folder",
    "export/prediction_inputs.py": "standard input",
    "checkpoints/published.py": "whether a name is that of a folder here",
    "checkpoints/torch_pickle.py": "a local copy",
    "cli/commands/push.py": "huggingface_hub uploads local folders",
    "export/loaded_model.py": "the libraries of tensorflow-text",
    "extras/search/building.py": "an index is written and mapped into memory on a disk",
    "extras/search/stored_vectors.py": "an index is written and mapped into memory on a disk",
}
# Files that name a family besides its folder. BERT, which others are like, is named in more.
NAMES_OF_FAMILIES = {
    "api/options.py": "written from the flags",
    "extras/formats/word_vectors.py": "a table of vectors is a static encoder",
    "checkpoints/huggingface_folder.py": "classes of tokenizers in folders that name none",
    "checkpoints/published.py": "published checkpoints, with the encoder of each",
    "checkpoints/sentence_transformers.py": "names of files in older versions",
    "config/train_config.py": "the method of distillation of that name",
    "extras/paper/ablations.py": "encoders that the paper compares",
    "text/tokenizer_kinds.py": "kinds of tokenizers",
    "training/distillation.py": "the method of distillation of that name",
}
ABSL = ("flag_parsers.py", "entry_point.py")  # files of config/ that know it
VAGUE = {"utils", "util", "helpers", "helper", "misc", "base", "common"}


def floor_of(path):
    """bert_tf/tasks/catalog/glue.py -> "tasks"; None for a file of bert_tf itself."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


@functools.cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(tree):
    """Full names of all a source imports, within functions too: `from bert_tf import text` is "bert_tf.text"."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the package, so that this test can read them"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@functools.cache
def imports(path):
    return imports_of(tree(path))


def among(names, *packages):
    """Those names that are one of the packages or lie in it."""
    return sorted(name for name in names if any(f"{name}.".startswith(f"{package}.") for package in packages))


def parents(name):
    """a.b.c -> a, a.b: importing a module imports them first."""
    return {name[:end] for end, letter in enumerate(name) if letter == "."}


def files_on(*floors):
    """The sources in these folders; without one a test would say nothing."""
    files = [path for path in SOURCES if floor_of(path) in floors]
    assert files
    return files


def violations(paths, *forbidden):
    """{file: what it imports though it must not}."""
    imported = {str(path.relative_to(ROOT)): among(imports(path), *forbidden) for path in paths}
    return {path: names for path, names in imported.items() if names}


def each_source(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: str(path.relative_to(ROOT)))


def test_import_reader_sees_imports_inside_functions():
    source = "import a.b\nfrom bert_tf import text\ndef f():\n    from d.e import g\n"
    assert imports_of(ast.parse(source)) == {"a.b", "bert_tf", "bert_tf.text", "d.e", "d.e.g"}
    assert among({"a", "a.b", "ab", "b.a"}, "a") == ["a", "a.b"]
    assert [floor_of(PACKAGE / path) for path in ("errors.py", "text/corpus.py", "tasks/catalog/glue.py")] == [
        None,
        "text",
        "tasks",
    ]


def test_every_module_lies_in_a_listed_folder():
    assert {path.stem for path in SOURCES if floor_of(path) is None} == AT_THE_TOP
    assert {floor_of(path) for path in SOURCES} - {None} == set(FLOORS)


@each_source([path for path in SOURCES if floor_of(path)])
def test_folders_import_only_preceding_ones(path):
    allowed = FLOORS[: FLOORS.index(floor_of(path)) + 1]
    imported = {name.split(".")[1] for name in among(imports(path), "bert_tf") if "." in name}
    assert imported & set(FLOORS) <= set(allowed)
    assert imported <= {*FLOORS, "errors", "__version__"}, "a name that lies nowhere"


def test_extras_are_reached_through_sets_and_doors_only():
    """Folders import only preceding ones, and extras is the last; so these are all other ways in."""
    found = {}
    for path in SOURCES:
        if floor_of(path) != "extras":
            words = named(node for node in ast.walk(tree(path)) if isinstance(node, ast.Constant))
            extras = {word.removeprefix("bert_tf.extras.") for word in words if word.startswith("bert_tf.extras.")}
            found |= {path.relative_to(PACKAGE).as_posix(): extras} if extras else {}
    assert found == DOORS
    assert {f"bert_tf.extras.{door}" for doors in DOORS.values() for door in doors} <= modules().keys()


def test_core_does_not_grow():
    """What is in extras does not count."""
    lines = [path.read_text(encoding="utf-8").count("\n") for path in SOURCES if floor_of(path) != "extras"]
    assert sum(lines) <= 60_600


@functools.cache
def modules():
    """{full name of a module: its path}."""
    names = (path.relative_to(ROOT).with_suffix("").parts for path in SOURCES)
    return {".".join(name).removesuffix(".__init__"): path for name, path in zip(names, SOURCES, strict=True)}


@functools.cache
def import_graph():
    """{module: modules that it imports}, without itself and the packages it lies in."""
    return {name: (imports(path) & modules().keys()) - {name, *parents(name)} for name, path in modules().items()}


def test_modules_import_each_other_in_no_circle():
    graph = import_graph()
    assert len(graph) > 300 and sum(map(len, graph.values())) > 1000
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


@pytest.mark.parametrize(
    ("module", "most"),
    [
        ("bert_tf.training.loop", 7_000),  # no tokenizer, no files of records, no teacher
        ("bert_tf.heads.classes", 6_500),
        ("bert_tf.cli.commands.predict", 19_600),
        ("bert_tf.api.bert", 26_200),  # no recipe
    ],
)
def test_what_a_module_pulls_in_does_not_grow(module, most):
    graph, found, new = import_graph(), set(), {module}
    while new:
        found |= new
        new = set().union(*map(graph.__getitem__, new)) - found
    assert sum(len(modules()[name].read_text(encoding="utf-8").splitlines()) for name in found) <= most


# Computed both by TensorFlow, in pipelines and functions on strings, and on the host: tests show that both are equal.
TWINS = {
    "composed": "order of combining marks",
    "decode": "tags of words",
    "max_context": "the window that answers for a token",
    "output_positions": "outputs that predict a masked token",
    "pack": "[CLS] a [SEP] b [SEP]",
    "read_records": "records of pre-training",
    "segment_windows": "windows over a text or a pair",
    "trimmed": "white space around tokens",
}
HOMONYMS = {"create", "find", "load", "merge", "normalize", "softmax", "write"}  # of other computations


def test_nothing_else_is_computed_by_tensorflow_and_on_the_host():
    """A function that exists under one name with and without TensorFlow is in the table."""
    graph, host = set(), set()
    for path in files_on("text", "data", "model", "training", "heads", "export", "serving"):
        for node in tree(path).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                is_graph = any(isinstance(each, ast.Name) and each.id == "tf" for each in ast.walk(node))
                (graph if is_graph else host).add(node.name)
    assert graph & host == TWINS.keys() | HOMONYMS


def test_errors_import_nothing_of_the_package():
    assert among(imports(PACKAGE / "errors.py"), "bert_tf") == []


def test_text_does_not_import_keras():
    assert violations(files_on("text", "data"), "keras", "tf_keras", "tensorflow.keras") == {}


def test_model_does_not_see_strings():
    assert violations(files_on("model"), "tensorflow_text", "tensorflow.strings", "tensorflow.data") == {}


def test_only_recipes_cli_and_extras_read_flags():
    readers = ("recipes", "cli", "extras")
    library = [path for path in SOURCES if floor_of(path) not in readers and path.name not in ABSL]
    assert violations(library, "absl.flags", "absl.app", "argparse") == {}


def test_only_backend_queries_devices():
    queries = ("list_physical_devices", "list_logical_devices", "get_device_details", "is_gpu_available")
    files = [path for path in SOURCES if any(query in path.read_text(encoding="utf-8") for query in queries)]
    assert files == [PACKAGE / "runtime" / "backend.py"]


def test_kinds_of_heads_are_compared_in_their_folder_alone():
    """Others ask the head, or name its class: `kind == Tags.kind`."""
    from bert_tf import heads

    kinds = set(heads.known())
    # Columns of tables, modules of export.host, parts of models and of the server's answers, entries of arrays: no
    # kinds of heads. And Keras' losses: models, below the heads, name them by their kinds.
    others = {
        "export/engine_network.py",
        "export/opening.py",
        "model/fitting.py",
        "model/layers.py",
        "reports/scoreboard.py",
        "runtime/head_records.py",
        "serving/openapi.py",
        "extras/features/feature_files.py",
    }
    found = {}
    for path in SOURCES:
        if floor_of(path) == "heads" or path.relative_to(PACKAGE).as_posix() in others:
            continue
        words = set()
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                sides = [each for side in sides for each in (side.elts if hasattr(side, "elts") else [side])]
                words |= set() if isinstance(node.ops[0], ast.In) and sides[1:] == node.comparators else named(sides)
            elif isinstance(node, ast.IfExp | ast.BoolOp):
                words |= named(node.values if isinstance(node, ast.BoolOp) else [node.body, node.orelse])
            elif isinstance(node, ast.Dict):
                keys = named(node.keys)
                words |= keys if len(keys & kinds) > 1 else set()
        if words & kinds:
            found[path.relative_to(PACKAGE).as_posix()] = words & kinds
    assert found == {}


def test_families_are_named_in_their_folder_alone():
    """Others ask for traits, or for what `about.py` says."""
    from bert_tf.config import encoder_traits

    families = set(encoder_traits.names()) - {"bert"}
    found = set()
    for path in SOURCES:
        imported = among(imports(path), *(f"bert_tf.families.{family}" for family in families))
        if floor_of(path) != "families" and (imported or families & named(ast.walk(tree(path)))):
            found.add(path.relative_to(PACKAGE).as_posix())
    assert found == set(NAMES_OF_FAMILIES)


def test_a_family_is_known_without_what_computes_it():
    """So configurations, which are below the families, may ask for its traits, without TensorFlow."""
    files = [path for path in files_on("families") if path.name != "layer.py"]
    forbidden = set(FLOORS) - {"runtime", "config", "families"}
    assert violations(files, *(f"bert_tf.{floor}" for floor in forbidden)) == {}
    assert violations(files, "bert_tf.families.base.layer", "tensorflow", "keras") == {}


def named(nodes):
    """The constants among nodes."""
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


JSON_READERS = ("runtime/json_files", "runtime/json_values", "training/early_stopping")


def test_json_is_read_in_one_place():
    """The others parse what this package wrote."""
    files = {path for path in SOURCES if re.search(r"json\.loads?\(", path.read_text(encoding="utf-8"))}
    assert files == {PACKAGE / f"{name}.py" for name in JSON_READERS}


def test_user_paths_are_handled_in_one_place():
    callers = set()
    for path in SOURCES:
        calls = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
        if LOCAL_ONLY & {ast.unparse(call.func) for call in calls}:
            callers.add(path.relative_to(PACKAGE).as_posix())
    assert callers == set(LOCAL_PATHS)


def test_nothing_imports_or_starts_the_scripts():
    names = [script.stem for script in SCRIPTS]
    assert violations(SOURCES, *names) == {}
    assert [path for path in SOURCES for name in names if f"-m {name}" in path.read_text(encoding="utf-8")] == []


def test_no_test_imports_a_test():
    tests = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    assert violations((ROOT / "tests").rglob("*.py"), *tests) == {}


def test_benchmarks_import_what_exists():
    names = set().union(*(among(imports(path), "bert_tf") for path in (ROOT / "benchmarks").rglob("*.py")))
    assert len(names) > 100 and [name for name in sorted(names) if not exists(name)] == []


def exists(name):
    """Returns whether there is a module of that full name, or an attribute of a module."""
    parent, _, attribute = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return hasattr(importlib.import_module(parent), attribute)
    return True


def test_tests_mirror_the_folders():
    folders = {path.relative_to(ROOT / "tests").parent for path in (ROOT / "tests").rglob("test_*.py")}
    known = {path.relative_to(PACKAGE).parent for path in SOURCES} | {pathlib.Path(), pathlib.Path("helpers")}
    assert folders <= known


COMMANDS_OF_EXTRAS = (PACKAGE / "extras" / "commands").glob("*.py")
ABOUT = PACKAGE.glob("families/*/about.py")
PATHS = [*files_on(*NO_TENSORFLOW), *sorted(COMMANDS_OF_EXTRAS), *sorted(ABOUT)]
MODULES = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in PATHS]
WITHOUT_TENSORFLOW = {  # code: what it prints
    "the package": ("import bert_tf, sys; assert 'bert_tf.model' not in sys.modules", ""),
    "folders for flags and files": (f"for name in {MODULES}: __import__(name)", ""),
    "configurations": (
        "from bert_tf.config.bert_config import BertConfig\n"
        "for encoder in ('bert', 'lstm', 'static'): BertConfig.of_size('tiny', vocab_size=9, encoder=encoder)",
        "",
    ),
    "the parser of all commands": ("from bert_tf.cli import main; main.parser()", ""),
    "help": (
        "from bert_tf.cli import main\ntry: main.main(['predict', '--help'])\nexcept SystemExit: pass",
        "EXPORT is the",
    ),
    "a missing folder": ("from bert_tf.cli import main; main.main(['predict', 'none', '--text=a'])", "no folder none"),
    "a missing checkpoint": (
        "import bert_tf\ntry: bert_tf.load('runs/none')\nexcept bert_tf.UserError as error: print(error)",
        "There is no checkpoint runs/none",
    ),
}


@pytest.mark.parametrize("what", WITHOUT_TENSORFLOW)
def test_tensorflow_is_not_loaded_by(what):
    code, printed = WITHOUT_TENSORFLOW[what]
    code += "\nimport sys; print('loaded:', {'tensorflow', 'keras', 'tensorflow_text'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.endswith("loaded: set()\n"), done.stdout + done.stderr
    assert printed in done.stdout + done.stderr and (printed or not done.stderr)


@each_source(SOURCES + SCRIPTS)
def test_modules_are_named_after_their_content_and_documented(path):
    assert path.stem not in VAGUE
    assert ast.get_docstring(tree(path)), "a file opens with a sentence on what it is"


def test_ci_runs_the_command_of_the_readme():
    command = 'pip install -e ".[dev]" && pytest'
    assert f"{command}\n" in (ROOT / "README.md").read_text(encoding="utf-8")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script and command in script and "ruff check ." in script and "\nmypy" in script
    assert '.[dev,all]"' in script  # for the tests of optional packages


def test_files_with_skipped_tests_are_listed_for_another_run(tmp_path):
    cases = '<testcase file="tests/a.py" name="one"/><testcase file="tests/a.py" name="two[x-1]"><skipped/></testcase>'
    (tmp_path / "tests.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    command = [sys.executable, ROOT / ".ci" / "skipped.py", tmp_path / "tests.xml"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "tests/a.py\n"


def test_editable_installations_are_a_path_that_type_checkers_follow_and_extras_have_one_spelling():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert declared["tool"]["setuptools"]["package-dir"] == {"": "."}  # without, setuptools writes an import hook
    extras = declared["project"]["optional-dependencies"]
    for extra in extras:
        assert extra == re.sub(r"[-_.]+", "-", extra).lower()  # as metadata have it; pip 23.2 compares letter by letter
    in_all = set(re.search(r"\[(.*)\]", extras["all"][0])[1].split(","))
    assert in_all == set(extras) - {"all", "dev", "docs", "serve", "tpu"}  # serve is empty, tpu another TensorFlow


def test_public_methods_are_documented_where_they_are_first_defined():
    classes = [node for path in SOURCES for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]
    bases, documented = {}, set()
    for node in classes:
        bases.setdefault(node.name, set()).update(ast.unparse(base).split(".")[-1] for base in node.bases)
        methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        documented |= {(node.name, each.name) for each in methods if ast.get_docstring(each)}

    def is_documented(name, method, seen=frozenset()):
        above = bases.get(name, set()) - seen
        return (name, method) in documented or any(is_documented(each, method, seen | above) for each in above)

    missing = [
        f"{node.name}.{each.name}"
        for node in classes
        for each in node.body
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
        if not node.name.startswith("_") and not is_documented(node.name, each.name)
    ]
    assert not missing
