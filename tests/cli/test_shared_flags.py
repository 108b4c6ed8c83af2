"""The flags with which commands of inference set up the process."""

import argparse

import pytest

from bert_tf.cli import shared_flags
from bert_tf.runtime import tensorflow_startup


@pytest.mark.parametrize("flags, expected", [([], False), (["--tf32"], True)])
def test_float32_is_multiplied_in_tf32_on_request_only(flags, expected, has_tf32, monkeypatch):
    process = {"is_silenced": True, "is_started": False, "has_tf32": False}
    monkeypatch.setattr(tensorflow_startup, "_process", process)
    monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    parser = argparse.ArgumentParser()
    shared_flags.add_devices(parser)
    shared_flags.set_up(parser.parse_args(flags))
    tensorflow_startup.ensure_started()
    assert has_tf32() == expected
