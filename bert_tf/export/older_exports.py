"""Exports of earlier versions that need too much memory for a long text: of taggers, question answerers and vectors."""

from collections.abc import Mapping
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime.lazy import tf

MAX_BYTES = 1 << 15  # of a text; it takes about a gigabyte
ENTITIES = {"texts", "labels", "starts", "ends", "counts"}  # outputs of a tagger
TOKENS = {"vectors", "tokens", "starts", "ends", "segments", "counts"}  # those of the signature `tokens` of vectors
ANSWERS = {"answers", "starts", "ends", "probabilities"}  # those of a question answerer
CUT = "Substr"  # the operation that copied a text for each entity
ONE_BY_ONE = "TensorListStack of strings"  # how answers that overlap are cut now; all at once may be gigabytes
JOINED = "TensorListConcatV2"  # the operation that joins blocks of rows, without which all are computed at once


class TooLong(UserError):
    """A text is too long for an export of an earlier version."""


class Limited:
    """A signature that refuses long texts, and is otherwise the one that it is made of."""

    def __init__(self, function: Any, folder: str) -> None:
        self._function, self._folder = function, folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __call__(self, **strings: Any) -> Any:
        """The outputs of the signature; raises TooLong."""
        for texts in strings.values():
            if tf.size(texts) > 0 and int(tf.reduce_max(tf.strings.length(texts))) > MAX_BYTES:
                raise TooLong(
                    f"An earlier version made the export {self._folder}, which takes texts of up to {MAX_BYTES:,} "
                    "bytes for the memory that longer ones need: export it again, or split the text."
                )
        return self._function(**strings)


def limited(functions: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Those of the signatures of an export that need it, as `Limited`."""
    outputs = {name: set(function.structured_outputs) for name, function in functions.items()}
    has_vectors = outputs.get("tokens", set()) >= TOKENS
    chosen = {
        name: function
        for name, function in functions.items()
        if (outputs[name] >= ENTITIES and CUT in _operations(function))
        or (outputs[name] >= ANSWERS and CUT in _operations(function) and ONE_BY_ONE not in _operations(function))
        or (has_vectors and "vectors" in outputs[name] and JOINED not in _operations(function))
    }
    return {name: Limited(function, folder) for name, function in chosen.items()}


def _operations(function: Any) -> set[str]:
    """The operations of a signature and of the functions that it calls; those on lists of strings by that, too."""
    graph = function.graph.as_graph_def()
    nodes = [node for nodes in (graph.node, *(each.node_def for each in graph.library.function)) for node in nodes]
    of_strings = {
        f"{node.op} of strings" for node in nodes if node.attr["element_dtype"].type == tf.string.as_datatype_enum
    }
    return {node.op for node in nodes} | of_strings
