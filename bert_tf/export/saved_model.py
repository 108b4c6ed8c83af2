"""Writes a SavedModel that takes raw strings, after comparing it with the live model.

It loads without this package: with `tf.saved_model.load` after `import tensorflow_text`, in TensorFlow Serving, in C.
It is also a checkpoint, which `checkpoints.formats.saved_model` reads with the configuration in `assets.extra`.
"""

import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.checkpoints import sentence_transformers
from bert_tf.checkpoints.checkpoint_files import MAX_LENGTH
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import NoEngine, TrainingError, UserError, listed, reason_of
from bert_tf.export import (
    about_file,
    attention_signature,
    attribution_signature,
    engine_models,
    engine_network,
    host_settings,
    keras_network,
    opening,
    tf_examples,
    tokenizer_parity,
)
from bert_tf.export.about_file import EXTRA
from bert_tf.export.predictor import Predictor
from bert_tf.export.text_function import DEFAULT
from bert_tf.heads.base.servable import Servable
from bert_tf.model import attribution, weights
from bert_tf.model.heads import BertModel
from bert_tf.runtime import backend, files, machine, tensorflow_startup
from bert_tf.runtime.atomic_files import StrPath, atomic_folder, write_json
from bert_tf.text import special_tokens, vocabulary
from bert_tf.text.tokenizer import Tokenizer

# Largest difference between outputs, relative to the largest value of an output.
TOLERANCES = {"float32": 1e-4, "bfloat16": 0.1, "float16": 2e-2, "int8": 0.5}

CONVERSION_FACTOR = 10  # memory for converting a model, relative to the size of its weights in float32

TEXTS = (  # for the comparison with other engines
    "The [MASK] is on the table.",
    "Ann Smith moved from Paris to New York in 1998, and works at Acme Inc. there, as her brother did before her.",
    "Who sings in Ulm?",
    "",
)

log = logging.getLogger("bert_tf")

Signature = Callable[..., Mapping[str, tf.Tensor]]
Signatures = Mapping[str, tf.types.experimental.PolymorphicFunction]
Functions = Mapping[str, Callable[..., dict[str, tf.Tensor]]]
Examples = Mapping[str, Mapping[str, Any]]


def export(
    task: Servable,
    model: BertModel,
    tokenizer: Tokenizer,
    folder: StrPath,
    *,
    examples: Examples,
    about: Mapping[str, Any] | None = None,
    precision: str = "float32",
    with_attention: bool = False,
    engine_names: Sequence[str] = (),
    calibration: Sequence[Sequence[str]] = (),
) -> Any:
    """Writes the SavedModel of a trained model, whole or not at all; replaces an earlier one.

    Args:
        task: creates the model and its signatures.
        model: the trained model, in any precision and on any devices.
        tokenizer: the model's tokenizer.
        folder: the folder to write.
        examples: {signature: {input: strings}}, for comparing the export with the model.
        about: plain data for `about.json`: "labels" and "kind" of the head, how to read files for it.
        precision: precision of the weights and the computation; 16 bits are fast only on devices with instructions for
            them.
        with_attention: whether to add the signatures of `attention_signature` and, if the model has a prediction to
            explain, of `attribution_signature`.
        engine_names: other engines that get their own model in the export, see `engine_models.write`; with [AUTO] the
            one from `opening.default_names`, unless that is impossible, which is logged.
        calibration: see `engine_models.write`.

    Returns:
        What `tf.saved_model.load` returns for the folder.

    Raises:
        UserError: the outputs of the export differ from the model's.
        TrainingError: the folder cannot be written.
    """
    if not (tokenizer.in_graph or task.host_settings):
        raise UserError(
            "This head requires signatures on strings, but TensorFlow has no operations for its tokenizer: start "
            "from a checkpoint with another tokenizer."
        )
    about = {"task": task.name, **(about or {})}
    copy = task.create_model(model.config, dtype=precision)  # on one device
    weights.assign(copy, {name: variable.value.numpy() for name, variable in weights.variables_by_name(model).items()})
    signatures, live_signatures = (
        signatures_of(task, each, tokenizer, with_attention=with_attention) for each in (copy, model)
    )
    if DEFAULT in examples:
        examples = {**examples, tf_examples.NAME: {"examples": tf_examples.serialized(examples[DEFAULT])}}
    own_examples: Examples = {}  # compared with the copy: without a graph, dozens of gradients take long
    if with_attention:
        examples = {**examples, attention_signature.SIGNATURE: attention_signature.EXAMPLES}
    if attribution_signature.SIGNATURE in signatures:
        own_examples = {attribution_signature.SIGNATURE: attribution_signature.EXAMPLES}
    about["inputs"] = _inputs_of(signatures[DEFAULT])
    live_precision = model.dtype_policy.compute_dtype
    try:
        with atomic_folder(folder, overwrite=True) as partial:
            settings, network = None, {}
            if task.host_settings:
                settings = host_settings.of_model(task.host_settings, copy, tokenizer.pad_id)
                network = keras_network.saved_functions(copy, settings, task.vector_choice(copy.config))
            _save(_Serving(copy, signatures, network), partial)
            write_json(os.path.join(partial, "about.json"), about)
            _write_checkpoint_files(os.path.join(partial, EXTRA), model.config, tokenizer, about, settings)
            sentence_transformers.write(os.path.join(partial, EXTRA), task.sentence_vectors, model.config.hidden_size)
            exported = tf.saved_model.load(partial)
            found = exported.signatures if tokenizer.in_graph else signatures  # others only explain why they cannot run
            default: Signature = found[DEFAULT]
            if live_precision != precision:
                own_examples = {**examples, **own_examples}
            _compare(found, signatures, own_examples, TOLERANCES[precision])
            live = {name: signature.python_function for name, signature in live_signatures.items()}  # not traced again
            _compare(found, live, examples, max(TOLERANCES[precision], TOLERANCES[live_precision]))
            if settings and (reason := _why_only_strings(partial, exported, default, tokenizer, about, precision)):
                if not tokenizer.in_graph:
                    raise UserError(f"{reason}; nothing was written.")
                files.remove(os.path.join(partial, host_settings.NAME))
                log.warning("The export has only its signatures on strings: %s.", reason)
            options = {"task": task, "model": copy, "about": about, "precision": precision, "calibration": calibration}
            if list(engine_names) == [opening.AUTO]:
                _add_default_engine(folder, partial, default, **options)
            elif engine_names:
                _add_engines(partial, default, engine_names, **options)
            return exported
    except (tf.errors.OpError, OSError) as error:
        raise TrainingError(
            f"The export could not be written to {folder} ({reason_of(error)}): free some space, or make the folder "
            "writable, and run the same command again."
        ) from None


def _why_only_strings(
    partial: str, exported: Any, default: Signature, tokenizer: Tokenizer, about: Mapping[str, Any], precision: str
) -> str:
    """Why an export cannot answer with its functions on rows: their tokens or answers differ from its signature's.

    "" if it can. default: that signature, from the export or the live model.
    """
    try:
        tokenizer_parity.check(tokenizer, opening.tokenizer_of(partial))
        found = opening.of_saved_model(partial, jit_compile="false", loaded=exported)
        if isinstance(found, Predictor):  # third-party heads have only the signature
            texts, expected = _answers(default, about["inputs"])
            _check_answers("its functions of rows", found.outputs(texts), expected, TOLERANCES[precision])
    except NoEngine as error:
        return error.reason
    return ""


def _check_fits(folder: StrPath, model: BertModel) -> None:
    """Raises NoEngine for a folder in a store, and if converting the model may need more memory than is free."""
    if files.is_remote(folder):
        raise NoEngine("engines read models from disk, not from object stores")
    weights_size = 4 * sum(math.prod(variable.shape) for variable in weights.variables_by_name(model).values())
    needed, (_, free) = CONVERSION_FACTOR * weights_size, machine.memory()
    if needed > free:
        raise NoEngine(f"converting it needs about {needed / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} are free")


def _add_default_engine(folder: StrPath, partial: str, default: Signature, **options: Any) -> None:
    """Adds a model for the engine of "auto", if there is one; if that fails, the export is complete without it."""
    names = opening.default_names()
    if not names:
        return
    try:
        _check_fits(folder, options["model"])
        _add_engines(partial, default, names, by_default=True, **options)
    except Exception as error:  # converters raise many types
        files.remove(os.path.join(partial, engine_network.FOLDER))
        reason = error.reason if isinstance(error, NoEngine) else reason_of(error).rstrip(".")
        log.warning("The export has no model for %s: %s.", listed(names), reason)


def _add_engines(partial: str, default: Signature, names: Sequence[str], *, precision: str, **options: Any) -> None:
    """Adds models for other engines; NoEngine if their answers differ from the SavedModel's."""
    texts, expected = _answers(default, options["about"]["inputs"])
    found = engine_models.write(partial, names, texts=texts, precision=precision, **options)
    for engine, outputs in found.items():
        _check_answers(engine, outputs, expected, TOLERANCES["int8" if engine.endswith("int8") else precision])


def _answers(default: Signature, inputs: Mapping[str, int | None]) -> tuple[list[list[str]], Mapping[str, tf.Tensor]]:
    """Examples made from TEXTS, and the outputs of the default signature for them. inputs: see `_inputs_of`."""
    size = sum(count or 1 for count in inputs.values())
    texts = [[TEXTS[(number + place) % len(TEXTS)] for place in range(size)] for number in range(len(TEXTS))]
    columns, first = {}, 0
    for name, count in inputs.items():
        parts = [row[first : first + (count or 1)] for row in texts]
        columns[name] = tf.constant(parts if count else [part for (part,) in parts])
        first += count or 1
    return texts, default(**columns)


def _check_answers(
    name: str, outputs: Mapping[str, np.ndarray], expected: Mapping[str, tf.Tensor], tolerance: float
) -> None:
    """Raises NoEngine if outputs differ from the default signature's. name: the name of their source."""
    if outputs.keys() != expected.keys():
        raise NoEngine(f"The outputs of {name} are {', '.join(outputs)}; expected {', '.join(expected)}")
    for output, values in outputs.items():
        difference = _difference(expected[output].numpy(), values, tolerance)
        if not difference <= tolerance:
            raise NoEngine(
                f"The answers of {name} differ from TensorFlow's (output {output!r} by {difference:.2g} of its largest "
                f"value, expected at most {tolerance:.2g})"
            )


def _inputs_of(signature: Any) -> dict[str, int | None]:
    """{name: None, or the number of strings per example that it takes} for a signature on strings."""
    return {spec.name: spec.shape[1] if spec.shape.rank == 2 else None for spec in signature.input_signature}


def signatures_of(
    task: Servable, model: BertModel, tokenizer: Tokenizer, *, with_attention: bool = False
) -> Signatures:
    """{name: tf.function on strings}: the task's, one on tf.Examples, and if requested some that explain."""
    signatures: Signatures = task.signatures(model, tokenizer)
    signatures = {**signatures, tf_examples.NAME: tf_examples.signature(signatures[DEFAULT])}
    if with_attention:
        signatures = {**signatures, attention_signature.SIGNATURE: attention_signature.signature(model, tokenizer)}
        if attribution.explains(model):
            own = attribution_signature.signature(model, tokenizer)
            signatures = {**signatures, attribution_signature.SIGNATURE: own}
    return signatures


class _Serving(tf.Module):
    """Variables under their canonical names, and functions.

    Only closures of the functions refer to the Keras model: TensorFlow's C++ loader fails on one as an attribute.
    """

    def __init__(self, model: BertModel, signatures: Signatures, network: Mapping[str, Any]) -> None:
        super().__init__()
        self.weights = {name: variable.value for name, variable in weights.variables_by_name(model).items()}
        self.functions = dict(signatures)
        self.network = dict(network)  # see saved_network.py


def _save(serving: _Serving, folder: str) -> None:
    runs_eagerly = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(False)  # otherwise the operations that save variables would be in the main graph
    try:
        with backend.for_any_device(), tensorflow_startup.quiet_log():  # the functions are traced here
            tf.saved_model.save(serving, folder, signatures=serving.functions)
    finally:
        tf.config.run_functions_eagerly(runs_eagerly)


def _write_checkpoint_files(
    folder: str,
    config: BertConfig,
    tokenizer: Tokenizer,
    about: Mapping[str, Any],
    settings: Mapping[str, Any] | None,
) -> None:
    """Writes host.json, and configuration, vocabulary, casing, length and labels: the SavedModel is a checkpoint too.

    settings: content of host.json.
    """
    files.make_folder(folder)
    config.write(os.path.join(folder, "bert_config.json"))
    vocabulary.write(os.path.join(folder, "vocab.txt"), tokenizer.vocabulary)
    of_tokenizer = special_tokens.settings(tokenizer.lower_case, tokenizer.special_tokens)
    if settings and settings["stages"] == "texts" and not settings.get("windows"):
        of_tokenizer[MAX_LENGTH] = settings["max_seq_length"]
    write_json(os.path.join(folder, "tokenizer_config.json"), of_tokenizer)
    if settings:
        write_json(os.path.join(folder, os.path.basename(host_settings.NAME)), settings)
    write_json(os.path.join(folder, os.path.basename(about_file.HEAD)), about_file.of_head(about))


def _compare(signatures: Mapping[str, Signature], functions: Functions, examples: Examples, tolerance: float) -> None:
    """Raises UserError if the outputs of signatures differ from those of live functions on strings."""
    for name, values in examples.items():
        inputs = {key: tf.constant(value) for key, value in values.items()}
        expected, actual = functions[name](**inputs), signatures[name](**inputs)
        for key in expected:
            difference = _difference(expected[key].numpy(), actual[key].numpy(), tolerance)
            if not difference <= tolerance:
                raise UserError(
                    f"The export's outputs differ from the model's: output {key!r} of {name!r} by {difference:.2g} of "
                    f"its largest value, expected at most {tolerance:.2g}; nothing was written."
                )


def _difference(expected: np.ndarray, actual: np.ndarray, tolerance: float) -> float:
    """Largest difference relative to the largest expected value, or absolute if all values are smaller than 1.

    Values of the last hidden layer are about 1, so rounding errors of the outputs do not shrink below that scale.
    Integers and strings depend on the order of values, which a small difference can swap: strings are not compared,
    and up to half of the integers may differ. With a tolerance above that of float32, integers and shapes are not
    compared either.
    """
    is_rough = tolerance > TOLERANCES["float32"]
    if expected.dtype.kind not in ("f" if is_rough else "fiu"):
        return 0.0
    if expected.shape != actual.shape:
        return 0.0 if is_rough else np.inf
    if expected.dtype.kind != "f":
        return 0.0 if 2 * np.count_nonzero(expected != actual) <= expected.size else np.inf
    expected = expected.astype(np.float64)
    return float(np.max(np.abs(expected - actual), initial=0.0) / np.max(np.abs(expected), initial=1.0))
