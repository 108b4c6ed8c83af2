"""What TensorFlow says while a SavedModel is written is not shown, to programs either."""

import logging
import sys

import tensorflow as tf
import warm

from bert_tf.runtime import keras_import, tensorflow_startup


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


def test_keras_is_imported_without_what_only_plots_need(tmp_path, monkeypatch):
    assert warm.run("-c", "import keras, sys; print('matplotlib' in sys.modules)").stdout == "False\n"
    (tmp_path / "keras").mkdir()
    code = "try:\n    import colorsys\nexcept ImportError:\n    colorsys = None\n"
    (tmp_path / "keras/__init__.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("keras", "colorsys"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    finder = keras_import.Finder(lambda _: tensorflow_startup._without("colorsys"))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    import keras

    assert keras.colorsys is None and finder not in sys.meta_path
    import colorsys

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0, 0, 0)
