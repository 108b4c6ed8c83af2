"""Rejects SavedModels whose graphs read or write files, run other code or use the network, before they are loaded.

A SavedModel is a program. Its operations are compared with FORBIDDEN, made from the list of all operations that
TensorFlow registers, rather than with those in our exports: third-party models, and ours from later versions, contain
other operations that only compute. Free of TensorFlow.
"""

import os
import re
from collections.abc import Iterable
from typing import Any

from google.protobuf.message import DecodeError

from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.proto_messages import FIELD, message_class

FORBIDDEN = re.compile(
    "|".join(
        (
            r"ReadFile|WriteFile|MatchingFiles|FileSystemSetConfiguration|RecordInput|ImmutableConst|.*Reader.*",
            r"(Distributed)?Save(Slices|V2)?|(DTensor)?Restore(Slice|V2)?|MergeV2Checkpoints",
            r"LoadAndRemapMatrix|GenerateVocabRemapping|InitializeTableFromTextFile.*|Skipgram",
            r"FixedUnigramCandidateSampler|EncodeProto|DecodeProto.*|CalibrationStatisticsSaver",
            r"PrintV2|.*Summary.*|ImportEvent|Debug.*|DumpTensor|Copy(Host)?",  # the last two may publish to files
            r".*Dataset.*|.*Iterator.*",  # for files, services and Python
            r"Abort|.*PyFunc.*|Remote.*|.*Mlir.*|.*TRT.*|_?Xla(CustomCall|CallModule|Launch|Compile|Run).*",
            r".*TPU.*|.*Rpc.*|Collective.*|_?Nccl.*|_?(Xla)?(Host)?(Send|Recv)|_?Xla(Send|Recv|Host).*",
        )
    )
)
# Operations in the functions that save and restore variables, which a loader finds by SaverDef.
SAVING, RESTORING = {"SaveV2", "MergeV2Checkpoints"}, {"RestoreV2"}
OTHER_FILES = ("saved_model.cpb", "saved_model.pbtxt")  # a loader may prefer them
_MESSAGES: Any = {
    "SavedModel": {"meta_graphs": (2, ["MetaGraph"])},
    "MetaGraph": {
        "graph": (2, "Graph"),
        "saver": (3, "Saver"),
        "collections": (4, ["CollectionEntry"]),
        "signatures": (5, ["SignatureEntry"]),
        "objects": (7, FIELD.TYPE_BYTES),
    },
    "Saver": {"save": (2, FIELD.TYPE_BYTES), "restore": (3, FIELD.TYPE_BYTES)},
    "CollectionEntry": {"value": (2, "Collection")},
    "Collection": {"names": (1, "Names")},
    "Names": {"values": (1, [FIELD.TYPE_BYTES])},
    "SignatureEntry": {"value": (2, "Signature")},
    "Signature": {"inputs": (1, ["TensorEntry"]), "outputs": (2, ["TensorEntry"])},
    "TensorEntry": {"value": (2, "Tensor")},
    "Tensor": {"name": (1, FIELD.TYPE_BYTES)},
    "Graph": {"nodes": (1, ["Node"]), "library": (2, "Library")},
    "Library": {"functions": (1, ["Function"])},
    "Function": {"signature": (1, "OpDef"), "nodes": (3, ["Node"])},
    "OpDef": {"name": (1, FIELD.TYPE_BYTES)},
    "Node": {"name": (1, FIELD.TYPE_BYTES), "op": (2, FIELD.TYPE_BYTES), "inputs": (3, [FIELD.TYPE_BYTES])},
}


def check(folder: str) -> None:
    """Raises UserError if the graphs in a SavedModel contain an operation that may do more than compute or are damaged.

    folder: the SavedModel's folder.
    """
    for name in OTHER_FILES:
        if files.exists(os.path.join(folder, name)):
            raise UserError(f"{folder} contains both {name} and saved_model.pb: remove one of them.")
    try:
        with files.open_binary(os.path.join(folder, "saved_model.pb")) as file:
            model = message_class("SavedModel", _MESSAGES).FromString(file.read())
    except (OSError, DecodeError) as error:
        raise UserError(
            f"The export {folder} cannot be loaded ({error}): one of its files is damaged or missing; export it again."
        ) from None
    for graph in model.meta_graphs:
        found = _forbidden(graph)
        if found:
            raise UserError(
                f"{folder} contains the operation {found}, which may read or write files, run other code or use the "
                "network: load it with TensorFlow itself if you trust who wrote it."
            )


def _forbidden(graph: Any) -> str | None:
    """The first forbidden operation of a graph and its functions; None if there is none.

    The two nodes that save and restore, and the functions they call, may contain the operations for it, if nothing else
    calls them: a loader runs only the one that restores, with the path of the variables.
    """
    functions = graph.graph.library.functions
    allowed = {_node_of(graph.saver.save): SAVING, _node_of(graph.saver.restore): RESTORING}
    savers = [node for node in graph.graph.nodes if node.name in allowed]
    own: dict[bytes, set[str]] = {}  # {function of a saver: its operations}
    for saver in savers:
        for name in _named_in(saver.SerializeToString(), (function.signature.name for function in functions)):
            own[name] = allowed[saver.name] & own.get(name, RESTORING | SAVING)
    others = [node for node in graph.graph.nodes if node.name not in allowed]
    inner = [(node, own.get(function.signature.name, set())) for function in functions for node in function.nodes]
    for node, operations in [*((node, set()) for node in [*savers, *others]), *inner]:
        operation = node.op.decode("latin-1")
        if FORBIDDEN.fullmatch(operation) and operation not in operations:
            return operation
    contents = [graph.objects, *(node.SerializeToString() for node in [*others, *(node for node, _ in inner)])]
    is_called = any(_named_in(content, own) for content in contents)
    return "SaveV2 or RestoreV2" if is_called or allowed.keys() & _used(graph) else None


def _used(graph: Any) -> set[bytes]:
    """The names of the nodes used by others, signatures and collections."""
    names = [name for node in graph.graph.nodes for name in node.inputs]
    for entry in graph.signatures:
        names += [tensor.value.name for tensor in [*entry.value.inputs, *entry.value.outputs]]
    names += [name for entry in graph.collections for name in entry.value.names.values]
    return set(map(_node_of, names)) - {b""}


def _node_of(tensor: bytes) -> bytes:
    """The name of the node behind a tensor, "node:0", or a control input, "^node"."""
    return tensor.removeprefix(b"^").partition(b":")[0]


def _named_in(content: bytes, functions: Iterable[bytes]) -> list[bytes]:
    """The functions whose names occur anywhere in a serialized message."""
    return [name for name in functions if name in content]
