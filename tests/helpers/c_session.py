"""A program that runs a SavedModel by TensorFlow's C library alone: `c_loader` starts it, which has TensorFlow.

It reads a pickle from standard input, (library, libraries of operations, folder, {tensor: strings}, [tensor]), and
writes a pickle of the list of the last ones' values. The functions and structures are those of tensorflow/c/c_api.h.
"""

import ctypes
import os
import pickle
import sys

import numpy as np

STRING = 7  # a TF_DataType
STRING_SIZE = 24  # bytes of a TF_TString
NUMBERS = {1: "float32", 2: "float64", 3: "int32", 4: "uint8", 6: "int8", 9: "int64", 10: "bool", 19: "float16"}
CONFIG = b"\x0a\x07\x0a\x03GPU\x10\x00"  # a ConfigProto: the CPU alone, device_count {"GPU": 0}
POINTERS = (  # functions that return one
    *("TF_NewStatus", "TF_NewGraph", "TF_NewSessionOptions", "TF_LoadSessionFromSavedModel", "TF_LoadLibrary"),
    *("TF_GraphOperationByName", "TF_AllocateTensor", "TF_TensorData", "TF_StringGetDataPointer"),
)
SIZES = ("TF_TensorByteSize", "TF_StringGetSize")  # functions that return one


class Output(ctypes.Structure):
    """TF_Output."""

    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


class Session:
    """A SavedModel in memory."""

    def __init__(self, library, operations, folder):
        self.library = ctypes.CDLL(library, mode=os.RTLD_LAZY | os.RTLD_GLOBAL)  # the other libraries need its symbols
        for name in POINTERS:
            getattr(self.library, name).restype = ctypes.c_void_p
        for name in SIZES:
            getattr(self.library, name).restype = ctypes.c_size_t
        self.library.TF_Message.restype = ctypes.c_char_p
        self.status = self.new("TF_NewStatus")
        for path in operations:
            self.library.TF_LoadLibrary(path.encode(), self.status)
            self.check()
        options, self.graph = self.new("TF_NewSessionOptions"), self.new("TF_NewGraph")
        self.library.TF_SetConfig(options, CONFIG, ctypes.c_size_t(len(CONFIG)), self.status)
        self.check()
        tags = (ctypes.c_char_p * 1)(b"serve")
        given = options, None, folder.encode(), tags, 1, self.graph, None, self.status
        self.session = self.new("TF_LoadSessionFromSavedModel", *given)
        self.check()

    def run(self, feeds, fetches):
        inputs = (Output * len(feeds))(*map(self.output, feeds))
        outputs = (Output * len(fetches))(*map(self.output, fetches))
        given = (ctypes.c_void_p * len(feeds))(*(self.strings(np.array(each, object)) for each in feeds.values()))
        results = (ctypes.c_void_p * len(fetches))()
        arguments = inputs, given, len(feeds), outputs, results, len(fetches), None, 0, None, self.status
        self.library.TF_SessionRun(self.session, None, *arguments)
        self.check()
        return [self.array(ctypes.c_void_p(tensor)) for tensor in results]

    def new(self, function, *arguments):
        return ctypes.c_void_p(getattr(self.library, function)(*arguments))

    def check(self):
        if self.library.TF_GetCode(self.status):
            raise RuntimeError(self.library.TF_Message(self.status).decode(errors="replace"))

    def output(self, tensor):
        name, _, number = tensor.partition(":")
        operation = self.library.TF_GraphOperationByName(self.graph, name.encode())
        assert operation, f"the graph lacks {name}"
        return Output(operation, int(number))

    def strings(self, values):
        """The address of a new tensor of strings."""
        shape = (ctypes.c_int64 * values.ndim)(*values.shape)
        tensor = self.new("TF_AllocateTensor", STRING, shape, values.ndim, ctypes.c_size_t(values.size * STRING_SIZE))
        address = self.library.TF_TensorData(tensor) or 0
        for number, value in enumerate(values.flat):
            string = ctypes.c_void_p(address + number * STRING_SIZE)
            self.library.TF_StringInit(string)
            self.library.TF_StringCopy(string, value, ctypes.c_size_t(len(value)))
        return tensor.value

    def array(self, tensor):
        shape = [self.library.TF_Dim(tensor, axis) for axis in range(self.library.TF_NumDims(tensor))]
        kind, address = self.library.TF_TensorType(tensor), self.library.TF_TensorData(tensor) or 0
        if kind != STRING:
            content = ctypes.string_at(address, self.library.TF_TensorByteSize(tensor))
            return np.frombuffer(content, NUMBERS[kind]).reshape(shape)
        strings = (ctypes.c_void_p(address + at * STRING_SIZE) for at in range(int(np.prod(shape))))
        return np.array([self.bytes(string) for string in strings], object).reshape(shape)

    def bytes(self, string):
        return ctypes.string_at(self.library.TF_StringGetDataPointer(string), self.library.TF_StringGetSize(string))


if __name__ == "__main__":
    *libraries, folder, feeds, fetches = pickle.load(sys.stdin.buffer)
    answers = Session(*libraries, folder).run(feeds, fetches)
    assert "tensorflow" not in sys.modules
    pickle.dump(answers, sys.stdout.buffer)
