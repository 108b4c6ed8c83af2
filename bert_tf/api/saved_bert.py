"""Base class of `Bert` with the methods that write a checkpoint, an export or a repository."""

import dataclasses
import logging
import os
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bert_tf.api.base_bert import BaseBert, answering
from bert_tf.api.call_options import checked_path
from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.flag_groups import EXPORT_PRECISIONS
from bert_tf.errors import UserError, listed
from bert_tf.export import loaded_model, opening
from bert_tf.reports import model_card
from bert_tf.runtime import files, plugins
from bert_tf.runtime.atomic_files import check_free

KERAS = ".keras"  # extension of Keras files
FOLDER = "the path of a folder to write"


class SavedBert(BaseBert):
    """A loaded model that can be written; see `api.bert.Bert`."""

    def __init__(self, loaded: Checkpoint, path: str, **options: Any) -> None:
        super().__init__(loaded, path, **options)
        new = () if loaded.new_head or loaded.report is None else loaded.report.newly_initialized
        self._random = {name: _hash(self._weights[name]) for name in new}

    @answering
    def save(self, path: str | os.PathLike[str], *, format: str = "native") -> None:  # noqa: A002  # as in other libraries
        """Writes the model with its current weights, vocabulary and labels, for `load` and other libraries.

        Args:
            path: a new folder, or a .keras file, which Keras reads too.
            format: the folder's format, as in `bert-tf convert`: "native", "huggingface", "google_tf" or "keras_hub".

        Raises:
            UserError: the path exists already, or the format is unknown or does not support this model.

        Example:
            bert.save("my-model", format="huggingface")  # for AutoModel.from_pretrained
        """
        path = checked_path(path, expected=FOLDER)
        if path.endswith(KERAS):
            self.model.save(path)
            return
        check_free(path)
        checkpoint = self._checkpoint()
        with plugins.trusting(everything=self.trust_code):
            left_out = formats.write(checkpoint, path, format)
        model_card.write_of_conversion(checkpoint, self.path, path, format)
        if left_out:
            logging.getLogger("bert_tf").warning(
                "%s is without %s, which %s cannot hold.", path, listed(left_out), format
            )

    @answering
    def export(
        self,
        folder: str | os.PathLike[str],
        *,
        attention: bool = False,
        precision: str = "float32",
        engines: str | Sequence[str] = "auto",
        texts: Iterable[str | Sequence[str]] = (),
        num_texts: int | None = None,
        overwrite: bool = False,
    ) -> None:
        """Writes a SavedModel that takes strings, with the current weights, like `bert-tf export`.

        Args:
            folder: a new folder.
            attention: whether to add signatures that return attention weights and attributions.
            precision: precision of the weights, "float32" or "bfloat16".
            engines: engines to export models for too: "openvino", "onnx", "openvino_int8", "onnx_int8"; "none"; "auto":
                openvino or onnx, the first one installed that can run the model.
            texts: examples, such as the training texts, that calibrate openvino_int8.
            num_texts: number of texts per example if neither a run nor the labels determine it: 2 for pairs.
            overwrite: whether to replace an export.

        Raises:
            UserError: the model has no head or no vocabulary, the folder has other files, or an engine needs texts.

        Example:
            bert.export("exports/sentiment")
            tf.saved_model.load("exports/sentiment").signatures["serving_default"](text_a=tf.constant(["Good."]))
        """
        from bert_tf.export import trained_model

        folder = checked_path(folder, "folder", FOLDER)
        names = opening.names_of(",".join([engines] if isinstance(engines, str) else engines))
        if precision not in EXPORT_PRECISIONS:
            raise UserError(f"precision is {precision!r}; expected one of {', '.join(EXPORT_PRECISIONS)}.")
        loaded_model.check_free(folder, overwrite=overwrite)
        loaded = dataclasses.replace(self._loaded, model=self._float32())
        with plugins.trusting(everything=self.trust_code):
            trained = trained_model.of_loaded(self.path, loaded, num_texts, with_attention=attention)
            files.make_folder(os.path.dirname(files.absolute(folder)))
            rows = [(each,) if isinstance(each, str) else tuple(each) for each in texts]
            trained_model.write_export(trained, folder, precision, names, rows)
        model_card.write_of_conversion(self._checkpoint(), self.path, folder, model_card.EXPORT)

    @answering
    def push(
        self,
        repository: str,
        *,
        private: bool = False,
        revision: str | None = None,
        message: str = "Upload with bert_tf",
    ) -> str:
        """Uploads the model with a model card to the Hugging Face hub; returns its URL.

        It is in Hugging Face's layout, or in our own if that does not support the model. First log in with
        `hf auth login`, or set HF_TOKEN.

        Args:
            repository: owner/name; created if it does not exist.
            private: whether a new repository is private.
            revision: the branch; default: main.
            message: the commit message.

        Raises:
            UserError: the name is wrong, or the upload failed.

        Example:
            bert.push("my-name/sentiment", private=True)
        """
        from bert_tf.recipes import publishing

        name = publishing.name_of(repository)
        with tempfile.TemporaryDirectory() as work:
            folder = os.path.join(work, name)
            self.save(folder, format=publishing.format_for(self._checkpoint()))
            return publishing.upload(folder, repository, private=private, revision=revision, message=message)

    @property
    def _weights(self) -> dict[str, Any]:
        from bert_tf.model.weights import variables_by_name

        return variables_by_name(self.model)

    def _checkpoint(self) -> Checkpoint:
        """The checkpoint with the current weights and merged adapters, without weights that are still random."""
        from bert_tf.model import lora

        weights = {name: np.asarray(variable, np.float32) for name, variable in self._weights.items()}
        weights = lora.merged(weights, self.model.lora) if self.model.lora else weights
        for name, value in self._random.items():
            if name in weights and _hash(self._weights[name]) == value:
                del weights[name]
        return dataclasses.replace(
            self._loaded, weights=weights, labels=self.labels, new_head=0, model=None, report=None
        )

    def _float32(self) -> Any:
        """The model in float32 without adapters, for exports; the model itself if it is already that."""
        if self.model.dtype_policy.name == "float32" and not self.model.lora:
            return self.model
        from bert_tf.model import weights

        values = {**self.model.get_config(), "dtype": "float32", "lora": None}
        model = type(self.model).from_config(values)
        weights.assign(model, self._checkpoint().weights)
        return model


def _hash(variable: Any) -> int:
    return zlib.crc32(np.asarray(variable).tobytes())
