"""benchmarks/gpu.py where there is no GPU: it says so; and the tables that it writes."""

import importlib
import sys
from pathlib import Path

import pytest


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    return importlib.import_module("gpu")


def test_without_gpu_exits_with_2_and_explains(gpu, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "has_gpu", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--work_dir=nowhere"])
    assert gpu.main() == 2
    assert "There is no GPU here; --device=cpu --tiny" in capsys.readouterr().err


def test_table_has_contenders_times_and_longest_kernels(gpu):
    times = {"bert_tf": {"first_s": 80.0, "ms": [3.0, 1.0, 2.0]}}
    lines = gpu.table({"kernels": [("gemm", 1.5, 12.0)], **times, "floor_ms": 0.9}).splitlines()
    assert lines[0] == "Floor of the products at 800 TFLOP/s: 0.90 ms."
    assert "| bert_tf | 2.00 | 1.00 | 80.0 |" in lines and lines[-1] == "| `gemm` | 1.500 | 12 |"
