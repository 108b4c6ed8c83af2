"""Writes the files of `torch.save` without torch: pickles put together by hand, from the documented opcodes.

A tensor is described by (kind, key, offset, shape, strides): the torch class of its storage, the storage's name, and
where it lies in it. Storages are {key: bytes}.
"""

import pickle
import struct
import zipfile

import numpy as np

PROTOCOL = b"\x80\x02"
STOP = b"."
OLD_MAGIC, OLD_VERSION = 0x1950A86A20F9469CFC6C, 1001


def text(value):
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value):
    return b"J" + struct.pack("<i", value)


def numbers(values):
    return together(*map(number, values))


def together(*items):
    """A tuple."""
    return b"(" + b"".join(items) + b"t"


def named(module, name):
    """Whatever importing `name` from `module` gives."""
    return f"c{module}\n{name}\n".encode()


def called(function, *arguments):
    return function + together(*arguments) + b"R"


EMPTY = called(named("collections", "OrderedDict"))


def tensor(kind, key, offset, shape, strides):
    """What torch._utils._rebuild_tensor_v2 is called with; 99 stands for the number of elements, which nobody reads."""
    storage = together(text("storage"), named("torch", kind), text(key), text("cpu"), number(99)) + b"Q"
    rebuild = named("torch._utils", "_rebuild_tensor_v2")
    return called(rebuild, storage, number(offset), numbers(shape), numbers(strides), b"\x89", EMPTY)


def parameter(data):
    """A tensor that was saved as torch.nn.Parameter."""
    return called(named("torch._utils", "_rebuild_parameter"), data, b"\x88", EMPTY)


def state_dict(values):
    """{name: opcodes} -> the pickle of an OrderedDict, with the `_metadata` that Module.state_dict() hangs on it."""
    items = b"".join(text(name) + opcodes for name, opcodes in values.items())
    metadata = b"}" + text("_metadata") + EMPTY + b"s" + b"b"
    return PROTOCOL + EMPTY + b"(" + items + b"u" + metadata + STOP


def write_zip(path, description, storages):
    """The format since PyTorch 1.6."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", description)
        archive.writestr("archive/version", "3\n")
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key}", data)


def write_old(path, description, storages, widths):
    """The format before 1.6. widths: {key: bytes of an element}."""
    sizes = {"protocol_version": OLD_VERSION, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    head = [pickle.dumps(value, 2) for value in (OLD_MAGIC, OLD_VERSION, sizes)]
    keys = sorted(storages)
    tail = [struct.pack("<q", len(storages[key]) // widths[key]) + storages[key] for key in keys]
    path.write_bytes(b"".join([*head, description, pickle.dumps(keys, 2), *tail]))


def halved(array, kind):
    """An array rounded to 16 bits: its bytes, and the float32 numbers that they mean."""
    if kind == "half":
        return array.astype("<f2").tobytes(), array.astype("<f2").astype(np.float32)
    upper = array.astype("<f4").view("<u4") >> 16  # bfloat16 is the upper half of a float32
    return upper.astype("<u2").tobytes(), (upper << 16).view(np.float32)
