"""`import bert_tf` alone, before or after Keras, makes Keras find every class of this package in its files."""

import dataclasses
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tiny

from bert_tf.config import encoder_traits
from bert_tf.families.bert import layer as bert
from bert_tf.model import base_encoder
from bert_tf.runtime import keras_import

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOAD = "import {first}\nimport {second}\nimport sys\nmodel = keras.models.load_model(sys.argv[1])\n"
LOAD += "print([type(layer).__name__ for layer in model.layers], int(model.count_params()))"


def test_every_class_is_found_in_the_sources():
    found = list(keras_import.classes())
    assert {"BertEncoder", "Encoder", "Classifier", "SentenceEncoder"} <= {name for _, name in found}
    modules = {module.split(".")[2] for module, _ in found if module.startswith(f"{encoder_traits.PACKAGE}.")}
    assert modules <= {"base", *encoder_traits.names()}
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "bert_tf").rglob("*.py")]
    assert sum(text.count("\n@keras.saving.register_keras_serializable(") for text in sources) == len(found)


@pytest.mark.parametrize("first, second", [("bert_tf", "keras"), ("keras", "bert_tf")])
def test_model_around_an_encoder_loads_in_a_new_process(tmp_path, tiny_model, first, second):
    tiny_model.save(tmp_path / "m.keras")
    code = LOAD.format(first=first, second=second)
    command = [sys.executable, "-c", code, str(tmp_path / "m.keras")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.strip() == f"['InputLayer', 'BertEncoder', 'Dense'] {tiny_model.count_params()}", done.stderr


@pytest.mark.parametrize("name", encoder_traits.names())
def test_encoders_that_share_a_name_are_told_apart(tmp_path, name):
    token_ids = keras.Input([8], dtype="int32")
    encoder = base_encoder.create_encoder(dataclasses.replace(tiny.CONFIG, encoder=name))
    model = keras.Model(token_ids, encoder({"token_ids": token_ids})["tokens"])
    model.save(tmp_path / "m.keras")
    for other in encoder_traits.names():  # the last one to register counts
        kind = encoder_traits.module_with_layer(other).Encoder
        keras.saving.register_keras_serializable("bert_tf")(kind)
    loaded = keras.models.load_model(tmp_path / "m.keras")
    assert [type(layer) for layer in loaded.layers] == [type(layer) for layer in model.layers]
    ids = np.arange(5, 13)[None]
    np.testing.assert_allclose(loaded(ids), model(ids), atol=1e-5)


@pytest.fixture
def tiny_model():
    token_ids = keras.Input([8], dtype="int32")
    pooled = bert.BertEncoder(tiny.CONFIG)({"token_ids": token_ids})["pooled"]
    return keras.Model(token_ids, keras.layers.Dense(2)(pooled))
