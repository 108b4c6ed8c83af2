"""TensorFlow files of transformers, Model Garden and TensorFlow Hub: the weights of the same model in PyTorch."""

import dataclasses
import json
import logging
import re
import shutil

import faults
import h5py
import numpy as np
import pytest
import tensorflow as tf
import tiny
from checkpoint_cases import CONFIG, PIECES, cut_short
from safetensors.numpy import load_file, save_file
from tensorflow.python.keras.protobuf import saved_metadata_pb2

from bert_tf.checkpoints import formats, pretrained
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.export import loaded_model
from bert_tf.families.base.name_tables import expand
from bert_tf.families.bert.about import MODEL_GARDEN
from bert_tf.model import heads

MODEL, H5 = "model.safetensors", "tf_model.h5"
CLASS = "tf_bert_for_sequence_classification_2"  # the second model of that class in its process
GELU = dataclasses.replace(CONFIG, hidden_act="gelu_erf")


def written(path, model=heads.Classifier, *size, config=GELU, **about):
    """A Hugging Face folder of PyTorch, and what it holds."""
    source = Checkpoint(
        config=config, weights=tiny.random_weights(model(config, *size)), vocabulary=PIECES, lower_case=True, **about
    )
    formats.write(source, path, "huggingface")
    return formats.read(path)


def in_tensorflow(arrays):
    """{name of a variable: array} of the class in TensorFlow."""
    named = {}
    for name, array in arrays.items():
        *parts, end = name.split(".")
        if array.ndim > 1 and "embeddings" in parts:
            end = "weight" if parts[-1] == "word_embeddings" else "embeddings"
        elif array.ndim > 1:
            end, array = "kernel", np.ascontiguousarray(array.T)
        elif "LayerNorm" in parts:
            end = {"weight": "gamma", "bias": "beta"}[end]
        new = "/".join([*parts, end]).replace("layer/", "layer_._")
        new = new.replace("cls/predictions", "mlm___cls/predictions").replace("cls/seq", "nsp___cls/seq")
        named[new] = array
    return named


def write_h5(path, arrays, model=CLASS):
    """As Keras 2 writes the weights of a model: a group for each layer, which lists their names."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            group = file.require_group(name.split("/")[0])
            group.create_dataset(f"{model}/{name}:0", data=array)
            names = [f"{model}/{each}:0".encode() for each in arrays if each.split("/")[0] == name.split("/")[0]]
            group.attrs["weight_names"] = names


def write_objects(prefix, variables, **more):
    """A tf.train.Checkpoint with variables of these names, as attributes of an object."""
    model = tf.Module()
    model.weights_ = [tf.Variable(array, name=name) for name, array in variables.items()]
    optimizer = tf.Module()
    optimizer.velocity = tf.Variable(np.ones(3, np.float32), name="bert/velocity")
    return tf.train.Checkpoint(model=model, optimizer=optimizer, **more).write(str(prefix))


def write_saved_model(path, variables, vocabulary=None, lower_case=None, dtype=tf.int32):
    """A SavedModel with variables of these names, whose signature writes a file when it runs."""
    model = tf.Module()
    model.weights_ = [tf.Variable(array, name=name) for name, array in variables.items()]
    if vocabulary:
        (path.parent / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
        model.vocab_file = tf.saved_model.Asset(str(path.parent / "vocab.txt"))
        model.do_lower_case = tf.Variable(lower_case, trainable=False)

    @tf.function(input_signature=[tf.TensorSpec([None], dtype, "input_word_ids")])
    def run(inputs):
        tf.io.write_file(str(path.parent / "ran"), "")
        return {"result": tf.add_n([tf.reduce_sum(each) for each in model.weights_]), "count": tf.size(inputs)}

    tf.saved_model.save(model, str(path), signatures=run)


def check_equal(path, expected):
    """Bit for bit, with head, labels and tokenizer."""
    actual = formats.read(path)
    assert actual.weights.keys() == expected.weights.keys()
    for name, array in expected.weights.items():
        np.testing.assert_array_equal(actual.weights[name], array, err_msg=name)
    for name in ("config", "vocabulary", "lower_case", "labels", "kind"):
        assert getattr(actual, name) == getattr(expected, name), name
    assert formats.labels(path) == expected.labels


@pytest.fixture
def folder(tmp_path):
    """A Hugging Face folder without weights, the weights as TensorFlow names them, and what it holds with them."""
    expected = written(tmp_path / "model", heads.Classifier, 2, kind="classes", labels=["bad", "good"])
    arrays = in_tensorflow(load_file(tmp_path / "model" / MODEL))
    (tmp_path / "model" / MODEL).unlink()
    return tmp_path / "model", arrays, expected


def test_h5_of_save_pretrained_and_of_save_weights(folder):
    path, arrays, expected = folder
    write_h5(path / H5, arrays)
    check_equal(path, expected)
    (path / H5).rename(path / "my_weights.h5")
    check_equal(path, expected)
    write_h5(path / "others.h5", {**arrays, "classifier/bias": arrays["classifier/bias"] + 1})
    check_equal(path / "my_weights.h5", expected)
    with pytest.raises(UserError, match=r"contains several files with weights \(my_weights.h5, others.h5\)"):
        formats.read(path)


def test_shards_of_h5_and_a_missing_weight(folder):
    path, arrays, expected = folder
    places = {f"{CLASS}/{name}:0": f"tf_model-0000{1 + (len(name) % 2)}-of-00002.h5" for name in arrays}
    for file in set(places.values()):  # their names begin after the class
        with h5py.File(path / file, "w") as shard:
            for name, array in arrays.items():
                if places[f"{CLASS}/{name}:0"] == file:
                    shard.create_dataset(f"{name}:0", data=array)
    index = path / "tf_model.h5.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    check_equal(path, expected)
    index.write_text(json.dumps({"weight_map": {**places, f"{CLASS}/bert/more:0": next(iter(places.values()))}}))
    with pytest.raises(UserError, match=r"index.json lack 1 of its \d+ weights, such as tf_bert.*/bert/more:0"):
        formats.read(path)


def test_safetensors_of_tensorflow(folder):
    path, arrays, expected = folder
    save_file({f"{name}:0": array for name, array in arrays.items()}, path / MODEL, metadata={"format": "tf"})
    check_equal(path, expected)


@pytest.mark.parametrize("name", ["ckpt", "my-model"])
def test_checkpoint_of_save_weights(name, folder):
    path, arrays, expected = folder
    write_objects(path / name, {f"{CLASS}/{each}": array for each, array in arrays.items()})
    check_equal(path, expected)
    check_equal(path / name, expected)


def test_saved_model_of_transformers_has_its_configuration_in_the_metadata(folder, tmp_path):
    path, arrays, expected = folder
    named = {f"{CLASS}/{each}": array for each, array in arrays.items()}
    write_saved_model(path / "saved_model" / "1", named)
    check_equal(path, expected)  # its configuration lies in the folder around it
    write_saved_model(tmp_path / "saved", named)
    for file in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(path / file, tmp_path / "saved" / file)
    with pytest.raises(UserError, match="without its configuration: copy .* config.json"):
        formats.read(tmp_path / "saved")
    config = json.loads((path / "config.json").read_text()) | {"architectures": None}
    metadata = saved_metadata_pb2.SavedMetadata()
    content = {"class_name": "TFBertForSequenceClassification", "config": config}
    metadata.nodes.add(node_path="root", metadata=json.dumps(content))
    (tmp_path / "saved" / "keras_metadata.pb").write_bytes(metadata.SerializeToString())
    check_equal(tmp_path / "saved", expected)


@pytest.mark.parametrize(
    "model, encoder",
    [
        (heads.Pretrainer, "bert"),
        (heads.Pretrainer, "distilbert"),
        (heads.SpanFinder, "electra"),
        (heads.Pretrainer, "mpnet"),
        (heads.Pretrainer, "albert"),
        (heads.SpanFinder, "deberta_v2"),
    ],
)
def test_names_of_heads_and_relatives(model, encoder, tmp_path):
    config = dataclasses.replace(GELU, encoder=encoder, type_vocab_size=1 if encoder in NO_SEGMENTS else 2)
    expected = written(tmp_path, model, config=config)
    arrays = in_tensorflow(load_file(tmp_path / MODEL))
    (tmp_path / MODEL).unlink()
    if encoder == "albert":  # its class has a bias that it does not add, and this one
        arrays["predictions/decoder/bias"] = arrays["predictions/bias"]
        arrays["predictions/bias"] = arrays["predictions/bias"] + 1
        arrays = {
            re.sub(r"(albert_layer_groups|albert_layers)/", r"\1_._", name): array for name, array in arrays.items()
        }
    if encoder == "deberta_v2":
        arrays = {
            name.replace("pos_key_proj", "pos_proj").replace("pos_query_proj", "pos_q_proj"): array
            for name, array in arrays.items()
        }
    write_h5(tmp_path / H5, arrays, f"tf_{encoder}")
    check_equal(tmp_path, expected)


NO_SEGMENTS = ("distilbert", "mpnet", "deberta_v2")


def test_layers_of_pretraining_list_the_shared_table_again(folder):
    path, arrays, expected = folder
    write_h5(path / H5, arrays)
    with h5py.File(path / H5, "a") as file:
        name = f"classifier/{CLASS}/bert/embeddings/word_embeddings/weight:0"
        table = file.create_dataset(name, data=arrays["bert/embeddings/word_embeddings/weight"])
        file["copy"] = h5py.SoftLink("/bert")
    check_equal(path, expected)
    with h5py.File(path / H5, "a") as file:
        table = file[name]
        table[0] = 7
    with pytest.raises(UserError, match=r"HDF5 \(it has two different values of .*word_embeddings/weight:0\)"):
        formats.read(path)


def damaged(path, kind):
    if kind == "cut":
        cut_short(path)
    elif kind == "text":
        path.write_text("not found")
    else:
        with h5py.File(path, "a") as file:
            if kind == "promised":
                file["bert"].create_dataset("more", (1 << 40,), np.float32)
            elif kind == "outside":
                file["bert"].create_dataset("more", (1,), np.float32, external=[("/etc/hostname", 0, 4)])
            elif kind == "compressed":
                file["bert"].create_dataset("more", data=np.zeros(10_000, np.float32), compression="gzip")


@pytest.mark.parametrize("kind", ["cut", "text", "promised", "outside", "compressed"])
def test_damaged_h5(kind, folder):
    path, arrays, _ = folder
    write_h5(path / H5, arrays)
    damaged(path / H5, kind)
    with pytest.raises(UserError, match=f"{path / H5} cannot be read as HDF5 .*: it may be cut short; fetch it again."):
        formats.read(path)


def test_h5_of_newer_keras_has_no_names(folder):
    path, _, _ = folder
    with h5py.File(path / "model.weights.h5", "w") as file:
        file.create_dataset("layers/bert/vars/0", data=np.ones(3, np.float32))
    with pytest.raises(UserError, match=r"numbers instead of weight names, .* \.weights\.h5"):
        formats.read(path)


def test_names_that_do_not_fit(folder):
    path, arrays, _ = folder
    write_h5(path / H5, {name.replace("bert/", "roberta/"): array for name, array in arrays.items()})
    with pytest.raises(UserError, match="begin with tf_bert.*roberta., but its configuration describes a model whose"):
        formats.read(path)
    write_h5(path / H5, {name: array for name, array in arrays.items() if "layer_._1/output" not in name})
    with pytest.raises(UserError, match="lacks 4 of the .* weights of the encoder that its configuration describes"):
        formats.read(path)
    write_h5(path / H5, {"dense/kernel": np.ones((2, 2), np.float32)})
    with pytest.raises(UserError, match=r"no BERT weights: .* is missing among tf_bert.*dense.weight"):
        formats.read(path)


def test_labels_that_do_not_fit_the_head(folder):
    path, arrays, _ = folder
    write_h5(path / H5, {**arrays, "classifier/bias": np.ones(3, np.float32)})
    with pytest.raises(UserError, match="describes 2 labels, and the head has 3 outputs"):
        formats.read(path)


def test_two_formats_that_disagree_are_reported(tmp_path, caplog):
    expected = written(tmp_path, heads.Classifier, 2, kind="classes", labels=["bad", "good"])
    arrays = in_tensorflow(load_file(tmp_path / MODEL))
    write_h5(tmp_path / H5, arrays)
    with caplog.at_level(logging.WARNING, "bert_tf"):
        check_equal(tmp_path, expected)
        assert not caplog.records
        write_h5(tmp_path / H5, {**arrays, "classifier/bias": arrays["classifier/bias"] + 1})
        check_equal(tmp_path, expected)
    assert "model.safetensors and tf_model.h5 with different weights: model.safetensors is read." in caplog.text


def model_garden_variables(weights, config, around=""):
    """The weights under the names of official.nlp, with an axis of heads."""
    size = config.hidden_size // config.num_attention_heads
    variables = {}
    for ours, theirs in expand(MODEL_GARDEN, config.num_hidden_layers).items():
        if ours not in weights:
            continue
        for name, part in zip(theirs, np.split(weights[ours], len(theirs), -1), strict=True):
            if re.search("self_attention/(query|key|value)", name):
                part = part.reshape(*part.shape[:-1], -1, size)
            elif name.endswith("attention_output/kernel"):
                part = part.reshape(-1, size, part.shape[-1])
            head = {
                "classifier/logits": "sentence_prediction/logits",
                "span_labeling/logits": "predictions/transform/logits",
            }
            for mine, maker in head.items():
                name = name.replace(mine, maker)
            variables[name if "sentence" in name or "transform/logits" in name else around + name] = part
    return variables


SETTINGS = {
    name: value
    for name, value in CONFIG.to_dict().items()
    if name.endswith(("size", "layers", "heads", "embeddings", "prob"))
}


@pytest.mark.parametrize("around", ["", "bert_encoder_v2/"])
@pytest.mark.parametrize("model, size", [(heads.Classifier, 3), (heads.Pretrainer, None), (heads.SpanFinder, None)])
def test_model_garden(model, size, around, tmp_path):
    weights = tiny.random_weights(model(CONFIG, *([size] if size else [])))
    parts = {"span_labeling": tf.Module()} if model is heads.SpanFinder else {}
    write_objects(tmp_path / "ckpt-7", model_garden_variables(weights, CONFIG, around), **parts)
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    (tmp_path / "bert_config.json").write_text(json.dumps({**SETTINGS, "hidden_act": "gelu"}))
    labels = ["LABEL_0", "LABEL_1", "LABEL_2"] if size else None
    for path in (tmp_path, tmp_path / "ckpt-7"):
        actual = pretrained.load(path)
        assert type(actual.model) is model
        assert (actual.config, actual.labels, actual.vocabulary) == (CONFIG, labels, PIECES)
        found = formats.read(path).weights
        assert found.keys() == weights.keys()
        assert all(np.array_equal(found[name], array) for name, array in weights.items())


def test_tagger_of_model_garden_and_a_head_with_its_own_pooler(tmp_path):
    weights = tiny.random_weights(heads.TokenClassifier(CONFIG, 3))
    variables = model_garden_variables(weights, CONFIG)
    tagger = {
        name.replace("sentence_prediction/", "predictions/transform/"): array for name, array in variables.items()
    }
    write_objects(tmp_path / "tags" / "ckpt-1", tagger)
    assert formats.read(tmp_path / "tags").kind == "tags"
    pooler = {f"sentence_prediction/pooler_dense/{part}": np.full(3, 2, np.float32) for part in ("kernel", "bias")}
    write_objects(tmp_path / "texts" / "ckpt-1", variables | pooler)
    found = formats.read(tmp_path / "texts")
    assert found.kind == "classes"
    assert np.array_equal(found.weights["encoder/pooler/kernel"], [2, 2, 2])


def test_configuration_of_model_garden_in_yaml(tmp_path):
    weights = tiny.random_weights(heads.BertModel(CONFIG))
    write_objects(tmp_path / "bert_model.ckpt-1", model_garden_variables(weights, CONFIG))
    assert formats.read(tmp_path).config.hidden_act == "gelu_tanh"  # without any, as their class
    content = (
        "task:\n  model:\n    encoder:\n      bert: {num_layers: 2, hidden_size: 16, num_attention_heads: %d, %s}\n"
    )
    (tmp_path / "params.yaml").write_text(content % (4, "hidden_activation: relu, dropout_rate: 0.25"))
    config = formats.read(tmp_path).config
    assert (config.hidden_act, config.hidden_dropout_prob) == ("relu", 0.25)
    (tmp_path / "params.yaml").write_text(content % (2, "hidden_activation: relu"))
    with pytest.raises(UserError, match=r"params.yaml: num_attention_heads is 2, but the weights in .* have 4: pass"):
        formats.read(tmp_path)
    (tmp_path / "params.yaml").write_text(content % (4, "norm_first: true"))
    with pytest.raises(UserError, match="norm_first is true"):
        formats.read(tmp_path)
    (tmp_path / "params.yaml").write_text("a: [")
    with pytest.raises(UserError, match="params.yaml cannot be read as YAML"):
        formats.read(tmp_path)


def older(name):
    """The names of the first versions of models on TensorFlow Hub."""
    for new, old in {
        "transformer/": "encoder/",
        "self_attention/attention_output": "self_attention_output",
        "position_embedding/embeddings": "embedding_postprocessor/position_embeddings",
        "type_embeddings/embeddings": "embedding_postprocessor/type_embeddings",
        "embeddings/layer_norm": "embedding_postprocessor/layer_norm",
    }.items():
        name = name.replace(new, old)
    return f"bert_model/{name}"


@pytest.mark.parametrize("lower_case", [True, False])
@pytest.mark.parametrize("rename", [str, older])
def test_encoder_of_tensorflow_hub_is_read_without_running_it(rename, lower_case, tmp_path):
    weights = tiny.random_weights(heads.BertModel(CONFIG))
    variables = {rename(name): array for name, array in model_garden_variables(weights, CONFIG).items()}
    write_saved_model(tmp_path / "hub", variables, PIECES, lower_case)
    with faults.on_call(tf.saved_model, "load", AssertionError("It is run.")):
        found = formats.read(tmp_path / "hub")
    assert found.weights.keys() == weights.keys()
    assert all(np.array_equal(found.weights[name], array) for name, array in weights.items())
    assert (found.vocabulary, found.lower_case, found.config.num_attention_heads) == (PIECES, lower_case, 4)
    assert found.config.hidden_act == "gelu_tanh"
    assert not loaded_model.is_export(str(tmp_path / "hub"))  # nor do commands run it
    assert not (tmp_path / "ran").exists()
    write_saved_model(tmp_path / "on_texts", variables, dtype=tf.string)
    assert loaded_model.is_export(str(tmp_path / "on_texts"))


@pytest.mark.parametrize(
    "variables, message",
    [
        ({"counter": np.ones((), np.float32)}, "has no encoder, only 1 other variables, like the preprocessing models"),
        ({"encoder/embedding": np.ones((3, 2), np.float32)}, "not those of a BERT encoder of TensorFlow Hub or Model"),
    ],
)
def test_saved_models_of_others_say_what_they_are(variables, message, tmp_path):
    write_saved_model(tmp_path / "other", variables)
    with pytest.raises(UserError, match=message):
        formats.read(tmp_path / "other")
    (tmp_path / "other" / "variables" / "variables.index").unlink()
    with pytest.raises(UserError, match="has no weight names: .* TensorFlow 1, damaged, or an older export"):
        formats.read(tmp_path / "other")


def test_albert_of_model_garden_and_two_encoders(tmp_path):
    variables = model_garden_variables(tiny.random_weights(heads.BertModel(CONFIG)), CONFIG)
    narrow = {**variables, "embedding_projection/kernel": np.ones((16, 16), np.float32)}
    write_objects(tmp_path / "albert" / "ckpt-1", narrow)
    with pytest.raises(UserError, match="narrow embeddings .*, such as Model Garden's ALBERT, which is not supported"):
        formats.read(tmp_path / "albert")
    both = {f"{tower}/{name}": array for tower in ("query", "text") for name, array in variables.items()}
    write_objects(tmp_path / "two" / "ckpt-1", both)
    with pytest.raises(UserError, match="it has more than one encoder"):
        formats.read(tmp_path / "two")
