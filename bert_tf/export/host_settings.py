"""host.json of an export: how to turn texts into rows, and numbers into answers, without TensorFlow's strings."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import UserError
from bert_tf.export import about_file, host
from bert_tf.export.about_file import EXTRA
from bert_tf.runtime import head_records, json_files, json_values, run_files
from bert_tf.runtime.settings import OBJECT, Settings, optional, whole

NAME = os.path.join(EXTRA, "host.json")
KINDS: run_files.Kinds = {  # values added to `host_settings` of the head
    "max_positions": whole(1),
    "pad_id": whole(0),
    "last_layer": {"kernel": OBJECT, "bias": OBJECT},
}


def of_model(own: Mapping[str, Any], model: Any, pad_id: int) -> dict[str, Any]:
    """The content: settings for the stages of `export.host` and a TensorFlowNetwork.

    own: `host_settings` of the task. model: the Keras model. pad_id: the padding token.
    """
    settings = {**own, "max_positions": model.config.max_position_embeddings, "pad_id": pad_id}
    if (settings.get("windows") or {}).get("pooling") == "max":  # over vectors, before the last layer
        settings["last_layer"] = json_values.arrays_as_json(last_layer(model))
    return settings


def last_layer(model: Any) -> dict[str, np.ndarray]:
    """The weights of the layer after the pooled windows."""
    return {name: getattr(model.classifier, name).numpy() for name in ("kernel", "bias")}


def read(folder: str) -> dict[str, Any] | None:
    """The content; None if it is damaged or the export has none because only TensorFlow can answer.

    Raises UserError for a missing value, or one of an unexpected kind.
    """
    path = os.path.join(folder, NAME)
    values = json_files.read_json(path)
    if not isinstance(values, dict) or "stages" not in values:
        return None
    check(Settings(values, path))
    return values


def check(values: Settings) -> None:
    """Raises UserError for a missing value, one of an unexpected kind, or rows longer than the model's positions."""
    head_records.check_host(values)
    head_records.check_present(values, KINDS)
    for each in (values, values.inside("windows")) if values["stages"] in head_records.OF_HOST else ():
        head_records.check_present(each, {"max_seq_length": optional(whole(1, values["max_positions"]))})


def of_own_head(folder: str) -> dict[str, Any] | None:
    """The same; None also for an unknown or third-party head: its signature on strings needs no code."""
    settings, kind = read(folder), str(about_file.read(folder).get("kind") or "")
    is_known = kind or not settings or settings["stages"] != "texts"
    return settings if is_known and "." not in kind else None


@contextlib.contextmanager
def refusing_damage(path: str) -> Iterator[None]:
    """Raises UserError for settings of an export that lack a value, or have one of the wrong kind. path: their file."""
    try:
        yield
    except UserError:
        raise
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} or about.json is damaged ({error!r}): export it again.") from None


def check_labels(folder: str, stages: Any, numbers: host.Numbers, labels: Sequence[str]) -> None:
    """Raises UserError unless the numbers of the network in a folder match these labels."""
    size = stages.labels_of(numbers) if hasattr(stages, "labels_of") else None
    if size is not None and size != len(labels):
        raise UserError(
            f"{folder} names {len(labels)} labels in about.json for the {size} outputs of its model: export it again."
        )
