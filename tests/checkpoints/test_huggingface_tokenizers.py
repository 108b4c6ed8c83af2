"""Tokenizers of Hugging Face folders: settings that are read, kept by converters, or refused by name."""

import dataclasses
import json

import pytest
from checkpoint_cases import PIECES, checkpoint

from bert_tf.checkpoints import formats
from bert_tf.errors import UserError
from bert_tf.text import tokenizer_kinds, vocabulary
from bert_tf.text.tokenizer_settings import TokenizerSettings

WORDS = [*PIECES[:5], *"El el año ano está esta . 東京 ##大学 行く".split()]
TOKENS = [*WORDS, *(f"[unused{number}]" for number in range(len(PIECES) - len(WORDS)))]
TEXTS = ["El año está.", "東京大学 行く"]
SETTINGS = [  # tokenizer_config.json, tokens of TEXTS by transformers 5.24
    ({"do_lower_case": True}, ["el ano esta .", "[UNK] [UNK] [UNK] [UNK] [UNK] [UNK]"]),
    ({"do_lower_case": True, "strip_accents": False}, ["el año está .", "[UNK] [UNK] [UNK] [UNK] [UNK] [UNK]"]),
    ({"do_lower_case": False, "strip_accents": True}, ["El ano esta .", "[UNK] [UNK] [UNK] [UNK] [UNK] [UNK]"]),
    ({"do_lower_case": False, "tokenize_chinese_chars": False}, ["El año está .", "東京 ##大学 行く"]),
]


def folder_of(path, settings, remove=("tokenizer.json",)):
    """A Hugging Face folder with that tokenizer_config.json."""
    tokens = dataclasses.replace(checkpoint(), vocabulary=TOKENS)
    formats.write(tokens, path, "huggingface")
    for name in remove:
        (path / name).unlink()
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path


def tokens_of(read):
    tokenizer = tokenizer_kinds.create(read.vocabulary, read.lower_case)
    return [" ".join(tokenizer.tokenize(text)) for text in TEXTS]


@pytest.mark.parametrize("settings, expected", SETTINGS)
def test_settings_are_read_and_kept_by_native_and_hugging_face(settings, expected, tmp_path):
    read = formats.read(folder_of(tmp_path / "source", settings))
    assert tokens_of(read) == expected
    for name in ("native", "huggingface", "native"):
        path = tmp_path / f"{name}{len(list(tmp_path.iterdir()))}"
        formats.write(read, path, name)
        read = formats.read(path)
        assert tokens_of(read) == expected and read.vocabulary == TOKENS


@pytest.mark.parametrize("settings, expected", SETTINGS)
def test_tokenizer_json_says_it_all_for_a_general_class(settings, expected, tmp_path):
    read = formats.read(folder_of(tmp_path / "source", settings))
    formats.write(read, tmp_path / "fast", "huggingface")
    (tmp_path / "fast" / "vocab.txt").unlink()
    (tmp_path / "fast" / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    assert tokens_of(formats.read(tmp_path / "fast")) == expected


@pytest.mark.parametrize(
    "name, changes", [("google_tf", {"strip_accents": False}), ("google_tf", {"split_ideographs": False})]
)
def test_formats_refuse_by_name_what_they_cannot_hold(name, changes, tmp_path):
    tokens = vocabulary.with_settings(TOKENS, TokenizerSettings(**changes))
    with pytest.raises(UserError, match=f"{name} has no tokenizer with (strip_accents|tokenize_chinese_chars)=False"):
        formats.write(dataclasses.replace(checkpoint(), vocabulary=tokens), tmp_path / "out", name)
    assert not (tmp_path / "out").exists()


def test_sentence_transformers_may_lower_case_before_the_tokenizer(tmp_path):
    folder = folder_of(tmp_path / "source", {"do_lower_case": False})
    (folder / "modules.json").write_text('[{"type": "sentence_transformers.models.Transformer", "path": ""}]')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 8, "do_lower_case": true}')
    assert tokens_of(formats.read(folder))[0] == "el año está ."


REFUSED = [  # tokenizer_config.json and what the sentence names
    ({"tokenizer_class": "BertJapaneseTokenizer"}, "the tokenizer BertJapaneseTokenizer, which is not supported"),
    ({"tokenizer_class": "KoBertTokenizer"}, "KoBertTokenizer"),
    ({"tokenizer_class": "XLMRobertaTokenizerFast"}, "XLMRobertaTokenizer"),
    ({"do_basic_tokenize": False}, "do_basic_tokenize is False"),
    ({"never_split": ["e.g."]}, r"never_split is \['e.g.'\]"),
    ({"unk_token": "<unk>"}, "unk_token is '<unk>'"),
    ({"word_tokenizer_type": "mecab"}, "word_tokenizer_type is 'mecab'"),
    ({"truncation_side": "left"}, "truncation_side is 'left'"),
    ({"strip_accents": "no"}, "strip_accents is 'no'; expected true or false"),
]


@pytest.mark.parametrize("settings, reason", REFUSED)
def test_settings_that_change_tokens_are_refused_by_name(settings, reason, tmp_path):
    with pytest.raises(UserError, match=reason):
        formats.read(folder_of(tmp_path / "source", {"do_lower_case": True, **settings}))


STEPS = [  # changes of tokenizer.json and what the sentence names
    ({"normalizer": None}, "normalizer is None"),
    ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}}, "'Sequence'"),
    ({"normalizer": {"type": "BertNormalizer", "clean_text": False}}, "normalizer.clean_text is False"),
    ({"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer is 'Whitespace'"),
    ({"post_processor": None}, "post_processor is None"),
    ({"truncation": {"direction": "Left", "max_length": 8, "strategy": "LongestFirst", "stride": 0}}, "direction"),
    ({"model": {"unk_token": "<unk>"}}, "model.unk_token is '<unk>'"),
    ({"model": {"continuing_subword_prefix": "@@"}}, "model.continuing_subword_prefix is '@@'"),
    ({"model": {"type": "WordLevel"}}, "model.type is 'WordLevel'"),
]


@pytest.mark.parametrize("changes, reason", STEPS)
def test_steps_of_tokenizer_json_are_refused_by_name(changes, reason, tmp_path):
    folder = folder_of(tmp_path / "source", {"tokenizer_class": "PreTrainedTokenizerFast"}, remove=["vocab.txt"])
    content = json.loads((folder / "tokenizer.json").read_text())
    model = {**content["model"], **changes.get("model", {})}
    (folder / "tokenizer.json").write_text(json.dumps({**content, **changes, "model": model}))
    with pytest.raises(UserError, match=reason):
        formats.read(folder)


def test_padding_and_truncation_on_the_right_change_nothing(tmp_path):
    folder = folder_of(tmp_path / "source", {"tokenizer_class": "PreTrainedTokenizerFast"}, remove=["vocab.txt"])
    content = json.loads((folder / "tokenizer.json").read_text())
    content["truncation"] = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    content["padding"] = {"strategy": {"Fixed": 8}, "direction": "Right", "pad_id": 0, "pad_token": "[PAD]"}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert tokens_of(formats.read(folder))[0] == "el ano esta ."
