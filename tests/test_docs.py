"""Runs the code of docs/adding_a_task.md, docs/adding_a_checkpoint_format.md and docs/keras.md."""

import dataclasses
import importlib
import json
import re
import sys

import keras
import numpy as np
import pytest
import tiny
from checkpoint_cases import PIECES, assert_covers_every_weight, assert_equal, checkpoint, cut_short
from head_cases import HEADS
from pages import DOCS, blocks

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.options import fields_of
from bert_tf.errors import UserError
from bert_tf.model import heads
from bert_tf.recipes.finetune import Flags
from bert_tf.tasks import catalog
from bert_tf.text.tokenizer import Tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxy"


@pytest.fixture
def headlines(tmp_path, monkeypatch):
    """A folder with the task of the page, outside the package, and the data of the page."""
    (source,), (lines,) = blocks("adding_a_task.md", "python"), blocks("adding_a_task.md", "json")
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab" / "sarcasm.py").write_text(source, encoding="utf-8")
    for split in ("train", "dev"):
        (tmp_path / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    unlabelled = [json.dumps({"headline": json.loads(line)["headline"]}) for line in lines.splitlines()]
    (tmp_path / "test.jsonl").write_text("\n".join(unlabelled), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "my_lab"]:
        del sys.modules[name]


def tokenizer():
    return Tokenizer([*tiny.SPECIAL, *LETTERS])


def create_task(folder):
    """The task on a folder, and the texts for a learned vocabulary."""
    vocabulary_texts = []

    def tokenizer_for(texts):
        vocabulary_texts.extend(texts())
        return tokenizer()

    options = Flags(data_dir=str(folder), max_seq_length=12)
    return catalog.get("my_lab.sarcasm/headlines")(options, tokenizer_for), vocabulary_texts


def test_page_of_flags_has_every_flag_of_every_command(monkeypatch):
    pytest.importorskip("mkdocs")
    monkeypatch.syspath_prepend(DOCS.parent)
    page = "\n".join(importlib.import_module("mkdocs_hooks").page())
    assert all(f">--{name}</code>" in page for name in fields_of(Flags))
    assert ">--allowed_origins</code>" in page and "## bert-tf push" in page and "|---|---|\n\n" not in page


def test_example_task_reads_predicts_and_scores(headlines):
    task, texts = create_task(headlines)
    assert len(texts) == 4 and texts[0].startswith("Nation thrilled")
    assert [example.label for example in task.split("dev").examples] == ["sarcastic", "serious"] * 2
    assert (task.split("dev").is_known, task.split("test").is_known) == (True, False)
    model = task.create_model(tiny.CONFIG)
    (batch,) = task.eval_batches(4, "dev")
    outputs = model(batch)
    assert {name: tuple(output.shape) for name, output in outputs.items()} == {"logits": (4, 2)}
    assert set(task.metrics(outputs, batch)) == {"cross_entropy", "accuracy"}
    predictions = {name: value.numpy() for name, value in task.predictions(outputs, batch).items()}
    assert set(task.scores(predictions, "dev")) == {"accuracy", "macro_f1"}
    assert next(iter(task.train_batches(3, 1)))["token_ids"].shape == (3, 12)
    assert set(task.signatures(model, tokenizer())) == {"serving_default"}


def test_example_task_reports_a_missing_file(headlines):
    task, _ = create_task(headlines)
    (headlines / "dev.jsonl").unlink()
    with pytest.raises(UserError, match="There is no dev in data_dir=.*; expected dev.jsonl there"):
        task.split("dev")


def test_flags_of_example_commands_exist():
    from bert_tf.cli import main

    (commands,) = blocks("adding_a_task.md", "bash")
    train, predict = commands.splitlines()
    assert set(re.findall(r"--(\w+)", train)) <= fields_of(Flags).keys()
    assert train.startswith("PYTHONPATH=. python run_classifier.py --task_name=my_lab.sarcasm/headlines ")
    arguments = main.parser().parse_args(["predict", "runs/sarcasm", "--text=Local"])
    assert predict.startswith("bert-tf predict runs/sarcasm --text=") and arguments.text == "Local"


def test_functions_named_on_the_page_exist():
    from bert_tf import heads
    from bert_tf.data import examples
    from bert_tf.training import metrics

    page = (DOCS / "adding_a_task.md").read_text(encoding="utf-8")
    for name in heads.text_kinds():
        assert f"| `{heads.get(name).__name__}(" in page
    assert callable(examples.read) and metrics.SCORES["macro_f1"]


def test_architecture_page_lists_folders_in_import_order():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    floors = re.search(r'^FLOORS = """([^"]*)"', (DOCS.parent / "tests/test_architecture.py").read_text(), re.MULTILINE)
    floors = floors[1].split()
    rows = re.findall(r"^\| `(\w+)/` \|.*\| ([\w ]*) ?\|$", page, re.MULTILINE)[: len(floors)]
    assert [name for name, _ in rows] == floors
    for number, (name, imports) in enumerate(rows):
        named = set(imports.split()) & set(floors)
        assert named <= set(floors[:number]), name


@pytest.fixture
def npz(tmp_path, monkeypatch):
    """The module of the example format, in a package outside of bert_tf."""
    (source,) = blocks("adding_a_checkpoint_format.md", "python")
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab" / "npz.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield "my_lab.npz"
    for name in ("my_lab.npz", "my_lab"):
        sys.modules.pop(name, None)


def test_example_format_round_trips(npz, tmp_path):
    assert_covers_every_weight(npz)
    folder = str(tmp_path / "model")
    assert formats.write(checkpoint(), folder, npz) == []
    assert [name for name in formats.names() if formats.load(name).recognizes(folder)] == []
    assert formats.load(npz).recognizes(folder)
    assert_equal(formats.read(folder, npz), checkpoint())
    for name in ("huggingface", "google_tf"):
        formats.write(formats.read(folder, npz), str(tmp_path / name), name)
        assert_equal(formats.read(str(tmp_path / name)), checkpoint())


def test_example_format_is_used_by_its_module_name(npz, tmp_path, capsys):
    from bert_tf import load
    from bert_tf.cli import main

    first, second, third = (str(tmp_path / name) for name in ("first", "second", "third"))
    formats.write(checkpoint(), first, "google_tf")
    assert main.main(["convert", first, second, f"--format={npz}"]) == 0
    assert f"Wrote 38 weights to {second} as my_lab.npz." in capsys.readouterr().out
    assert main.main(["convert", second, third, "--format=native", f"--source_format={npz}"]) == 0
    assert_equal(formats.read(third), checkpoint())
    assert len(load(second, npz).report.loaded) == 38
    assert main.main(["convert", first, str(tmp_path / "none"), "--format=my_lab.none"]) == 2
    assert "There is no format or engine 'my_lab.none'" in capsys.readouterr().err


def test_example_format_stores_heads_and_labels_and_reports_unsupported_weights(npz, tmp_path):
    make, labels = HEADS["classes"]
    arrays = {**tiny.random_weights(make()), "adapter/kernel": np.ones(3, np.float32)}
    checkpoint = Checkpoint(config=tiny.CONFIG, weights=arrays, labels=labels, kind="classes")
    assert formats.write(checkpoint, str(tmp_path / "model"), npz) == ["adapter/kernel"]
    assert formats.load(npz).labels(tmp_path / "model") == labels
    assert formats.read(tmp_path / "model", npz).weights.keys() == arrays.keys() - {"adapter/kernel"}


def test_example_format_rejects_damaged_file_in_one_sentence(npz, tmp_path):
    formats.write(checkpoint(), str(tmp_path / "model"), npz)
    cut_short(tmp_path / "model" / "weights.npz")
    with pytest.raises(UserError, match="weights.npz cannot be read .*fetch it again"):
        formats.read(tmp_path / "model", npz)


PRINTED = {  # page: what its code prints
    "keras.md": [
        "True",
        "(2, 2)",
        "True",
        "(2, 16) (2, 32, 16) 3",
        "True",
        "True",
        "True",
        "<dtype: 'bfloat16'> float32",
        "['loss', 'mood_accuracy', 'mood_loss', 'stars_loss']",
    ],
    "coming_from.md": ["(16, 2) True", "True", "(2, 1)"],
}


@pytest.mark.slow
@pytest.mark.parametrize("page", PRINTED)
def test_code_on_the_pages_of_keras_runs(page, tmp_path, monkeypatch, capsys):
    config = dataclasses.replace(tiny.CONFIG, max_position_embeddings=128)
    arrays = tiny.random_weights(heads.Pretrainer(config))
    (tmp_path / "runs").mkdir()
    stored = Checkpoint(config=config, weights=arrays, vocabulary=PIECES, lower_case=True)
    formats.write(stored, tmp_path / "runs/pretraining", "native")
    monkeypatch.chdir(tmp_path)
    policy = keras.mixed_precision.dtype_policy()
    try:
        exec("\n".join(blocks(page, "python")), {"__name__": "program"})
    finally:
        keras.mixed_precision.set_dtype_policy(policy)
    printed = [line for line in capsys.readouterr().out.splitlines() if re.match(r"[([<]|True|False", line)]
    assert printed == PRINTED[page]
