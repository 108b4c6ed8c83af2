"""Indices of TensorFlow checkpoints whose checksums hold and whose content is wrong, which would end the process."""

import crafted_checkpoints as crafted
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import tensor_bundle_pb2

from bert_tf.checkpoints.checkpoint_files import read_tensors
from bert_tf.errors import UserError

FLOAT, STRING = crafted.FLOAT, crafted.STRING


@pytest.fixture
def written(tmp_path):
    """Writes an index with these entries, or this block of entries, next to its data; returns the prefix."""

    def write(entries):
        content = crafted.table(entries if isinstance(entries, bytes) else crafted.block(entries))
        (tmp_path / "x.ckpt.index").write_bytes(content)
        (tmp_path / "x.ckpt.data-00000-of-00001").write_bytes(crafted.NUMBERS + crafted.STRINGS)
        return str(tmp_path / "x.ckpt")

    return write


def test_tensors_scalars_slices_and_strings_are_read(written):
    tensors = read_tensors(written(crafted.entries()), bool)
    numbers = np.arange(16, dtype=np.float32)
    np.testing.assert_array_equal(tensors["bert/embeddings/word_embeddings"], numbers[:6].reshape(2, 3))
    np.testing.assert_array_equal(tensors["sliced"], numbers[:8].reshape(4, 2))
    assert tensors["scalar"] == 15 and tensors["strings"].tolist() == [b"ab", b"cde"]


@pytest.mark.parametrize("shape, slices", [([], 0), ([7], 0), ([6, 4], 2)])
def test_what_tensorflow_writes_passes(tmp_path, shape, slices):
    prefix = str(tmp_path / "y.ckpt")
    parts = [""] if not slices else ["6 4 0,3:-", "6 4 3,3:-"]
    values = tf.split(tf.zeros(shape), len(parts)) if slices else [tf.zeros(shape)]
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=["a"] * len(parts), shape_and_slices=parts, tensors=values)
    assert read_tensors(prefix, bool)["a"].shape == tuple(shape)


WRONG = {
    "no message": lambda: b"\x12\xff",
    "a negative size": lambda: crafted.entry(FLOAT, [-1], 0, b"").SerializeToString(),
    "more numbers than int64": lambda: crafted.entry(FLOAT, [2**40, 2**40], 0, b"").SerializeToString(),
    "300 dimensions": lambda: crafted.entry(FLOAT, [1] * 300, 0, crafted.NUMBERS[:4]).SerializeToString(),
    "4 GB of zeros": lambda: crafted.entry(FLOAT, [2**30], 0, crafted.NUMBERS).SerializeToString(),
    "4 G of texts": lambda: crafted.entry(STRING, [2**32], 64, crafted.STRINGS).SerializeToString(),
    "another type": lambda: crafted.entry(99, [2], 0, crafted.NUMBERS[:8]).SerializeToString(),
    "a handle of a device": lambda: crafted.entry(20, [2], 0, crafted.NUMBERS[:8]).SerializeToString(),
    "behind the end": lambda: crafted.entry(FLOAT, [4], 2**40, crafted.NUMBERS[:16]).SerializeToString(),
    "before the beginning": lambda: crafted.entry(FLOAT, [4], -1, crafted.NUMBERS[:16]).SerializeToString(),
    "another file": lambda: crafted.entry(FLOAT, [4], 0, crafted.NUMBERS[:16], shard_id=3).SerializeToString(),
}


@pytest.mark.parametrize("message", WRONG.values(), ids=WRONG)
def test_wrong_entries_are_refused(written, message):
    with pytest.raises(UserError, match="cannot be read as a TensorFlow checkpoint"):
        read_tensors(written(crafted.entries() | {b"scalar": message()}), bool)


@pytest.mark.parametrize("start, length", [(-1, 2), (2, -2), (3, 2), (2**62, 2**62)])
def test_wrong_slices_are_refused(written, start, length):
    whole = crafted.entry(FLOAT, [4], 0, b"")
    whole.slices.add().extent.add(start=start, length=length)
    with pytest.raises(UserError, match="an impossible slice in the entry b'scalar'"):
        read_tensors(written(crafted.entries() | {b"scalar": whole.SerializeToString()}), bool)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": 5}, "parts of another type"),
        ({"rows": 1}, "parts that do not fit its slices"),
        ({"twice": True}, "the same slice twice"),
    ],
)
def test_parts_that_do_not_fit_their_slices_are_refused(written, change, message):
    entries = crafted.entries()
    key = min(key for key in entries if key.startswith(b"\0sliced\0\1"))
    part, whole = (tensor_bundle_pb2.BundleEntryProto.FromString(entries[name]) for name in (key, b"sliced"))
    if "dtype" in change:
        part.dtype, part.size = change["dtype"], part.size // 2
    if "rows" in change:
        part.shape.dim[0].size, part.size = change["rows"], 4 * change["rows"] * part.shape.dim[1].size
    if "twice" in change:
        whole.slices.add().CopyFrom(whole.slices[0])
    changed = entries | {key: part.SerializeToString(), b"sliced": whole.SerializeToString()}
    with pytest.raises(UserError, match=f"{message} in the entry b'sliced'"):
        read_tensors(written(changed), bool)


BLOCKS = {
    "no entries": lambda: crafted.block({}),
    "no header": lambda: crafted.block({b"a": b""}),
    "names out of order": lambda: crafted.block({b"b": b""})[:-8] + crafted.block({b"a": b""}),
    "an entry beyond the end": lambda: b"\0\xff\xff\x03" + crafted.block({}),
    "a name that goes on from nothing": lambda: b"\x05\1\0a" + crafted.block({}),
    "more restarts than bytes": lambda: crafted.block({})[:-4] + b"\xff\xff\xff\x7f",
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_wrong_blocks_are_refused(written, block):
    with pytest.raises(UserError, match="cannot be read as a TensorFlow checkpoint"):
        read_tensors(written(block()), bool)
