"""host.json of an export: how texts become rows of its network, and numbers answers, without TensorFlow's strings."""

import os
from collections.abc import Mapping
from typing import Any

from bert_tf.export.about_file import EXTRA
from bert_tf.runtime import json_arrays, json_files

NAME = os.path.join(EXTRA, "host.json")


def of_model(own: Mapping[str, Any], model: Any, pad_id: int) -> dict[str, Any]:
    """The content: settings for the stages of `export.host` and a TensorFlowNetwork.

    own: `host_settings` of the task. model: the Keras model. pad_id: the padding token.
    """
    settings = {**own, "max_positions": model.config.max_position_embeddings, "pad_id": pad_id}
    if (settings.get("windows") or {}).get("pooling") == "max":  # of vectors, before the last layer
        arrays = {name: getattr(model.classifier, name).numpy() for name in ("kernel", "bias")}
        settings["last_layer"] = json_arrays.as_json(arrays)
    return settings


def read(folder: str) -> dict[str, Any] | None:
    """The content; None if the export has none, because only TensorFlow can answer, or it is damaged."""
    values = json_files.read_json(os.path.join(folder, NAME))
    return values if isinstance(values, dict) and "stages" in values else None
