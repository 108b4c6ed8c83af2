"""Models for other inference engines, plugins: OpenVINO, ONNX Runtime, LiteRT.

A module has PACKAGES, {quantize: the packages that `write` imports}; RUNTIME, the package that `load` imports;
CALIBRATES, whether int8 learns from samples; FILES, the names of the files that it writes; and

  write(saved_model, folder, *, quantize, samples)
      converts the SavedModel of a `functional_bert.FunctionalModel`; samples: inputs for calibration, maybe none
  load(folder, *, exact)
      returns a function {input: int32 array} -> {output: float32 array}; exact: in float32 even if the engine would
      use lower precision
  may_round()
      whether the engine would use lower precision on this machine

In addition to the model, a folder contains vocab.txt, tokenizer_config.json and tokenizer.json (for the library
`tokenizers`), bert_config.json, and about.json with inputs, outputs and labels.
"""

import dataclasses
import importlib.util
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf import heads
from bert_tf.checkpoints import checkpoint_files, huggingface_tokenizers
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.resize_positions import with_position_table
from bert_tf.errors import UserError, reason_of
from bert_tf.export import engine_parity
from bert_tf.model.weights import LoadReport
from bert_tf.runtime import files, plugins
from bert_tf.runtime.atomic_files import StrPath, write_json
from bert_tf.runtime.lazy import module
from bert_tf.runtime.settings import read_settings
from bert_tf.runtime.tensorflow_startup import ensure_started
from bert_tf.text.vocabulary import SubwordVocabulary

tokenizers = module("tokenizers")

if TYPE_CHECKING:
    from bert_tf.model.functional_bert import CheckpointModel, Head

    Function = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]

ABOUT, NETWORK = "about.json", "network"
QUANTIZED = ("int8",)
# Largest difference from the live model, relative to the largest output. Beyond the limit for int8 a model is useless.
LIMITS = {None: 1e-4, "int8": 0.5}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EngineModel:
    """Result of `write`, compared with TensorFlow on this machine.

    Attributes:
        engine: the name of the engine.
        quantize: "int8" or None.
        outputs: names of the outputs.
        size: size of the model in bytes.
        length: length of the timed text in tokens.
        seconds: median time for that text.
        live_seconds: the same with TensorFlow.
        difference: largest difference from the live model, relative to the largest output, in the precision that the
            engine uses on this machine.
        report: the weights loaded from the checkpoint.
    """

    engine: str
    quantize: str | None
    outputs: list[str]
    size: int
    length: int
    seconds: float
    live_seconds: float
    difference: float
    report: "LoadReport"


def names() -> list[str]:
    """The names of the engines of this package, without importing them."""
    return plugins.names(__name__)


def is_engine(name: str) -> bool:
    """Returns whether a name is an engine rather than a format: one of `names()`, or a module with PACKAGES."""
    if "." not in name:
        return name in names()
    ensure_started()  # the module may import it
    return hasattr(plugins.load(__name__, name, kind="format or engine"), "PACKAGES")


def is_installed(name: str) -> bool:
    """Returns whether this machine can run models for an engine of this package, including "_int8" ones."""
    engine = name.partition("_")[0]
    return engine in names() and importlib.util.find_spec(plugins.load(__name__, engine).RUNTIME) is not None


def engine_of(name: str, quantize: str | None = None, *, runs_only: bool = False) -> ModuleType:
    """Imports an engine: one of `names()`, or a module outside of this package by its dotted name.

    runs_only: whether models are only run, not written.

    Raises:
        UserError: the engine is unknown, cannot quantize, or needs a package that is not installed.
    """
    module = plugins.load(__name__, name, kind="engine")
    if quantize not in module.PACKAGES:
        raise UserError(f"{name} has no quantization {quantize}: leave the flag out.")
    for package in (module.RUNTIME,) if runs_only else module.PACKAGES[quantize]:
        if importlib.util.find_spec(package) is None:
            extra = f'"bert-tf[{name}]"' if name in names() else package
            raise UserError(f"{package} is missing: pip install {extra}.")
    return module


def load(folder: StrPath, *, exact: bool = False, engine: str | None = None) -> "Function":
    """Loads a folder from `write`.

    Args:
        folder: the folder.
        exact: whether to compute in float32 even if the engine would use lower precision.
        engine: the dotted name of an engine outside of this package; by default the one named in the folder.

    Returns:
        A function {input: int32 array} -> {output: float32 array}.
    """
    name = engine or read_settings(os.path.join(folder, ABOUT)).get("engine")
    if engine is None and name not in names():  # data does not choose code outside of this package
        raise UserError(f"{folder} holds no model for {', '.join(names())}: `bert-tf convert` writes one.")
    function: Function = engine_of(str(name)).load(folder, exact=exact)
    return function


def write(
    checkpoint: "Checkpoint", folder: StrPath, name: str, *, quantize: str | None = None, texts: Sequence[str] = ()
) -> EngineModel:
    """Writes a checkpoint as a new folder for an engine, whole or not at all, after comparing it with the live model.

    Args:
        checkpoint: a BERT, with or without a head.
        folder: the folder to write.
        name: the engine.
        quantize: "int8" for 8-bit weights.
        texts: strings for the comparison, and for calibrating OpenVINO's int8; by default built-in ones to compare on.

    Raises:
        UserError: a package is missing, the model cannot be converted, or its outputs differ.
    """
    engine = engine_of(name, quantize)
    from bert_tf.model import functional_bert

    checkpoint = with_position_table(checkpoint)
    live = functional_bert.CheckpointModel(checkpoint, heads.functional_form(checkpoint.kind, checkpoint.weights))
    with checkpoint_files.new_folder(folder) as partial:
        tokenizer = _write_text_files(partial, checkpoint)
        rows = engine_parity.token_ids_of(texts or engine_parity.SENTENCES, tokenizer, checkpoint.config)
        length = min(engine_parity.TIMED_LENGTH, checkpoint.config.max_position_embeddings)
        options: dict[str, Any] = {
            "has_masks": "masked_lm_positions" in live.head.inputs,
            "segments": checkpoint.config.type_vocab_size,
        }
        samples = [engine_parity.inputs_of([row], **options) for row in rows] if texts else []
        _convert(engine, live, partial, quantize=quantize, samples=samples)
        batches = engine_parity.batches(rows, length=length, **options)
        measured = _compare(engine, live, partial, batches, LIMITS[quantize])
        model = EngineModel(
            engine=name,
            quantize=quantize,
            size=sum(files.size(os.path.join(partial, file)) for file in engine.FILES),
            length=length,
            report=live.report,
            **measured,
        )
        _write_about(partial, checkpoint, live.head, model)
    return model


def write_network(
    name: str,
    live: "CheckpointModel",
    folder: str,
    *,
    quantize: str | None = None,
    samples: "Sequence[dict[str, np.ndarray]]" = (),
) -> None:
    """Writes only the files of an engine into an existing folder. samples: inputs for calibrating int8."""
    _convert(engine_of(name, quantize), live, folder, quantize=quantize, samples=list(samples))


def _compare(
    engine: ModuleType, live: "CheckpointModel", folder: str, batches: "list[dict[str, np.ndarray]]", limit: float
) -> dict[str, Any]:
    """The measured fields of an EngineModel; UserError if outputs differ by more than the limit."""
    default = engine.load(folder, exact=False)
    exact = engine.load(folder, exact=True) if engine.may_round() else default
    difference = engine_parity.difference(live, exact, batches, live.head.token_outputs)
    if not difference <= limit:
        raise UserError(
            f"The outputs of {_name(engine)} differ from the model's by {difference:.2g} of the largest value, "
            f"expected at most {limit:.2g}; nothing was written."
        )
    if exact is not default:
        difference = engine_parity.difference(live, default, batches, live.head.token_outputs)
    seconds, live_seconds = engine_parity.median_seconds((default, live), batches[-1])
    return {
        "outputs": sorted(default(batches[-1])),
        "difference": difference,
        "seconds": seconds,
        "live_seconds": live_seconds,
    }


def _name(engine: ModuleType) -> str:
    return engine.__name__.rpartition(".")[2]


def table(models: Sequence[EngineModel]) -> Iterator[str]:
    """Yields the lines of a table of models of one checkpoint: size on disk, time, difference."""
    yield f"{'':24}{'size':>10}{f'one text of {models[0].length}':>20}{'largest difference':>22}"
    for model in models:
        name = f"{model.engine}{' ' + model.quantize if model.quantize else ''}"
        yield f"  {name:22}{model.size / 1e6:>7.1f} MB{model.seconds * 1e3:>17.1f} ms{model.difference:>22.1e}"
    live_seconds = statistics.median(model.live_seconds for model in models)
    yield f"  {'TensorFlow, here':22}{'':10}{live_seconds * 1e3:>17.1f} ms"


def _write_text_files(folder: str, checkpoint: "Checkpoint") -> Any:
    """Writes configuration, vocabulary and tokenizer; returns the tokenizer, or None without vocabulary or casing."""
    checkpoint.config.write(os.path.join(folder, "bert_config.json"))
    checkpoint_files.write_tokenizer_files(folder, checkpoint)
    if checkpoint.vocabulary is None or checkpoint.lower_case is None:
        return None
    if isinstance(checkpoint.vocabulary, SubwordVocabulary):
        path = os.path.join(folder, "tokenizer.json")
        huggingface_tokenizers.write(folder, checkpoint)
        return _truncating(tokenizers.Tokenizer.from_file(path), checkpoint) if files.is_file(path) else None
    tokenizer = _truncating(huggingface_tokenizers.tokenizer_of(checkpoint), checkpoint)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    return tokenizer


def _truncating(tokenizer: Any, checkpoint: "Checkpoint") -> Any:
    tokenizer.enable_truncation(checkpoint.config.max_position_embeddings)
    return tokenizer


def _convert(
    engine: ModuleType,
    live: "CheckpointModel",
    folder: str,
    *,
    quantize: str | None,
    samples: "list[dict[str, np.ndarray]]",
) -> None:
    network = os.path.join(folder, NETWORK)
    try:
        live.save(network)
        engine.write(network, folder, quantize=quantize, samples=samples)
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:  # converters raise many types
        raise UserError(f"{_name(engine)} cannot convert this model ({reason_of(error)}).") from error
    files.remove(network)


def _write_about(folder: str, checkpoint: "Checkpoint", head: "Head", model: EngineModel) -> None:
    about = {
        "engine": model.engine,
        "quantize": model.quantize,
        "inputs": {name: {"type": "int32", "shape": shape} for name, shape in head.inputs.items()},
        "outputs": model.outputs,
        "labels": list(checkpoint.labels or ()),
        "kind": checkpoint.kind,
        "difference": model.difference,
    }
    write_json(os.path.join(folder, ABOUT), about)
