"""Opens an export or a checkpoint: the choice of the engine, and the Predictor of a model."""

import contextlib
import os
from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

from bert_tf.checkpoints import sentence_transformers
from bert_tf.config.bert_config import BertConfig
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.errors import UserError
from bert_tf.export import about_file, engines, host_settings, loaded_model, text_function
from bert_tf.export.about_file import EXTRA
from bert_tf.export.engine_network import FOLDER, INT8, SETTINGS, EngineNetwork, available, settings_of
from bert_tf.export.predictor import Predictor
from bert_tf.export.saved_network import SavedNetwork
from bert_tf.export.text_function import TextFunction
from bert_tf.runtime import json_files, machine
from bert_tf.text import special_tokens, vocabulary
from bert_tf.text.host_tokenizer import HostTokenizer, create_host_tokenizer

AUTO: Final = "auto"
NONE: Final = "none"
TENSORFLOW: Final = "tensorflow"
Engine = Literal["auto", "tensorflow", "openvino", "onnx", "openvino_int8", "onnx_int8"]
CHOICES: tuple[str, ...] = get_args(Engine)


def predictor_of(folder: str, engine: str, *, exact: bool = False) -> Predictor:
    """The predictor of an export on an engine, without TensorFlow.

    exact: see EngineNetwork. Raises UserError like EngineNetwork, and if the engine's numbers are wrong.
    """
    network, about = EngineNetwork(folder, engine, exact=exact), about_file.read(folder)
    with host_settings.refusing_damage(os.path.join(folder, FOLDER, SETTINGS)):
        found = Predictor(folder, network, network.settings, about, tokenizer_of(folder))
        found.head = loaded_model.head_of(folder, found.outputs_told)
        network.check(found.stages, found.labels)
    return found


def encoder_of(folder: str) -> tuple[BertConfig, SentenceVectors | None]:
    """The encoder configuration of an export, and its recorded embedding settings."""
    extra = os.path.join(folder, EXTRA)
    config = BertConfig.from_json_file(os.path.join(extra, "bert_config.json"))
    return config, sentence_transformers.read(extra, config.max_position_embeddings, has_length=False)


def load(folder: str, engine: str = AUTO) -> Predictor | None:
    """The export on an engine, one of CHOICES; None for TensorFlow. See `choose`."""
    chosen = choose(folder, engine)
    return None if chosen == TENSORFLOW else predictor_of(folder, chosen)


def open_model(folder: str, engine: str = AUTO, *, jit_compile: str = "auto", texts: int | None = None) -> TextFunction:
    """Opens the model in a folder from `loaded_model.find`: an export or a checkpoint.

    engine: see `choose`. jit_compile: see TensorFlowNetwork. texts: see `checkpoint_predictor.answers_of`.
    """
    found = load(folder, engine)
    if found is not None:
        return found
    if loaded_model.is_export(folder):
        return of_saved_model(folder, jit_compile=jit_compile)
    from bert_tf.export import checkpoint_predictor

    return checkpoint_predictor.predictor_at(folder, texts, jit_compile=jit_compile)


def of_saved_model(folder: str, *, jit_compile: str = "auto", loaded: Any = None) -> TextFunction:
    """The export in a folder, on TensorFlow; see `open_model`. loaded: the SavedModel if already loaded."""
    settings = host_settings.of_own_head(folder)
    if settings is None:
        return loaded_model.on_strings(folder)
    about = about_file.read(folder)
    with host_settings.refusing_damage(os.path.join(folder, host_settings.NAME)):
        network = SavedNetwork(folder, settings, jit_compile, loaded)
        batch_size = text_function.STATIC_BATCH_SIZE if network.is_static else text_function.BATCH_SIZE
        found = Predictor(folder, network, settings, about, tokenizer_of(folder), batch_size=batch_size)
        found.head = loaded_model.head_of(folder, found.outputs_told)
        found.stages.read([[""] * sum(count or 1 for count in found.inputs.values())])
        host_settings.check_labels(folder, found.stages, network.zeros(), found.labels)
    return found


def load_for_vectors(path: str, engine: str = AUTO) -> Predictor | None:
    """The export at a path, or of the run there, on an engine that makes text embeddings; None for TensorFlow.

    Raises UserError if a requested engine makes none.
    """
    folder = next((each for each in (path, os.path.join(path, "export")) if loaded_model.is_export(each)), "")
    chosen = choose(folder, engine) if folder else TENSORFLOW
    if chosen != TENSORFLOW and (not available(folder) or settings_of(folder)["stages"] == "vectors"):
        return predictor_of(folder, chosen)
    if engine not in (AUTO, TENSORFLOW):
        raise UserError(
            f"{path} produces no embeddings with {engine}: pass an embeddings export written by `bert-tf export "
            "--engine`."
        )
    return None


def choose(folder: str, engine: str = AUTO) -> str:
    """The name of the engine for an export: "auto" is the fastest installed one with a model in the export.

    It is never an 8-bit one, and on a machine with a GPU it is TensorFlow.
    """
    if engine not in CHOICES:
        raise UserError(f"engine is {engine!r}; expected one of {', '.join(CHOICES)}.")
    if engine != AUTO:
        if engine != TENSORFLOW and not loaded_model.is_export(folder):
            raise UserError(
                f"{folder} is a checkpoint: `bert-tf export {folder} TO --engine={engine}` makes an export."
            )
        return engine
    is_elsewhere = not loaded_model.is_export(folder) or machine.has_accelerator()
    found = [] if is_elsewhere else [name for name in available(folder) if not name.endswith(INT8)]
    speeds = settings_of(folder)["seconds"] if found else {}
    installed = [name for name in sorted(found, key=lambda name: speeds.get(name, 0)) if engines.is_installed(name)]
    return installed[0] if installed else TENSORFLOW


def tokenizer_of(folder: str) -> HostTokenizer:
    """The tokenizer of an export."""
    extra = os.path.join(folder, EXTRA)
    settings = json_files.require_json(os.path.join(extra, "tokenizer_config.json"), "the casing of a tokenizer")
    return create_host_tokenizer(
        vocabulary.read(os.path.join(extra, "vocab.txt")),
        settings.get("do_lower_case", True),
        special_tokens_in_strings=settings.get(special_tokens.SETTING, False),
    )


def are_calibrated(names: Sequence[str]) -> bool:
    """Returns whether one of these engines learns 8-bit ranges from texts."""
    return any(engines.engine_of(name.removesuffix(INT8)).CALIBRATES for name in names if name.endswith(INT8))


def names_of(text: str) -> list[str]:
    """The engines in a flag of `bert-tf export` or of a training command, separated by commas.

    [AUTO] for "auto", which `default_names` decides when the export is written; [] for "none".
    Raises UserError for an unknown one, and if the package that writes its models is missing.
    """
    names = comma_separated(text)
    if names in ([AUTO], [NONE]):
        return names if names == [AUTO] else []
    for name in names:
        if name not in CHOICES[2:]:
            raise UserError(f"engine is {name!r}; expected {AUTO}, {NONE}, or some of {', '.join(CHOICES[2:])}.")
        engine, _, quantize = name.partition("_")
        engines.engine_of(engine, quantize or None)
    return names


def default_names() -> list[str]:
    """The engines that "auto" adds to an export: the first one with models that can be written and run here, if any."""
    for name in CHOICES[2:]:
        with contextlib.suppress(UserError):
            if not name.endswith(INT8) and engines.engine_of(name):
                return [name]
    return []
