"""Checkpoints as models for other inference engines, in separate folders, compared with the live model.

Besides the model, a folder contains vocab.txt, tokenizer_config.json and tokenizer.json (of the library `tokenizers`),
bert_config.json, and about.json with inputs, outputs and labels.
"""

import dataclasses
import os
import statistics
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from bert_tf.checkpoints import checkpoint_files, huggingface_tokenizers
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.resize_positions import with_position_table
from bert_tf.errors import UserError
from bert_tf.export import engine_parity, engines
from bert_tf.export.engine_models import convert, functional_form, name_of
from bert_tf.model import functional_bert
from bert_tf.model.weights import LoadReport
from bert_tf.runtime import files
from bert_tf.runtime.atomic_files import StrPath, write_json
from bert_tf.runtime.lazy import module
from bert_tf.text.vocabulary import SubwordVocabulary

tokenizers = module("tokenizers")

# Largest difference from the live model, relative to the largest output. Above the int8 limit a model is useless.
LIMITS = {None: 1e-4, "int8": 0.5}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EngineModel:
    """Result of `write`, compared with TensorFlow on this machine.

    Attributes:
        engine: the name of the engine.
        quantize: "int8" or None.
        outputs: names of the outputs.
        size: bytes of the model.
        length: tokens of the timed text.
        seconds: median time for that text.
        live_seconds: the same with TensorFlow.
        difference: largest difference from the live model, relative to the largest output, in the engine's precision
            on this machine.
        report: which weights of the checkpoint were loaded.
    """

    engine: str
    quantize: str | None
    outputs: list[str]
    size: int
    length: int
    seconds: float
    live_seconds: float
    difference: float
    report: LoadReport


def write(
    checkpoint: Checkpoint, folder: StrPath, name: str, *, quantize: str | None = None, texts: Sequence[str] = ()
) -> EngineModel:
    """Writes a checkpoint as a new folder for an engine, whole or not at all, after comparing it with the live model.

    Args:
        checkpoint: a BERT, with or without a head.
        folder: the folder to write.
        name: the engine.
        quantize: "int8" for 8-bit weights.
        texts: strings to compare on, and to calibrate OpenVINO's int8 with; by default built-in ones to compare on.

    Raises:
        UserError: a package is missing, the model cannot be converted, or its outputs differ.
    """
    engine = engines.engine_of(name, quantize)
    checkpoint = with_position_table(checkpoint)
    live = functional_bert.CheckpointModel(checkpoint, functional_form(checkpoint.kind, checkpoint.weights))
    with checkpoint_files.new_folder(folder) as partial:
        tokenizer = _write_text_files(partial, checkpoint)
        rows = engine_parity.token_ids_of(texts or engine_parity.SENTENCES, tokenizer, checkpoint.config)
        length = min(engine_parity.TIMED_LENGTH, checkpoint.config.max_position_embeddings)
        options: dict[str, Any] = {
            "has_masks": "masked_lm_positions" in live.head.inputs,
            "segments": checkpoint.config.type_vocab_size,
        }
        samples = [engine_parity.inputs_of([row], **options) for row in rows] if texts else []
        convert(engine, live, partial, quantize=quantize, samples=samples)
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


def _compare(
    engine: ModuleType,
    live: functional_bert.CheckpointModel,
    folder: str,
    batches: list[dict[str, np.ndarray]],
    limit: float,
) -> dict[str, Any]:
    """The measured fields of an EngineModel; UserError if outputs differ by more than the limit."""
    default = engine.load(folder, exact=False)
    exact = engine.load(folder, exact=True) if engine.may_round() else default
    difference = engine_parity.difference(live, exact, batches, live.head.token_outputs)
    if not difference <= limit:
        raise UserError(
            f"The outputs of {name_of(engine)} differ from the model's by {difference:.2g} of the largest value, "
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


def table(models: Sequence[EngineModel]) -> Iterator[str]:
    """Yields the lines of a table of models of one checkpoint: size on disk, time, difference."""
    yield f"{'':24}{'size':>10}{f'one text of {models[0].length}':>20}{'largest difference':>22}"
    for model in models:
        name = f"{model.engine}{' ' + model.quantize if model.quantize else ''}"
        yield f"  {name:22}{model.size / 1e6:>7.1f} MB{model.seconds * 1e3:>17.1f} ms{model.difference:>22.1e}"
    live_seconds = statistics.median(model.live_seconds for model in models)
    yield f"  {'TensorFlow, here':22}{'':10}{live_seconds * 1e3:>17.1f} ms"


def _write_text_files(folder: str, checkpoint: Checkpoint) -> Any:
    """Writes configuration, vocabulary and tokenizer; returns the tokenizer, None without vocabulary or casing."""
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


def _truncating(tokenizer: Any, checkpoint: Checkpoint) -> Any:
    tokenizer.enable_truncation(checkpoint.config.max_position_embeddings)
    return tokenizer


def _write_about(folder: str, checkpoint: Checkpoint, head: functional_bert.Head, model: EngineModel) -> None:
    about = {
        "engine": model.engine,
        "quantize": model.quantize,
        "inputs": {name: {"type": "int32", "shape": shape} for name, shape in head.inputs.items()},
        "outputs": model.outputs,
        "labels": list(checkpoint.labels or ()),
        "kind": checkpoint.kind,
        "difference": model.difference,
    }
    write_json(os.path.join(folder, engines.ABOUT), about)
