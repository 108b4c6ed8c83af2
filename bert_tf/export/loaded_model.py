"""An exported SavedModel that takes strings, loaded without the code of its model: its signature says what it takes.

B texts in a batch.
"""

import abc
import contextlib
import glob
import importlib.util
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf import heads
from bert_tf.checkpoints import formats, tensorflow_weights
from bert_tf.config import segments
from bert_tf.data.examples import Example
from bert_tf.errors import UserError, reason_of
from bert_tf.export import about_file, graph_operations
from bert_tf.export.batches import BatchFunction
from bert_tf.export.static_signature import StaticSignature, static_signatures
from bert_tf.export.tagged_words import SIGNATURE, WordTagger
from bert_tf.heads.base.head import Head
from bert_tf.heads.base.staged_signature import stages_of
from bert_tf.runtime import atomic_files, files
from bert_tf.runtime.lazy import tf
from bert_tf.runtime.tensorflow_startup import ensure_started

SAVED_MODEL = "saved_model.pb"
BATCH_SIZE, STATIC_BATCH_SIZE = 32, 2048  # texts that fill all cores, and those that fill the rows of an accelerator
# The orders of inputs that exports without `inputs` in about.json may have.
ORDERS = (("question", "context"), ("text_a", "text_b"), ("text_a", "choices"))


def check_free(target: str, *, overwrite: bool) -> None:
    """Raises UserError if there is anything at the target, except an export that may be overwritten."""
    if not overwrite or not files.is_file(os.path.join(target, SAVED_MODEL)):
        atomic_files.check_free(target)


def find(path: str) -> str:
    """Model that a path stands for: an export, the path itself or `export` in the folder of a run; or a checkpoint.

    Raises UserError if it is neither. Whether a checkpoint has a head shows when it is loaded.
    """
    if not path.startswith("hf://"):
        for folder in (path, os.path.join(path, "export")):
            if is_export(folder):
                atomic_files.check_whole(folder)
                segments.check_unused(folder)
                return folder
        if files.is_file(os.path.join(path, "run.json")):
            raise UserError(f"The run in {path} has no export: `bert-tf export {path}` makes it.")
    if _is_checkpoint(path):
        return path
    if not files.is_folder(path):
        raise UserError(f"There is no folder {path}: pass that of an export, of a run that has one, or a checkpoint.")
    raise UserError(
        f"{path} is not an export, as it holds no {SAVED_MODEL}, and no checkpoint: pass the folder that a run calls "
        "export."
    )


def forget_checkpoints() -> None:
    """Lets checkpoints that were loaded be read again, as they may have been replaced."""
    if live_model := sys.modules.get("bert_tf.export.live_model"):  # if none was loaded, nor is the code of models
        live_model.forget()


def is_export(folder: str) -> bool:
    """Returns whether a folder has a SavedModel to run; encoders of others on token ids are checkpoints."""
    return files.is_file(os.path.join(folder, SAVED_MODEL)) and not tensorflow_weights.is_encoder(folder)


def _is_checkpoint(path: str) -> bool:
    return formats.is_checkpoint(path)


class TextFunction(abc.ABC):
    """A function on texts that says by name what it takes and returns.

    Attributes:
        source: the path of the model, for messages.
        inputs: {name: None, or the number of texts of an example that it takes}, in the order of an example's texts.
        has_order: whether that order is known; otherwise it is that of names, and texts must be given by name.
        batch_size: how many texts to compute at once if nobody says.
        word_tagger: of sentences that are split into words; None if the model is no tagger.
        labels: names of the classes, () without.
        task: its name, "" without.
        head: what it answers; None if that is of no kind.
    """

    source: str
    inputs: dict[str, int | None]
    has_order: bool
    batch_size: int = BATCH_SIZE
    word_tagger: BatchFunction | None = None
    labels: tuple[str, ...] = ()
    task: str = ""
    head: type[Head] | None = None

    def predict(self, examples: Sequence[Example]) -> "dict[str, np.ndarray]":
        """{name: array [B, ...]} of the outputs for B examples. Raises UserError if memory does not suffice."""
        columns, first = {}, 0
        for name, count in self.inputs.items():
            texts = [example.encode()[first : first + (count or 1)] for example in examples]
            columns[name] = texts if count else [text for (text,) in texts]
            first += count or 1
        try:
            return self._run(columns)
        except MemoryError:
            raise UserError(f"Memory ran out for {len(examples)} texts at once: lower batch_size.") from None

    def check_order(self) -> None:
        """Raises UserError if the order of the inputs is unknown, so that no text has a place."""
        if not self.has_order:
            raise UserError(
                f"{self.source} does not say in which order it takes {' and '.join(self.inputs)}: pass a table with "
                "columns of these names, without text_columns."
            )

    @abc.abstractmethod
    def _run(self, columns: dict[str, list]) -> "dict[str, np.ndarray]":
        """The outputs for the inputs; raises MemoryError, or UserError if it fails otherwise."""


class Signature(TextFunction):
    """A function on strings, of a SavedModel or of a live model."""

    def __init__(self, function: Any, source: str, declared: Sequence[str] = ()) -> None:
        """Takes a tf.function with an input signature, or one of `signatures`; UserError if it takes no strings.

        declared: the inputs in order, of one of `signatures`, which holds them by name.
        """
        self.source = source
        self._function = function.get_concrete_function() if hasattr(function, "get_concrete_function") else function
        self.inputs, self.has_order = _inputs_of(source, self._function, declared)
        if isinstance(self._function, StaticSignature):
            self.batch_size = STATIC_BATCH_SIZE

    def _run(self, columns: dict[str, list]) -> "dict[str, np.ndarray]":
        inputs = {name: tf.constant(texts, tf.string) for name, texts in columns.items()}
        try:
            return {name: _array(tensor) for name, tensor in self._function(**inputs).items()}
        except tf.errors.ResourceExhaustedError:
            raise MemoryError from None
        except tf.errors.OpError as error:
            raise UserError(f"The export {self.source} failed: {reason_of(error)}.") from None


class Export(Signature):
    """A signature of a SavedModel.

    Attributes:
        folder: the folder of the SavedModel.
        signatures: {name: function} of all its signatures.
    """

    def __init__(self, folder: str, signature: str = "serving_default", *, jit_compile: str = "auto") -> None:
        """Loads the folder; starts TensorFlow. jit_compile: see `signatures`.

        Raises:
            UserError: the folder is damaged, lacks the signature, or the signature takes something but strings.
        """
        self.signatures = signatures(folder, jit_compile=jit_compile)
        if signature not in self.signatures:
            has = ", ".join(self.signatures) or "none"
            raise UserError(f"The export {folder} has no signature {signature!r}; it has {has}.")
        super().__init__(self.signatures[signature], folder, declared_inputs(folder))
        self.folder = folder
        if SIGNATURE in self.signatures:
            self.word_tagger = WordTagger(self.signatures[SIGNATURE])
        self.labels, self.task = labels_and_task(folder)
        self.head = head_of(folder, self._function.structured_outputs)


def head_of(folder: str, outputs: Collection[str], inputs: Collection[str] | None = None) -> type[Head] | None:
    """Kind of the answers of an export or a checkpoint: as it says, or by the tensors of its default signature.

    The latter also if the module that it names is from outside and is not trusted, or its answers are made of other
    tensors than the outputs.
    """
    kind = about(folder).get("kind")
    with contextlib.suppress(UserError):
        head = heads.get(kind) if kind else None
        if head and (not outputs or head.answers_signature(None, outputs)):
            return head
    return heads.of_signature(inputs, outputs)


def signatures(folder: str, *, jit_compile: str = "auto", texts: int | None = None) -> dict[str, Any]:
    """Loads the SavedModel in a folder, or a checkpoint: {name: signature}; starts TensorFlow.

    Raises UserError if it is damaged, or does more than compute, see `export.graph_operations`.

    jit_compile: whether those that can be are compiled by XLA, in static shapes (`export.static_signature`): "true",
    "false", or "auto", on GPUs and TPUs.
    texts: of an example, for a checkpoint, which does not say it: see `live_model.signatures`.
    """
    ensure_started()
    if not is_export(folder) and _is_checkpoint(folder):
        from bert_tf.export import live_model

        live = live_model.signatures(folder, texts)
        parts = {name: each._asdict() for name, each in stages_of(live).items()}
        functions = {name: function.get_concrete_function() for name, function in live.items()}
        return static_signatures(functions, parts, jit_compile)
    graph_operations.check(folder)
    for library in text_operations():  # without the package tensorflow-text, which would load Keras too
        tf.load_op_library(library)  # loading one a second time does nothing
    try:
        loaded = tf.saved_model.load(folder)
        functions, stages = dict(loaded.signatures), getattr(loaded, "stages", {})
    except Exception as error:  # a damaged file raises anything from DecodeError to AttributeError
        raise UserError(
            f"The export {folder} cannot be loaded ({reason_of(error)}): a file of it is damaged or missing; "
            "export it again."
        ) from None
    return static_signatures(functions, stages, jit_compile, owner=loaded)


def text_operations() -> list[str]:
    """The paths of the libraries with the operations of tensorflow-text."""
    package = importlib.util.find_spec("tensorflow_text")
    folder = os.path.dirname(str(package and package.origin))
    return sorted(glob.glob(os.path.join(folder, "python", "ops", "_*.so")))


def _array(tensor: Any) -> "np.ndarray":
    """A tensor as an array; bfloat16, which NumPy does not have, as float32."""
    array: np.ndarray = tensor.numpy()
    return array.astype("float32") if tensor.dtype.name == "bfloat16" else array


def _inputs_of(source: str, signature: Any, declared: Sequence[str]) -> tuple[dict[str, int | None], bool]:
    positional, named = signature.structured_input_signature  # positional ones of functions that are not loaded
    specs = {**{spec.name: spec for spec in positional}, **named}
    for name, spec in specs.items():
        if spec.dtype != tf.string or spec.shape.rank not in (1, 2):
            raise UserError(f"The export {source} takes {name} of {spec.dtype.name} {spec.shape}; expected strings.")
    shapes = {name: spec.shape.as_list() for name, spec in specs.items()}
    return inputs_in_order(shapes, [spec.name for spec in positional] or declared)


def inputs_in_order(
    shapes: Mapping[str, Sequence[int | None]], declared: Sequence[str]
) -> tuple[dict[str, int | None], bool]:
    """`TextFunction.inputs` and `has_order`.

    Args:
        shapes: {name: shape} of the inputs, in any order: a SavedModel has none.
        declared: their names in order, as an export says; anything else counts as unsaid.
    """
    orders = (tuple(declared), *ORDERS, tuple(shapes)[:1])
    order = next((order for order in orders if set(order) == shapes.keys()), None)
    names = order or sorted(shapes)
    return {name: shapes[name][1] if len(shapes[name]) == 2 else None for name in names}, order is not None


def declared_inputs(folder: str) -> list[str]:
    """The names of the inputs of serving_default in order, from about.json; [] if it does not say."""
    inputs = about(folder).get("inputs")
    return list(inputs) if isinstance(inputs, dict) else []


def about(folder: str) -> dict[str, Any]:
    """The content of about.json, or what it would be for a checkpoint; {} where neither is there or it is damaged."""
    if not is_export(folder) and _is_checkpoint(folder):
        from bert_tf.export import live_model

        return live_model.about(folder)
    return about_file.read(folder)


def labels_and_task(folder: str) -> tuple[tuple[str, ...], str]:
    """The names of the classes and of the task from `about.json`: () and "" without."""
    values = about(folder)
    return tuple(values.get("labels") or ()), str(values.get("task") or "")
