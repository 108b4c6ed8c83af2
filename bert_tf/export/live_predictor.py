"""The predictor of a run, an export or a checkpoint as a Keras model."""

from collections.abc import Mapping
from typing import Any

from bert_tf import heads
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.export import host_settings, live_model, text_function
from bert_tf.export.keras_network import KerasNetwork
from bert_tf.export.predictor import Predictor, VectorExtractor
from bert_tf.export.text_function import Signatures, TextFunction
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.vectors import Vectors
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.runtime import backend, plugins


def predictor_at(path: str, texts: int | None = None, *, jit_compile: str = "auto") -> TextFunction:
    """The predictor of the checkpoint at a path.

    texts: see `live_model.answers_of`. jit_compile: whether XLA compiles it with static shapes: "true", "false", or
    "auto", on accelerators.
    """
    return predictor_of(path, live_model.load(path), texts, jit_compile=jit_compile)


def predictor_of(path: str, loaded: Checkpoint, texts: int | None = None, *, jit_compile: str = "auto") -> TextFunction:
    """The predictor of a loaded model, with its current weights; texts, jit_compile: see `predictor_at`."""
    loaded.check_vocabulary(path)
    model, kind = loaded.model, live_model.kind_of(loaded) or ""
    about, own = live_model.answers_of(path, loaded, texts)
    if "." in kind:  # external heads need TensorFlow to answer
        plugins.check_trusted(kind, path)
        with host_settings.refusing_damage(path):
            head = heads.get(kind).recorded({**loaded.answers, **about}, own)
        return Signatures(path, head.training.live_signatures(loaded), about, heads.get(kind))
    choice = live_model.vector_choice_of(path, loaded) if kind == Vectors.kind else None
    batch_size = text_function.STATIC_BATCH_SIZE if backend.should_jit(jit_compile) else text_function.BATCH_SIZE
    with host_settings.refusing_damage(path):
        settings = settings_of(loaded, own)
        network = KerasNetwork(model, path, settings, jit_compile, choice)
        found = Predictor(path, network, settings, about, loaded.host_tokenizer, heads.get(kind), batch_size)
    if kind == MultipleChoice.kind:
        found.labels = ()  # choices are numbered
    return found


def settings_of(loaded: Checkpoint, own: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for the stages of `export.host` and a KerasNetwork. own: `host_settings` of the task."""
    settings = host_settings.of_model(own, loaded.model, loaded.host_tokenizer.pad_id)
    if "last_layer" in settings:  # its weights may change
        settings["last_layer"] = lambda: host_settings.last_layer(loaded.model)
    return settings


def vectors_of(
    path: str, loaded: Checkpoint, choice: VectorChoice, *, splits_pairs: bool = False, jit_compile: str = "false"
) -> VectorExtractor:
    """An embedding predictor of a loaded model, which needs no head.

    splits_pairs, jit_compile: see VectorExtractor and KerasNetwork. Raises UserError if it has no vocabulary.
    """
    loaded.check_vocabulary(path)
    settings = {**settings_of(loaded, {}), "max_positions": choice.max_seq_length}
    network = KerasNetwork(loaded.model, path, settings, jit_compile, choice)
    return VectorExtractor(network, choice, loaded.host_tokenizer, splits_pairs=splits_pairs)
