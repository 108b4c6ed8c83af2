"""XLA's cache on disk: where it is, and where there is none."""

import os
import sys

import pytest

from bert_tf.errors import UserError
from bert_tf.runtime import accelerators, xla_cache


@pytest.fixture
def before_tensorflow(monkeypatch, tmp_path):
    """A process that has not imported TensorFlow, on a machine with an accelerator."""
    monkeypatch.delitem(sys.modules, "tensorflow")
    monkeypatch.setattr(accelerators, "DEVICE_FILES", ("/",))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_clustering_debug")


def test_compiled_programs_are_kept_in_the_users_cache(before_tensorflow, tmp_path):
    xla_cache.use()
    folder = tmp_path / "cache" / "bert_tf" / "xla"
    assert folder.is_dir()
    expected = f"--tf_xla_clustering_debug --tf_xla_persistent_cache_directory={folder} {xla_cache.CACHED_DEVICES}"
    assert os.environ["TF_XLA_FLAGS"] == expected
    xla_cache.use(str(tmp_path / "other"))
    assert os.environ["TF_XLA_FLAGS"] == expected, "the first folder stays"


@pytest.mark.parametrize("reason", ["none", "cpu", "imported"])
def test_nothing_is_kept_if_unwanted_or_useless(before_tensorflow, monkeypatch, tmp_path, reason):
    if reason == "cpu":
        monkeypatch.setattr(accelerators, "DEVICE_FILES", ())
    if reason == "imported":
        monkeypatch.setitem(sys.modules, "tensorflow", None)
    xla_cache.use("none" if reason == "none" else "auto")
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_clustering_debug" and not (tmp_path / "cache").exists()


def test_unusable_folder_is_an_error_only_if_given(before_tensorflow, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    names = {str(tmp_path / "file"): "xists", str(tmp_path / "a b"): "its name has a space", "gs://a/b": "in a store"}
    for folder, reason in names.items():
        with pytest.raises(UserError, match=f"xla_cache=.* cannot be used .*{reason}"):
            xla_cache.use(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    xla_cache.use()
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_clustering_debug"
