"""Checkpoint formats: tables that name every weight, round trips bit for bit, translated meaning, damaged files.

D hidden size.
"""

import dataclasses
import itertools
import json
import os
import shutil
import struct

import faults
import numpy as np
import pytest
import tensorflow as tf
import tiny
from checkpoint_cases import CONFIG, FORMATS, PIECES, assert_covers_every_weight, assert_equal, checkpoint, cut_short

from bert_tf.checkpoints import checkpoint_files, formats, huggingface_tokenizers
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.formats import google_tf, keras_hub, native
from bert_tf.errors import MachineError, UserError
from bert_tf.model import heads, weights
from bert_tf.text.vocabulary import SPECIAL_TOKENS
from bert_tf.training.checkpointing import TrainState

LAYER_NAMES = """attention/output/LayerNorm/beta attention/output/LayerNorm/gamma attention/output/dense/bias
attention/output/dense/kernel attention/self/key/bias attention/self/key/kernel attention/self/query/bias
attention/self/query/kernel attention/self/value/bias attention/self/value/kernel intermediate/dense/bias
intermediate/dense/kernel output/LayerNorm/beta output/LayerNorm/gamma output/dense/bias output/dense/kernel"""
OTHER_NAMES = """bert/embeddings/LayerNorm/beta bert/embeddings/LayerNorm/gamma bert/embeddings/position_embeddings
bert/embeddings/token_type_embeddings bert/embeddings/word_embeddings bert/pooler/dense/bias bert/pooler/dense/kernel
cls/predictions/output_bias cls/predictions/transform/LayerNorm/beta cls/predictions/transform/LayerNorm/gamma
cls/predictions/transform/dense/bias cls/predictions/transform/dense/kernel cls/seq_relationship/output_bias
cls/seq_relationship/output_weights"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """{format: folder} of one checkpoint, written in every format."""
    folder = tmp_path_factory.mktemp("written")
    folders = {name: str(folder / f"{name}_model") for name in FORMATS}
    source = dataclasses.replace(checkpoint(), special_tokens=SPECIAL_TOKENS)
    left_out = {name: formats.write(source, path, name) for name, path in folders.items()}
    assert left_out == dict.fromkeys(FORMATS, [])
    return folders


def test_format_names_are_the_modules_of_the_folder():
    assert {"google_tf", "huggingface", "keras_hub", "native"} <= set(FORMATS)
    for name in formats.names():
        module = formats.load(name)
        assert callable(module.recognizes) and callable(module.read)
        assert callable(getattr(module, "write", None)) == (name in FORMATS)


@pytest.mark.parametrize("name", [name for name in formats.names() if hasattr(formats.load(name), "NAMES")])
def test_name_table_covers_every_weight_of_a_model_once(name):
    assert_covers_every_weight(name)


@pytest.mark.parametrize("name", FORMATS)
def test_written_checkpoint_is_recognized_by_its_own_format_only(written, name):
    loaded = [other for other in formats.names() if formats.load(other).recognizes(written[name])]
    assert loaded == [name]
    assert_equal(formats.read(written[name]), checkpoint())
    assert formats.read(written[name]).special_tokens == SPECIAL_TOKENS


def test_conversion_between_all_formats_is_lossless(written, tmp_path):
    walk = [name for pair in itertools.combinations(FORMATS, 2) for name in pair] + [FORMATS[0]]
    assert sorted(itertools.pairwise(walk)) == sorted(itertools.permutations(FORMATS, 2))
    folder = written[walk[0]]
    for number, name in enumerate(walk[1:]):
        formats.write(formats.read(folder), str(tmp_path / f"{number}"), name)
        folder = str(tmp_path / f"{number}")
    assert_equal(formats.read(folder), checkpoint())


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "keras_hub"])
def test_bare_encoder_round_trips(name, tmp_path):
    whole = checkpoint(hidden_act="relu", layer_norm_eps=1e-7)
    encoder = {name: array for name, array in whole.weights.items() if name.startswith("encoder/")}
    bare = Checkpoint(config=whole.config, weights=encoder)
    formats.write(bare, str(tmp_path / "bare"), name)
    assert_equal(formats.read(str(tmp_path / "bare")), bare)
    assert not (tmp_path / "bare" / "vocab.txt").exists()


@pytest.mark.parametrize("name", FORMATS)
def test_gelu_and_epsilon_survive_every_format(name, tmp_path):
    config = {"hidden_act": "gelu_erf", "layer_norm_eps": 1e-9}
    formats.write(checkpoint(**config), str(tmp_path / "model"), name)
    assert_equal(formats.read(str(tmp_path / "model")), checkpoint(**config))


def test_gelu_is_named_as_each_format_expects(tmp_path):
    for hidden_act, name, file, expected in (
        ("gelu_tanh", "google_tf", "bert_config.json", "gelu"),
        ("gelu_erf", "google_tf", "bert_config.json", "gelu_erf"),
        ("gelu_tanh", "huggingface", "config.json", "gelu_new"),
        ("gelu_erf", "huggingface", "config.json", "gelu"),
    ):
        folder = tmp_path / f"{name}_{hidden_act}"
        formats.write(checkpoint(hidden_act=hidden_act), str(folder), name)
        assert json.loads((folder / file).read_text())["hidden_act"] == expected


def test_unsupported_weights_are_left_out_and_named(tmp_path):
    more = checkpoint()
    more.weights["adapter/kernel"] = np.ones((2, 3), np.float32)
    for name, expected in (("google_tf", ["adapter/kernel"]), ("huggingface", ["adapter/kernel"]), ("native", [])):
        assert formats.write(more, str(tmp_path / name), name) == expected


def test_tf1_checkpoint_has_the_original_names(written):
    prefix = os.path.join(written["google_tf"], "bert_model.ckpt")
    source = dict(tf.train.list_variables(prefix))
    layers = [f"bert/encoder/layer_{i}/{name}" for i in range(2) for name in LAYER_NAMES.split()]
    assert sorted(source) == sorted([*OTHER_NAMES.split(), *layers])
    assert source["cls/seq_relationship/output_weights"] == [2, 16]  # the original's [out, in]
    assert source["bert/encoder/layer_1/intermediate/dense/kernel"] == [16, 24]
    assert sorted(os.listdir(written["google_tf"])) == [
        "bert_config.json",
        "bert_model.ckpt.data-00000-of-00001",
        "bert_model.ckpt.index",
        "tokenizer_config.json",
        "vocab.txt",
    ]


@pytest.mark.parametrize("end", ["", "/bert_model.ckpt", "/bert_model.ckpt.index"])
def test_tf1_checkpoint_is_found_by_folder_prefix_or_index(written, end):
    assert_equal(formats.read(written["google_tf"] + end), checkpoint())


def test_tf1_optimizer_state_is_skipped_and_newest_checkpoint_read(tmp_path):
    for step in (9, 20):
        arrays = {
            "bert/pooler/dense/bias": np.full(16, step, np.float32),
            "bert/pooler/dense/bias/adam_m": np.zeros(16, np.float32),
            "bert/pooler/dense/bias/adam_v": np.zeros(16, np.float32),
            "bert/pooler/dense/bias/AdamWeightDecayOptimizer_1": np.zeros(16, np.float32),
            "global_step": np.int64(step),
            "loss/other": np.zeros(3, np.float32),
        }
        google_tf._write_arrays(str(tmp_path / f"model.ckpt-{step}"), arrays)
    CONFIG.write(tmp_path / "bert_config.json")
    loaded = formats.read(str(tmp_path)).weights
    assert sorted(loaded) == ["encoder/pooler/bias", "loss/other"]
    np.testing.assert_array_equal(loaded["encoder/pooler/bias"], np.full(16, 20))


@pytest.mark.parametrize(
    "folder, tokens, expected",
    [
        ("uncased_L-12_H-768_A-12", PIECES, True),
        ("cased_L-12_H-768_A-12", PIECES, False),
        ("multi_cased_L-12_H-768_A-12", PIECES, False),
        ("chinese_L-12_H-768_A-12", PIECES, True),
        ("model", [*PIECES, "A"], False),
        ("model", [*PIECES, "<S>"], True),
        ("model", PIECES, True),
    ],
)
def test_tf1_casing_is_inferred_from_name_or_vocabulary(folder, tokens, expected, tmp_path):
    silent = dataclasses.replace(checkpoint(), vocabulary=tokens, lower_case=None)
    formats.write(silent, str(tmp_path / folder), "google_tf")
    assert formats.read(str(tmp_path / folder)).lowers_case is expected


def test_run_folder_is_read_at_its_newest_whole_checkpoint(tmp_path):
    CONFIG.write(tmp_path / "bert_config.json")
    model, arrays = tiny.pretrainer(CONFIG, seed=1)
    state = TrainState(str(tmp_path / "checkpoints"), {"weights": weights.variables(model), "step": tf.Variable(7)})
    state.save(10)
    model.encoder.pooler.bias.assign(np.zeros(16))
    state.save(20)
    assert set(formats.read(str(tmp_path)).weights) == set(arrays)
    for path, expected in (("", 0), ("checkpoints", 0), ("checkpoints/ckpt-20.index", 0), ("checkpoints/ckpt-10", 1)):
        bias = formats.read(str(tmp_path / path)).weights["encoder/pooler/bias"]
        np.testing.assert_array_equal(bias, expected * arrays["encoder/pooler/bias"])
    cut_short(tmp_path / "checkpoints" / "ckpt-20.data-00000-of-00001")
    bias = formats.read(str(tmp_path)).weights["encoder/pooler/bias"]
    np.testing.assert_array_equal(bias, arrays["encoder/pooler/bias"])


def test_head_with_other_labels_is_reported_and_reinitialized():
    model, arrays = heads.Classifier(CONFIG, 3), dict(checkpoint().weights)
    before = model.classifier.kernel.numpy()
    report = weights.assign(model, {**arrays, "classifier/kernel": np.ones((16, 2), np.float32)})
    assert report.shape_mismatch == [("classifier/kernel", (16, 2), (16, 3))] and report.newly_initialized == [
        "classifier/bias"
    ]
    assert "  mismatched         classifier/kernel: (16, 2) in the checkpoint, (16, 3) in the model" in str(report)
    np.testing.assert_array_equal(model.classifier.kernel, before)
    np.testing.assert_array_equal(model.encoder.pooler.bias, arrays["encoder/pooler/bias"])


@pytest.mark.parametrize(
    "name, file, reason",
    [
        ("google_tf", "bert_model.ckpt.index", "missing or cut short"),
        ("google_tf", "bert_model.ckpt.data-00000-of-00001", "missing or cut short"),
        ("google_tf", "bert_config.json", "expected a BERT configuration"),
        ("huggingface", "model.safetensors", "may be cut short"),
        ("huggingface", "config.json", "is not valid JSON"),
        ("keras_hub", "model.weights.h5", "may be cut short"),
        ("keras_hub", "task.weights.h5", "may be cut short"),
        ("keras_hub", "config.json", "is not valid JSON"),
        ("keras_hub", "tokenizer.json", "is not valid JSON"),
        ("native", "model.safetensors", "may be cut short"),
        ("native", "bert_config.json", "expected a BERT configuration"),
    ],
)
def test_truncated_file_gives_one_clear_error(written, name, file, reason, tmp_path):
    shutil.copytree(written[name], tmp_path / "model")
    cut_short(tmp_path / "model" / file)
    with pytest.raises(UserError, match=reason) as error:
        formats.read(str(tmp_path / "model"))
    assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)


WRONG_VALUES = {
    "config.json": [
        ({"architectures": 5}, "architectures is 5; expected a list"),
        ({"architectures": {"a": 1}}, "architectures is {'a': 1}; expected a list"),
        ({"architectures": [["x"]]}, r"architectures is \[\['x'\]\]; expected a list of texts"),
        ({"id2label": 5}, "id2label is 5; expected an object"),
        ({"num_labels": "x"}, "num_labels is 'x'; expected a whole number"),
        ({"num_labels": 10**9}, "num_labels is 1000000000; expected a whole number from 1 to 1,000,000"),
        ({"problem_type": [1]}, r"problem_type is \[1\]; expected one of multi_label_classification, reg"),
        ({"problem_type": "x"}, "problem_type is 'x'; expected one of multi_label_classification, regression, single"),
        *(({"id2label": {"0": label}}, "id2label is .*; expected an object of labels") for label in ({}, [], None)),
        ({"layer_norm_eps": 10**400}, "layer_norm_eps is 10{59}...; expected a number above 0"),
        ({"layer_norm_eps": 1e300}, "layer_norm_eps is 1e.300; expected a number above 0"),
        ({"initializer_range": 10**400}, "initializer_range is 10{59}...; expected a number, 0 or more"),
        ({"vocab_size": 2 * 10**9}, "needs? .* GiB of memory, and this machine has"),
        ({"hidden_size": 10**12}, "hidden_size is 1000000000000"),
        ({"hidden_size": 2**28}, "needs? .* GiB of memory, and this machine has"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"architectures": "a" * 10**6}, "architectures is 'a{59}...; expected a list"),
    ],
    "tokenizer_config.json": [
        ({"do_lower_case": "maybe"}, "do_lower_case is 'maybe'; expected true or false"),
        ({"special_tokens_in_strings": [1]}, r"special_tokens_in_strings is \[1\]; expected a list of texts"),
    ],
    "tokenizer.json": [
        ({"model": 3}, "model is 3; expected|model.type is 3; expected a text"),
        ({"model": {"type": "WordPiece"}}, "has no vocabulary"),
        ({"model": {"type": "WordPiece", "vocab": {"[PAD]": 0, "a": "1"}}}, "are not 0 to 1, each once"),
        ({"model": {"type": "WordPiece", "vocab": [1]}}, r"model.vocab is \[1\]; expected an object"),
        ({"normalizer": {"type": "BertNormalizer", "lowercase": 1}}, "normalizer.lowercase is 1; expected true or"),
    ],
}


@pytest.mark.parametrize(
    "file, changes, reason", [(file, *case) for file, cases in WRONG_VALUES.items() for case in cases]
)
def test_wrong_value_in_a_huggingface_folder_is_one_sentence(classifier, file, changes, reason, tmp_path):
    shutil.copytree(classifier, tmp_path / "model")
    path = tmp_path / "model" / file
    if file == "tokenizer.json":
        os.remove(tmp_path / "model" / "vocab.txt")
        os.remove(tmp_path / "model" / "tokenizer_config.json")
    values = json.loads(path.read_text())
    if changes.get("num_labels"):
        del values["id2label"]
    path.write_text(json.dumps({**values, **changes}))
    with pytest.raises(UserError, match=reason) as error:
        formats.read(tmp_path / "model")
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A Hugging Face folder of a classifier."""
    folder = tmp_path_factory.mktemp("classifier") / "model"
    weights = tiny.random_weights(heads.Classifier(CONFIG, 2))
    formats.write(Checkpoint(config=CONFIG, weights=weights, vocabulary=PIECES, lower_case=True), folder, "huggingface")
    return folder


def test_type_of_numbers_that_cannot_be_read_is_one_sentence(tmp_path):
    header = b'{"a": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}}'
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(2))
    with pytest.raises(UserError, match="a.safetensors .* type .*float8_e4m3fn.*float32"):
        checkpoint_files.read_safetensors(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    "arrays, reason",
    [
        ({}, "no BERT weights, only 0 others"),
        ({"unknown": np.zeros(2, np.float32)}, "no BERT weights, only 1 others"),
        ({"encoder/pooler/bias": np.float32([1, np.nan])}, "1 weights in .* contain NaN or infinity, the first is enc"),
        ({"classifier/bias": np.float32([1, np.inf])}, "1 weights in .* contain NaN or infinity, the first is classi"),
    ],
)
def test_checkpoint_without_usable_weights_is_refused(arrays, reason, tmp_path):
    CONFIG.write(tmp_path / "bert_config.json")
    checkpoint_files.write_safetensors(tmp_path / "model.safetensors", arrays, framework="bert_tf")
    with pytest.raises(UserError, match=reason):
        formats.read(tmp_path)


@pytest.mark.parametrize(
    "prefix, name, value, reason",
    [
        (
            "bert_model.ckpt",
            "bert/pooler/dense/bias",
            ["a"],
            "bert/pooler/dense/bias .* cannot be .* \\(object\\[1\\]\\)",
        ),
        ("bert_model.ckpt", "bert/pooler/dense/bias", 1.0, "cannot be encoder/pooler/bias \\(float32\\[\\]\\)"),
        ("checkpoints/ckpt-1", "weights/span.Sbias/.ATTRIBUTES/VARIABLE_VALUE", ["a"], "values of type object"),
    ],
)
def test_weights_that_are_no_numbers_are_refused(prefix, name, value, reason, tmp_path):
    CONFIG.write(tmp_path / "bert_config.json")
    (tmp_path / prefix).parent.mkdir(exist_ok=True)
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / prefix), tensor_names=[name], shape_and_slices=[""], tensors=[tf.constant(value)]
    )
    with pytest.raises(UserError, match=reason):
        formats.read(tmp_path)


def test_tf1_checkpoint_without_data_or_config_is_refused(written, tmp_path):
    for file in ("bert_model.ckpt.data-00000-of-00001", "bert_config.json"):
        shutil.copytree(written["google_tf"], tmp_path / file)
        os.remove(tmp_path / file / file)
        with pytest.raises(UserError, match="missing or cut short|expected a BERT configuration"):
            formats.read(str(tmp_path / file))


def test_existing_or_failing_target_is_left_unchanged(tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    for name in FORMATS:
        with pytest.raises(UserError, match="taken exists already"):
            formats.write(checkpoint(), str(tmp_path / "taken"), name)

    full = OSError(28, "No space left on device")
    huggingface = formats.load("huggingface")
    for module in (google_tf, native, huggingface, keras_hub):
        writer = huggingface_tokenizers if module is huggingface else module
        silent = dataclasses.replace(checkpoint(), lower_case=None)
        refusal = pytest.raises(MachineError, match="could not be written .No space left on device.")
        with faults.on_call(writer, "write_tokenizer_files", full), refusal:
            module.write(silent, str(tmp_path / "new"))
    assert os.listdir(tmp_path) == ["taken"] and os.listdir(tmp_path / "taken") == ["notes.txt"]


@pytest.mark.parametrize("file", ["tokenizer.json", "added_tokens.json"])
def test_added_tokens_of_hugging_face_follow_the_vocabulary(file, tmp_path):
    folder = tmp_path / "model"
    formats.write(checkpoint(), str(folder), "huggingface")
    added = [{"id": 31, "content": "[E2]"}, {"id": 30, "content": "[E1]"}, {"id": 4, "content": "[MASK]"}]
    values = {"added_tokens": added} if file == "tokenizer.json" else {each["content"]: each["id"] for each in added}
    (folder / "tokenizer.json").unlink()
    (folder / file).write_text(json.dumps(values))
    read = formats.read(str(folder))
    assert read.vocabulary == [*PIECES, "[E1]", "[E2]"] and set(read.added_tokens) == {"[E1]", "[E2]"}
    (folder / file).write_text(json.dumps({"[E2]": 99} if file != "tokenizer.json" else {"added_tokens": [{"id": 1}]}))
    with pytest.raises(UserError, match=r"do not follow its vocabulary|expected its content and its id"):
        formats.read(str(folder))
