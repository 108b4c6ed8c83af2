"""Every encoder and task of KerasHub: its preset and its `.keras` file give its numbers here, and back."""

import io
import json
import zipfile

import h5py
import keras_hub
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import tiny

from bert_tf.checkpoints import formats, pretrained
from bert_tf.checkpoints.keras_hub_presets import LAYOUTS, MASKED_LM
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.errors import UserError
from bert_tf.text import byte_level
from bert_tf.text.host_tokenizer import create_host_tokenizer
from bert_tf.text.tokenizer import tokenizer_of

SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 12, "max_sequence_length": 12}
OWN = {
    "albert": {"embedding_dim": 4, "num_layers": 4, "num_groups": 2},
    "electra": {"embedding_dim": 4},
    "deberta_v2": {"bucket_size": 4},
}
TOKENS = np.random.default_rng(7).integers(5, 20, (2, 9)).astype(np.int32)
MASK = (np.arange(9) < np.array([[9], [6]])).astype(np.int32)
PLACES = np.array([[1, 3], [2, 4]], np.int32)


def backbone(encoder, **changes):
    classes = LAYOUTS[encoder].classes
    size = {"vocab_size" if encoder == "electra" else "vocabulary_size": 20}
    made = getattr(keras_hub.models, f"{classes}Backbone")
    return randomized(made(**{**size, **SIZES, **OWN.get(encoder, {}), "dropout": 0.0, **changes}))


def task_of(encoder, role, **arguments):
    made = getattr(keras_hub.models, LAYOUTS[encoder].classes + role)
    return randomized(made(backbone(encoder), preprocessor=None, **arguments))


def randomized(model):
    for number, weight in enumerate(model.weights):
        center = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(np.random.default_rng(number).normal(center, 0.4, weight.shape))
    return model


def inputs_of(model):
    inputs = {"token_ids": np.where(MASK, TOKENS, 0), "padding_mask": MASK}
    if "segment_ids" in getattr(model, "backbone", model).input:
        inputs["segment_ids"] = (np.arange(9)[None] > 4) * MASK
    return inputs


def saved(model, folder, ending):
    path = str(folder / f"model{ending}")
    model.save(path) if ending else model.save_to_preset(path)
    return path


def rewritten(path, folder, change):
    """A copy of a `.keras` file whose config.json `change` changes."""
    target = str(folder / "changed.keras")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as written:
        for name in source.namelist():
            content = source.read(name)
            if name == "config.json":
                values = json.loads(content)
                change(values)
                content = json.dumps(values).encode()
            written.writestr(name, content)
    return target


@pytest.mark.parametrize("ending", ["", ".keras"])
@pytest.mark.parametrize("encoder", LAYOUTS)
def test_backbone_gives_the_same_vectors_here(encoder, ending, tmp_path):
    theirs = backbone(encoder)
    model = pretrained.load(saved(theirs, tmp_path, ending)).model
    expected, found = theirs(inputs_of(theirs)), model(inputs_of(theirs))
    expected = expected if isinstance(expected, dict) else {"sequence_output": expected}
    used = MASK.astype(bool)
    np.testing.assert_allclose(np.asarray(found["tokens"])[used], expected["sequence_output"].numpy()[used], atol=3e-5)
    if "pooled_output" in expected and not LAYOUTS[encoder].pooler_activation:
        np.testing.assert_allclose(found["pooled"], expected["pooled_output"], atol=3e-5)


@pytest.mark.parametrize("ending", ["", ".keras"])
@pytest.mark.parametrize("encoder", [encoder for encoder in LAYOUTS if encoder != "electra"])
def test_heads_give_the_same_numbers_here_and_in_keras_hub_again(encoder, ending, tmp_path):
    for role, arguments in (("TextClassifier", {"num_classes": 3}), (MASKED_LM, {})):
        theirs = task_of(encoder, role, **arguments)
        folder = tmp_path / role
        folder.mkdir()
        loaded = pretrained.load(saved(theirs, folder, ending))
        places = {"mask_positions": PLACES} if role == MASKED_LM else {}
        expected = np.asarray(theirs({**inputs_of(theirs), **places}))
        ours = {"masked_lm_positions": PLACES} if role == MASKED_LM else {}
        found = loaded.model({**inputs_of(theirs), **ours})["masked_lm_logits" if role == MASKED_LM else "logits"]
        np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
        if not ending:
            formats.write(formats.read(str(folder / "model")), str(folder / "back"), "keras_hub")
            again = type(theirs).from_preset(str(folder / "back"), preprocessor=None)
            np.testing.assert_allclose(again({**inputs_of(theirs), **places}), expected, atol=1e-6)


@pytest.mark.parametrize("encoder", ["bert", "xlm_roberta"])
def test_text_embedder_keeps_pooling_and_normalization(encoder, tmp_path):
    theirs = task_of(encoder, "TextEmbedder", pooling_mode="max", normalize=True)
    loaded = formats.read(saved(theirs, tmp_path, ""))
    assert loaded.sentence_vectors == SentenceVectors(pooling="max", normalize=True, max_seq_length=12)
    formats.write(loaded, str(tmp_path / "back"), "keras_hub")
    again = type(theirs).from_preset(str(tmp_path / "back"), preprocessor=None)
    assert (again.pooling_mode, again.normalize) == ("max", True)
    np.testing.assert_allclose(again(inputs_of(theirs)), theirs(inputs_of(theirs)), atol=1e-6)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"class_name": "Lambda", "registered_name": None}, "class 'Lambda' \\(nothing in it was run\\)"),
        (
            {"class_name": "Model", "registered_name": "my_lab>Model"},
            "class 'my_lab>Model' \\(nothing in it was run\\)",
        ),
    ],
)
def test_keras_file_of_other_classes_is_refused(changes, message, tmp_path):
    path = rewritten(saved(backbone("bert"), tmp_path, ".keras"), tmp_path, lambda config: config.update(changes))
    with pytest.raises(UserError, match=message):
        formats.read(path)


def test_lambda_in_a_task_is_refused(tmp_path):
    path = saved(task_of("bert", "TextClassifier", num_classes=2), tmp_path, ".keras")
    foreign = {"class_name": "Lambda", "config": {"function": "anything"}}
    with pytest.raises(UserError, match="expected a KerasHub model with one of these backbones"):
        formats.read(rewritten(path, tmp_path, lambda config: config["config"].update(backbone=foreign)))
    path = saved(task_of("bert", "TextClassifier", num_classes=2), tmp_path, ".keras")
    with pytest.raises(UserError, match="activation of the classifier is .*Lambda.*; expected one of"):
        formats.read(rewritten(path, tmp_path, lambda config: config["config"].update(activation=foreign)))


def test_weights_that_do_not_fit_are_refused(tmp_path):
    path = saved(backbone("roberta"), tmp_path, "")
    with h5py.File(f"{path}/model.weights.h5", "r+") as file:
        del file["layers/transformer_encoder_1/_feedforward_layer_norm/vars/0"]
    with pytest.raises(UserError, match="lacks 1 of the .* weights .* describes, such as encoder/layers/1"):
        formats.read(path)
    path = rewritten(saved(backbone("bert"), tmp_path, ".keras"), tmp_path, lambda c: c["config"].update(hidden_dim=12))
    with pytest.raises(UserError, match="has the shape .* in the checkpoint and .* in the model"):
        pretrained.load(path)


def test_preset_without_the_files_of_its_tokenizer_is_refused(tmp_path):
    path = saved(backbone("bert"), tmp_path, "")
    keras_hub.models.BertTokenizer([*tiny.SPECIAL, "a"]).save_to_preset(path)
    assert tokenizer_of(formats.read(path)).tokenize("a") == ["a"]
    (tmp_path / "model" / "assets" / "tokenizer" / "vocabulary.txt").unlink()
    with pytest.raises(UserError, match="lacks the file vocabulary.txt of its tokenizer"):
        formats.read(path)


TEXTS = [
    "The cat sat on a mat, (and) it's 12345!",
    "A  dog -- \"quoted\" ``text''",
    "Café ☃☃ x",
    "the [MASK] <mask> cat",
    "",
]
SPM = {  # arguments with which KerasHub's documentation trains the models
    "albert": {
        **{"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "pad_piece": "<pad>", "unk_piece": "<unk>"},
        **{"bos_piece": "[CLS]", "eos_piece": "[SEP]", "user_defined_symbols": ["[MASK]", "-"]},
    },
    "xlm_roberta": {"unk_id": 0, "bos_id": 1, "eos_id": 2},
    "deberta_v2": {
        **{"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "pad_piece": "[PAD]", "unk_piece": "[UNK]"},
        **{"bos_piece": "[CLS]", "eos_piece": "[SEP]", "byte_fallback": True},
    },
}


@pytest.mark.parametrize("encoder", SPM)
def test_sentencepiece_of_keras_hub_gives_its_tokens_here_and_back(encoder, tmp_path):
    size, proto = (400 if encoder == "deberta_v2" else 60), io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS[:1] * 9 + ["the cat and the dog sat"] * 9),
        model_writer=proto,
        vocab_size=size,
        hard_vocab_limit=False,
        **SPM[encoder],
    )
    classes = LAYOUTS[encoder].classes
    theirs = getattr(keras_hub.models, f"{classes}Tokenizer")(proto.getvalue())
    path = saved(backbone(encoder, vocabulary_size=theirs.vocabulary_size()), tmp_path, "")
    theirs.save_to_preset(path)
    loaded = formats.read(path)
    assert loaded.vocabulary == theirs.get_vocabulary()
    expected = [np.asarray(theirs(text)).tolist() for text in TEXTS]
    assert tokenizer_of(loaded)(TEXTS).to_list() == expected
    host = create_host_tokenizer(loaded.vocabulary, False)
    assert [host(text) for text in TEXTS] == expected
    formats.write(loaded, str(tmp_path / "back"), "keras_hub")
    again = type(theirs).from_preset(str(tmp_path / "back"))
    assert [np.asarray(again(text)).tolist() for text in TEXTS] == expected


def test_byte_bpe_of_keras_hub_gives_its_tokens_here_and_back(tmp_path):
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    merges = ["t h", "th e", "Ġ c", "Ġc a", "Ġca t", "Ġ th", "Ġth e"]
    tokens = [*names, *byte_level.alphabet(), *(merge.replace(" ", "") for merge in merges)]
    theirs = keras_hub.models.RobertaTokenizer({token: number for number, token in enumerate(tokens)}, merges)
    path = saved(backbone("roberta", vocabulary_size=len(tokens)), tmp_path, "")
    theirs.save_to_preset(path)
    loaded = formats.read(path)
    expected = tf.function(lambda texts: theirs(texts))(tf.constant(TEXTS[:4])).to_list()  # as in `predict`
    assert loaded.vocabulary == tokens and tokenizer_of(loaded)(TEXTS[:4]).to_list() == expected
    formats.write(loaded, str(tmp_path / "back"), "keras_hub")
    again = keras_hub.models.RobertaTokenizer.from_preset(str(tmp_path / "back"))
    assert tf.function(lambda texts: again(texts))(tf.constant(TEXTS[:4])).to_list() == expected
