"""Files of Keras 3, read without Keras: archives, HDF5 with bfloat16, and damaged ones."""

import json
import struct
import tracemalloc
import zipfile

import h5py
import ml_dtypes
import numpy as np
import pytest

from bert_tf.checkpoints import keras_files
from bert_tf.errors import UserError

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def h5_file(path, **datasets):
    with h5py.File(path, "w") as file:
        for name, array in datasets.items():
            written = file.create_dataset(f"{name}/vars/0", data=array)
            if array.dtype == ml_dtypes.bfloat16:
                written.attrs["dtype"] = "bfloat16"
    return str(path)


def keras_file(folder, content='{"class_name": "Model", "registered_name": "lab>Model"}', **datasets):
    weights = h5_file(folder / "weights.h5", **datasets)
    with zipfile.ZipFile(folder / "model.keras", "w") as archive:
        archive.writestr("config.json", content)
        archive.write(weights, "model.weights.h5")
        archive.writestr("assets/tokenizer/vocabulary.txt", "a\n")
    return str(folder / "model.keras")


def test_keras_file_has_its_weights_by_path_and_its_assets(tmp_path):
    path = keras_file(tmp_path, **{"layers/dense": VALUES, "optimizer": VALUES, "_layers/_dense_1": VALUES + 1})
    found = keras_files.read(path)
    assert keras_files.class_of(path) == "lab>Model" and found.config["class_name"] == "Model"
    assert found.weights.keys() == {"layers/dense/vars/0", "layers/dense_1/vars/0"}
    np.testing.assert_array_equal(found.weights["layers/dense_1/vars/0"], VALUES + 1)
    assert found.assets == {"tokenizer/vocabulary.txt": b"a\n"}


def test_bfloat16_weights_and_older_paths_are_read(tmp_path):
    name = "_layer_checkpoint_dependencies/dense"
    path = h5_file(tmp_path / "w.h5", **{name: VALUES.astype(ml_dtypes.bfloat16)})
    (array,) = keras_files.read_weights(path).values()
    assert array.dtype == ml_dtypes.bfloat16 and list(keras_files.read_weights(path)) == ["layers/dense/vars/0"]
    np.testing.assert_array_equal(array.astype(np.float32), VALUES)


@pytest.mark.parametrize("content", [b"", b"PK\3\4...", "half"])
def test_damaged_keras_file_is_one_sentence(tmp_path, content):
    path = keras_file(tmp_path, dense=VALUES)
    data = (tmp_path / "model.keras").read_bytes()
    (tmp_path / "model.keras").write_bytes(data[: len(data) // 2] if content == "half" else content)
    with pytest.raises(UserError, match=r"^[^\n]*model.keras cannot be read as a Keras file [^\n]* fetch it again\.$"):
        keras_files.read(path)


def test_keras_file_whose_entries_claim_more_than_it_has_is_refused(tmp_path):
    path, entry = keras_file(tmp_path, dense=VALUES), b"model.weights.h5"
    data = bytearray((tmp_path / "model.keras").read_bytes())
    place = data.rindex(entry) - 46  # of its header in the directory, whose sizes are 20 bytes after the start
    data[place + 20 : place + 28] = struct.pack("<II", 1 << 30, 1 << 30)
    (tmp_path / "model.keras").write_bytes(data)
    tracemalloc.start()
    with pytest.raises(UserError, match="the sizes of its entries do not fit its bytes"):
        keras_files.read(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_damaged_weights_in_a_keras_file_are_one_sentence(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
        archive.writestr("config.json", json.dumps({"class_name": "Model"}))
        archive.writestr("model.weights.h5", b"not HDF5")
    with pytest.raises(UserError, match="model.keras cannot be read as HDF5"):
        keras_files.read(str(tmp_path / "model.keras"))


@pytest.mark.parametrize("content", ["[]", "{", "3"])
def test_keras_file_with_another_config_is_refused(tmp_path, content):
    with pytest.raises(UserError, match=r"model.keras has no readable config.json"):
        keras_files.class_of(keras_file(tmp_path, content, dense=VALUES))


def test_keras_file_larger_than_the_memory_is_refused(tmp_path, with_memory):
    path = keras_file(tmp_path, dense=VALUES)
    with_memory(100)
    with pytest.raises(UserError, match="and this machine has 100 bytes of memory"):
        keras_files.read(path)
