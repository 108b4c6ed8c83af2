"""Reads the tensors of a `pytorch_model.bin` without torch, with an unpickler that can create only tensors.

Since PyTorch 1.6 the file is a zip: `*/data.pkl` describes a dictionary of tensors, `*/data/KEY` contains the bytes of
a storage. Before, it was a sequence of pickles (a magic number, two with versions, the dictionary, the keys of the
storages), followed by each storage: its length as int64 and its bytes.

A file that would take memory out of proportion to its size is rejected up front: torch compresses nothing, numbers the
objects of a pickle one by one, and its tensors are parts of their storages.
"""

import collections
import dataclasses
import io
import math
import mmap
import os
import pickle
import pickletools
import zipfile
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, cast

import numpy as np

from bert_tf.errors import UserError
from bert_tf.runtime import files

OLD_MAGIC = 0x1950A86A20F9469CFC6C
MEMOIZING = ("PUT", "BINPUT", "LONG_BINPUT")  # opcodes that number an object
MAX_SHARED = 4  # numbers in tensors per number in a storage: tied weights share theirs

# Names under which training scripts store the weights of a model, alongside the state of its training.
WEIGHTS = ("state_dict", "model_state_dict", "model", "module", "net", "weights")
# Classes in the files of PyTorch Lightning and training scripts; their objects are read as if they were empty.
IGNORED = {
    ("argparse", "Namespace"),
    ("collections", "defaultdict"),
    ("pytorch_lightning.utilities.parsing", "AttributeDict"),
    ("lightning.pytorch.utilities.parsing", "AttributeDict"),
    ("lightning_fabric.utilities.data", "AttributeDict"),
    ("lightning.fabric.utilities.data", "AttributeDict"),
    ("torch", "Size"),
    ("torch", "device"),
}

STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "?",
}


def read(path: str) -> dict[str, np.ndarray]:
    """{name: array} from a file of `torch.save`, old or new: a state dict, or a training dictionary that contains one.

    Raises:
        UserError: the file is of a different kind, is cut short, or its pickle contains anything but tensors.
    """
    try:
        with files.local_copy(path) as local:
            state, storages = _read_zip(local) if zipfile.is_zipfile(local) else _read_old(local)
        if not isinstance(state, dict):
            raise UserError(
                f"{path} contains a {type(state).__name__}; expected a dictionary of tensors (a state dict)."
            )
        tensors = _tensors_of(state, path)
        _check_in_proportion(tensors.values(), storages)
        return {name: value.array(storages) for name, value in tensors.items()}
    except UserError:
        raise
    except Exception as error:  # a damaged pickle raises any type
        raise UserError(
            f"{path} cannot be read as PyTorch weights ({type(error).__name__}: {error}): it may be cut short; "
            "fetch it again, or save it as model.safetensors."
        ) from None


def _tensors_of(state: dict[Any, Any], path: str) -> dict[str, "_Tensor"]:
    """The tensors of a dictionary, or of the dictionary in it that has the model's weights."""
    tensors = {str(name): value for name, value in state.items() if isinstance(value, _Tensor)}
    inner = [name for name in WEIGHTS if isinstance(state.get(name), dict)]
    inner = [name for name in inner if any(isinstance(value, _Tensor | dict) for value in state[name].values())]
    if tensors or not inner:
        return tensors
    if len(inner) > 1:
        raise UserError(f"{path} contains several models ({', '.join(inner)}): save just the one you want.")
    return _tensors_of(state[inner[0]], path)


def _read_zip(path: str) -> tuple[Any, dict[str, np.ndarray]]:
    with zipfile.ZipFile(path) as archive:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise ValueError("it contains compressed data, which torch.save never writes")
        if sum(entry.file_size for entry in archive.infolist()) > os.path.getsize(path):
            raise ValueError("its parts are larger than the file")
        (description,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        unpickler = _unpickler(io.BytesIO(archive.read(description)), path)
        state = unpickler.load()
        folder = description.removesuffix("data.pkl")
        return state, {
            key: _values(archive.read(f"{folder}data/{key}"), dtype) for key, dtype in unpickler.dtypes.items()
        }


def _read_old(path: str) -> tuple[Any, dict[str, np.ndarray]]:
    with open(path, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as file:
        if _unpickler(file, path).load() != OLD_MAGIC:
            raise ValueError("the file does not begin like one of torch.save")
        _unpickler(file, path).load()  # version of the protocol
        _unpickler(file, path).load()  # sizes of integers
        unpickler = _unpickler(file, path)
        state = unpickler.load()
        keys = _unpickler(file, path).load()
        length = os.path.getsize(path)
        storages: dict[str, np.ndarray] = {}
        for key in keys:
            size = int(np.frombuffer(file.read(8), "<i8")[0])
            dtype = unpickler.dtypes[key]
            width = 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize
            rest = length - file.tell()
            if not 0 <= size * width <= rest:
                raise EOFError(f"storage {key} has {rest} of {size * width} bytes")
            storages[key] = _values(file.read(size * width), dtype)
        return state, storages


def _unpickler(file: io.BytesIO | mmap.mmap, path: str) -> "_TensorUnpickler":
    """An unpickler for the next pickle in a file, with a bounded memo, whose size is the largest number in it.

    The file is in memory, so a text of 4 GB in a pickle of 10 bytes is detected before it is allocated.
    """
    start = file.tell()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(cast(IO[bytes], file))):
        if opcode.name in MEMOIZING and argument is not None and int(argument) > count:
            raise ValueError(f"it numbers an object {argument} among {count}")
    file.seek(start)
    return _TensorUnpickler(file, path)


def _check_in_proportion(tensors: Iterable["_Tensor"], storages: Mapping[str, np.ndarray]) -> None:
    """Raises ValueError if tensors are larger than their storages, or together much larger than all of them."""
    total = 0
    for tensor in tensors:
        size = math.prod(tensor.shape)
        if size > storages[tensor.key].size:
            raise ValueError(f"a tensor of {size} numbers reaches beyond its storage of {storages[tensor.key].size}")
        total += size
    if total > MAX_SHARED * sum(storage.size for storage in storages.values()) + 2**20:
        raise ValueError("too many tensors share a storage")


def _values(data: bytes, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":  # the upper half of a float32
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, dtype)


class _TensorUnpickler(pickle.Unpickler):
    """Allows tensors only; collects `dtypes`, {key of a storage: dtype}."""

    def __init__(self, file: io.BytesIO | mmap.mmap, path: str) -> None:
        super().__init__(file, encoding="utf-8")
        self.path = path
        self.dtypes: dict[str, str] = {}

    def find_class(self, module: str, name: str) -> Callable[..., Any] | str:
        """The replacement for a torch global; UserError for any other global."""
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda key, offset, shape, strides, *_: _Tensor(key, offset, shape, strides)
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda data, *_: data
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if (module, name) in IGNORED:
            return _Ignored
        raise UserError(
            f"The pickle in {self.path} contains {module}.{name}; only tensors are allowed because a pickle can run "
            "any code. Save the weights as model.safetensors."
        )

    def persistent_load(self, identifier: tuple[Any, ...]) -> str:
        """The key of a storage."""
        _, dtype, key, *_ = identifier
        self.dtypes[key] = dtype
        return str(key)


class _Ignored(dict):
    """Stands for an object of an ignored class; accepts any arguments and state."""

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        pass


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """Position of a tensor in its storage."""

    key: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self, storages: Mapping[str, np.ndarray]) -> np.ndarray:
        """Copies the tensor out of its storage."""
        storage = storages[self.key]
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        if min((self.offset, *self.shape, *self.strides)) < 0 or (0 not in self.shape and last >= storage.size):
            raise ValueError("a tensor reaches beyond its storage")
        steps = [stride * storage.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(storage[self.offset :], self.shape, steps).copy()
