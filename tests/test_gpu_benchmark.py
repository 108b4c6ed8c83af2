"""benchmarks/gpu.py if there is no GPU: it says so; and the tables that it writes."""

import importlib
import types
from pathlib import Path

import pytest
import warm

from bert_tf.config.options import fields_of
from bert_tf.recipes import finetune


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    return importlib.import_module("gpu")


def test_without_gpu_exits_with_2_and_explains():
    done = warm.run("benchmarks/gpu.py", "--work_dir=nowhere")
    assert done.returncode == 2 and "There is no GPU here; --device=cpu --tiny" in done.stderr


def test_table_has_contenders_times_and_longest_kernels(gpu):
    times = {"bert_tf": {"first_s": 80.0, "ms": [3.0, 1.0, 2.0]}}
    lines = gpu.table({"kernels": [("gemm", 1.5, 12.0)], **times, "floor_ms": 0.9}).splitlines()
    assert lines[0] == "Floor of the products at 800 TFLOP/s: 0.90 ms."
    assert "| bert_tf | 2.00 | 1.00 | 80.0 |" in lines and lines[-1] == "| `gemm` | 1.500 | 12 |"


def test_sentences_consist_of_tokens_of_the_vocabulary(gpu, tmp_path):
    table = tmp_path / "dev.tsv"
    table.write_text("sentence\tlabel\nA good film .\t1\nno\t0\n")
    for path, count in ((str(table), 3), (None, 5)):
        vocabulary, texts = gpu.gpu_scripts.sentences(path, count, 1000)
        assert len(set(vocabulary)) == len(vocabulary) == 1000 and vocabulary[:5] == gpu.gpu_scripts.SPECIAL
        assert len(texts) == count and set(" ".join(texts).split()) <= set(vocabulary)


@pytest.mark.parametrize("tiny", [False, True])
def test_scripts_are_run_with_flags_that_they_have(gpu, tmp_path, tiny):
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2" / "train.tsv").write_text("sentence\tlabel\n" + 64 * "a\t0\n")
    arguments = types.SimpleNamespace(device="gpu", tiny=tiny, glue_dir=str(tmp_path), init_checkpoint="minilm")
    runs = gpu.gpu_scripts.runs(arguments)
    assert list(runs) == [f"run_classifier {name}" for name in ("demonstration", "MRPC", "SST-2")]
    for flags in runs.values():
        names = [flag.removeprefix("--").partition("=")[0] for flag in flags]
        assert set(names) <= fields_of(finetune.Flags).keys() and len(set(names)) == len(names)
    if not tiny:
        assert "--num_train_epochs=500.0" in runs["run_classifier SST-2"], "a thousand steps of 32"


@pytest.mark.eager
@pytest.mark.parametrize("kind", ["fine_tune", "pretrain"])
def test_the_contender_of_this_package_trains(gpu, kind, monkeypatch):
    monkeypatch.syspath_prepend(Path(gpu.__file__).parent / "peers")
    contender = importlib.import_module("race_bert_tf")
    work = gpu.workload(kind, 2, 16, types.SimpleNamespace(repeats=1, device="cpu"))
    contender.worker({**work, "jit_compile": "false"}, "tiny", "float32")()


def test_result_of_a_script_is_a_table(gpu):
    result = {
        "command": "python run_classifier.py",
        "seconds": 9.0,
        "phases": {"train": 5.25},
        "tokens_per_second": 1e5,
    }
    lines = gpu.gpu_scripts.table({**result, "scores": {"f1": 0.5}}).splitlines()
    assert lines[-4:] == [
        "| whole process, s | 9.00 |",
        "| train, s | 5.25 |",
        "| tokens/s | 100,000.00 |",
        "| f1 | 0.50 |",
    ]
