"""Files never name code: no module from outside the package is imported, unless the call names it or trusts files."""

import dataclasses
import importlib
import json
import shutil
import sys

import checkpoint_cases
import faults
import keras
import pytest
import tiny

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.cli import main
from bert_tf.config.bert_config import BertConfig
from bert_tf.data import tfds_datasets
from bert_tf.errors import UserError
from bert_tf.export import engines
from bert_tf.model import heads
from bert_tf.recipes import finetune, recorded_run
from bert_tf.runtime import plugins

MODULE = "evil.payload"
CODE = "TASKS = {}\nTRAITS = {}\n"


@pytest.fixture(autouse=True)
def evil(tmp_path, monkeypatch):
    """A package in the working folder, which is on Python's path, as with `python -m bert_tf`."""
    (tmp_path / "evil").mkdir()
    for name in ("__init__", "payload"):
        (tmp_path / "evil" / f"{name}.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("evil", MODULE):
        sys.modules.pop(name, None)


def was_imported():
    return bool({"evil", MODULE} & set(sys.modules))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A small checkpoint with a head."""
    folder = tmp_path_factory.mktemp("good") / "model"
    return checkpoint_cases.write(folder, heads.Classifier(tiny.CONFIG, 2), ["a", "b"], "classes")


def write_json(path, **values):
    """Changes some values of a JSON file; returns its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(before | values))
    return path.parent


def native(folder):
    """A checkpoint whose bert_config.json names the module."""
    write_json(folder / "bert_config.json", **tiny.CONFIG.to_dict() | {"encoder": MODULE})
    (folder / "model.safetensors").write_bytes(b"")
    return folder


def of_run(folder, **recorded):
    """A run whose flags name code."""
    if not folder.exists():
        write_json(folder / "bert_config.json", **tiny.CONFIG.to_dict())
        (folder / "model.safetensors").write_bytes(b"")
    return write_json(folder / "run.json", name=recorded.get("task_name", "table"), flags=recorded)


def of_export(folder):
    """An export, as far as it is read as a checkpoint."""
    (folder / "saved_model.pb").parent.mkdir()
    (folder / "saved_model.pb").write_bytes(b"")
    native(folder / "assets.extra")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["extract", "{0}", "--text=x"],
        ["convert", "{0}", "out", "--format=native"],
        ["index", "texts.txt", "index", "--model={0}"],
        ["serve", "{0}"],
    ],
)
def test_commands_do_not_import_an_encoder_that_a_file_names(evil, capsys, words):
    folder = native(evil / "model")
    (evil / "texts.txt").write_text("a\nb\n")
    assert main.main([word.format(folder) for word in words]) == 2
    error = capsys.readouterr().err
    assert "bert_config.json" in error and MODULE in error and "--trust_code" in error or words[0] == "serve"
    assert not was_imported()


@pytest.mark.parametrize(
    "read",
    [
        lambda folder: bert_tf.load(native(folder)),
        lambda folder: bert_tf.load(native(folder), "native"),
        lambda folder: bert_tf.load(of_export(folder)),
        lambda folder: BertConfig.from_json_file(native(folder) / "bert_config.json"),
        lambda folder: heads.Classifier.from_config(
            {"name": "a", "dtype": "float32", "config": tiny.CONFIG.to_dict() | {"encoder": MODULE}, "size": 2}
        ),
        lambda folder: recorded_run.read(of_run(folder, task_name=f"{MODULE}/x")),
        lambda folder: recorded_run.read(of_run(folder, task_name="table", label_type=MODULE)),
        lambda folder: recorded_run.read(of_run(folder, task_name="table", criterion=f"{MODULE}:f")),
        lambda folder: recorded_run.read(of_run(folder, task_name="table", criterion="evil:f")),
        lambda folder: recorded_run.read(of_run(folder, task_name="table", optimizer=MODULE)),
        lambda folder: recorded_run.read(of_run(folder, task_name="table", encoder=MODULE)),
        lambda folder: bert_tf.fine_tune(
            [("a", "x"), ("b", "y")] * 9, output_dir=folder / "run", init_checkpoint=native(folder / "model")
        ),
        lambda folder: bert_tf.fine_tune(
            [("a", "x"), ("b", "y")] * 9,
            output_dir=folder / "run",
            bert_config_file=native(folder) / "bert_config.json",
        ),
    ],
)
def test_files_that_name_code_are_refused(evil, read):
    with pytest.raises(UserError, match="names code outside of this package, the module evil"):
        read(evil / "model")
    assert not was_imported()


@pytest.mark.parametrize("name", [MODULE, "evil.payload.x", "os.path", "evil"])
def test_engine_of_a_folder_is_one_of_the_package(evil, name):
    with pytest.raises(UserError, match="contains no model for"):
        engines.load(write_json(evil / "model" / "about.json", engine=name))
    assert not was_imported()


def test_kind_of_a_head_is_no_code(evil, classifier, capsys):
    about = {"task": "table", "labels": ["a", "b"], "kind": MODULE}
    folder = write_json(evil / "export" / "about.json", **about)
    (folder / "saved_model.pb").write_bytes(b"")
    (evil / "t.csv").write_text("text,label\na,a\n")
    assert main.main(["evaluate", str(folder), "--file=t.csv"]) == 2
    assert "about.json names code outside of this package, the module evil.payload" in capsys.readouterr().err
    checkpoint = formats.read(classifier)
    formats.write(dataclasses.replace(checkpoint, kind=MODULE), evil / "model", "native")
    with pytest.raises(UserError, match="names code outside of this package, the module evil.payload"):
        bert_tf.load(evil / "model").predict("a")
    assert not was_imported()


@pytest.mark.parametrize(
    "features",
    [
        {"pythonClassName": f"{MODULE}.Image"},
        {"type": "evil.Image", "content": {}},
        {
            "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
            "featuresDict": {"features": {"type": {"pythonClassName": f"{MODULE}.Image"}}},
        },
        {
            "pythonClassName": "tensorflow_datasets.core.features.sequence_feature.Sequence",
            "json": json.dumps({"feature": {"type": f"{MODULE}.Image", "content": {}}}),
        },
    ],
)
@pytest.mark.parametrize("name", ["evil_set", "evil_set:1.0.0", "EvilSet", "evil_set/a"])
def test_features_of_a_dataset_are_of_its_package(evil, features, name):
    pytest.importorskip("tensorflow_datasets")
    folder = evil / "data" / "evil_set" / ("a/1.0.0" if "/" in name else "1.0.0")
    write_json(folder / "features.json", **features)
    write_json(folder / "dataset_info.json", name="evil_set", version="1.0.0")
    with pytest.raises(UserError, match="features.json names code outside of this package, the module evil"):
        tfds_datasets.split_names(name, str(evil / "data"))
    assert not was_imported()


def test_keras_file_takes_an_encoder_that_the_program_imported(evil, monkeypatch):
    config = {"name": "a", "dtype": "float32", "config": tiny.CONFIG.to_dict() | {"encoder": MODULE}, "size": 2}
    model = heads.Classifier(tiny.CONFIG, 2)
    assert heads.Classifier.from_config(model.get_config()).config == tiny.CONFIG
    monkeypatch.setitem(sys.modules, MODULE, sys.modules["bert_tf.families.bert.layer"])
    made = keras.saving.deserialize_keras_object(
        {"module": None, "class_name": "Classifier", "config": config, "registered_name": "bert_tf>Classifier"}
    )
    assert made.config.encoder == MODULE and made.encoder


def test_flags_of_the_call_name_code(evil, classifier):
    (evil / "evil" / "payload.py").write_text('TASKS = {"y": None}\nTRAITS = {}\n')
    source = native(evil / "model") / "bert_config.json"
    with finetune.Flags.of_program({"encoder": MODULE}).trusting():
        assert BertConfig.from_json_file(source).encoder == MODULE
    shutil.copytree(classifier, evil / "run")
    with finetune.Flags.of_program({"task_name": f"{MODULE}/x"}).trusting():
        with pytest.raises(UserError, match="There is no task 'evil.payload/x'. Known: y."):
            recorded_run.read(of_run(evil / "run", task_name=f"{MODULE}/x"))
        assert was_imported()
    with finetune.Flags.of_program({"init_checkpoint": MODULE}).trusting(), pytest.raises(UserError, match="code"):
        BertConfig.from_json_file(source)  # a path names no code
    with pytest.raises(UserError, match="names code"):
        BertConfig.from_json_file(source)  # nor does an earlier call


@pytest.mark.parametrize("trust", [{"trust_code": True}, {"trust_code": False}])
def test_trust_is_given_for_one_call(evil, trust):
    folder = native(evil / "model")
    expected = "cannot be read|damaged|safetensors" if trust["trust_code"] else "names code outside"
    for _ in range(2):
        with pytest.raises(UserError, match=expected):
            bert_tf.load(folder, **trust)
    with finetune.Flags.of_program(trust).trusting():
        if trust["trust_code"]:
            assert BertConfig.from_json_file(folder / "bert_config.json").encoder == MODULE
    with pytest.raises(UserError, match="names code outside"):
        bert_tf.load(folder)


def test_trusted_encoder_works_from_a_folder(evil, classifier):
    (evil / "evil" / "payload.py").write_text("from bert_tf.families.bert.layer import BertEncoder as Encoder\n")
    checkpoint = formats.read(classifier)
    config = dataclasses.replace(checkpoint.config, encoder=MODULE)  # an argument of this program
    formats.write(dataclasses.replace(checkpoint, config=config), evil / "model", "native")
    with pytest.raises(UserError, match="bert_config.json names code outside of this package, the module evil.payload"):
        bert_tf.load(evil / "model")
    model = bert_tf.load(evil / "model", trust_code=True)
    assert model.predict("a").probabilities == pytest.approx(bert_tf.load(classifier).predict("a").probabilities)


@pytest.mark.parametrize("name", ["a/b.c", "a:b.c", "..x.y", "x..y", ".x", "x.", "x.y-z", "x.y z"])
def test_names_that_are_no_modules_are_not_looked_for(name):
    looked = AssertionError("It is looked for.")
    with faults.on_call(importlib, "import_module", looked), faults.on_call(importlib.util, "find_spec", looked):
        assert plugins.import_outside(name) is None and plugins.find_outside(name) is None
