"""A loaded model that takes strings and runs on an engine instead of TensorFlow: `bert_tf.load(path, engine=...)`."""

import copy
import functools
import os
from collections.abc import Callable
from typing import Any

from bert_tf.api import bert
from bert_tf.api.base_bert import MAX_SHOWN
from bert_tf.api.bert import Bert
from bert_tf.config.bert_config import BertConfig
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.errors import UserError
from bert_tf.export import loaded_model, opening
from bert_tf.export.engine_network import EngineNetwork
from bert_tf.export.predictor import Predictor
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.runtime import files


class EngineBert(Bert):
    """An export on OpenVINO or ONNX Runtime: the methods of `Bert` for texts, without a Keras model.

    TensorFlow computes attributions, and embeddings that the engine's model lacks, such as of other layers.

    Attributes:
        path, labels, kind: see `Bert`.
        engine: the name of the engine.
    """

    _is_made_here = True  # type: ignore[assignment]  # it is an export

    def __init__(self, predictor: Predictor) -> None:
        self.path, self.engine, self._predictor, self.trust_code = predictor.folder, predictor.engine, predictor, False
        self.labels, self.kind = list(predictor.labels) or None, predictor.head.kind if predictor.head else None

    def __repr__(self) -> str:
        labels = ", ".join((self.labels or [])[:MAX_SHOWN])
        return f"<Bert {self.path}: {self.kind}{f' of {labels}' if labels else ''}; runs on {self.engine}>"

    def __getattr__(self, name: str) -> Any:
        if name in ("model", "tokenizer", "report", "_loaded"):
            raise UserError(f"{self.path} was loaded by {self.engine}, without a Keras model: omit engine.")
        raise AttributeError(f"'EngineBert' object has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the path and the engine."""
        names, own = ("labels", "kind"), EngineBert(self._predictor)
        self._check_unchanged([name for name in names if getattr(self, name) != getattr(own, name)])
        return load, (files.absolute(self.path), self.engine)

    def __deepcopy__(self, memo: dict[int, Any]) -> "EngineBert":
        """A copy that shares the predictor, which never changes."""
        copied = memo[id(self)] = copy.copy(self)
        copied.labels = copy.copy(self.labels)
        return copied

    def _check_process(self) -> None:
        """Does nothing: engines also work in forked processes."""

    @property
    def _head_kind(self) -> str | None:
        return self.kind

    @property
    def config(self) -> BertConfig:  # type: ignore[override]
        """The configuration of the encoder."""
        return opening.config_of(self.path)

    @property
    def sentence_vectors(self) -> SentenceVectors | None:  # type: ignore[override]
        """The embedding settings recorded in the export."""
        return opening.sentence_vectors_of(self.path)

    def _extractor(self, choice: VectorChoice) -> Any:
        network = self._predictor.network
        is_computed = isinstance(network, EngineNetwork) and network.computes(choice)
        return self._predictor.extractor(choice) if is_computed else self._in_tensorflow._extractor(choice)

    @property
    def _predictor_of(self) -> Callable[[int | None], Any]:  # type: ignore[override]
        return lambda texts: self._predictor

    @property
    def _explainer(self) -> Any:  # type: ignore[override]
        return self._in_tensorflow._explainer

    @property
    def _in_tensorflow(self) -> Bert:
        """The same model in TensorFlow, which starts now."""
        self._loaded_in_tensorflow._check_process()
        return self._loaded_in_tensorflow

    @functools.cached_property
    def _loaded_in_tensorflow(self) -> Bert:
        return bert.load(self.path)


def load(path: str | os.PathLike[str], engine: str, format_name: str | None = None) -> EngineBert | None:
    """The export at a path on an engine; None for TensorFlow. See `opening.choose`."""
    if format_name is not None:
        raise UserError("format_name applies to checkpoints, and only TensorFlow runs those: omit it or engine.")
    predictor = opening.load(loaded_model.find(os.fspath(path)), engine)
    return None if predictor is None else EngineBert(predictor)
