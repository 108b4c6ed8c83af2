"""What TensorFlow says while a SavedModel is written is not shown, to programs either."""

import logging

import tensorflow as tf

from bert_tf.runtime import tensorflow_startup


def test_assets_written_is_not_shown(tmp_path, caplog):
    logger = logging.getLogger("tensorflow")
    caplog.set_level(logging.INFO, logger="tensorflow")
    for quiet in (False, True):
        logger.info("Assets written to: somewhere")
        logger.propagate, before = True, len(caplog.records)
        if quiet:
            with tensorflow_startup.quiet_log():
                tf.saved_model.save(tf.Module(), str(tmp_path / "quiet"))
            assert len(caplog.records) == before
        else:
            tf.saved_model.save(tf.Module(), str(tmp_path / "loud"))
            assert "Assets written" in caplog.text and len(caplog.records) > before
    assert logger.level == logging.INFO
