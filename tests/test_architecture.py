"""Imports go one way, few files read flags, TensorFlow is loaded only where it is needed: read from the sources."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bert_tf"
SOURCES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted(ROOT.glob("run_*.py"))

# Folders whose files stand on sides of their own; in the others a new file stands where the folder does.
FAMILIES = {"tokenization", "pretraining", "sentences", "squad", "tags", "vectors", "reports", "finetuning", "studies"}
# Where each module of bert_tf stands.
SIDES = {
    "ground": "cluster compiled config errors folder_lock memory process progress quiet saved_steps vector_choice "
    "whole_files",
    "text": "characters normalizer double_array wordpiece text vocabulary text_layout python_manual corpus buckets "
    "pairs shards workers statistics records masking pipeline tables examples prepared_datasets windows asked "
    "questions manual_questions question_windows original_alignment tag_schemes conll_files tag_windows "
    "feature_windows",
    "model": "gradients layers packing recurrence encoder encoders models network weights features scalar_mix "
    "bilstm_tagger",
    "means": "optimizers distribute precision metrics squad_scores entity_scores",
    "task": "task",
    "formats": "torch_pickle checkpoint_files sentence_vectors checkpoints new_vocabulary new_positions "
    "pretrained engine_trial engines",
    "tasks": "mask_filling goals text_lengths splits classification predictions spans question_splits answering "
    "squad_files marked_answers tag_splits tag_serving tagging feature_tables feature_files extraction feature_cache "
    "feature_tagging attention tasks",
    "loop": "learner train selection train_state run_folder export exported",
    "report": "published curves scoreboard report comparison",
    "edge": "flags device_flags fine_tuning_flags preparation starting_point fine_tuning fine_tuning_run sweep "
    "ablations ablation_plan ablation ablation_tables ablation_picture finished_run scored_export serving commands "
    "__init__",
}
SIDE_OF = {module: side for side, modules in SIDES.items() for module in modules.split()}
# What each side may import, beside itself.
MAY_IMPORT = {
    "ground": set(),
    "text": {"ground"},  # never keras
    "model": {"ground"},  # never strings, files or tf.data
    "means": {"ground"},
    "task": set(),  # types only
    "formats": {"ground", "text", "model"},  # with tasks the only place where text and model meet
    "tasks": {"ground", "text", "model", "means", "task"},
    "loop": {"ground", "model", "means", "task"},  # knows Task, never a particular task
    "report": {"ground"},
    "edge": set(SIDES) - {"edge"},
}
# Modules that flags are checked with, that worker processes load, or that only read files.
NO_TENSORFLOW = (
    "config errors memory process progress tokenization.characters vocabulary text_layout python_manual corpus "
    "pretraining.buckets pretraining.pairs pretraining.statistics pretraining.records pretraining.workers "
    "reports.curves reports.report flags pretraining.preparation starting_point finetuning.fine_tuning "
    "finetuning.sweep run_folder task sentences.tables sentences.examples sentences.prepared_datasets metrics "
    "sentences.predictions whole_files saved_steps asked exported reports.scoreboard checkpoints checkpoint_files "
    "engines device_flags commands commands.convert commands.predict commands.extract commands.evaluate "
    "commands.export commands.report reports.published reports.comparison vectors.vector_choice "
    "vectors.feature_files vectors.feature_tables squad.squad_scores squad.squad_files squad.questions "
    "squad.marked_answers"
).split()
VAGUE = {"utils", "util", "helpers", "helper", "misc", "base", "common"}


def module_of(path):
    """bert_tf/tasks/glue.py -> "tasks"; bert_tf/text.py -> "text"; bert_tf/squad/spans.py -> "spans"."""
    return _module(path.relative_to(PACKAGE).with_suffix("").parts)


def _module(parts):
    return parts[1] if parts[0] in FAMILIES and len(parts) > 1 else parts[0]


def imports_of(source):
    """Full names of all a source imports, within functions too: `from bert_tf import text` is "bert_tf.text"."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the package, so that this test can read them"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def imports(path):
    return imports_of(path.read_text(encoding="utf-8"))


def among(names, *packages):
    """Those names that are one of the packages or lie in it."""
    return sorted(name for name in names if any(f"{name}.".startswith(f"{package}.") for package in packages))


def on_side(*sides):
    """The sources on these sides; without one a test would say nothing."""
    found = [path for path in SOURCES if SIDE_OF.get(module_of(path)) in sides]
    assert found
    return found


def violations(paths, *forbidden):
    """{file: what it imports though it must not}."""
    found = {str(path.relative_to(ROOT)): among(imports(path), *forbidden) for path in paths}
    return {path: names for path, names in found.items() if names}


def each_source(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: str(path.relative_to(ROOT)))


def test_the_reader_of_imports_sees_those_inside_functions_too():
    source = "import a.b\nfrom bert_tf import text\ndef f():\n    from d.e import g\n"
    assert imports_of(source) == {"a.b", "bert_tf", "bert_tf.text", "d.e", "d.e.g"}
    assert among({"a", "a.b", "ab", "b.a"}, "a") == ["a", "a.b"]
    assert [module_of(PACKAGE / path) for path in ("text.py", "tasks/glue.py", "squad/spans.py")] == [
        "text",
        "tasks",
        "spans",
    ]


def test_every_module_has_a_side():
    modules = {module_of(path) for path in SOURCES}
    assert modules - set(SIDE_OF) == set(), "say in SIDES where these stand"
    assert set(SIDE_OF) - modules == set(), "SIDES names modules that are gone"


@each_source(SOURCES)
def test_imports_go_one_way(path):
    side = SIDE_OF[module_of(path)]
    imported = {_module(name.split(".")[1:]) for name in among(imports(path), "bert_tf") if "." in name}
    found = {module: SIDE_OF[module] for module in imported & set(SIDE_OF)}
    assert {module: where for module, where in found.items() if where not in MAY_IMPORT[side] | {side}} == {}


def test_the_text_side_never_imports_keras():
    assert violations(on_side("text"), "keras", "tf_keras", "tensorflow.keras") == {}


def test_the_model_side_never_sees_strings():
    assert violations(on_side("model", "means"), "tensorflow_text", "tensorflow.strings", "tensorflow.data") == {}


def test_only_scripts_commands_and_flags_read_flags():
    library = [path for path in SOURCES if module_of(path) not in ("flags", "commands")]
    assert violations(library, "absl.flags", "absl.app", "argparse") == {}
    assert violations(library, *(script.stem for script in SCRIPTS)) == {}


def test_what_needs_no_tensorflow_does_not_load_it():
    code = f"import sys\nfor name in {NO_TENSORFLOW}: __import__('bert_tf.' + name)\n"
    code += "print(sorted({'tensorflow', 'keras', 'tensorflow_text'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@each_source(SOURCES + SCRIPTS)
def test_a_file_is_called_after_what_it_holds_and_says_so_first(path):
    assert path.stem not in VAGUE
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), "a file opens with a sentence on what it is"


def test_continuous_integration_runs_the_command_of_the_readme():
    command = 'pip install -e ".[dev]" && pytest'
    assert f"{command}\n" in (ROOT / "README.md").read_text(encoding="utf-8")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script and command in script and "ruff check ." in script
