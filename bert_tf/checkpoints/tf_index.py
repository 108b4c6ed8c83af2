"""Checks the index of a TensorFlow checkpoint before TensorFlow reads it.

TensorFlow's reader trusts an index with correct checksums. A damaged entry, a shape beyond int64 or a slice of
negative length ends the process, and a tensor is allocated by its shape before its bytes are looked for.

The index is a LevelDB table (tensorflow/core/lib/io/format.h, block.cc): blocks of entries {key: value} in the order of
their keys, each followed by a type and a checksum; the last 48 bytes point to a block that points to the others. The
values are the messages of tensorflow/core/protobuf/tensor_bundle.proto.
"""

import math
import os
import struct
from collections.abc import Iterator
from typing import Any

from bert_tf.runtime import files
from bert_tf.runtime.lazy import module, tf

tensor_bundle_pb2 = module("tensorflow.core.protobuf.tensor_bundle_pb2")
MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
FOOTER, TRAILER = 48, 5  # bytes at the end of the table and after each block
MAX_SIZE = 2**63 - 1  # TensorFlow counts in int64
MAX_DIMENSIONS = 254  # tensorflow::TensorShape::MaxDimensions


def check(prefix: str) -> None:
    """Raises ValueError unless TensorFlow can read every entry of `prefix`.index within the size of the data files."""
    entries = _read(prefix)
    keys = [key for key, _ in entries]
    if keys[:1] != [b""] or any(first >= second for first, second in zip(keys, keys[1:], strict=False)):
        raise ValueError("the names in its index are not in order")
    header = tensor_bundle_pb2.BundleHeaderProto.FromString(entries[0][1])
    if header.endianness != tensor_bundle_pb2.BundleHeaderProto.LITTLE:
        raise ValueError("it was written on a big-endian machine")
    found = {key: tensor_bundle_pb2.BundleEntryProto.FromString(value) for key, value in entries[1:]}
    for key, entry in found.items():
        try:
            _check_entry(entry, prefix, header.num_shards)
            if entry.slices:
                start = b"\0" + key + b"\0\1"  # prefix of the keys of its parts, as written by OrderedCode
                _check_parts(entry, [part for name, part in found.items() if name.startswith(start)])
        except ValueError as error:
            raise ValueError(f"{error} in the entry {key[:60]!r} of its index") from None


def keys(prefix: str) -> list[bytes]:
    """The names in `prefix`.index; OSError or ValueError if it cannot be read."""
    return [key for key, _ in _read(prefix)]


def _read(prefix: str) -> list[tuple[bytes, bytes]]:
    with files.open_binary(f"{prefix}.index") as file:
        return list(_entries(file.read()))


def _check_entry(entry: Any, prefix: str, shards: int) -> None:
    """Raises ValueError for an impossible shape, slice or location."""
    sizes = [dimension.size for dimension in entry.shape.dim]
    count = math.prod(sizes)
    if entry.shape.unknown_rank or len(sizes) > MAX_DIMENSIONS or min(sizes, default=0) < 0 or count > MAX_SIZE:
        raise ValueError("an impossible shape")
    for each in entry.slices:
        parts = [(part.start, part.length) for part in each.extent]
        if len(parts) != len(sizes) or not all(_is_part(*part, size) for part, size in zip(parts, sizes, strict=True)):
            raise ValueError("an impossible slice")
    if entry.slices:  # the parts have entries with the bytes
        return
    shard = f"{prefix}.data-{entry.shard_id:05d}-of-{shards:05d}"
    if not 0 <= entry.shard_id < shards or min(entry.offset, entry.size) < 0:
        raise ValueError("an impossible place")
    if not files.is_file(shard):
        raise ValueError(f"a missing file {os.path.basename(shard)}")
    if entry.offset + entry.size > files.size(shard):
        raise ValueError("a place beyond the end of the data")
    if not _fits(entry.dtype, count, entry.size):
        raise ValueError(f"a shape that does not fit {entry.size} bytes")


def _check_parts(entry: Any, parts: list[Any]) -> None:
    """Raises ValueError unless the parts' entries have the type of the whole and the shapes of its slices."""
    sizes = [dimension.size for dimension in entry.shape.dim]
    places = [
        tuple((part.start, part.length or size) for part, size in zip(each.extent, sizes, strict=True))
        for each in entry.slices
    ]
    if len(set(places)) < len(places):
        raise ValueError("the same slice twice")
    expected = sorted([length for _, length in place] for place in places)
    if any(part.dtype != entry.dtype or part.slices for part in parts):
        raise ValueError("parts of another type")
    if sorted([dimension.size for dimension in part.shape.dim] for part in parts) != expected:
        raise ValueError("parts that do not fit its slices")


def _is_part(start: int, length: int, size: int) -> bool:
    """Returns whether a slice is within a dimension; a length of 0 means all of it."""
    return start >= 0 and length >= 0 and start + length <= size


def _fits(dtype: int, count: int, size: int) -> bool:
    """Returns whether a tensor of `count` elements may take `size` bytes; strings and objects take one or more each."""
    try:
        kind = tf.as_dtype(dtype)
        width = kind.size
    except (TypeError, KeyError, ValueError):
        return False
    if kind in (tf.string, tf.variant):
        return count <= size
    return bool(width) and count * width == size


def _entries(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields (key, value) from a table."""
    footer = table[-FOOTER:]
    if len(footer) < FOOTER or not footer.endswith(MAGIC):
        raise ValueError("its index is cut short")
    _, _, position = _handle(footer, 0)
    for _, handle in _block(table, *_handle(footer, position)[:2]):
        yield from _block(table, *_handle(handle, 0)[:2])


def _handle(data: bytes, position: int) -> tuple[int, int, int]:
    """Offset and size of a block, and the position of the next handle."""
    offset, position = _varint(data, position)
    size, position = _varint(data, position)
    return offset, size, position


def _block(table: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yields (key, value) from a block. A key consists of a prefix of the previous key, and its own bytes."""
    if offset + size + TRAILER > len(table) - FOOTER or size < 4:
        raise ValueError("its index points beyond its end")
    if table[offset + size]:
        raise ValueError("its index is compressed, which TensorFlow never does")
    block = table[offset : offset + size]
    (restarts,) = struct.unpack("<I", block[-4:])
    end, position, key = size - 4 - 4 * restarts, 0, b""
    if end < 0:
        raise ValueError("a block of its index is damaged")
    while position < end:
        shared, position = _varint(block, position)
        own, position = _varint(block, position)
        length, position = _varint(block, position)
        if shared > len(key) or position + own + length > end:
            raise ValueError("a block of its index is damaged")
        key = key[:shared] + block[position : position + own]
        position += own + length
        yield key, block[position - length : position]


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A number in groups of seven bits, lowest first, and the position after it."""
    number = shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        number |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return number, position
    raise ValueError("its index is damaged")
