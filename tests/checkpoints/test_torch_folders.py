"""Folders of PyTorch as training scripts leave them: names before others, files under other names, and shards."""

import dataclasses
import json
import logging

import numpy as np
import pytest
import tiny
import torch_files
from checkpoint_cases import CONFIG, PIECES
from safetensors.numpy import load_file, save_file

import bert_tf
from bert_tf.checkpoints import formats, pretrained
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.export import checkpoint_predictor
from bert_tf.families.nomic_bert import about as nomic_bert
from bert_tf.model import heads
from bert_tf.runtime.settings import Settings
from bert_tf.text.tokenizer import tokenizer_of

MODEL = "model.safetensors"


@pytest.fixture
def folder(tmp_path):
    """A Hugging Face folder of a classifier, and its weights."""
    weights = tiny.random_weights(heads.Classifier(CONFIG, 2))
    source = Checkpoint(config=CONFIG, weights=weights, vocabulary=PIECES, lower_case=True, kind="classes")
    formats.write(source, tmp_path / "model", "huggingface")
    return tmp_path / "model", weights


def renamed(path, change):
    """Gives every weight of a folder another name."""
    arrays = {change(name): array for name, array in load_file(path / MODEL).items()}
    save_file({name: array for name, array in arrays.items() if name}, path / MODEL)


def check_equal(path, weights):
    actual = formats.read(path).weights
    assert actual.keys() == weights.keys()
    for name, array in weights.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)


@pytest.mark.parametrize(
    "change",
    [
        lambda name: f"module.{name}",
        lambda name: f"model.{name}",
        lambda name: f"0.auto_model.{name}",
        lambda name: f"_orig_mod.module.{name}",
        lambda name: f"net.backbone.{name}",
        lambda name: f"model.{name.removeprefix('bert.')}",
        lambda name: f"bert.{name}",
        lambda name: name.replace("bert.", "bert.module."),
        lambda name: name.replace("bert.encoder.layer.1.", "bert.encoder.layer.1._checkpoint_wrapped_module."),
        lambda name: f"module.{name.replace('LayerNorm.weight', 'LayerNorm.gamma')}",
    ],
)
def test_names_of_modules_around_a_model_are_left_out(folder, change):
    path, weights = folder
    renamed(path, change)
    check_equal(path, weights)


def test_weights_beside_the_model_are_no_head_of_it(folder):
    path, weights = folder
    renamed(path, lambda name: f"model.{name}" if name.startswith("bert.") else name)
    read = formats.read(path)
    assert {"classifier.weight", "classifier.bias"} == read.weights.keys() - weights.keys()
    assert pretrained.load(path).report.unused == ["classifier.bias", "classifier.weight"]


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda name: name.replace("bert.", "roberta."), "begin with roberta., but its configuration .* with bert"),
        (lambda name: name.replace("word_embeddings", "words"), "is missing among bert.embeddings.LayerNorm.bias"),
        (
            lambda name: "" if "layer.1" in name else name,
            "lacks 16 of the 37 weights .* as bert.encoder|as encoder.layer",
        ),
    ],
)
def test_other_weights_than_the_configuration_describes_are_refused(folder, change, message):
    path, _ = folder
    renamed(path, change)
    with pytest.raises(UserError, match=message):
        formats.read(path)


def test_two_encoders_are_refused(folder):
    path, _ = folder
    arrays = load_file(path / MODEL)
    save_file(
        {f"{side}.{name}": array.copy() for side in ("query", "passage") for name, array in arrays.items()},
        path / MODEL,
    )
    with pytest.raises(UserError, match=r"contains 2 encoders, which begin with passage\.bert\., query\.bert\.: save"):
        formats.read(path)


@pytest.mark.parametrize(
    "other, message",
    [
        (lambda name, array: {f"module.{name}": array}, "contains both .*: save"),
        (lambda name, array: {name.removeprefix("bert."): array}, "contains both .*: save"),
        (lambda name, array: {name: array.astype("int8")} if "query.weight" in name else {}, "int8.* quantization"),
    ],
)
def test_weights_that_are_there_twice_or_quantized_are_refused(folder, other, message):
    path, _ = folder
    arrays = load_file(path / MODEL)
    others = {new: value.copy() for name, array in arrays.items() for new, value in other(name, array).items()}
    save_file({**arrays, **others}, path / MODEL)
    with pytest.raises(UserError, match=message):
        formats.read(path)


def as_torch(path, *, name="pytorch_model.bin", around=lambda state: state, select=lambda name: True):
    """Writes the weights of model.safetensors, or some of them, in the format of torch.save."""
    arrays = {each: array for each, array in load_file(path / MODEL).items() if select(each)}
    items, storages = b"", {}
    for number, (each, array) in enumerate(arrays.items()):
        strides = [stride // array.itemsize for stride in array.strides]
        items += torch_files.text(each) + torch_files.tensor("FloatStorage", str(number), 0, array.shape, strides)
        storages[str(number)] = array.tobytes()
    state = around(b"}(" + items + b"u")
    torch_files.write_zip(path / name, torch_files.PROTOCOL + state + torch_files.STOP, storages)
    return sorted(arrays)


def inside(name):
    """A dictionary of training with the weights under a name, an epoch, and the state of an optimizer."""
    hyper = torch_files.called(torch_files.named("pytorch_lightning.utilities.parsing", "AttributeDict"))
    return lambda state: (
        b"}("
        + b"".join([torch_files.text("epoch"), torch_files.number(3), torch_files.text(name), state])
        + torch_files.text("optimizer_states")
        + b"]"
        + torch_files.text("hyper_parameters")
        + hyper
        + b"u"
    )


@pytest.mark.parametrize("name", ["state_dict", "model", "model_state_dict"])
def test_weights_in_a_dictionary_of_training_are_read(folder, name):
    path, weights = folder
    as_torch(path, around=inside(name))
    (path / MODEL).unlink()
    check_equal(path, weights)


def test_two_models_in_a_dictionary_are_refused(folder):
    path, _ = folder
    as_torch(path, around=lambda state: b"}(" + b"".join(torch_files.text(n) + state for n in ("model", "net")) + b"u")
    (path / MODEL).unlink()
    with pytest.raises(UserError, match=r"several models \(model, net\)"):
        formats.read(path)


@pytest.mark.parametrize("name", ["bert_model.bin", "epoch=3.ckpt", "model.pt", "weights.pth"])
def test_the_only_file_with_weights_may_have_any_name(folder, name):
    path, weights = folder
    as_torch(path, name=name)
    (path / MODEL).unlink()
    (path / "config.json").rename(path / "bert_config.json")
    (path / "training_args.bin").write_bytes(b"no weights")
    check_equal(path, weights)
    as_torch_copy = path / f"other_{name}"
    as_torch_copy.write_bytes((path / name).read_bytes())
    with pytest.raises(UserError, match="contains several files with weights"):
        formats.read(path)
    with pytest.raises(UserError, match=f"{name}: it is a file; pass its folder, {path}"):
        formats.read(path / name)


def test_safetensors_may_have_a_variant_in_their_name(folder):
    path, weights = folder
    (path / MODEL).rename(path / "model.fp16.safetensors")
    check_equal(path, weights)


def test_shards_of_torch_are_read_and_a_missing_one_is_named(folder):
    path, weights = folder
    parts = {
        f"pytorch_model-0000{number}-of-00002.bin": lambda name, n=number: len(name) % 2 == n - 1 for number in (1, 2)
    }
    places = {each: file for file, select in parts.items() for each in as_torch(path, name=file, select=select)}
    (path / MODEL).unlink()
    index = path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    check_equal(path, weights)
    index.write_text(json.dumps({"weight_map": places | {"bert.more": next(iter(parts))}}))
    with pytest.raises(UserError, match=r"index.json lack 1 of its \d+ weights, such as bert.more"):
        formats.read(path)
    (path / "pytorch_model-00002-of-00002.bin").unlink()
    with pytest.raises(UserError, match="lacks pytorch_model-00002-of-00002.bin, 1 of the 2 files that"):
        formats.read(path)


@pytest.mark.parametrize(
    "name, message",
    [
        ("flax_model.msgpack", "it contains flax_model.msgpack, Flax's weights: load it with"),
        ("nothing", "it has a configuration but no weights"),
    ],
)
def test_folder_that_no_format_reads_says_what_is_missing(folder, name, message):
    path, _ = folder
    (path / MODEL).rename(path / name)
    with pytest.raises(UserError, match=message):
        formats.read(path)


def test_weights_without_a_configuration_say_so(folder):
    path, _ = folder
    (path / "config.json").unlink()
    with pytest.raises(UserError, match="it has weights but no config.json"):
        formats.read(path)


def change_config(path, *left_out, **values):
    file = path / "config.json"
    config = {name: value for name, value in json.loads(file.read_text()).items() if name not in left_out}
    file.write_text(json.dumps(config | values))


@pytest.mark.parametrize(
    "name, expected",
    [
        ("gelu_python", "gelu_erf"),
        ("gelu_fast", "gelu_tanh"),
        ("gelu_accurate", "gelu_tanh"),
        ("gelu_python_tanh", "gelu_tanh"),
        ("relu", "relu"),
        ("silu", "silu"),
        ("swish", "silu"),
    ],
)
def test_further_names_of_activations_are_known(folder, name, expected):
    path, _ = folder
    change_config(path, hidden_act=name)
    assert formats.read(path).config.hidden_act == expected


@pytest.mark.parametrize(
    "values, message",
    [
        *(({"hidden_act": name}, f"hidden_act is '{name}'") for name in ("quick_gelu", "mish", "linear", "gelu_10")),
        ({"position_embedding_type": "relative_key_query"}, "position_embedding_type is 'relative_key_query'"),
        ({"add_cross_attention": True}, "add_cross_attention is True; expected False"),
        ({"pruned_heads": {"1": [0]}}, "pruned_heads is"),
        ({"quantization_config": {"load_in_8bit": True}}, "quantization_config is"),
        ({"id2label": {"0": "a", "1": "b", "2": "c"}}, "describes 3 labels, and the head has 2 outputs"),
        ({"num_hidden_layers": 9999}, r"lacks \d+ of the \d+ weights of the encoder"),
        ({"model_type": None, "architectures": ["RobertaModel"]}, "pad_token_id is 0; expected 1|lacks|shape"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(folder, values, message):
    path, _ = folder
    change_config(path, pad_token_id=0, **values)
    with pytest.raises(UserError, match=message):
        formats.read(path)


def test_electra_with_embeddings_as_wide_as_its_layers_has_no_projection(tmp_path):
    config = dataclasses.replace(CONFIG, encoder="electra", embedding_size=None)
    weights = tiny.random_weights(heads.Classifier(config, 2))
    source = Checkpoint(config=config, weights=weights, vocabulary=PIECES, lower_case=True, kind="classes")
    formats.write(source, tmp_path / "model", "huggingface")
    check_equal(tmp_path / "model", weights)


SEGMENTS_OF = [  # model_type, tokenizer_config.json, transformers_version, and what transformers gives a pair
    ("bert", {"tokenizer_class": "BertTokenizer"}, "5.24.0", "two"),
    ("bert", {"tokenizer_class": "ElectraTokenizerFast"}, "5.24.0", "two"),
    ("bert", {}, "", "two"),
    ("bert", {"tokenizer_class": "DistilBertTokenizer"}, "4.40.0", "one"),
    ("bert", {"tokenizer_class": "DistilBertTokenizerFast"}, "5.24.0", "one"),
    ("bert", {"tokenizer_class": "BertTokenizer", "model_input_names": ["input_ids", "attention_mask"]}, "", "one"),
    ("bert", {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["token_type_ids"]}, "5.0.0", "two"),
    ("bert", {"tokenizer_class": "PreTrainedTokenizerFast"}, "5.24.0", "one, differs"),
    ("bert", {"tokenizer_class": "TokenizersBackend"}, "5.0.0.dev0", "one, differs"),
    ("bert", {"tokenizer_class": "PreTrainedTokenizerFast"}, "4.57.1", "two, differs"),
    ("bert", {"tokenizer_class": "PreTrainedTokenizerFast"}, "", "two, differs"),
    ("roberta", {"tokenizer_class": "BertTokenizer"}, "5.24.0", "two"),
]


@pytest.mark.parametrize("model, settings, version, expected", SEGMENTS_OF)
def test_segments_of_pairs_follow_the_class_of_the_tokenizer(model, settings, version, expected, tmp_path, caplog):
    config = dataclasses.replace(CONFIG, encoder=model, type_vocab_size=2)
    weights = tiny.random_weights(heads.Classifier(config, 2))
    source = Checkpoint(config=config, weights=weights, vocabulary=PIECES, lower_case=True, kind="classes")
    path = tmp_path / "model"
    formats.write(source, path, "huggingface")
    (path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, **settings}))
    about = json.loads((path / "config.json").read_text()) | ({"transformers_version": version} if version else {})
    (path / "config.json").write_text(json.dumps(about))
    for name in ("huggingface", "native", "huggingface"):
        read = formats.read(path)
        assert ("one" if tokenizer_of(read).settings.one_segment else "two") == expected.partition(",")[0]
        assert len(caplog.messages) == ("differs" in expected)  # a copy says it without a doubt
        table = "encoder/embeddings/segment_table"
        np.testing.assert_array_equal(read.weights[table], weights[table])
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        formats.write(read, path, name)
    assert not tokenizer_of(formats.read(path, segments="two")).settings.one_segment
    assert tokenizer_of(formats.read(path, segments="one")).settings.one_segment
    with pytest.raises(UserError, match="segments is 'three'; expected one of one, two"):
        formats.read(path, segments="three")


def test_length_of_texts_and_rows_of_pairs_are_kept(folder, tmp_path):
    path, _ = folder
    for length, kept in ((4, 4), (12.0, 12), (10**30, None), (2, None), (True, None)):
        (path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "model_max_length": length}))
        read = formats.read(path)
        assert read.max_seq_length == kept and tokenizer_of(read).settings.odd_to_longer
        for name in ("native", "google_tf", "huggingface"):
            target = tmp_path / f"{name}{len(list(tmp_path.iterdir()))}"
            formats.write(read, target, name)
            again = formats.read(target)
            assert again.max_seq_length == (kept or (CONFIG.max_position_embeddings if name == "huggingface" else None))
            assert tokenizer_of(again).settings == tokenizer_of(read).settings


def test_entries_that_albert_leaves_out_have_its_own_values():
    from bert_tf.checkpoints.huggingface_layouts import LAYOUTS

    config = LAYOUTS["albert"].config("albert", Settings({}, "config.json"))
    assert (config.hidden_act, config.hidden_size, config.embedding_size) == ("gelu_tanh", 4096, 128)
    assert (config.num_attention_heads, config.vocab_size, config.hidden_dropout_prob) == (64, 30000, 0.0)
    assert LAYOUTS["electra"].config("electra", Settings({}, "config.json")).num_attention_heads == 4
    assert LAYOUTS["distilbert"].config("distilbert", Settings({"is_decoder": True}, "config.json")).is_causal is False


def test_head_that_is_computed_otherwise_is_left_out_with_a_warning(tmp_path, caplog):
    _, weights = tiny.pretrainer(CONFIG)
    path = tmp_path / "model"
    formats.write(Checkpoint(config=CONFIG, weights=weights, vocabulary=PIECES, lower_case=True), path, "huggingface")
    arrays = load_file(path / MODEL)
    table = arrays["bert.embeddings.word_embeddings.weight"]
    save_file({**arrays, "cls.predictions.decoder.weight": table.copy()}, path / MODEL)
    check_equal(path, weights)  # a copy of the table
    save_file({**arrays, "cls.predictions.decoder.weight": table + 1}, path / MODEL)
    with caplog.at_level(logging.WARNING, "bert_tf"):
        read = formats.read(path)
    assert "masked_lm is dropped because cls.predictions.decoder.weight differs" in caplog.text
    with pytest.raises(UserError, match="no head for predictions .the head masked_lm is dropped"):
        checkpoint_predictor.load(str(path))
    assert not any(name.startswith("masked_lm/") for name in read.weights)
    assert "cls.predictions.decoder.weight" in read.weights and "next_sentence/bias" in read.weights


def test_causal_model_keeps_no_head_on_its_first_token(folder, caplog):
    path, _ = folder
    change_config(path, is_decoder=True)
    with caplog.at_level(logging.WARNING, "bert_tf"):
        read = formats.read(path)
    assert read.config.is_causal and read.kind is None and "classifier/bias" not in read.weights
    assert "classifier is dropped because it uses the first token of a causal model" in caplog.text


@pytest.mark.parametrize(
    "change, message",
    [
        ({"problem_type": "regression"}, r"classifier/kernel has the shape \(16, 2\) in .*, but \(16, 1\)"),
        (
            {"architectures": ["BertForMultipleChoice"]},
            r"classifier/kernel has the shape \(16, 2\) in .*, but \(16, 1\)",
        ),
    ],
)
def test_head_of_another_size_than_its_kind_has_is_refused(folder, change, message):
    path, _ = folder
    change_config(path, **change)
    with pytest.raises(UserError, match=message):
        pretrained.load(path)


def test_what_a_checkpoint_lacks_is_refused_or_named(folder, caplog):
    path, _ = folder
    renamed(path, lambda name: "" if "pooler" in name else name)
    with pytest.raises(UserError, match="lacks 2 weights of its model, such as encoder/pooler"):
        pretrained.load(path)
    renamed(path, lambda name: "" if "classifier" in name else name)
    with caplog.at_level(logging.WARNING, "bert_tf"):
        pretrained.load(path)
    assert "not in it, and random: encoder/pooler/kernel, encoder/pooler/bias." in caplog.text


def test_vocabulary_of_another_order_than_the_table_is_refused_at_once(folder):
    path, _ = folder
    (path / "tokenizer.json").unlink()  # which counts where both are there
    with open(path / "vocab.txt", "a") as file:
        file.write("".join(f"more{number}\n" for number in range(100)))
    with pytest.raises(UserError, match="has 130 tokens, but its model has 30"):
        formats.read(path)


@pytest.mark.parametrize("size", [1, 2, 50])
@pytest.mark.parametrize("changes", [{"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "num_labels": 50}, {}])
def test_head_counts_where_labels_have_default_names(size, changes, tmp_path):
    """As in files of transformers 2 and 3, which name two labels of heads of any size."""
    weights = tiny.random_weights(heads.Classifier(CONFIG, size))
    source = Checkpoint(config=CONFIG, weights=weights, vocabulary=PIECES, lower_case=True, kind="classes")
    formats.write(source, tmp_path / "model", "huggingface")
    change_config(tmp_path / "model", "id2label", "label2id", "problem_type", **changes)
    read = formats.read(tmp_path / "model")
    expected = [f"LABEL_{number}" for number in range(size)]
    assert (read.kind, read.labels) == (("regression", None) if size == 1 else ("classes", expected))


def test_refusals_of_layouts_name_the_file_and_nothing_else(tmp_path):
    config = dataclasses.replace(CONFIG, encoder="deberta_v2")
    formats.write(
        Checkpoint(config=config, weights=tiny.random_weights(heads.BertModel(config))), tmp_path / "m", "huggingface"
    )
    for changes, message in (
        ({"conv_kernel_size": 4}, "conv_kernel_size is 4, which is not supported; supported is an odd number."),
        ({"conv_kernel_size": "x"}, "conv_kernel_size is 'x'; expected a whole number."),
        (
            {"conv_kernel_size": 3, "hidden_size": 0},
            "hidden_size is 0; expected a whole number from 1 to 2,147,483,647.",
        ),
    ):
        change_config(tmp_path / "m", **changes)
        with pytest.raises(UserError) as error:
            formats.read(tmp_path / "m")
        assert str(error.value) == f"{tmp_path / 'm' / 'config.json'}: {message}"


def test_state_dict_of_nomic_bert_has_the_names_inside_the_class(tmp_path):
    config = dataclasses.replace(CONFIG, encoder="nomic_bert")
    weights = tiny.random_weights(heads.BertModel(config))
    formats.write(Checkpoint(config=config, weights=weights), tmp_path / "m", "huggingface")
    arrays, inside = load_file(tmp_path / "m" / MODEL), {}
    for name, array in arrays.items():
        if name.endswith("attn.Wqkv.weight"):
            layer = name.removeprefix("encoder.").removesuffix("attn.Wqkv.weight")
            parts = np.split(array, 3)
            inside |= {f"{layer}self_attn.{part}_proj.weight": x.copy() for part, x in zip("qkv", parts, strict=True)}
            continue
        for theirs, ours in nomic_bert.INSIDE.items():
            name = name.replace(ours, theirs)
        inside[name.removeprefix("encoder.")] = array
    assert "layers.0.mlp.gate_proj.weight" in inside and "layers.0.post_attention_layernorm.weight" in inside
    save_file(inside, tmp_path / "m" / MODEL)
    check_equal(tmp_path / "m", weights)


def test_next_sentence_head_is_named_where_no_other_is(tmp_path):
    weights = tiny.random_weights(heads.Pretrainer(CONFIG))
    weights = {name: array for name, array in weights.items() if not name.startswith("masked_lm/")}
    source = Checkpoint(config=CONFIG, weights=weights, vocabulary=PIECES, lower_case=True)
    formats.write(source, tmp_path / "model", "huggingface")
    reason = "has no head .its next sentence head is used in pre-training only.: use embed"
    with pytest.raises(UserError, match=reason):
        bert_tf.load(tmp_path / "model").predict("a b")
