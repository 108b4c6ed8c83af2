"""Tokenizers of Hugging Face folders: settings that are read, kept by converters, or refused by name."""

import dataclasses
import json

import pytest
from checkpoint_cases import PIECES, checkpoint
from tokenizers import Tokenizer

from bert_tf.checkpoints import formats, huggingface_tokenizers, pretrained
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.huggingface_folder import TokenizerFolder
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.text import record_tokenizer, tokenizer_kinds, vocabulary, vocabulary_learning
from bert_tf.text.host_tokenizer import create_host_tokenizer
from bert_tf.text.tokenizer import create_tokenizer, tokenizer_of
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


def tokens_of(read, texts=TEXTS):
    recognized = read.special_tokens
    tokenizer = create_tokenizer(read.vocabulary, read.lower_case, special_tokens_in_strings=recognized)
    return [" ".join(tokenizer.tokenize(text)) for text in texts]


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


def test_a_capital_sigma_becomes_that_of_the_maker(tmp_path):
    text, tokens = "ΟΔΟΣ. ΑΣ\u00adΑ Σ", [*WORDS[:5], *"α δ ο ς σ ##α ##δ ##ο ##ς ##σ .".split()]
    tokens += [f"[unused{number}]" for number in range(len(PIECES) - len(tokens))]
    source = dataclasses.replace(checkpoint(), vocabulary=tokens, lower_case=True)
    formats.write(source, tmp_path / "huggingface", "huggingface")
    theirs = Tokenizer.from_file(str(tmp_path / "huggingface" / "tokenizer.json")).encode(text).tokens[1:-1]
    formats.write(formats.read(tmp_path / "huggingface"), tmp_path / "native", "native")
    for name in ("huggingface", "native"):
        read = formats.read(tmp_path / name)
        assert tokens_of(read, [text]) == [" ".join(theirs)] == ["ο ##δ ##ο ##σ . α ##σ ##α σ"]
        host = create_host_tokenizer(read.vocabulary, True)
        assert [tokens[number] for number in host(text)] == theirs
    formats.write(source, tmp_path / "google", "google_tf")
    assert tokens_of(formats.read(tmp_path / "google"), [text]) == ["ο ##δ ##ο ##ς . α ##σ ##α σ"]


def test_mpnet_has_wordpiece_with_rows_of_roberta(tmp_path):
    tokens = vocabulary_learning.learn(["the fox ran, the fox"] * 3, 40, kind=tokenizer_kinds.MPNET)
    assert tokens.index("<pad>") == 1 and vocabulary.special_tokens(tokens)[1] == "[UNK]"
    config = BertConfig.of_size("tiny", vocab_size=len(tokens), encoder="mpnet")
    known = Checkpoint(config=config, weights={}, vocabulary=tokens, lower_case=True, special_tokens=("<mask>",))
    huggingface_tokenizers.write(str(tmp_path), known)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["tokenizer_class"] == "MPNetTokenizer"
    again, lower_case = huggingface_tokenizers.read(TokenizerFolder(tmp_path))
    assert again == tokens and again.settings.is_mpnet and lower_case
    for file in ("vocab.txt", "tokenizer.json"):  # transformers 5 writes no vocab.txt, and older folders have no other
        (tmp_path / file).rename(tmp_path / "kept")
        (tmp_path / "tokenizer_settings.json").unlink(missing_ok=True)
        found, _ = huggingface_tokenizers.read(TokenizerFolder(tmp_path))
        assert (found, found.settings) == (again, again.settings)
        (tmp_path / "kept").rename(tmp_path / file)
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ours = create_tokenizer(again, special_tokens_in_strings=["<mask>"])
    texts = "The fox <mask> ran", "a fox, the"
    assert ours.encode(*texts) == theirs.encode(*texts).ids and tokens.index("<mask>") in ours.encode(*texts)
    both = {"tokenizer_class": "MPNetTokenizer", "additional_special_tokens": ["<x>"], "extra_special_tokens": ["<y>"]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(both))
    added = huggingface_tokenizers.with_added_tokens(TokenizerFolder(tmp_path), again)[1]
    assert "<y>" in added and "<x>" not in added  # transformers 5 overlooks the older name beside the newer
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    (tmp_path / "config.json").write_text('{"model_type": "mpnet"}')
    assert not huggingface_tokenizers.read(TokenizerFolder(tmp_path))[0].settings.is_mpnet
    (tmp_path / "tokenizer_config.json").write_text('{"mask_token": "[MASK]"}')
    with pytest.raises(UserError, match=r"mask_token is '\[MASK\]'; expected '<mask>'"):
        huggingface_tokenizers.read(TokenizerFolder(tmp_path))


@pytest.mark.parametrize(
    "name, changes", [("google_tf", {"strip_accents": False}), ("google_tf", {"split_ideographs": False})]
)
def test_formats_refuse_by_name_what_they_cannot_hold(name, changes, tmp_path):
    tokens = vocabulary.with_settings(TOKENS, TokenizerSettings(**changes))
    with pytest.raises(UserError, match=f"{name} .* tokenizer with (strip_accents|tokenize_chinese_chars)=False"):
        formats.write(dataclasses.replace(checkpoint(), vocabulary=tokens), tmp_path / "out", name)
    assert not (tmp_path / "out").exists()


def test_sentence_transformers_may_lower_case_before_the_tokenizer(tmp_path):
    folder = folder_of(tmp_path / "source", {"do_lower_case": False})
    (folder / "modules.json").write_text('[{"type": "sentence_transformers.models.Transformer", "path": ""}]')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 8, "do_lower_case": true}')
    assert tokens_of(formats.read(folder))[0] == "el año está ."


REFUSED = [  # tokenizer_config.json and what the sentence names
    ({"padding_side": "left"}, "padding_side is 'left'"),
    ({"tokenizer_class": "BertJapaneseTokenizer"}, "the tokenizer BertJapaneseTokenizer, which is not supported"),
    ({"tokenizer_class": "KoBertTokenizer"}, "KoBertTokenizer"),
    ({"tokenizer_class": "XLMRobertaTokenizerFast"}, "XLMRobertaTokenizer, .* with its files"),
    ({"do_basic_tokenize": False}, "do_basic_tokenize is False"),
    ({"never_split": ["e.g."]}, r"never_split is \['e.g.'\]"),
    ({"unk_token": "<unk>"}, "unk_token is '<unk>'"),
    ({"word_tokenizer_type": "mecab"}, "word_tokenizer_type is 'mecab'"),
    ({"truncation_side": "left"}, "truncation_side is 'left'"),
    ({"strip_accents": "no"}, "strip_accents is 'no'; expected true or false"),
    (
        {"added_tokens_decoder": {"9" * 5000: {"content": "[X]"}}},
        "an added token is .*; expected its content and its id",
    ),
    (
        {"added_tokens_decoder": {"30": 5}},
        "added_tokens_decoder is {'30': 5}; expected an object of tokens by their ids",
    ),
    (
        {"extra_special_tokens": [[1], {}, None]},
        "extra_special_tokens is .*; expected a list of tokens, texts or objects",
    ),
    ({"cls_token": 5}, "cls_token is 5; expected a token, a text or an object with its content"),
]


@pytest.mark.parametrize("settings, reason", REFUSED)
def test_settings_that_change_tokens_are_refused_by_name(settings, reason, tmp_path):
    with pytest.raises(UserError, match=reason):
        formats.read(folder_of(tmp_path / "source", {"do_lower_case": True, **settings}))


BY_FILE = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    **{f"{name.lower()[1:-1]}_token": name for name in vocabulary.SPECIAL_TOKENS},
}
STEPS = [  # changes of tokenizer.json and what the sentence names
    ({"post_processor": None}, r"post_processor makes the rows none; supported are \[CLS\] A \[SEP\] and"),
    ({"truncation": {"direction": "Left", "max_length": 8, "strategy": "LongestFirst", "stride": 0}}, "direction"),
    ({"model": {"type": "Other"}}, "tokenizer.json cannot be read by the library tokenizers"),
    ({"model": {"dropout": 0.5}, "normalizer": None}, "model.dropout is 0.5"),
    ({"model": {"max_input_chars_per_word": -5}}, "model.max_input_chars_per_word is -5; expected a whole number from"),
    ({"model": {"max_input_chars_per_word": 0}}, "model.max_input_chars_per_word is 0; expected a whole number from 1"),
    ({"normalizer": {"type": "Sequence", "normalizers": 5}}, "normalizer.normalizers is 5; expected a list of objects"),
    ({"normalizer": {"type": "Replace", "pattern": [1]}}, r"normalizer.pattern is \[1\]; expected an object of texts"),
    ({"normalizer": {"type": "BertNormalizer", "lowercase": "x"}}, "normalizer.lowercase is 'x'; expected true or"),
    ({"pre_tokenizer": {"type": "Replace", "pattern": "x"}}, "pre_tokenizer.pattern is 'x'; expected an object of"),
    ({"post_processor": {"type": "TemplateProcessing", "single": 5}}, "post_processor.single is 5; expected a list of"),
    ({"post_processor": {"type": "TemplateProcessing", "single": [{}]}}, "cannot be read by the library"),
    (
        {"post_processor": {"type": "TemplateProcessing", "single": [{"X": 5}]}},
        r"single\[0\].X is 5; expected an object",
    ),
    ({"post_processor": {"type": "BertProcessing", "cls": 5}}, "post_processor.cls is 5; expected a list"),
    ({"truncation": [1]}, r"truncation is \[1\]; expected an object"),
    ({"added_tokens": [{"content": [1], "id": 0}]}, r"added_tokens\[0\].content is \[1\]; expected a text"),
]


@pytest.mark.parametrize("changes, reason", STEPS)
def test_steps_of_tokenizer_json_are_refused_by_name(changes, reason, tmp_path):
    folder = folder_of(tmp_path / "source", BY_FILE, remove=["vocab.txt"])
    content = json.loads((folder / "tokenizer.json").read_text())
    model = {**content["model"], **changes.get("model", {})}
    (folder / "tokenizer.json").write_text(json.dumps({**content, **changes, "model": model}))
    with pytest.raises(UserError, match=reason):
        formats.read(folder)


@pytest.mark.parametrize("names, reason", [("lowercase", "do_lower_case"), ("strip_accents", "strip_accents")])
def test_tokenizer_json_alone_must_agree_with_the_class(names, reason, tmp_path):
    folder = folder_of(tmp_path / "source", {}, remove=["vocab.txt"])
    (folder / "tokenizer_config.json").unlink()
    assert tokens_of(formats.read(folder))[0] == "el ano esta ."
    content = json.loads((folder / "tokenizer.json").read_text())
    content["normalizer"][names] = False
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"add a .* with the {reason}"):
        formats.read(folder)


@pytest.mark.parametrize("limit, expected", [(10**18, "aaaaaa"), (3 * 10**9, "aaaaaa"), (3, "[UNK]")])
def test_words_may_have_as_many_characters_as_tokenizer_json_says(limit, expected, tmp_path):
    folder = folder_of(tmp_path / "source", {"tokenizer_class": "PreTrainedTokenizerFast"}, remove=["vocab.txt"])
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["max_input_chars_per_word"] = limit
    content["model"]["vocab"] |= {"aaaaaa": len(content["model"]["vocab"])}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert tokens_of(formats.read(folder), ["aaaaaa"]) == [expected]


def test_lower_casing_that_sentence_transformers_6_saves_is_lost_where_a_class_is_named(tmp_path):
    """As there: transformers makes the steps of a named class itself."""
    folder = folder_of(tmp_path / "source", {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}, remove=[])
    content = json.loads((folder / "tokenizer.json").read_text())
    steps = [{"type": "Lowercase"}, {**content["normalizer"], "lowercase": False}]
    content["normalizer"] = {"type": "Sequence", "normalizers": steps}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert tokens_of(formats.read(folder))[0] == "El año está ."


def test_segments_of_pairs_are_those_of_tokenizer_json(tmp_path):
    folder = folder_of(tmp_path / "source", BY_FILE, remove=["vocab.txt"])
    content = json.loads((folder / "tokenizer.json").read_text())
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    }
    content["post_processor"]["single"].append({"SpecialToken": {"id": "[SEP]", "type_id": 0}})
    ids = {"[CLS]": 2, "[SEP]": 3}
    special = {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in ids.items()}
    content["post_processor"]["special_tokens"] = special
    second = [{"Sequence": {"id": "B", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    content["post_processor"]["pair"] = content["post_processor"]["single"] + second
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert tokenizer_of(formats.read(folder)).settings.one_segment
    content["post_processor"]["pair"] = content["post_processor"]["single"][:2] + second
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"rows \[CLS\] A \[SEP\], \[CLS\] A B \[SEP\]"):
        formats.read(folder)


def test_padding_and_truncation_on_the_right_change_nothing(tmp_path):
    folder = folder_of(tmp_path / "source", {"tokenizer_class": "PreTrainedTokenizerFast"}, remove=["vocab.txt"])
    content = json.loads((folder / "tokenizer.json").read_text())
    content["truncation"] = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    content["padding"] = {"strategy": {"Fixed": 8}, "direction": "Right", "pad_id": 0, "pad_token": "[PAD]"}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert tokens_of(formats.read(folder))[0] == "el ano esta ."


def flags(content, **values):
    """An entry of added_tokens_decoder."""
    return {"content": content, **dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized"), False), **values}


ADDED = [  # flags of the token "el1", text, tokens and offsets of the token by transformers 5.24
    ({}, "EL1 el1ano", "[UNK] el1 ano", (4, 7)),
    ({"normalized": True}, "a EL1ano", "[UNK] el1 ano", (2, 5)),
    ({"single_word": True}, "el1ano el1", "[UNK] el1", (7, 10)),
    ({"lstrip": True, "rstrip": True}, "ano  el1 ano", "ano el1 ano", (3, 9)),
]


def test_tokenizer_config_overrides_the_added_tokens_of_tokenizer_json(tmp_path):
    folder = folder_of(tmp_path / "source", {"do_lower_case": True})
    general = {"tokenizer_class": "PreTrainedTokenizerFast"}
    formats.write(formats.read(folder), tmp_path / "fast", "huggingface")
    content = json.loads((tmp_path / "fast" / "tokenizer.json").read_text())
    entry = {"id": TOKENS.index("el"), **flags("el", normalized=True), "special": False}
    content["added_tokens"].append(entry)
    (tmp_path / "fast" / "tokenizer.json").write_text(json.dumps(content))
    for decoder, expected in (({}, "el ano"), ({str(entry["id"]): flags("el")}, "[UNK]")):
        settings = general | ({"added_tokens_decoder": decoder} if decoder else {})
        (tmp_path / "fast" / "tokenizer_config.json").write_text(json.dumps(settings))
        assert tokens_of(formats.read(tmp_path / "fast"), ["ELano"]) == [expected]  # by transformers 5.24


@pytest.mark.parametrize("values, text, expected, place", ADDED)
def test_added_tokens_are_found_as_their_flags_say(values, text, expected, place, tmp_path):
    tokens = [*TOKENS[:-1], "el1"]
    folder = folder_of(tmp_path / "source", {"do_lower_case": True})
    (folder / "vocab.txt").write_text("\n".join(tokens[:-1]))
    settings = {"do_lower_case": True, "added_tokens_decoder": {str(len(tokens) - 1): flags("el1", **values)}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    read = formats.read(folder)
    for number, name in enumerate(("native", "huggingface", "native")):
        assert tokens_of(read, [text]) == [expected] and read.vocabulary == tokens
        formats.write(read, tmp_path / str(number), name)
        read = formats.read(tmp_path / str(number))
    tokenizer = create_tokenizer(read.vocabulary, True, special_tokens_in_strings=read.special_tokens)
    ids, *offsets = (each.to_list()[0] for each in tokenizer.with_offsets([text]))
    assert tuple(each[ids.index(len(tokens) - 1)] for each in offsets) == place
    records = record_tokenizer.create(read.vocabulary, True, read.special_tokens)
    assert records([text, "ano"])[0].tolist() == [*ids, tokens.index("ano")]
    if values:
        with pytest.raises(UserError, match="keras_hub cannot recognize the added token 'el1'"):
            formats.write(read, tmp_path / "hub", "keras_hub")


def test_written_tokenizer_config_names_added_tokens_only_if_there_are_some(tmp_path):
    folder = folder_of(tmp_path / "source", {"do_lower_case": True})
    for added, expected in ([], []), (["el"], [*vocabulary.SPECIAL_TOKENS, "el"]):
        read = dataclasses.replace(formats.read(folder), added_tokens=added)
        formats.write(read, tmp_path / f"{len(added)}", "huggingface")
        written = json.loads((tmp_path / f"{len(added)}" / "tokenizer_config.json").read_text())
        decoder = written.get("added_tokens_decoder", {})
        assert [token["content"] for token in decoder.values()] == expected
        assert [TOKENS[int(number)] for number in decoder] == expected


def test_special_tokens_in_texts_are_recognized_as_transformers_does(tmp_path):
    read = formats.read(folder_of(tmp_path / "source", {"do_lower_case": True}))
    assert tokens_of(read, ["el [MASK] ano [mask]"]) == ["el [MASK] ano [UNK] [UNK] [UNK]"]
    read = formats.read(folder_of(tmp_path / "bos", {"do_lower_case": True, "bos_token": "ano", "eos_token": "<no>"}))
    assert tokens_of(read, ["elano <no>"]) == ["el ano [UNK] [UNK] [UNK]"]


def test_added_tokens_follow_blank_lines_and_tables_have_more_rows(tmp_path):
    folder = folder_of(tmp_path / "source", {"do_lower_case": True})
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n\n")
    (folder / "added_tokens.json").write_text(json.dumps({"[HL]": len(WORDS) + 1}))
    read = formats.read(folder)
    assert read.vocabulary.index("[HL]") == len(WORDS) + 1 and len(read.vocabulary) == len(PIECES)
    assert tokens_of(read, ["el [HL]"]) == ["el [HL]"]
    (folder / "added_tokens.json").write_text(json.dumps({"[HL]": len(WORDS) + 2}))
    with pytest.raises(UserError, match="do not follow its vocabulary"):
        formats.read(folder)


def test_vocabulary_that_is_longer_than_the_table_is_refused(tmp_path):
    folder = folder_of(tmp_path / "source", {"do_lower_case": True})
    (folder / "vocab.txt").write_text("\n".join([*TOKENS, "longer"]))
    with pytest.raises(
        UserError, match=f"has {len(TOKENS) + 1} tokens, but its model has embeddings for {len(TOKENS)}"
    ):
        pretrained.load(folder)


def test_vocabulary_of_sentencepiece_is_refused(tmp_path):
    folder = folder_of(tmp_path / "source", {"do_lower_case": False})
    (folder / "vocab.txt").write_text("\n".join([*TOKENS[:5], *(f"▁{letter}" for letter in "abcdefgh")]))
    with pytest.raises(UserError, match="SentencePiece vocabulary"):
        formats.read(folder)
