"""What the driver of GPUs says of them, and XLA's cache for them, on machines that need not exist."""

import os
import subprocess
import sys

import pytest

from bert_tf.errors import UserError
from bert_tf.runtime import accelerators

H100 = "NVIDIA H100 80GB HBM3, 550.54.15, 9.0, 81559, 80994"
T4 = "Tesla T4, 470.82.01, 7.5, 15360, 15000"
SHARED = "NVIDIA GB10, 580.95.05, 12.1, [N/A], [N/A]"


@pytest.fixture
def machine(monkeypatch):
    """Pretends that nvidia-smi prints these lines; None: it is not there."""

    def pretend(*lines, code=0, visible=None):
        def run(*_, **options):
            if lines == (None,):
                raise FileNotFoundError("nvidia-smi")
            return subprocess.CompletedProcess([], code, "\n".join(lines) + "\n", "")

        accelerators.gpus.cache_clear()
        monkeypatch.setattr(subprocess, "run", run)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    yield pretend
    accelerators.gpus.cache_clear()


@pytest.mark.parametrize(
    "lines, options, names",
    [
        ((H100, T4), {}, ["NVIDIA H100 80GB HBM3", "Tesla T4"]),
        ((H100, T4), {"visible": "1"}, ["Tesla T4"]),
        ((H100, T4), {"visible": "-1"}, []),
        ((H100, T4), {"visible": ""}, []),
        ((H100, T4), {"visible": "GPU-5f3c"}, ["NVIDIA H100 80GB HBM3", "Tesla T4"]),
        ((SHARED,), {}, []),
        ((None,), {}, []),
        (("No devices were found",), {}, []),
        ((H100,), {"code": 9}, []),
    ],
)
def test_gpus_are_those_of_the_driver_that_are_visible(machine, lines, options, names):
    machine(*lines, **options)
    assert [gpu.name for gpu in accelerators.gpus()] == names


def test_memory_driver_and_capability_are_numbers(machine):
    machine(H100)
    (gpu,) = accelerators.gpus()
    assert (gpu.total, gpu.free) == (81559 << 20, 80994 << 20)
    assert gpu.driver >= accelerators.OLDEST_DRIVER and gpu.capability >= accelerators.AMPERE


@pytest.mark.parametrize(
    "lines, visible, expected",
    [
        ((None,), None, "nvidia-smi lists none either: see whether a card is built in and its driver runs"),
        ((T4,), None, "the driver of Tesla T4 is 470.82.1, and CUDA 12 needs 525.60.13 or later: install a newer"),
        ((H100,), None, "nvidia-smi lists NVIDIA H100 80GB HBM3: install TensorFlow's libraries for it"),
        ((H100,), "-1", "CUDA_VISIBLE_DEVICES hides them all: unset it"),
    ],
)
def test_why_tensorflow_sees_no_gpu(machine, lines, visible, expected):
    machine(*lines, visible=visible)
    assert accelerators.why_unseen().startswith(expected)


@pytest.fixture
def before_tensorflow(monkeypatch, tmp_path):
    """A process that has not imported TensorFlow, on a machine with an accelerator."""
    monkeypatch.delitem(sys.modules, "tensorflow")
    monkeypatch.setattr(accelerators, "DEVICE_FILES", ("/",))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_clustering_debug")


def test_compiled_programs_are_kept_in_the_users_cache(before_tensorflow, tmp_path):
    accelerators.cache_compiled_programs()
    folder = tmp_path / "cache" / "bert_tf" / "xla"
    assert folder.is_dir()
    expected = f"--tf_xla_clustering_debug --tf_xla_persistent_cache_directory={folder} {accelerators.CACHED_DEVICES}"
    assert os.environ["TF_XLA_FLAGS"] == expected
    accelerators.cache_compiled_programs(str(tmp_path / "other"))
    assert os.environ["TF_XLA_FLAGS"] == expected, "the first folder stays"


@pytest.mark.parametrize("reason", ["none", "cpu", "imported"])
def test_nothing_is_kept_if_unwanted_or_useless(before_tensorflow, monkeypatch, tmp_path, reason):
    if reason == "cpu":
        monkeypatch.setattr(accelerators, "DEVICE_FILES", ())
    if reason == "imported":
        monkeypatch.setitem(sys.modules, "tensorflow", None)
    accelerators.cache_compiled_programs("none" if reason == "none" else "auto")
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_clustering_debug" and not (tmp_path / "cache").exists()


def test_unusable_folder_is_an_error_only_if_given(before_tensorflow, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    names = {str(tmp_path / "file"): "xists", str(tmp_path / "a b"): "its name has a space", "gs://a/b": "in a store"}
    for folder, reason in names.items():
        with pytest.raises(UserError, match=f"xla_cache=.* cannot be used .*{reason}"):
            accelerators.cache_compiled_programs(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    accelerators.cache_compiled_programs()
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_clustering_debug"
