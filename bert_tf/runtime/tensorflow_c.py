"""Runs SavedModels with TensorFlow's C library, without `import tensorflow`, which takes several times as long.

The functions and structures are those of tensorflow/c/c_api.h.
"""

import ctypes
import dataclasses
import glob
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.runtime.proto_messages import FIELD, message_class

NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED = 5, 8, 12  # TF_Codes
STRING = 7  # a TF_DataType
STRING_SIZE = 24  # bytes of a TF_TString
NUMBERS = {1: "float32", 2: "float64", 3: "int32", 4: "uint8", 6: "int8", 9: "int64", 10: "bool", 19: "float16"}
BFLOAT16 = 14  # which NumPy does not have; its values become float32
# A ConfigProto: the CPU alone, device_count {"GPU": 0}; and graphs as they are, as a few runs do not pay for improving
# them, graph_options {rewrite_options {disable_meta_optimizer: true}}.
CONFIG = b"\x0a\x07\x0a\x03GPU\x10\x00" + b"\x52\x05\x52\x03\x98\x01\x01"
POINTERS = (  # functions that return one
    *("TF_NewStatus", "TF_NewGraph", "TF_NewSessionOptions", "TF_NewBuffer", "TF_LoadSessionFromSavedModel"),
    *("TF_GraphOperationByName", "TF_AllocateTensor", "TF_TensorData", "TF_LoadLibrary", "TF_StringGetDataPointer"),
)
SIZES = ("TF_TensorByteSize", "TF_StringGetSize")  # functions that return one
_MESSAGES = {
    "MetaGraph": {"signatures": (5, ["SignatureEntry"])},
    "SignatureEntry": {"key": (1, FIELD.TYPE_STRING), "value": (2, "Signature")},
    "Signature": {"inputs": (1, ["TensorEntry"]), "outputs": (2, ["TensorEntry"])},
    "TensorEntry": {"key": (1, FIELD.TYPE_STRING), "value": (2, "Tensor")},
    "Tensor": {"name": (1, FIELD.TYPE_STRING), "dtype": (2, FIELD.TYPE_INT32), "shape": (3, "Shape")},
    "Shape": {"sizes": (2, ["Size"]), "unknown_rank": (3, FIELD.TYPE_BOOL)},
    "Size": {"size": (1, FIELD.TYPE_INT64)},
}


class TensorFlowCError(Exception):
    """TensorFlow's own message. code: a TF_Code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """A tensor of a signature.

    name: that of the graph, such as "serving_default_text:0". shape: -1 for sizes that vary; None if the number of
    dimensions does.
    """

    name: str
    is_string: bool
    shape: tuple[int, ...] | None


@dataclasses.dataclass(frozen=True)
class SignatureSpec:
    """{name: tensor} of what a signature takes and returns."""

    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]


def library_path() -> str | None:
    """The path of the library; None if there is none, or where TensorFlow has been imported already."""
    if "tensorflow" in sys.modules or sys.platform != "linux":
        return None
    package = importlib.util.find_spec("tensorflow")
    paths = glob.glob(os.path.join(os.path.dirname(str(package and package.origin)), "libtensorflow_cc.so.*"))
    return min(paths, default=None)


def open_library(path: str, mode: int) -> ctypes.CDLL:
    """Loads a library. Unlike ctypes and `import` it lets other threads run meanwhile, and takes any mode of dlopen."""
    dlopen = ctypes.CDLL(None).dlopen
    dlopen.restype = ctypes.c_void_p
    handle = dlopen(path.encode(), mode)
    if not handle:
        raise OSError(f"{path} cannot be loaded")
    return ctypes.CDLL(path, handle=handle)


class Session:
    """A SavedModel in memory, on the CPU.

    Attributes:
        signatures: {name: SignatureSpec}.
    """

    def __init__(self, library: str, folder: str, operations: Iterable[str]) -> None:
        """Loads a SavedModel.

        Args:
            library: `library_path`.
            folder: the folder of the SavedModel, on a disk.
            operations: paths of libraries with operations that it needs besides TensorFlow's.

        Raises:
            TensorFlowCError: it cannot be loaded.
            OSError: nor can the library.
        """
        # The libraries of operations share TensorFlow's global objects. Its copy of OpenSSL becomes global with them:
        # Python's modules need their own, which `import tensorflow` loads first too.
        import hashlib  # noqa: F401
        import ssl  # noqa: F401

        # Global, so that later libraries find it; lazy, which starts faster.
        self._library = open_library(library, os.RTLD_LAZY | os.RTLD_GLOBAL)
        for name in POINTERS:
            getattr(self._library, name).restype = ctypes.c_void_p
        for name in SIZES:
            getattr(self._library, name).restype = ctypes.c_size_t
        self._library.TF_Message.restype = ctypes.c_char_p
        self._status = self._new("TF_NewStatus")
        for path in operations:
            self._library.TF_LoadLibrary(path.encode(), self._status)
            self._check()
        options, content = self._new("TF_NewSessionOptions"), self._new("TF_NewBuffer")
        self._library.TF_SetConfig(options, CONFIG, ctypes.c_size_t(len(CONFIG)), self._status)
        self._check()
        tags = (ctypes.c_char_p * 1)(b"serve")
        self._graph = self._new("TF_NewGraph")
        self._session = self._new(
            "TF_LoadSessionFromSavedModel", options, None, folder.encode(), tags, 1, self._graph, content, self._status
        )
        self._check()
        buffer = _Buffer.from_address(content.value or 0)
        self.signatures = _signatures(ctypes.string_at(buffer.data, buffer.length))
        for signature in self.signatures.values():
            for spec in (*signature.inputs.values(), *signature.outputs.values()):
                self._output(spec)

    def run(self, feeds: Mapping[TensorSpec, Any], fetches: Sequence[TensorSpec]) -> list[np.ndarray]:
        """The tensors of `fetches`, computed from bytes in nested lists for each tensor of `feeds`.

        Raises TensorFlowCError with code RESOURCE_EXHAUSTED where memory does not suffice, or another.
        """
        inputs = (_Output * len(feeds))(*map(self._output, feeds))
        outputs = (_Output * len(fetches))(*map(self._output, fetches))
        given = (ctypes.c_void_p * len(feeds))(*(self._strings(np.array(each, object)) for each in feeds.values()))
        results = (ctypes.c_void_p * len(fetches))()
        counts = len(feeds), len(fetches)
        self._library.TF_SessionRun(
            *(self._session, None, inputs, given, counts[0], outputs, results, counts[1], None, 0, None, self._status)
        )
        for tensor in given:
            self._library.TF_DeleteTensor(ctypes.c_void_p(tensor))
        self._check()
        arrays = [self._array(ctypes.c_void_p(tensor)) for tensor in results]
        for tensor in results:
            self._library.TF_DeleteTensor(ctypes.c_void_p(tensor))
        return arrays

    def _new(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        return ctypes.c_void_p(getattr(self._library, function)(*arguments))

    def _check(self) -> None:
        code = self._library.TF_GetCode(self._status)
        if code:
            raise TensorFlowCError(self._library.TF_Message(self._status).decode(errors="replace"), code)

    def _output(self, spec: TensorSpec) -> "_Output":
        name, _, number = spec.name.partition(":")
        operation = self._library.TF_GraphOperationByName(self._graph, name.encode())
        if not operation:
            raise TensorFlowCError(f"a signature names the operation {name!r}, which the graph lacks", NOT_FOUND)
        return _Output(operation, int(number or 0))

    def _strings(self, values: np.ndarray) -> int:
        """The address of a new tensor of strings."""
        shape = (ctypes.c_int64 * values.ndim)(*values.shape)
        size = ctypes.c_size_t(values.size * STRING_SIZE)
        tensor = self._new("TF_AllocateTensor", STRING, shape, values.ndim, size)
        address = self._library.TF_TensorData(tensor) or 0
        for number, value in enumerate(values.flat):
            string = ctypes.c_void_p(address + number * STRING_SIZE)
            self._library.TF_StringInit(string)
            self._library.TF_StringCopy(string, value, ctypes.c_size_t(len(value)))
        return tensor.value or 0

    def _array(self, tensor: ctypes.c_void_p) -> np.ndarray:
        shape = [self._library.TF_Dim(tensor, axis) for axis in range(self._library.TF_NumDims(tensor))]
        kind, address = self._library.TF_TensorType(tensor), self._library.TF_TensorData(tensor) or 0
        if kind != STRING:
            content = ctypes.string_at(address, self._library.TF_TensorByteSize(tensor))
            if kind == BFLOAT16:  # the upper half of a float32
                return (np.frombuffer(content, "u2").astype("u4") << 16).view("f4").reshape(shape)
            if kind not in NUMBERS:
                raise TensorFlowCError(
                    f"an output has the type {kind}, which is neither a number nor text", UNIMPLEMENTED
                )
            return np.frombuffer(content, NUMBERS[kind]).reshape(shape)
        strings = (ctypes.c_void_p(address + at * STRING_SIZE) for at in range(int(np.prod(shape))))
        return np.array([self._bytes(string) for string in strings], object).reshape(shape)

    def _bytes(self, string: ctypes.c_void_p) -> bytes:
        return ctypes.string_at(self._library.TF_StringGetDataPointer(string), self._library.TF_StringGetSize(string))


class _Buffer(ctypes.Structure):
    """TF_Buffer."""

    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("deallocator", ctypes.c_void_p)]


class _Output(ctypes.Structure):
    """TF_Output."""

    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


def _signatures(meta_graph: bytes) -> dict[str, SignatureSpec]:
    message = message_class("MetaGraph", _MESSAGES).FromString(meta_graph)
    return {
        entry.key: SignatureSpec(_tensors(entry.value.inputs), _tensors(entry.value.outputs))
        for entry in message.signatures
    }


def _tensors(entries: Iterable[Any]) -> dict[str, TensorSpec]:
    specs = {}
    for entry in entries:
        shape = entry.value.shape
        sizes = None if shape.unknown_rank else tuple(size.size for size in shape.sizes)
        specs[entry.key] = TensorSpec(entry.value.name, entry.value.dtype == STRING, sizes)
    return specs
