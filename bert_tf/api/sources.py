"""Sources of the answers of a loaded model: a Keras model, or an engine's model in an export."""

import copy
import dataclasses
import functools
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from bert_tf.api import processes
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.export import opening
from bert_tf.export.batches import BatchFunction
from bert_tf.export.engine_network import EngineNetwork
from bert_tf.export.predictor import Predictor
from bert_tf.export.text_function import TextFunction
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.model.weights import assign, variables_by_name
from bert_tf.runtime import plugins
from bert_tf.text.tokenizer import Tokenizer, tokenizer_of


class KerasSource:
    """A checkpoint, run or export as a Keras model.

    Attributes:
        path, labels, kind, config, sentence_vectors, model, report: see `api.bert.Bert`.
        engine: the name of its engine.
        name: the class of the Keras model, or the kind of the head.
        head_kind: the kind of its head; None if it cannot make predictions for a text.
        why_headless: the reason for that, as part of a sentence.
        loaded: the checkpoint that it was made of.
        is_recorded: whether it is a run or an export, which record the number of texts per example.
        predictor: number of texts per example, None if unspecified -> the predictor of its head.
        extractor: VectorChoice -> a predictor of "vectors" for single texts.
    """

    engine = opening.TENSORFLOW
    check_process = staticmethod(processes.check)  # raises UserError if it cannot compute in this process

    def __init__(self, path: str, loaded: Checkpoint, *, trust_code: bool) -> None:
        from bert_tf.export import checkpoint_predictor

        self.path, self.loaded, self._trust_code = path, loaded, trust_code
        self.model, self.report, self.config = loaded.model, loaded.report, loaded.config
        self.name = type(loaded.model).__name__
        self.labels, self.kind = checkpoint_predictor.labels_of(loaded), loaded.kind
        self.head_kind = checkpoint_predictor.kind_of(loaded)
        self.sentence_vectors, self.why_headless = loaded.sentence_vectors, loaded.why_headless
        self.is_recorded = bool(loaded.answers)
        new = () if loaded.new_head or loaded.report is None else loaded.report.newly_initialized
        self._random = {name: _hash(self._weights[name]) for name in new}
        self.predictor = functools.cache(self._new_predictor)  # each one traces a graph once
        self.extractor = functools.cache(self._new_extractor)

    @classmethod
    def load(
        cls, path: str, format_name: str | None = None, *, trust_code: bool = False, **options: Any
    ) -> "KerasSource":
        """Starts TensorFlow and reads any checkpoint; trust_code, options: see `bert_tf.load`."""
        processes.check()
        from bert_tf.checkpoints import pretrained

        with plugins.trusting(everything=trust_code):
            loaded = pretrained.load(path, format_name, **options)
        return cls(path, loaded, trust_code=trust_code)

    def __deepcopy__(self, memo: dict[int, Any]) -> "KerasSource":
        """A copy with its own model."""
        copied = KerasSource(self.path, copy.deepcopy(self.loaded, memo), trust_code=self._trust_code)
        copied._random = self._random
        return copied

    @functools.cached_property
    def tokenizer(self) -> Tokenizer | None:
        """Its tokenizer for pipelines, None without a vocabulary."""
        return None if self.loaded.vocabulary is None else tokenizer_of(self.loaded)

    def _new_predictor(self, texts: int | None) -> TextFunction:
        from bert_tf.export import checkpoint_predictor

        with plugins.trusting(everything=self._trust_code):
            return checkpoint_predictor.predictor_of(self.path, self.loaded, texts)

    def _new_extractor(self, choice: VectorChoice) -> BatchFunction:
        from bert_tf.export import checkpoint_predictor

        return checkpoint_predictor.vectors_of(self.path, self.loaded, choice)

    @functools.cached_property
    def explainer(self) -> Callable[..., Any]:
        """The function that attributes predictions to tokens, with the current weights."""
        from bert_tf.export import attribution_signature

        self.loaded.check_vocabulary(self.path)
        assert self.tokenizer is not None
        return attribution_signature.signature(self.model, self.tokenizer)

    def checkpoint(self, labels: list[str] | None) -> Checkpoint:
        """The checkpoint with current weights, merged adapters and these labels, without weights still random."""
        from bert_tf.model import lora

        weights = {name: np.asarray(variable, np.float32) for name, variable in self._weights.items()}
        weights = lora.merged(weights, self.model.lora) if self.model.lora else weights
        for name, value in self._random.items():
            if name in weights and _hash(self._weights[name]) == value:
                del weights[name]
        return dataclasses.replace(self.loaded, weights=weights, labels=labels, new_head=0, model=None, report=None)

    def for_export(self, labels: list[str] | None) -> Checkpoint:
        """The checkpoint with these labels, and a model in float32 without adapters."""
        model = self.model
        if model.dtype_policy.name != "float32" or model.lora:
            values = {**model.get_config(), "dtype": "float32", "lora": None}
            model = type(model).from_config(values)
            assign(model, self.checkpoint(labels).weights)
        return dataclasses.replace(self.loaded, model=model, labels=labels)

    def changes(self, path: str, options: Mapping[str, Any]) -> Iterator[str]:
        """Yields names of weights that differ from the files at a path; options: of `load`."""
        again = KerasSource.load(path, **options)
        random = () if again.report is None or self.loaded.new_head else again.report.newly_initialized
        values, others = self._weights, variables_by_name(again.model)
        for name, value in values.items():
            if name not in random and not (name in others and np.array_equal(value.numpy(), others[name].numpy())):
                yield name

    @property
    def _weights(self) -> dict[str, Any]:
        return variables_by_name(self.model)


class EngineSource:
    """The model of an export on OpenVINO or ONNX Runtime; see KerasSource.

    TensorFlow computes attributions, and embeddings that the engine's model lacks, such as of other layers.
    """

    why_headless, is_recorded = "", True

    def __init__(self, predictor: Predictor) -> None:
        self.path, self.engine, self._predictor = predictor.folder, predictor.engine, predictor
        self.labels = list(predictor.labels) or None
        self.kind = self.head_kind = predictor.head.kind if predictor.head else None
        self.name = self.kind or "embeddings"
        self.config, self.sentence_vectors = opening.encoder_of(self.path)

    def __deepcopy__(self, memo: dict[int, Any]) -> "EngineSource":
        """Itself, because it never changes."""
        return self

    def check_process(self) -> None:
        """Does nothing: engines also work in forked processes."""

    def predictor(self, texts: int | None) -> TextFunction:
        """See KerasSource."""
        return self._predictor

    def extractor(self, choice: VectorChoice) -> BatchFunction:
        """See KerasSource."""
        network = self._predictor.network
        is_computed = isinstance(network, EngineNetwork) and network.computes(choice)
        return self._predictor.extractor(choice) if is_computed else self._in_tensorflow().extractor(choice)

    @property
    def explainer(self) -> Callable[..., Any]:
        """See KerasSource."""
        return self._in_tensorflow().explainer

    def _in_tensorflow(self) -> KerasSource:
        """The same model in TensorFlow, which starts now."""
        self._keras_source.check_process()
        return self._keras_source

    @functools.cached_property
    def _keras_source(self) -> KerasSource:
        return KerasSource.load(self.path)

    @property
    def model(self) -> NoReturn:
        """Raises UserError, like everything that needs a Keras model."""
        raise UserError(f"{self.path} was loaded by {self.engine}, without a Keras model: omit engine.")

    loaded = report = tokenizer = model

    def checkpoint(self, labels: list[str] | None) -> Checkpoint:
        """Raises UserError."""
        return self.model

    for_export = checkpoint

    def changes(self, path: str, options: Mapping[str, Any]) -> Iterator[str]:
        """See KerasSource."""
        return iter(())


Source = KerasSource | EngineSource


def _hash(variable: Any) -> int:
    return zlib.crc32(np.asarray(variable).tobytes())
