"""Weights of PyTorch without PyTorch: every kind of tensor, and a refusal of every pickle that asks for more."""

import os
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch_files

from bert_tf.checkpoints.torch_pickle import read
from bert_tf.errors import UserError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pytorch_model.bin"


STORAGES = [
    ("DoubleStorage", np.float64),
    ("FloatStorage", np.float32),
    ("HalfStorage", np.float16),
    ("LongStorage", np.int64),
    ("IntStorage", np.int32),
    ("ByteStorage", np.uint8),
    ("BoolStorage", np.bool_),
]


def write(path, description, data, width, *, old):
    """One storage, "0", in either format."""
    if old:
        torch_files.write_old(path, description, {"0": data}, {"0": width})
    else:
        torch_files.write_zip(path, description, {"0": data})


@pytest.mark.parametrize("old", [False, True], ids=["zip", "old"])
@pytest.mark.parametrize("storage, kind", STORAGES)
def test_every_storage_type_is_read_exactly(path, storage, kind, old):
    values = np.arange(6).astype(kind)
    named = {"a": torch_files.tensor(storage, "0", 0, [2, 3], [3, 1]), "b": torch_files.tensor(storage, "0", 5, [], [])}
    write(path, torch_files.state_dict(named), values.tobytes(), values.itemsize, old=old)
    loaded = read(path)
    assert loaded["a"].dtype == kind and loaded["a"].shape == (2, 3) and loaded["b"].shape == ()
    np.testing.assert_array_equal(loaded["a"], values.reshape(2, 3))
    np.testing.assert_array_equal(loaded["b"], values[5])


@pytest.mark.parametrize("old", [False, True], ids=["zip", "old"])
def test_bfloat16_is_the_upper_half_of_float32(path, old):
    data, expected = torch_files.halved(np.float32([1, -2.5, 3.14159, 1e-30]), "bfloat16")
    named = {"a": torch_files.tensor("BFloat16Storage", "0", 0, [4], [1])}
    write(path, torch_files.state_dict(named), data, 2, old=old)
    np.testing.assert_array_equal(read(path)["a"], expected)
    assert expected[:2].tolist() == [1, -2.5] and expected[2] == np.float32(3.140625)


def test_transposed_strided_and_shared_tensors_are_read(path):
    storage = np.arange(12, dtype="<f4")
    named = {
        "transposed": torch_files.tensor("FloatStorage", "0", 0, [4, 3], [1, 4]),
        "every fifth": torch_files.tensor("FloatStorage", "0", 1, [3], [5]),
        "spread": torch_files.tensor("FloatStorage", "0", 7, [2, 2], [0, 1]),
        "empty": torch_files.tensor("FloatStorage", "0", 12, [0, 3], [3, 1]),
        "parameter": torch_files.parameter(torch_files.tensor("FloatStorage", "0", 3, [2], [1])),
    }
    torch_files.write_zip(path, torch_files.state_dict(named), {"0": storage.tobytes()})
    assert {name: array.tolist() for name, array in read(path).items()} == {
        "transposed": [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]],
        "every fifth": [1, 6, 11],
        "spread": [[7, 8], [7, 8]],
        "empty": [],
        "parameter": [3, 4],
    }


class Reduced:
    """Pickled as a call of that function with these arguments."""

    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


def attacks(ran):
    """{the name that must be refused: a pickle that would leave the file `ran` behind}."""
    python = f"open({str(ran)!r}, 'w').close()"
    tuple_of = torch_files.together
    call = torch_files.called(torch_files.named("builtins", "eval"), torch_files.text(python))
    good = torch_files.tensor("FloatStorage", "0", 0, [1], [1])
    return {
        "posix.system": pickle.dumps({"a": Reduced(os.system, f"touch {ran}")}, 4),  # STACK_GLOBAL
        "builtins.eval": torch_files.state_dict({"a": good, "b": call}),
        "__builtin__.exec": pickle.dumps(Reduced(exec, python), 0),
        "numpy.fromfile": torch_files.state_dict(
            {"a": torch_files.called(torch_files.named("numpy", "fromfile"), torch_files.text("/dev/null"))}
        ),
        "numpy.core.multiarray.scalar": torch_files.state_dict(
            {"a": torch_files.named("numpy.core.multiarray", "scalar")}
        ),
        "os.path.join": torch_files.PROTOCOL + torch_files.named("os", "path.join") + torch_files.STOP,
        "torch.load": torch_files.PROTOCOL + torch_files.named("torch", "load") + torch_files.STOP,
        "os.system": torch_files.PROTOCOL + b"(" + torch_files.text(f"touch {ran}") + b"ios\nsystem\n" + b".",  # INST
        "bert_tf.errors.UserError": torch_files.PROTOCOL
        + torch_files.named("bert_tf.errors", "UserError")
        + tuple_of()
        + b"\x81.",  # NEWOBJ
    }


@pytest.mark.parametrize("where", ["zip", "old", "magic number", "keys of the storages"])
def test_malicious_pickles_are_refused_without_running_code(tmp_path, path, where):
    ran = tmp_path / "ran"
    for name, attack in attacks(ran).items():
        if where == "zip":
            torch_files.write_zip(path, attack, {"0": bytes(4)})
        elif where == "old":
            torch_files.write_old(path, attack, {"0": bytes(4)}, {"0": 4})
        elif where == "magic number":
            path.write_bytes(attack)
        else:
            torch_files.write_old(path, torch_files.state_dict({}) + attack, {}, {})
        with pytest.raises(UserError, match="only tensors are allowed") as error:
            read(path)
        assert f"contains {name};" in str(error.value) and str(path) in str(error.value)
        assert not ran.exists(), name


def test_malicious_pickles_do_run_in_the_standard_unpickler(tmp_path):
    ran = tmp_path / "ran"
    for name in ("posix.system", "__builtin__.exec", "os.system"):
        pickle.loads(attacks(ran)[name])
        ran.unlink()  # fails where it did nothing


@pytest.mark.parametrize(
    "offset, shape, strides", [(0, [5], [1]), (3, [2], [1]), (0, [2, 2], [3, 1]), (-1, [2], [1]), (0, [2], [-1])]
)
def test_tensor_beyond_its_storage_is_refused(path, offset, shape, strides):
    description = torch_files.state_dict({"a": torch_files.tensor("FloatStorage", "0", offset, shape, strides)})
    torch_files.write_zip(path, description, {"0": bytes(16)})
    with pytest.raises(UserError, match="reaches beyond its storage"):
        read(path)


def test_pickle_that_is_not_a_dictionary_is_refused(path):
    tensor = torch_files.tensor("FloatStorage", "0", 0, [1], [1])
    description = torch_files.PROTOCOL + tensor + torch_files.STOP
    torch_files.write_zip(path, description, {"0": bytes(4)})
    with pytest.raises(UserError, match="expected a dictionary of tensors"):
        read(path)


def assert_refused_without_memory(path, reason):
    """As a UserError, and with a few MB of memory at most."""
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=reason):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_tensor_larger_than_its_storage_is_refused(path):
    repeated = torch_files.tensor("FloatStorage", "0", 0, [3000, 3000], [0, 0])
    torch_files.write_zip(path, torch_files.state_dict({"a": repeated}), {"0": bytes(16)})
    assert_refused_without_memory(path, "a tensor of 9000000 numbers reaches beyond its storage of 4")


def test_many_tensors_of_one_storage_are_refused(path):
    named = {str(number): torch_files.tensor("ByteStorage", "0", 0, [2**20], [1]) for number in range(9)}
    torch_files.write_zip(path, torch_files.state_dict(named), {"0": bytes(2**20)})
    assert_refused_without_memory(path, "too many tensors share a storage")


@pytest.mark.parametrize("old", [False, True], ids=["zip", "old"])
def test_large_number_of_an_object_is_refused(path, old):
    attack = torch_files.PROTOCOL + b"}r\xff\xff\xff\x00" + torch_files.STOP  # LONG_BINPUT, a memo of 256 MB
    write(path, attack, bytes(4), 4, old=old)
    assert_refused_without_memory(path, "numbers an object 16777215 among 2")


@pytest.mark.parametrize("opcode", [b"B", b"T", b"X", b"\x8b"], ids=["bytes", "string", "text", "number"])
@pytest.mark.parametrize("old", [False, True], ids=["zip", "old"])
def test_texts_longer_than_the_file_are_refused(path, opcode, old):
    attack = torch_files.PROTOCOL + opcode + struct.pack("<I", 2**31 - 1) + b"short" + torch_files.STOP
    write(path, attack, bytes(4), 4, old=old)
    assert_refused_without_memory(path, "expected 2147483647 bytes in a .* but only|not enough data in stream")


def test_compressed_storage_is_refused(path):
    torch_files.write_zip(path, torch_files.state_dict({}), {})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(2**24))
    assert_refused_without_memory(path, "compressed data, which torch.save never writes")


def test_storage_that_claims_more_than_the_file_is_refused(path):
    named = {"a": torch_files.tensor("FloatStorage", "0", 0, [4], [1])}
    write(path, torch_files.state_dict(named), bytes(16), 4, old=True)
    path.write_bytes(path.read_bytes()[:-24] + struct.pack("<q", 2**40) + bytes(16))
    assert_refused_without_memory(path, "storage 0 has 16 of")
