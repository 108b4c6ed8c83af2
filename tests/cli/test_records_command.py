"""`bert-tf records`: the folder that it writes, the estimate before it, and damaged input."""

import json

import pytest
import tiny

from bert_tf.cli import main

WORDS = "rain gold star he left rose".split()


@pytest.fixture
def texts(tmp_path):
    vocabulary = [*tiny.SPECIAL, *WORDS, "."]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    lines = [json.dumps({"text": f"He {word}. Rain left {word}." * 9}) for word in WORDS * 9]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(texts, capsys, *flags):
    command = ["records", str(texts / "a.jsonl"), str(texts / "out"), f"--vocab_file={texts}/vocab.txt", "--json"]
    code = main.main([*command, "--num_workers=1", "--max_seq_length=32", "--dupe_factor=2", *flags])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else captured.err


def test_estimate_is_close_to_the_records(texts, capsys):
    code, estimate = run(texts, capsys, "--dry_run", "--eval_fraction=0")
    assert code == 0 and not (texts / "out").exists()
    code, written = run(texts, capsys, "--eval_fraction=0")
    statistics = written["statistics"]["train"]
    assert code == 0
    for name, value in (("documents", "documents"), ("instances", "instances"), ("records_bytes", "bytes")):
        assert estimate[name] == pytest.approx(statistics[value], rel=0.4), name  # JSON counts as text here
    assert estimate["files"] == estimate["shards"] == 1
    assert 0 < estimate["core_hours"] < 0.01


def test_damaged_lines_are_refused_or_listed(texts, capsys):
    with open(texts / "a.jsonl", "a") as file:
        file.write('{"text"\n')
    code, error = run(texts, capsys)
    assert code == 2 and "a.jsonl line 55 is not JSON" in error and error.count("\n") == 1
    code, written = run(texts, capsys, "--skip_damaged=true")
    assert code == 0
    assert any("a.jsonl line 55" in warning and "One document is lost" in warning for warning in written["warnings"])
    assert sum(written["statistics"][split]["documents"] for split in ("train", "eval")) == 54


def test_missing_engine_is_named(texts, capsys):
    code, error = run(texts, capsys, "--runner=Airflow")
    assert code == 2 and error.startswith("bert-tf: --runner=Airflow: expected one of DirectRunner, DaskRunner")
    assert not (texts / "out").exists()
