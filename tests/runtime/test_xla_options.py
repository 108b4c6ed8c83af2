"""XLA's flags and its cache on disk: if there are any."""

import os
import sys

import pytest
import warm

from bert_tf.errors import UserError
from bert_tf.runtime import xla_options


@pytest.fixture
def before_tensorflow(monkeypatch, with_gpus, tmp_path):
    """A process that has not imported TensorFlow, on a machine with an accelerator."""
    monkeypatch.delitem(sys.modules, "tensorflow")
    with_gpus(others=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_clustering_debug")
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/tmp/dump")


def test_xla_rounds_as_the_model_says(before_tensorflow, monkeypatch):
    xla_options.set_up("none")
    assert os.environ["XLA_FLAGS"] == "--xla_dump_to=/tmp/dump --xla_allow_excess_precision=false"
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_clustering_debug"
    monkeypatch.setenv("XLA_FLAGS", "--xla_allow_excess_precision=true")
    xla_options.set_up("none")
    assert os.environ["XLA_FLAGS"] == "--xla_allow_excess_precision=true", "the user's choice stays"


def test_flag_is_one_of_xla():
    """XLA ends a process with flags that it does not know."""
    program = "import tensorflow as tf; print(tf.function(lambda x: x + 1, jit_compile=True)(tf.constant(1)).numpy())"
    done = warm.run("-c", program, env={"XLA_FLAGS": f"{xla_options.ROUNDING}=false"})
    assert done.stdout == "2\n", done.stderr


def test_compiled_programs_are_kept_in_the_users_cache(before_tensorflow, tmp_path):
    xla_options.set_up()
    folder = tmp_path / "cache" / "bert_tf" / "xla"
    assert folder.is_dir()
    expected = f"--tf_xla_clustering_debug --tf_xla_persistent_cache_directory={folder} {xla_options.CACHED_DEVICES}"
    assert os.environ["TF_XLA_FLAGS"] == expected
    xla_options.set_up(str(tmp_path / "other"))
    assert os.environ["TF_XLA_FLAGS"] == expected, "the first folder stays"


@pytest.mark.parametrize("reason", ["none", "cpu", "imported"])
def test_nothing_is_kept_if_unwanted_or_useless(before_tensorflow, monkeypatch, with_gpus, tmp_path, reason):
    if reason == "cpu":
        with_gpus()
    if reason == "imported":
        monkeypatch.setitem(sys.modules, "tensorflow", None)
    xla_options.set_up("none" if reason == "none" else "auto")
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_clustering_debug" and not (tmp_path / "cache").exists()
    assert ("excess_precision" in os.environ["XLA_FLAGS"]) == (reason == "none")


def test_unusable_folder_is_an_error_only_if_given(before_tensorflow, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    names = {str(tmp_path / "file"): "xists", str(tmp_path / "a b"): "its name has a space", "gs://a/b": "in a store"}
    for folder, reason in names.items():
        with pytest.raises(UserError, match=f"xla_cache=.* cannot be used .*{reason}"):
            xla_options.set_up(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    xla_options.set_up()
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_clustering_debug"
