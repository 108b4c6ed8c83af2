"""Small valid checkpoints to begin mutations with, and containers whose checksums hold whatever is put into them.

A mutated byte of a zip or of a TensorFlow index fails its checksum, and the reader behind it never sees the byte. So
mutations are made inside, and `zipped` and `table` compute the checksums afterwards.
"""

import io
import json
import struct

import numpy as np
import torch_files

TABLE_MAGIC = 0xDB4775248B80FB57  # at the end of an index (tensorflow/core/lib/io/format.h)
FOOTER = 48  # bytes
FLOAT, STRING = 1, 7  # tensorflow.DataType
NUMBERS = np.arange(16, dtype=np.float32).tobytes()
LENGTHS = struct.pack("<II", 2, 3)
STRINGS = b"\2\3" + struct.pack("<I", 0x267DE3BD) + b"abcde"  # two, behind their lengths and the checksum of those


class Memory(io.BytesIO):
    """A file in memory that is written as a Path is."""

    write_bytes = io.BytesIO.write


def pickles():
    """Pickles of state dicts: tensors of several types, a parameter, two names for one tensor, none at all."""
    tensor = torch_files.tensor("FloatStorage", "0", 0, [2, 3], [3, 1])
    halves = torch_files.tensor("BFloat16Storage", "0", 1, [4], [2])
    whole = torch_files.tensor("LongStorage", "0", 0, [], [])
    values = {"bert.embeddings.word_embeddings.weight": tensor, "b": torch_files.parameter(tensor), "c": tensor}
    return [torch_files.state_dict(each) for each in (values, {"a": halves}, {"a": whole}, {})]


def zipped(description):
    """The file of torch.save since 1.6 with this pickle and one storage."""
    file = Memory()
    torch_files.write_zip(file, description, {"0": NUMBERS})
    return file.getvalue()


def sequence(description):
    """The same before 1.6."""
    file = Memory()
    torch_files.write_old(file, description, {"0": NUMBERS}, {"0": 4})
    return file.getvalue()


def headers():
    """JSON headers of safetensors: two tensors and metadata, a scalar, none."""
    two = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [20], "data_offsets": [24, 64]},
    }
    scalar = {"a": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}}
    return [json.dumps(each).encode() for each in (two, scalar, {})]


def safetensors(header):
    """A file with this header and 64 bytes of numbers."""
    return struct.pack("<Q", len(header)) + header + NUMBERS


def entries():
    """{key: message} of an index whose data are NUMBERS + STRINGS: plain tensors, one in slices, one of strings."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
    from tensorflow.core.protobuf import tensor_bundle_pb2

    header = tensor_bundle_pb2.BundleHeaderProto(num_shards=1)
    header.version.producer = 1
    whole, messages = tensor_bundle_pb2.BundleEntryProto(dtype=FLOAT), {}
    for size in (4, 2):
        whole.shape.dim.add(size=size)
    for start in (0, 2):
        part = whole.slices.add()
        part.extent.add(start=start, length=2)
        part.extent.add()
        key = b"\0sliced\0\1\1\2" + bytes([128 + start, 128 + 2, 128, 127])  # util/saved_tensor_slice_util.cc
        messages[key] = entry(FLOAT, [2, 2], 8 * start, NUMBERS[8 * start : 8 * start + 16])
    messages |= {
        b"": header,
        b"bert/embeddings/word_embeddings": entry(FLOAT, [2, 3], 0, NUMBERS[:24]),
        b"scalar": entry(FLOAT, [], 60, NUMBERS[60:]),
        b"sliced": whole,
        b"strings": entry(STRING, [2], 64, STRINGS, crc32c=masked_crc32c(LENGTHS + STRINGS[2:])),
    }
    return {key: message.SerializeToString() for key, message in messages.items()}


def entry(dtype, sizes, offset, data, **more):
    """The message of a tensor."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
    from tensorflow.core.protobuf import tensor_bundle_pb2

    fields = {"dtype": dtype, "offset": offset, "size": len(data), "crc32c": masked_crc32c(data)} | more
    message = tensor_bundle_pb2.BundleEntryProto(**fields)
    for size in sizes:
        message.shape.dim.add(size=size)
    return message


def block(items):
    """A block of a table: entries without shared prefixes, one restart point."""
    content = b"".join(_varint(0) + _varint(len(k)) + _varint(len(v)) + k + v for k, v in sorted(items.items()))
    return content + struct.pack("<II", 0, 1)


def table(data_block):
    """An index with this block of entries."""
    handles, content = [], b""
    for each in (data_block, block({}), None):
        if each is None:
            each = block({b"\xff": handles[0]})
        handles.append(_varint(len(content)) + _varint(len(each)))
        content += _with_checksum(each)
    return content + (handles[1] + handles[2]).ljust(FOOTER - 8, b"\0") + struct.pack("<Q", TABLE_MAGIC)


def _with_checksum(content):
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    content += b"\0"  # not compressed
    return content + struct.pack("<I", masked_crc32c(content))


def _varint(number):
    groups = b""
    while number > 127:
        groups += bytes([number & 127 | 128])
        number >>= 7
    return groups + bytes([number])
