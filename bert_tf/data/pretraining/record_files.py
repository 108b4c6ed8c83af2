"""Files of pre-training records without TensorFlow: tf.train.Examples in a TFRecord file, encoded in blocks.

R rows of a block, T tokens in all of them. Same bytes as `Example.SerializeToString(deterministic=True)` and
`tf.io.TFRecordWriter` (tensorflow/core/lib/io/record_writer.h).
"""

import functools
import gzip
import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, cast

import numpy as np

from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.text.corpus_files import NOT_WHOLE

CONTINUATIONS = "word_continuations"  # 1 for a token that continues the Chinese word of the token before
BLOCK = 2048  # rows encoded at once
MAX_RECORD = 1 << 30  # bytes: a larger length indicates damage
POLYNOMIAL = 0x82F63B78  # of CRC-32C, reflected
MASK_DELTA = 0xA282EAD8


def serialize_records(
    token_ids: np.ndarray,
    lengths: np.ndarray,
    second_starts: np.ndarray,
    labels: np.ndarray,
    record_ids: np.ndarray,
    continues: np.ndarray | None = None,
) -> list[bytes]:
    """Encodes R rows as tf.train.Examples: int64 lists token_ids, second_start, next_sentence_label, record_id.

    token_ids: int [T], the rows one after another, each of `lengths` [R] tokens; the others int [R]: the first
    position of segment 1, 1 for a random next segment, and a unique record number. With `continues`, bool [T], also a
    list CONTINUATIONS.
    """
    encoded, sizes = _varints(token_ids)
    begins = np.concatenate([[0], np.cumsum(lengths)])
    edges = np.concatenate([[0], np.cumsum(sizes)])[begins].tolist()
    marks = [b""] * len(lengths)
    if continues is not None:
        key, values = CONTINUATIONS.encode(), continues.astype(np.uint8).tobytes()  # one byte each
        marks = [_head(key, end - start) + values[start:end] for start, end in itertools.pairwise(begins.tolist())]
    rows = zip(labels.tolist(), record_ids.tolist(), second_starts.tolist(), edges, edges[1:], marks, strict=False)
    records = []
    for label, number, second, start, end, mark in rows:
        size = end - start
        fields = _single(b"next_sentence_label", label) + _record_id(number) + _single(b"second_start", second)
        head = _message_head(len(fields) + size + len(mark), size) + fields + _head(b"token_ids", size)
        records.append(head + encoded[start:end] + mark)
    return records


def write_records(path: str, blocks: Iterable[Sequence[bytes]], *, compress: bool = False) -> None:
    """Writes blocks of serialized records as one TFRecord file."""
    with open(path, "wb") as raw:
        file = cast(IO[bytes], gzip.GzipFile("", "wb", 6, raw, mtime=0)) if compress else raw
        with file:
            for records in blocks:
                file.write(b"".join(_framed(records)))


def read_records(path: str) -> Iterator[bytes]:
    """The records of a TFRecord file, decompressed if it ends in .gz.

    Raises UserError at the first damaged record; checks BLOCK records at once.
    """
    number = 0
    with files.open_binary(path) as raw:
        file = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if path.endswith(".gz") else raw
        ends_well = True
        while ends_well and (block := list(itertools.islice(_frames(file), BLOCK))):
            whole = [(record, checksum) for record, checksum in block if record]
            count = _number_right(whole)
            yield from (record for record, _ in whole[:count])
            number += count
            ends_well = count == len(block)
    if not ends_well:
        raise UserError(
            f"{path} is damaged after {number:,} records, and the others are lost: copy it again, or remove it."
        )


def _number_right(records: Sequence[tuple[bytes, int]]) -> int:
    """Number of records before the first whose checksum is wrong."""
    if not records:
        return 0
    contents, checksums = zip(*records, strict=True)
    return int(np.append(masked_crc(contents) != np.array(checksums, np.uint32), True).argmax())


def _frames(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yields records with their checksums; an empty record if the file is truncated or its lengths are wrong."""
    try:
        while header := file.read(12):
            length = int.from_bytes(header[:8], "little")
            if len(header) < 12 or length > MAX_RECORD or _length_header(length) != header:
                yield b"", 0
                return
            body = file.read(length + 4)
            if len(body) < length + 4:
                yield b"", 0
                return
            yield body[:length], int.from_bytes(body[length:], "little")
    except NOT_WHOLE:
        yield b"", 0


def _framed(records: Sequence[bytes]) -> Iterator[bytes]:
    """Each record preceded by its length, with a checksum after length and record."""
    checksums = masked_crc(records).astype("<u4").tobytes()
    for number, record in enumerate(records):
        yield _length_header(len(record))
        yield record
        yield checksums[4 * number : 4 * number + 4]


@functools.lru_cache(maxsize=4096)
def _length_header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + masked_crc([packed]).astype("<u4").tobytes()


def masked_crc(records: Sequence[bytes]) -> np.ndarray:
    """The checksums of a TFRecord file, uint32 [R]: CRC-32C, rotated and shifted. Each record has four bytes or more.

    Processes all records at once, two bytes of each at a time, aligned at their ends: leading zeros do not change the
    state of a CRC that begins as zero, and beginning with ones instead equals inverting the first four bytes.
    """
    sizes = np.array([len(record) for record in records])
    width = int(sizes.max()) + int(sizes.max()) % 2
    padded = np.frombuffer(b"".join([record.rjust(width, b"\0") for record in records]), np.uint8)
    padded = padded.reshape(len(records), width).copy()
    rows = np.arange(len(records))
    for position in range(4):
        padded[rows, width - sizes + position] ^= 0xFF
    table = _crc_table()
    state: np.ndarray = np.zeros(len(records), np.uint32)
    for pair in np.ascontiguousarray(padded.view("<u2").T):
        state = table[(state ^ pair) & 0xFFFF] ^ (state >> 16)
    state = np.invert(state)
    return ((state >> 15) | (state << 17)) + np.uint32(MASK_DELTA)


@functools.cache
def _crc_table() -> np.ndarray:
    """The state of CRC-32C after each two bytes: uint32 [65536]."""
    states: np.ndarray = np.arange(1 << 16, dtype=np.uint32)
    for _ in range(16):
        states = (states >> 1) ^ np.where(states & 1, np.uint32(POLYNOMIAL), np.uint32(0))
    return states


def _varints(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Base-128 varints of T integers from 0 to 2**28 - 1: all bytes, and the size of each, int64 [T]."""
    values = values.astype(np.uint32)
    sizes = np.ones(len(values), np.int64)
    for size in (1, 2, 3):
        sizes += values >= 1 << 7 * size
    positions = np.cumsum(sizes) - sizes
    data = np.empty(int(sizes.sum()), np.uint8)
    for byte in range(int(sizes.max(initial=0))):
        longer = np.flatnonzero(sizes > byte) if byte else slice(None)
        bits = values[longer] >> np.uint32(7 * byte) & np.uint32(0x7F)
        data[positions[longer] + byte] = bits | (sizes[longer] > byte + 1).astype(np.uint32) << np.uint32(7)
    return data.tobytes(), sizes


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


@functools.lru_cache(maxsize=65536)
def _head(key: bytes, size: int) -> bytes:
    """An entry of Features.feature, {key: Feature(int64_list=Int64List(value))}, up to its `size` bytes of varints."""
    head = b""
    for field in (1, 3, 2):  # Int64List.value, Feature.int64_list, entry value; from the inside out
        head = bytes([field << 3 | 2]) + _varint(len(head) + size) + head
    head = bytes([1 << 3 | 2]) + _varint(len(key)) + key + head
    return bytes([1 << 3 | 2]) + _varint(len(head) + size) + head


@functools.lru_cache(maxsize=65536)
def _message_head(size: int, tokens: int) -> bytes:
    """Tag and length of Example.features, whose content is `size` bytes and the head of token_ids."""
    return bytes([1 << 3 | 2]) + _varint(size + len(_head(b"token_ids", tokens)))


@functools.lru_cache(maxsize=8192)
def _single(key: bytes, value: int) -> bytes:
    varint = _varint(value)
    return _head(key, len(varint)) + varint


def _record_id(number: int) -> bytes:
    """The entry of a record's number. Its low bits vary, the others belong to its shard."""
    varint = _low_bits(number & 0x3FFF) + _high_bits(number >> 14) if number >> 14 else _varint(number)
    return _head(b"record_id", len(varint)) + varint


@functools.lru_cache(maxsize=1 << 14)
def _low_bits(value: int) -> bytes:
    """Two bytes of a varint that continues."""
    return bytes([value & 0x7F | 0x80, value >> 7 | 0x80])


@functools.lru_cache(maxsize=1024)
def _high_bits(value: int) -> bytes:
    return _varint(value)
