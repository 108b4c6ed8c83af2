"""Foreign checkpoints: the same weights from every file format, and one sentence for everything that is not one."""

import json
import struct

import numpy as np
import pytest
import tiny
import torch_files
from safetensors.numpy import save_file

from bert_tf.checkpoints import formats
from bert_tf.errors import UserError

CONFIG = {**tiny.CONFIG.to_dict(), "model_type": "bert", "hidden_act": "gelu", "transformers_version": "4.8.2"}
PIECES = [*tiny.SPECIAL, *(f"piece{number}" for number in range(25))]


@pytest.fixture(scope="module")
def arrays():
    return tiny.pretrainer()[1]


def as_hugging_face(arrays):
    """Our arrays under the names and in the shapes of a BertForPreTraining: linear layers are [out, in] there."""
    theirs = {
        "bert.embeddings.word_embeddings.weight": arrays["encoder/embeddings/token_table"],
        "bert.embeddings.position_embeddings.weight": arrays["encoder/embeddings/position_table"],
        "bert.embeddings.token_type_embeddings.weight": arrays["encoder/embeddings/segment_table"],
        "cls.predictions.bias": arrays["masked_lm/output_bias"],
    }
    norms = {"encoder/embeddings/norm": "bert.embeddings.", "masked_lm/norm": "cls.predictions.transform."}
    linear = {
        "encoder/pooler": "bert.pooler.dense",
        "masked_lm/transform": "cls.predictions.transform.dense",
        "next_sentence": "cls.seq_relationship",
    }
    for i in range(2):
        ours, layer = f"encoder/layers/{i}/", f"bert.encoder.layer.{i}."
        for place, part in enumerate(("query", "key", "value")):
            columns = slice(16 * place, 16 * place + 16)
            together = ours + "attention/query_key_value/"
            theirs[f"{layer}attention.self.{part}.weight"] = arrays[together + "kernel"][:, columns].T
            theirs[f"{layer}attention.self.{part}.bias"] = arrays[together + "bias"][columns]
        linear[ours + "attention/project_out"] = layer + "attention.output.dense"
        linear[ours + "feed_forward/expand"] = layer + "intermediate.dense"
        linear[ours + "feed_forward/contract"] = layer + "output.dense"
        norms[ours + "attention_norm"] = layer + "attention.output."
        norms[ours + "feed_forward_norm"] = layer + "output."
    for ours, name in linear.items():
        theirs |= {name + ".weight": arrays[ours + "/kernel"].T, name + ".bias": arrays[ours + "/bias"]}
    for ours, name in norms.items():
        theirs |= {name + "LayerNorm.weight": arrays[ours + "/gamma"], name + "LayerNorm.bias": arrays[ours + "/beta"]}
    return {name: np.ascontiguousarray(array) for name, array in theirs.items()}


def renamed(arrays, *, prefix="bert.", old_names=False):
    """With another prefix before the encoder's names, or with the gamma and beta of the first files."""
    changes = [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")] if old_names else []
    names = {name: prefix + name.removeprefix("bert.") if name.startswith("bert.") else name for name in arrays}
    for before, after in changes:
        names = {name: new.replace(before, after) for name, new in names.items()}
    return {names[name]: array for name, array in arrays.items()}


def read(path):
    return formats.read(str(path))


def folder_of(path, **changes):
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(CONFIG | changes))
    return path


def write_safetensors(folder, theirs):
    save_file(theirs, folder / "model.safetensors")


def write_shards(folder, theirs):
    names = sorted(theirs)
    shards = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for shard, members in shards.items():
        save_file({name: theirs[name] for name in members}, folder / shard)
    weight_map = {name: shard for shard, members in shards.items() for name in members}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def torch_parts(theirs):
    """The pickle of a state dict and its storages, a storage for each tensor."""
    tensors, storages = {}, {}
    for number, (name, array) in enumerate(theirs.items()):
        strides = [stride // array.itemsize for stride in array.strides]
        tensors[name] = torch_files.tensor("FloatStorage", str(number), 0, array.shape, strides)
        storages[str(number)] = array.tobytes()
    return torch_files.state_dict(tensors), storages


def write_torch_zip(folder, theirs):
    torch_files.write_zip(folder / "pytorch_model.bin", *torch_parts(theirs))


def write_torch_old(folder, theirs):
    description, storages = torch_parts(theirs)
    torch_files.write_old(folder / "pytorch_model.bin", description, storages, dict.fromkeys(storages, 4))


WRITERS = [write_safetensors, write_shards, write_torch_zip, write_torch_old]


def check_equal(actual, expected):
    assert sorted(actual) == sorted(expected)
    for name, array in expected.items():
        assert actual[name].dtype == np.float32
        np.testing.assert_array_equal(actual[name], array, err_msg=name)


@pytest.mark.parametrize("names", [{}, {"prefix": ""}, {"old_names": True}], ids=["plain", "no prefix", "gamma, beta"])
@pytest.mark.parametrize("write", WRITERS)
def test_every_format_reads_all_weights_exactly(tmp_path, arrays, write, names):
    write(folder_of(tmp_path), renamed(as_hugging_face(arrays), **names))
    check_equal(read(tmp_path).weights, arrays)


def test_config_is_read_with_erf_gelu(tmp_path, arrays):
    write_safetensors(folder_of(tmp_path), as_hugging_face(arrays))
    config = read(tmp_path).config
    assert config.hidden_act == "gelu_erf"
    assert config.to_dict() == {**tiny.CONFIG.to_dict(), "hidden_act": "gelu_erf"}


def test_vocabulary_and_casing_are_read_if_present(tmp_path, arrays):
    write_safetensors(folder_of(tmp_path), as_hugging_face(arrays))
    result = read(tmp_path)
    assert (result.vocabulary, result.lower_case) == (None, None)
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    result = read(tmp_path)
    assert (result.vocabulary, result.lower_case) == (PIECES, False)


def test_tied_weights_are_dropped_and_unknown_weights_reported(tmp_path, arrays):
    theirs = as_hugging_face(arrays)
    repeats = {
        "cls.predictions.decoder.weight": theirs["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": theirs["cls.predictions.bias"],
        "bert.embeddings.position_ids": np.arange(12)[None],
    }
    stranger = {"crf.transitions": np.ones([3, 16], np.float32)}
    write_safetensors(folder_of(tmp_path), theirs | repeats | stranger)
    check_equal(read(tmp_path).weights, arrays | stranger)


@pytest.mark.parametrize("name", ["F16", "BF16"])
def test_16_bit_safetensors_become_float32(tmp_path, arrays, name):
    header, data = {}, b""
    for each, array in as_hugging_face(arrays).items():
        halved, _ = torch_files.halved(array, "bfloat16" if name == "BF16" else "half")
        header[each] = {"dtype": name, "shape": array.shape, "data_offsets": [len(data), len(data) + len(halved)]}
        data += halved
    described = json.dumps(header).encode()
    path = folder_of(tmp_path) / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(described)) + described + data)
    _, expected = torch_files.halved(arrays["encoder/pooler/bias"], "bfloat16" if name == "BF16" else "half")
    np.testing.assert_array_equal(read(tmp_path).weights["encoder/pooler/bias"], expected)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("size", [0, 7, 0.3, 0.98])
def test_truncated_file_is_reported(tmp_path, arrays, write, size):
    write(folder_of(tmp_path), as_hugging_face(arrays))
    path = next(path for path in sorted(tmp_path.iterdir()) if path.suffix in (".bin", ".safetensors"))
    content = path.read_bytes()
    path.write_bytes(content[: size if isinstance(size, int) else int(size * len(content))])
    with pytest.raises(UserError) as error:
        read(tmp_path)
    assert str(path) in str(error.value) and "fetch it again" in str(error.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", [b"", b'{"vocab_size": 3', b"[1, 2]", b"\xff\xfe{}", b"<html>"])
def test_config_that_is_not_a_json_object_is_reported(tmp_path, arrays, name, content):
    write_shards(folder_of(tmp_path), as_hugging_face(arrays))
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match="JSON") as error:
        read(tmp_path)
    assert str(tmp_path / name) in str(error.value)


def test_index_without_weight_map_is_reported(tmp_path, arrays):
    write_shards(folder_of(tmp_path), as_hugging_face(arrays))
    (tmp_path / "model.safetensors.index.json").write_text('{"metadata": {}}')
    with pytest.raises(UserError, match="model.safetensors.index.json .*weight_map"):
        read(tmp_path)


def test_missing_shard_is_reported(tmp_path, arrays):
    write_shards(folder_of(tmp_path), as_hugging_face(arrays))
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(UserError, match="model-00002-of-00002.safetensors"):
        read(tmp_path)


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"model_type": "funnel"},
            "a model of type 'funnel', which is not supported: the nearest supported checkpoint is electra-base-d",
        ),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'; expected 'absolute'"),
        ({"hidden_size": 15}, "hidden_size 15 cannot be split among"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'"),
    ],
)
def test_config_of_another_architecture_is_refused(tmp_path, arrays, changes, message):
    write_safetensors(folder_of(tmp_path, **changes), as_hugging_face(arrays))
    with pytest.raises(UserError, match=message):
        read(tmp_path)


@pytest.mark.parametrize("what", ["a file", "empty", "only a configuration"])
def test_unrecognized_path_error_lists_known_formats(tmp_path, what):
    path = tmp_path / "given"
    if what == "a file":
        path.write_text("text")
    elif what == "empty":
        path.mkdir()
    elif what == "only a configuration":
        folder_of(path)
    with pytest.raises(UserError, match="No checkpoint format recognizes .*given.*: it .*; expected config.json with"):
        read(path)
