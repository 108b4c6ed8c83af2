"""Every script of benchmarks/ runs on tiny inputs as its first lines describe; those that need more show --help."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import checkpoint_cases
import pytest
import tiny

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.model import heads

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "benchmarks"
ENGINE = "openvino_int8" if importlib.util.find_spec("nncf") else "onnx_int8"
RACE = "--vocab_file=vocab.txt --sentences=dev.tsv --work_dir=work --size=tiny --rounds=1"
RUNS = {  # script: arguments, and what it prints
    "encoder.py": (f"{RACE} --works=sentences --peers=engine:{ENGINE}", f"engine:{ENGINE}"),
    "training_step.py": (f"{RACE} --works=real_lengths --peers=", "bert_tf"),
    "gpu.py": ("--work_dir=work --device=cpu --tiny --rounds=1 --repeats=1 --only=pool", "bert_tf again"),
    "time_by_op.py": ("--size=tiny --work=single --precision=float32", "MatMul"),
    "host_tokenizers.py": ("--kinds=uncased --random=100", "| uncased |"),
    "records.py": ("--input_file=texts.txt --vocab_file=vocab.txt --num_workers=1 --max_seq_length=32", "instances"),
    "retrieval.py": ("--model={folder}/model --squad={folder}/squad.json --questions=2", "| hybrid, float32 |"),
    "small_tables.py": ("table cells.jsonl", "tf_idf"),
    "calibration.py": ("table calibration.jsonl", "| SST-2 | 8 | 1 | 0.500 |"),
    "few_examples.py": ("table few.jsonl", "| tags | 100 | 50.0 |"),
    "own_text.py": ("table own.jsonl", "| novels | 0.4 | 2 | tiny | 5.95 (+0.35) |"),
    "attack/properties.py": ("--examples=5 --readers=table.csv", "table.csv"),
}
MORE = {  # script: what it needs
    "embedding_servers.py": "servers that run already",
    "glue_reproduction.py": "transformers",
    "glue_steps.py": "transformers",
    "huggingface_roundtrip.py": "transformers",
    "ner_reproduction.py": "transformers",
    "parity.py": "recorded outputs of published weights",
    "programs.py": "JAX",
    "sentence_transformers_roundtrip.py": "sentence-transformers",
    "squad_reproduction.py": "transformers",
    "sts_training.py": "sentence-transformers",
    "tokenizer.py": "minutes",
    "serve.py": "an export and minutes",
    "start_up.py": "an export and minutes",
    "attack/fuzz.py": "atheris",
    "attack/kills.py": "minutes",
    "attack/server_memory.py": "minutes",
    "attack/workers.py": "minutes",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A vocabulary, texts, tables, questions and a checkpoint."""
    folder = tmp_path_factory.mktemp("benchmarks")
    words = "the fox ran over a hill and dog sleeps in sun".split()
    (folder / "vocab.txt").write_text("\n".join([*checkpoint_cases.PIECES, *words, "."]) + "\n")
    sentences = ["the fox ran .", "a dog sleeps in the sun .", "the dog ran over the hill .", "a fox and a dog ."] * 8
    (folder / "texts.txt").write_text("\n\n".join("\n".join(sentences) for _ in range(4)) + "\n")
    (folder / "dev.tsv").write_text("sentence\tlabel\n" + "".join(f"{each}\t1\n" for each in sentences))
    questions = [{"id": "a", "question": "who ran ?", "answers": [{"text": "fox", "answer_start": 4}]}]
    paragraphs = [{"context": context, "qas": questions} for context in sentences[:3]]
    (folder / "squad.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    cell = {"system": "tf_idf", "set": "SST-2", "rows": 8, "seed": 0, "score": 0.5, "cpu_seconds": 1}
    (folder / "cells.jsonl").write_text(json.dumps(cell) + "\n")
    errors = {f"{score}_{name}": 0.1 for score in ("error", "brier") for name in ("with", "without")}
    cell = {"set": "SST-2", "rows": 8, "seed": 0, "accuracy": 0.5, "temperature": 2.0, **errors}
    (folder / "calibration.jsonl").write_text(json.dumps(cell) + "\n")
    cell = {"system": "bert_tf", "kind": "tags", "examples": 100, "seed": 0, "score": 0.5}
    (folder / "few.jsonl").write_text(json.dumps(cell) + "\n")
    cell = {"corpus": "novels", "megabytes": 0.4, "recipe": "default", "minutes": 2.0, "model_size": "tiny"}
    (folder / "own.jsonl").write_text(json.dumps(cell | {"loss": 5.947, "unigram": 6.296}) + "\n")
    values = {"config": tiny.CONFIG, "vocabulary": checkpoint_cases.PIECES, "lower_case": True}
    weights = tiny.random_weights(heads.BertModel(tiny.CONFIG))
    formats.write(Checkpoint(weights=weights, **values), str(folder / "model"), "huggingface")
    return folder


def run(script, arguments, folder):
    command = [sys.executable, SCRIPTS / script, *arguments.format(folder=folder).split()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300, check=False
    )


def test_every_script_is_listed():
    sources = {path.relative_to(SCRIPTS).as_posix(): path.read_text() for path in SCRIPTS.rglob("*.py")}
    found = {name for name, source in sources.items() if "add_argument(" in source or "race.run(" in source}
    shared = {"race.py", "reproduction.py"}  # with flags of several scripts
    assert {name for name in found if not name.startswith("peers/")} - shared == {*RUNS, *MORE}


@pytest.mark.slow
@pytest.mark.parametrize("script", RUNS)
def test_script_runs_on_tiny_inputs(script, folder):
    before = (SCRIPTS / "README.md").read_bytes()
    arguments, printed = RUNS[script]
    done = run(script, arguments, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed in done.stdout
    assert (SCRIPTS / "README.md").read_bytes() == before, "tiny models are not measured"


@pytest.mark.slow
@pytest.mark.parametrize("script", MORE)
def test_script_that_needs_more_shows_its_help(script, folder):
    done = run(script, "--help", folder)
    assert done.returncode == 0, done.stderr
    assert f"usage: {Path(script).name}" in done.stdout
