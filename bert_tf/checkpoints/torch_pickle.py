"""Reads the tensors of a `pytorch_model.bin` without torch, by an unpickler that can make nothing but tensors.

Since PyTorch 1.6 the file is a zip: `*/data.pkl` describes a dictionary of tensors, `*/data/KEY` holds the bytes of a
storage. Before, it was a row of pickles (a magic number, two of versions, the dictionary, the keys of the storages)
and then each storage: its length as int64 and its bytes.
"""

import collections
import dataclasses
import pickle
import zipfile

import numpy as np

from bert_tf.errors import UserError

OLD_MAGIC = 0x1950A86A20F9469CFC6C

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


def read(path):
    """{name: array} of a file that `torch.save` wrote, old or new.

    Raises UserError where the file is none, is cut short, or its pickle asks for anything but tensors.
    """
    try:
        content, storages = _read_zip(path) if zipfile.is_zipfile(path) else _read_old(path)
        if not isinstance(content, dict):
            raise UserError(
                f"{path} holds a {type(content).__name__}; expected a dictionary of tensors (a state dict)."
            )
        return {name: value.array(storages) for name, value in content.items() if isinstance(value, _Tensor)}
    except UserError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise UserError(
            f"{path} cannot be read as PyTorch weights ({type(error).__name__}: {error}): it may be cut short; "
            "fetch it again, or save it as model.safetensors."
        ) from None


def _read_zip(path):
    with zipfile.ZipFile(path) as archive:
        (description,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        with archive.open(description) as file:
            unpickler = _TensorUnpickler(file, path)
            content = unpickler.load()
        folder = description.removesuffix("data.pkl")
        return content, {
            key: _values(archive.read(f"{folder}data/{key}"), kind) for key, kind in unpickler.kinds.items()
        }


def _read_old(path):
    with open(path, "rb") as file:
        if _TensorUnpickler(file, path).load() != OLD_MAGIC:
            raise ValueError("the file does not begin as one of torch.save")
        _TensorUnpickler(file, path).load()  # version of the protocol
        _TensorUnpickler(file, path).load()  # sizes of integers
        unpickler = _TensorUnpickler(file, path)
        content = unpickler.load()
        keys = _TensorUnpickler(file, path).load()
        storages = {}
        for key in keys:
            size = int(np.frombuffer(file.read(8), "<i8")[0])
            width = 2 if unpickler.kinds[key] == "bfloat16" else np.dtype(unpickler.kinds[key]).itemsize
            data = file.read(size * width)
            if len(data) != size * width:
                raise EOFError(f"storage {key} has {len(data)} of {size * width} bytes")
            storages[key] = _values(data, unpickler.kinds[key])
        return content, storages


def _values(data, kind):
    if kind == "bfloat16":  # the upper half of a float32
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, kind)


class _TensorUnpickler(pickle.Unpickler):
    """Admits tensors only; `kinds` is {key of a storage: type of its numbers} of what it met."""

    def __init__(self, file, path):
        super().__init__(file, encoding="utf-8")
        self.path, self.kinds = path, {}

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda key, offset, shape, strides, *_: _Tensor(key, offset, shape, strides)
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda data, *_: data
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        raise UserError(
            f"The pickle in {self.path} asks for {module}.{name}; only tensors are admitted, as a pickle can run any "
            "code. Save the weights as model.safetensors."
        )

    def persistent_load(self, identifier):
        _, kind, key, *_ = identifier
        self.kinds[key] = kind
        return key


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """Where a tensor lies in its storage."""

    key: str
    offset: int
    shape: tuple
    strides: tuple

    def array(self, storages):
        storage = storages[self.key]
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        if min((self.offset, *self.shape, *self.strides)) < 0 or (0 not in self.shape and last >= storage.size):
            raise ValueError("a tensor reaches beyond its storage")
        steps = [stride * storage.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(storage[self.offset :], self.shape, steps).copy()
