"""`.keras` files that contain a model of this package, written by `model.save` or `Bert.save`, or one of its encoders.

`Bert.save` and `model.save` of a loaded model put vocabulary and labels into the file. Files from earlier versions have
neither; vocab.txt may then be in the same folder. A model that contains an encoder of this package is read as that one.
"""

import collections
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import h5py
import numpy as np

from bert_tf.checkpoints import keras_files
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import read_tokenizer_files
from bert_tf.checkpoints.formats import native
from bert_tf.errors import UserError, reason_of
from bert_tf.model import lora
from bert_tf.model.heads import BertModel
from bert_tf.model.weights import variables_by_name
from bert_tf.runtime import files, keras_import
from bert_tf.runtime.settings import TEXT, Settings

PACKAGE, END = "bert_tf>", "Encoder"  # prefix of registered names, suffix of encoder names
LAYER, PREPROCESSING = "EncoderLayer", "PreprocessingLayer"
HOLDS_ANY_WEIGHT = HOLDS_ANY_ENCODER = True


class Part(NamedTuple):
    """A layer in a file: its class without the package, its configuration, and the path of its weights and assets."""

    name: str
    config: Settings
    place: str


def recognizes(path: str) -> bool:
    """Returns whether a path is a Keras file with a model or an encoder of this package."""
    return keras_files.is_one(path) and any(_has_encoder(part) for part in _parts(keras_files.config_of(path)))


def read(path: str) -> Checkpoint:
    """Reads a model, or the only encoder in a model; nothing in the file is run, and other layers are not created."""
    content = keras_files.read(path)
    parts = list(_parts(content.config))
    found = [part for part in parts if _has_encoder(part)]
    if len(found) != 1:
        raise UserError(f"{path} has {len(found)} encoders; expected a model with one.")
    model = _with_weights(found[0], content.weights, path)
    weights = {name: np.asarray(variable, np.float32) for name, variable in variables_by_name(model).items()}
    if model.lora:
        weights = lora.merged(weights, model.lora)
    places = [part.place for part in parts if part.name == PREPROCESSING]
    assets = _below(found[0].place, content.assets) or (_below(places[0], content.assets) if places else {})
    return Checkpoint(config=model.config, weights=weights, **_description(assets, path, model))


def _description(assets: Mapping[str, bytes], path: str, model: BertModel) -> dict[str, Any]:
    """Vocabulary, labels and so on from the file; without them, the vocabulary in its folder."""
    if not assets:  # other files in the folder may describe a different model
        found = read_tokenizer_files(os.path.dirname(path))
        return {"vocabulary": found["vocabulary"], "lower_case": found["lower_case"], "kind": model.kind or None}
    with tempfile.TemporaryDirectory() as folder:
        files.write_folder(folder, assets)
        found = native.read_description(folder, model.config)
    return found | {"kind": found["kind"] or model.kind or None}


def _has_encoder(part: Part) -> bool:
    found = keras_import.class_named(part.name)
    return found is not None and (issubclass(found, BertModel) or part.name.endswith(END) or part.name == LAYER)


def _parts(config: Settings, place: str = "") -> Iterator[Part]:
    """The outermost layers of this package."""
    name = keras_files.class_in(config)
    if name.startswith(PACKAGE):
        yield Part(name.removeprefix(PACKAGE), config.inside("config"), place)
        return
    numbers: dict[str, int] = collections.Counter()
    for layer in config.inside("config").each("layers") if isinstance(config.get("config"), dict) else ():
        word = _snake_case(layer.value("class_name", TEXT, ""))
        number = f"_{numbers[word]}" if numbers[word] else ""  # as Keras numbers the layers of a class
        numbers[word] += 1
        yield from _parts(layer, f"{place}layers/{word}{number}/")


def _snake_case(name: str) -> str:
    """The name of a class as Keras writes it in paths: BertEncoder -> bert_encoder."""
    words = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", words).lower()


def _with_weights(part: Part, arrays: Mapping[str, np.ndarray], path: str) -> BertModel:
    """The model of a part; for an encoder, a BertModel with it."""
    found: Any = keras_import.class_named(part.name)
    is_model = found is not None and issubclass(found, BertModel)
    try:
        values = dict(part.config)
        model = found.from_config(values) if is_model and found else BertModel(values["config"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} has a configuration that is invalid for {part.name} ({reason_of(error)}).") from None
    prefix = "" if is_model or part.name == LAYER else "encoder/"
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "model.weights.h5")
        with h5py.File(file, "w") as stored:
            for name, array in _below(part.place, arrays).items():
                stored[prefix + name] = array
        try:
            model.load_weights(file)
        except Exception as error:  # from Keras or h5py
            raise UserError(f"The weights in {path} do not fit its configuration ({reason_of(error)}).") from None
    loaded: BertModel = model
    return loaded


def _below(place: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(place): value for name, value in content.items() if name.startswith(place)}
