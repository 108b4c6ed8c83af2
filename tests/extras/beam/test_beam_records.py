"""Records made by Apache Beam are those made on one machine, byte for byte."""

import importlib
import json
import os
import pathlib
import random

import pytest
import tiny

from bert_tf.cli import main
from bert_tf.data.pretraining.records import RecordOptions, prepare
from bert_tf.data.pretraining.workers import IN_THIS_PROCESS
from bert_tf.errors import UserError
from bert_tf.extras.beam import beam_runner

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORDS = ["rain", "gold", "star", "he", "left", "rose", "cold", "fire", "pool", "road", "##s", "##ed", ".", "!", ","]


@pytest.fixture(scope="module")
def input_file(tmp_path_factory):
    """120 documents, ten of them twice, in a file that is divided and two small ones; vocab.txt beside them."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "vocab.txt").write_text("\n".join([*tiny.SPECIAL, *WORDS]) + "\n")
    generator = random.Random(0)
    documents = [
        "".join(" ".join(generator.choices(WORDS[:10], k=7)) + ".\n" for _ in range(generator.randint(1, 9)))
        for _ in range(120)
    ]
    for name, chosen in (("a.txt", documents[:90]), ("b.txt", documents[90:91]), ("c.txt", documents[80:])):
        (folder / name).write_text("\n".join(chosen))
    return folder


@pytest.fixture
def make(input_file, tmp_path, small_parts):
    """make(name, changed options, **settings) -> {file: bytes} of the folder."""

    def make(name, changes=(), **settings):
        values = {"vocab_file": str(input_file / "vocab.txt"), "max_seq_length": 32, "dupe_factor": 2}
        options = RecordOptions(**values | dict(changes))
        patterns = ",".join(str(input_file / each) for each in ("a.txt", "b.txt", "c.txt"))
        prepare(tmp_path / name, options, input_file=patterns, **settings)
        return {path.name: path.read_bytes() for path in sorted((tmp_path / name).iterdir())}

    return make


WITHOUT_DUPLICATES = {"duplicates": "near", "duplicate_sentences": True}


@pytest.mark.parametrize("changes", [{}, WITHOUT_DUPLICATES])
def test_direct_runner_makes_the_same_bytes(make, changes):
    pytest.importorskip("apache_beam", reason="pip install 'bert-tf[beam]'")
    local = make("local", changes, num_workers=IN_THIS_PROCESS)
    assert len(local) > 6
    assert make("beam", changes, runner="DirectRunner") == local


def test_documents_that_come_twice_are_dropped(make):
    statistics = [
        json.loads(make(str(number), changes, num_workers=IN_THIS_PROCESS)["manifest.json"])["statistics"]
        for number, changes in enumerate([{}, {"duplicates": "documents"}, WITHOUT_DUPLICATES])
    ]
    assert [sum(each[split]["documents"] for split in each) for each in statistics[:2]] == [131, 120]
    assert statistics[1]["train"]["duplicate_sentences"] < statistics[0]["train"]["duplicate_sentences"]
    assert sum(statistics[2][split]["duplicate_sentences"] for split in ("train", "eval")) == 0


def test_vocabulary_of_all_parts_is_that_of_the_text(input_file, tmp_path, small_parts):
    pytest.importorskip("apache_beam", reason="pip install 'bert-tf[beam]'")
    command = ["vocabulary", str(input_file / "a.txt"), "--vocab_size=60"]
    assert main.main([*command, str(tmp_path / "local.txt")]) == 0
    assert main.main([*command, str(tmp_path / "beam.txt"), "--runner=DirectRunner"]) == 0
    assert (tmp_path / "beam.txt").read_bytes() == (tmp_path / "local.txt").read_bytes()


@pytest.mark.parametrize("runner, num_workers", [("DirectRunner", 2), ("DaskRunner", 0)])
def test_several_processes_make_the_same_bytes(make, monkeypatch, runner, num_workers):
    pytest.importorskip("apache_beam", reason="pip install 'bert-tf[beam]'")
    if runner == "DaskRunner":
        pytest.importorskip("distributed", reason="pip install 'dask[distributed]'")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    assert make("beam", runner=runner, num_workers=num_workers) == make("local", num_workers=IN_THIS_PROCESS)


@pytest.mark.parametrize(
    "runner, installed, message",
    [
        ("Airflow", {"apache_beam"}, "runner=Airflow: expected one of DirectRunner"),
        ("DirectRunner", set(), r"DirectRunner needs the package apache-beam: pip install 'bert-tf\[beam\]'"),
        ("DaskRunner", {"apache_beam"}, "DaskRunner needs the package distributed"),
        ("DataflowRunner", {"apache_beam"}, r"DataflowRunner needs Google's packages: .*apache-beam\[gcp\]"),
        ("FlinkRunner", {"apache_beam"}, "FlinkRunner needs Java, which is not installed, or a cluster"),
    ],
)
def test_missing_runners_are_named(monkeypatch, runner, installed, message):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in installed else None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=message):
        beam_runner.check(runner)
