"""Functions on texts with named inputs and outputs: their base class, and signatures that TensorFlow runs on strings.

B texts in a batch.
"""

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.data.examples import Example
from bert_tf.errors import UserError, reason_of
from bert_tf.export.batches import BatchFunction
from bert_tf.heads.base.head import Head
from bert_tf.runtime.lazy import tf

DEFAULT, WORDS = "serving_default", "words"  # signatures on texts, and on texts split into words
BATCH_SIZE, STATIC_BATCH_SIZE = 32, 2048  # enough texts for all cores, and for an accelerator
# The possible input orders of exports without `inputs` in about.json.
ORDERS = (("question", "context"), ("text_a", "text_b"), ("text_a", "choices"))


class TextFunction(abc.ABC):
    """A function on texts with named inputs and outputs.

    Attributes:
        source: the path of the model, for messages.
        inputs: {name: None, or the number of texts of an example that it takes}, in the order of an example's texts.
        has_order: whether that order is known; otherwise inputs are sorted by name, and texts must be passed by name.
        batch_size: texts per batch by default.
        word_tagger: tags sentences split into words; None if the model is not a tagger.
        labels: class names, () if there are none.
        task: its name, "" if there is none.
        head: the head that forms its answers; None for an unknown kind.
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
        """{name: array [B, ...]} of the outputs for B examples. Raises UserError if memory runs out."""
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
        """Raises UserError if the order of the inputs is unknown, so that texts cannot be assigned."""
        if not self.has_order:
            raise UserError(
                f"{self.source} does not specify the order of {' and '.join(self.inputs)}: pass a table with columns "
                "of these names, without text_columns."
            )

    def with_labels(self, labels: Sequence[str]) -> "TextFunction":
        """The same with other names of the classes; raises UserError if it cannot have them."""
        raise UserError(f"The labels of {self.source} are part of its functions: leave them as they are.")

    @abc.abstractmethod
    def _run(self, columns: dict[str, list]) -> "dict[str, np.ndarray]":
        """The outputs for the inputs; raises MemoryError, or UserError if it fails for another reason."""


class Signatures(TextFunction):
    """The signatures of a SavedModel or a live model, for heads that only TensorFlow can run.

    Attributes:
        folder: the same as `source`.
        outputs: names of the outputs of the default signature.
    """

    def __init__(
        self, source: str, functions: Mapping[str, Any], about: Mapping[str, Any], head: type[Head] | None = None
    ) -> None:
        """Takes signatures by name.

        Args:
            source: the path of the model, for messages.
            functions: tf.functions with an input signature, or signatures of a SavedModel.
            about: content of about.json; the order of its inputs counts for a SavedModel, which has none.
            head: see TextFunction.

        Raises:
            UserError: there is no default signature, or it takes something other than strings.
        """
        if DEFAULT not in functions:
            has = ", ".join(functions) or "none"
            raise UserError(f"The export {source} has no signature {DEFAULT!r}; it has {has}.")
        self.source = self.folder = source
        self.labels, self.task, self.head = tuple(about.get("labels") or ()), str(about.get("task") or ""), head
        self._function, declared = _concrete(functions[DEFAULT]), about.get("inputs")
        self.inputs, self.has_order = _inputs_of(source, self._function, declared or ())
        self.outputs = list(self._function.structured_outputs)
        if WORDS in functions:
            self.word_tagger = _WordSignature(_concrete(functions[WORDS]), source)

    def _run(self, columns: dict[str, list]) -> "dict[str, np.ndarray]":
        return _computed(self.source, self._function, columns)


class _WordSignature:
    """A `batches.BatchFunction` for sentences split into words: the texts of an example are its words."""

    def __init__(self, function: Any, source: str) -> None:
        self._function, self._source = function, source

    def predict(self, examples: Sequence[Example]) -> dict[str, Any]:
        """{"tags": list of str, "scores": list of probabilities} for the words of each sentence."""
        rows = [example.encode() for example in examples]
        most = max(map(len, rows))
        padded = [row + [b""] * (most - len(row)) for row in rows]
        try:
            outputs = _computed(self._source, self._function, {"words": padded})
        except MemoryError:
            raise UserError(f"Memory ran out for {len(examples)} sentences at once: lower batch_size.") from None
        tags, scores = outputs["tags"].tolist(), outputs["scores"].tolist()
        return {
            "tags": [[tag.decode() for tag in row[: len(each)]] for row, each in zip(tags, rows, strict=True)],
            "scores": [row[: len(each)] for row, each in zip(scores, rows, strict=True)],
        }


def _concrete(function: Any) -> Any:
    return function.get_concrete_function() if hasattr(function, "get_concrete_function") else function


def _computed(source: str, function: Any, columns: dict[str, list]) -> "dict[str, np.ndarray]":
    """The outputs of a signature; raises MemoryError, or UserError if it fails for another reason."""
    inputs = {name: tf.constant(texts, tf.string) for name, texts in columns.items()}
    try:
        return {name: _array(tensor) for name, tensor in function(**inputs).items()}
    except tf.errors.ResourceExhaustedError:
        raise MemoryError from None
    except tf.errors.OpError as error:
        raise UserError(f"The export {source} failed: {reason_of(error)}.") from None


def _array(tensor: Any) -> "np.ndarray":
    """A tensor as an array; bfloat16, which NumPy lacks, as float32."""
    array: np.ndarray = tensor.numpy()
    return array.astype("float32") if tensor.dtype.name == "bfloat16" else array


def _inputs_of(source: str, signature: Any, declared: Iterable[str]) -> tuple[dict[str, int | None], bool]:
    positional, named = signature.structured_input_signature  # positional for functions that were not loaded
    specs = {**{spec.name: spec for spec in positional}, **named}
    for name, spec in specs.items():
        if spec.dtype != tf.string or spec.shape.rank not in (1, 2):
            raise UserError(f"The export {source} takes {name} of {spec.dtype.name} {spec.shape}; expected strings.")
    shapes = {name: spec.shape.as_list() for name, spec in specs.items()}
    return inputs_in_order(shapes, [spec.name for spec in positional] or declared)


def inputs_in_order(
    shapes: Mapping[str, Sequence[int | None]], declared: Iterable[str]
) -> tuple[dict[str, int | None], bool]:
    """`TextFunction.inputs` and `has_order`.

    Args:
        shapes: {name: shape} of the inputs, in any order, because a SavedModel has none.
        declared: their names in order, as specified in an export; anything else is ignored.
    """
    orders = (tuple(declared), *ORDERS, tuple(shapes)[:1])
    order = next((order for order in orders if set(order) == shapes.keys()), None)
    names = order or sorted(shapes)
    return {name: shapes[name][1] if len(shapes[name]) == 2 else None for name in names}, order is not None
