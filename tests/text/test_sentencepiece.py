"""SentencePiece in the graph against the package `sentencepiece`: ids, offsets, vocabularies as files."""

import dataclasses
import json
import random
import unicodedata

import pytest
import sentencepiece
import tensorflow as tf
import tokenizers

from bert_tf.checkpoints import huggingface_tokenizers
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.huggingface_folder import TokenizerFolder
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.text import (
    characters,
    sentencepiece_model,
    vocabulary,
    vocabulary_learning,
)
from bert_tf.text.host_tokenizer import create_host_tokenizer
from bert_tf.text.tokenizer import create_tokenizer
from bert_tf.text.tokenizer_kinds import DEBERTA_V2, LIBRARY, SENTENCEPIECE, XLM_ROBERTA, XLNET
from bert_tf.text.tokenizer_settings import AddedToken, TokenizerSettings
from bert_tf.text.vocabulary import SubwordVocabulary

TEXTS = ["the quick brown fox jumped over the lazy dogs", "naïve café, it's 1234 12", "``a fox'' the dog aaa"] * 3
HARD_STRINGS = [
    "",
    " ",
    "  the  fox ",
    "``The'' fox",
    "'''' ```a",
    "Naïve CAFÉ İ ﬁ Å",
    "a\u00a0b\u3000c\td\n",
    "漢字 😀",
    "e\u0301",
]


@pytest.fixture(scope="module")
def tokens():
    return vocabulary_learning.learn(TEXTS, 60, kind=SENTENCEPIECE)


@pytest.fixture(scope="module")
def tokenizer(tokens):
    return create_tokenizer(tokens)


def probes():
    chosen = random.Random(3)
    characters = [chr(code) for code in range(1, 0x30000) if not 0xD800 <= code < 0xE000]
    pool = list("the foxaéT .,`'``''\u0301 \n 1²😀\u2028ﬁ ") * 16 + chosen.sample(characters, 400)
    mixtures = ["".join(chosen.choices(pool, k=chosen.randint(1, 30))) for _ in range(500)]
    return [*HARD_STRINGS, *mixtures, *("".join(characters[n : n + 40]) for n in range(0, len(characters), 1900))]


def test_ids_are_those_of_sentencepiece(tokenizer, tokens):
    theirs = sentencepiece.SentencePieceProcessor(model_proto=tokens.rules)
    assert tokens[:5] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"] and "▁fox" in tokens
    ids = tf.function(tokenizer)(tf.constant(HARD_STRINGS)).to_list()
    assert ids == [theirs.encode(characters.normalize_albert(text)) for text in HARD_STRINGS]
    cased = create_tokenizer(tokens, lower_case=False)
    assert cased(["The fox"]).to_list() == [theirs.encode("The fox")]
    assert tokenizer.detokenize(tokenizer(["The fox, it's"])) == ["the fox, it's"]
    assert tokenizer(["[CLS]"]).to_list() == tokenizer(["[cls]"]).to_list()  # as text, unless tokens are recognized


def test_uncased_texts_are_normalized_as_tokenizers_does(tokenizer, tokens):
    """Marks of all kinds go, and a character that is replaced takes nothing of its cluster with it."""
    steps = tokenizers.normalizers
    model = steps.Precompiled(sentencepiece_model.parse(tokens.rules).charsmap)
    theirs = steps.Sequence([steps.NFKD(), steps.StripAccents(), steps.Lowercase(), model])
    assigned = [
        chr(code) for code in range(1, 0x30000) if unicodedata.ucd_3_2_0.category(chr(code)) not in ("Cn", "Cs")
    ]
    chosen = {*assigned[::29], *(c for c in assigned if unicodedata.category(c) in ("Mc", "Me", "Cf"))} - {"`", "'"}
    texts = [f"A{c}b字\u0327{c}x{c}\u0301{c}" for c in sorted(chosen)]
    assert tokenizer._splitter.normal(texts) == [theirs.normalize_str(text) for text in texts]


def test_offsets_are_of_the_original_text_without_spaces(tokenizer):
    text = " the \u0301\u0301 caf\u00e9 e\u0301 fox "
    ids, starts, ends = (x.to_list()[0] for x in tokenizer.with_offsets([text]))
    spans = [(a, b) for i, a, b in zip(ids, starts, ends, strict=True) if tokenizer.vocabulary[i] != "▁"]
    pieces = [text[start:end] for start, end in spans]
    assert "".join(pieces).replace("\u0301", "") == "thecaféefox"
    assert all(piece == piece.strip() for piece in pieces)
    for unit in ("byte", "character"):
        _, starts, ends = (x.to_list() for x in tokenizer.with_offsets(probes(), unit=unit))
        for text, first, last in zip(probes(), starts, ends, strict=True):
            size = len(text.encode()) if unit == "byte" else len(text)
            assert all(0 <= a <= b <= size for a, b in zip(first, last, strict=True)), text
            assert first == sorted(first)


def test_vocabulary_is_a_file_with_its_model_next_to_it(tokens, tmp_path):
    vocabulary.write(tmp_path / "vocab.txt", tokens)
    again = vocabulary.read(tmp_path / "vocab.txt")
    assert (again, again.rules, again.kind) == (tokens, tokens.rules, SENTENCEPIECE)
    config = BertConfig.of_size("tiny", vocab_size=len(tokens), encoder="albert")
    checkpoint = Checkpoint(config=config, weights={}, vocabulary=tokens, lower_case=False)
    (tmp_path / "theirs").mkdir()
    huggingface_tokenizers.write(str(tmp_path / "theirs"), checkpoint)
    assert sorted(path.name for path in (tmp_path / "theirs").iterdir()) == [
        "spiece.model",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    (tmp_path / "theirs" / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    read, lower_case = huggingface_tokenizers.read(TokenizerFolder(tmp_path / "theirs"))
    assert (read, read.rules, lower_case) == (tokens, tokens.rules, False)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["model"]["vocab"][-1][0] = "another"
    (tmp_path / "theirs" / "tokenizer.json").write_text(json.dumps(content))
    assert huggingface_tokenizers.read(TokenizerFolder(tmp_path / "theirs"))[0] == [
        *tokens[:-1],
        "another",
    ]  # as transformers
    (tmp_path / "theirs" / "tokenizer.json").unlink()
    (tmp_path / "theirs" / "spiece.model").write_bytes(tokens.rules[:100] + b"\xff" * 20)
    with pytest.raises(UserError, match="spiece.model is not a SentencePiece model"):
        huggingface_tokenizers.read(TokenizerFolder(tmp_path / "theirs"))


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("has_json", [True, False])
def test_scores_that_are_not_finite_are_refused(tokens, tmp_path, score, has_json):
    model = sentencepiece_model.parse(tokens.rules)
    pieces = tuple((token, score if number == 8 else each) for number, (token, each) in enumerate(model.pieces))
    rules = sentencepiece_model.serialize(dataclasses.replace(model, pieces=pieces), ())
    if has_json:
        config = BertConfig.of_size("tiny", vocab_size=len(tokens), encoder="albert")
        whole = Checkpoint(config=config, weights={}, vocabulary=tokens, lower_case=True)
        huggingface_tokenizers.write(str(tmp_path), whole)
        (tmp_path / "spiece.model").unlink()
        values = json.loads((tmp_path / "tokenizer.json").read_text())
        values["model"]["vocab"] = pieces
        (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    else:
        (tmp_path / "spiece.model").write_bytes(rules)
    with pytest.raises(UserError, match="expected a list of tokens, each with a finite score"):
        huggingface_tokenizers.read(TokenizerFolder(tmp_path))


@pytest.mark.parametrize("lower_case", [True, False])
def test_tokenizer_json_gives_the_same_ids_and_is_read_without_a_model(tokens, tmp_path, lower_case):
    config = BertConfig.of_size("tiny", vocab_size=len(tokens), encoder="albert")
    checkpoint = Checkpoint(config=config, weights={}, vocabulary=tokens, lower_case=lower_case)
    huggingface_tokenizers.write(str(tmp_path), checkpoint)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ours = create_tokenizer(tokens, lower_case)
    texts = [text for text in probes() if not any(name in text for name in tokens[:5])]
    expected = ours(tf.constant(texts)).to_list()
    actual = [encoding.ids for encoding in theirs.encode_batch(texts, add_special_tokens=False)]
    assert actual == expected
    assert theirs.encode("the fox", "a dog").ids == [
        2,
        *ours(["the fox"]).to_list()[0],
        3,
        *ours(["a dog"]).to_list()[0],
        3,
    ]
    (tmp_path / "spiece.model").unlink()
    (tmp_path / "tokenizer_config.json").unlink()
    again, casing = huggingface_tokenizers.read(TokenizerFolder(tmp_path))
    assert (list(again), casing) == (list(tokens), lower_case)
    assert create_tokenizer(again, lower_case)(tf.constant(texts)).to_list() == expected
    values = json.loads((tmp_path / "tokenizer.json").read_text())
    values["model"]["unk_id"] = None
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match="tokenizer.json has no vocab or no unk_id of a unigram model"):
        huggingface_tokenizers.read(TokenizerFolder(tmp_path))


NAMES = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}


@pytest.mark.parametrize(
    "step, value",
    [
        ("normalizer", {"type": "NFC"}),
        ("normalizer", {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}),
        ("pre_tokenizer", {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}),
        ("pre_tokenizer", None),
        ("pre_tokenizer", {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True}),
        ("pre_tokenizer", {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}),
    ],
)
def test_other_steps_of_tokenizer_json_are_those_of_the_library(tokens, tmp_path, step, value):
    config = BertConfig.of_size("tiny", vocab_size=len(tokens), encoder="albert")
    checkpoint = Checkpoint(config=config, weights={}, vocabulary=tokens, lower_case=True)
    huggingface_tokenizers.write(str(tmp_path), checkpoint)
    (tmp_path / "spiece.model").unlink()
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False, **NAMES}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    values = json.loads((tmp_path / "tokenizer.json").read_text())
    read, lower_case = huggingface_tokenizers.read(TokenizerFolder(tmp_path))
    assert (read, lower_case) == (list(tokens), True)  # as the file has it, not the setting
    (tmp_path / "tokenizer.json").write_text(json.dumps({**values, step: value}))
    read, _ = huggingface_tokenizers.read(TokenizerFolder(tmp_path))
    theirs, own = (
        tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")),
        create_host_tokenizer(read, False),
    )
    assert read.kind == LIBRARY
    for text in TEXTS:
        assert own(text) == theirs.encode(text, add_special_tokens=False).ids
    (tmp_path / "tokenizer.json").write_text(json.dumps({**values, step: value, "post_processor": None}))
    with pytest.raises(UserError, match="post_processor makes the rows none"):
        huggingface_tokenizers.read(TokenizerFolder(tmp_path))


def test_too_large_or_incomplete_vocabularies_are_one_sentence(tokens):
    with pytest.raises(UserError, match=r"No SentencePiece vocabulary of 6 tokens can be learned .*"):
        vocabulary_learning.learn(TEXTS, 6, kind=SENTENCEPIECE)
    with pytest.raises(UserError, match=r"The vocabulary has no \[MASK\]"):
        create_tokenizer(SubwordVocabulary(tokens[:4] + tokens[5:], SENTENCEPIECE, tokens.rules))


XLM_PIECES = [
    ("▁", -2.0),
    ("▁the", -3.0),
    ("e", -4.5),
    ("-", -3.2),
    ("--", -5.1),
    ("---", -6.7),
    ("▁한국", -7.0),
    ("어", -6.5),
]


def fairseq(owner, charsmap):
    """A vocabulary of XLM-RoBERTa or CamemBERT with few pieces, from a file with the ids of SentencePiece."""
    pieces = (("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *XLM_PIECES)
    content = sentencepiece_model.UnigramModel(pieces=pieces, unknown_id=0, charsmap=charsmap)
    return sentencepiece_model.with_fairseq_ids(sentencepiece_model.serialize(content, {"<s>", "</s>"}), "a", owner)


def is_easy(text):
    """Returns whether `tokenizers` counts offsets as we do: it loses count at deleted characters."""
    return not any(unicodedata.category(c) in ("Cc", "Cf") and c not in "\t\n\r" for c in text)


@pytest.mark.parametrize("owner", ["XLMRobertaTokenizer", "CamembertTokenizer"])
def test_xlm_roberta_gives_the_ids_and_offsets_of_tokenizers(tokens, owner):
    found = fairseq(owner, sentencepiece_model.parse(tokens.rules).charsmap)
    assert found[-1] == "<mask>" and found.index("▁") == {"XLMRobertaTokenizer": 4, "CamembertTokenizer": 7}[owner]
    theirs = sentencepiece_model.to_tokenizer(found, lower_case=False)
    ours = create_tokenizer(found, special_tokens_in_strings=["<mask>"])
    texts = [*probes(), "--------------- -----", "a<mask></s> <s>the", "\uff1cs\uff1e the\u2581e", "한국어" * 50]
    texts.append("\0\1<mask>\1e\0")
    ids, starts, ends = (x.to_list() for x in ours.with_offsets(texts))
    encodings = theirs.encode_batch(texts, add_special_tokens=False)
    assert ids == [encoding.ids for encoding in encodings]
    for text, encoding, *offsets in zip(texts, encodings, starts, ends, strict=True):
        if is_easy(text):
            assert encoding.offsets == list(zip(*offsets, strict=True)), text
    pair = [found.index(name) for name in ("<s>", "</s>")]
    assert theirs.encode("the", "the").ids == ours.encode("the", "the") and ours.encode("")[:2] == pair


def test_xlm_roberta_is_written_as_hugging_face_reads_it_and_read_by_each_of_its_files(tmp_path):
    charsmap = sentencepiece_model.parse(vocabulary_learning.learn(TEXTS, 60, kind=XLM_ROBERTA).rules).charsmap
    found = fairseq("XLMRobertaTokenizer", charsmap)
    mask = AddedToken(content="<mask>", lstrip=True, normalized=True)
    found = vocabulary.with_settings(found, TokenizerSettings(added_tokens=(mask,)))
    config = BertConfig.of_size("tiny", vocab_size=len(found), encoder="xlm_roberta")
    names = tuple(vocabulary.special_tokens(found))
    checkpoint = Checkpoint(config=config, weights={}, vocabulary=found, lower_case=False, special_tokens=names)
    huggingface_tokenizers.write(str(tmp_path), checkpoint)
    again, recognized = huggingface_tokenizers.with_added_tokens(
        TokenizerFolder(tmp_path), huggingface_tokenizers.read(TokenizerFolder(tmp_path))[0]
    )
    assert (again, again.rules, again.settings.added_tokens) == (found, found.rules, (mask,)) and {*recognized} == {
        *names
    }
    ours = create_tokenizer(again, special_tokens_in_strings=recognized)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    texts = ["the <mask>e", "\uff1cmask\uff1e <s>e", "e  <mask> the", "the\u3000<mask>"]
    encodings = theirs.encode_batch(texts, add_special_tokens=False)
    ids, starts, ends = (x.to_list() for x in ours.with_offsets(texts))
    assert ids == [encoding.ids for encoding in encodings] and found.index("<mask>") in ids[1]
    assert [list(zip(*each, strict=True)) for each in zip(starts, ends, strict=True)] == [e.offsets for e in encodings]
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    assert huggingface_tokenizers.read(TokenizerFolder(tmp_path))[0] == found
    (tmp_path / "tokenizer.json").write_text(json.dumps({**content, "normalizer": {"type": "NFKC"}}))
    with pytest.raises(UserError, match="does not name pad_token, unk_token, cls_token, sep_token, mask_token"):
        huggingface_tokenizers.read(TokenizerFolder(tmp_path))
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer_config.json").unlink()
    pieces = (("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *XLM_PIECES)
    content = sentencepiece_model.UnigramModel(pieces=pieces, unknown_id=0, charsmap=charsmap)
    (tmp_path / "sentencepiece.bpe.model").write_bytes(sentencepiece_model.serialize(content, {"<s>", "</s>"}))
    assert huggingface_tokenizers.read(TokenizerFolder(tmp_path))[0].rules == found.rules
    (tmp_path / "config.json").write_text('{"model_type": "camembert"}')
    assert huggingface_tokenizers.read(TokenizerFolder(tmp_path))[0][:2] == ["<s>NOTUSED", "<pad>"]


def test_xlnet_is_read_by_each_of_its_files_and_gives_the_ids_and_offsets_of_tokenizers(tmp_path):
    learned = vocabulary_learning.learn(TEXTS, 60, kind=XLNET)
    assert learned[:6] == ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>"] and learned[8] == "<eop>"
    (tmp_path / "config.json").write_text('{"model_type": "xlnet"}')
    pieces = vocabulary_learning._train_unigram(TEXTS, 60, **vocabulary_learning.OF_XLNET)
    (tmp_path / "spiece.model").write_bytes(pieces)

    def read():
        tokens, lower_case = huggingface_tokenizers.read(TokenizerFolder(tmp_path))
        assert (tokens, tokens.kind, lower_case) == (learned, XLNET, False)
        tokens, recognized = huggingface_tokenizers.with_added_tokens(TokenizerFolder(tmp_path), tokens)
        return tokens, tuple(sorted(recognized))

    found, recognized = read()  # as transformers does, pieces of its maker are looked for in texts
    assert recognized == tuple(sorted(learned[:9]))
    config = BertConfig.of_size("tiny", vocab_size=len(found), encoder="xlnet")
    checkpoint = Checkpoint(config=config, weights={}, vocabulary=found, lower_case=False, special_tokens=recognized)
    huggingface_tokenizers.write(str(tmp_path), checkpoint)
    assert read() == (found, recognized)
    (tmp_path / "spiece.model").unlink()
    assert read() == (found, recognized)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ours = create_tokenizer(found, special_tokens_in_strings=recognized)
    texts = [*probes(), "the<eop> fox <cls>", "a <mask>", "Caf\u00e9 \u1e9b\u0323 THE"]
    ids, starts, ends = (x.to_list() for x in ours.with_offsets(texts))
    encodings = theirs.encode_batch(texts, add_special_tokens=False)
    assert ids == [encoding.ids for encoding in encodings]
    row, names = theirs.encode("the", "fox"), [found.index(name) for name in ("<cls>", "<sep>")]
    assert row.ids == [*ours.encode("the", "fox")[1:], names[0]] and row.type_ids[-2:] == [1, 2]
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    assert huggingface_tokenizers.read(TokenizerFolder(tmp_path))[0].kind == XLNET
    for name, value in (("keep_accents", True), ("do_lower_case", True), ("remove_space", False)):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({name: value}))
        with pytest.raises(UserError, match=f"{name} is {value}, which changes tokens"):
            huggingface_tokenizers.read(TokenizerFolder(tmp_path))


def deberta(tokens, *, is_nfc):
    """A vocabulary of DeBERTa as transformers 5 (NFC) or 4 writes it."""
    model = sentencepiece_model.parse(tokens.rules)
    model = dataclasses.replace(model, is_nfc=is_nfc, charsmap=b"" if is_nfc else model.charsmap)
    return sentencepiece_model.of_deberta(sentencepiece_model.serialize(model, {}), "a")


@pytest.mark.parametrize("is_nfc", [False, True])
def test_deberta_gives_the_ids_and_offsets_of_tokenizers_and_its_files_return(is_nfc, tmp_path):
    learned = vocabulary_learning.learn(TEXTS, 60, kind=DEBERTA_V2)
    assert learned[:4] == ["[PAD]", "[CLS]", "[SEP]", "[UNK]"] and learned[-1] == "[MASK]"
    found = deberta(learned, is_nfc=is_nfc)
    ours = create_tokenizer(found, special_tokens_in_strings=True)
    spaces = [" \u200b the ", "\u2003a \u3000 b\xa0", "\n\t", "a\u2581 b\x0bfox ", "é\u0301  e\u0327\u0301"]
    spaces += ["a[MASK]  b [CLS]", "a\u2028b", "\x85 the"]
    texts = [*probes(), *spaces, *(f"a{chr(code)}b {chr(code)}" for code in range(1, 0x3100, 7))]
    ids, starts, ends = (x.to_list() for x in ours.with_offsets(texts))
    theirs = sentencepiece_model.to_tokenizer(found, lower_case=False)
    encodings = theirs.encode_batch(texts, add_special_tokens=False)
    assert ids == [encoding.ids for encoding in encodings]
    for text, encoding, *offsets in zip(texts, encodings, starts, ends, strict=True):
        if not is_easy(text) or unicodedata.normalize("NFC", text) != text:
            continue
        for (begin, end), (at, their_end) in zip(zip(*offsets, strict=True), encoding.offsets, strict=True):
            is_blank = not text[at:their_end].strip().strip("\u2581\u200b")  # it is where the word after it begins
            assert is_blank or (end == their_end and not text[at:begin].strip()), text
    assert theirs.encode("the", "the").ids == ours.encode("the", "the")
    config = BertConfig.of_size("tiny", vocab_size=len(found), encoder="deberta_v2")
    found = vocabulary.with_tokens(found, [*found, "[E1]"])
    names = {"added_tokens": ("[E1]",), "special_tokens": (*learned[:4], "[MASK]", "[E1]")}
    checkpoint = Checkpoint(config=config, weights={}, vocabulary=found, lower_case=False, **names)
    huggingface_tokenizers.write(str(tmp_path), checkpoint)
    for settings in ({}, {"tokenizer_class": "DebertaV2Tokenizer"}):
        if settings:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        read = huggingface_tokenizers.with_added_tokens(
            TokenizerFolder(tmp_path), huggingface_tokenizers.read(TokenizerFolder(tmp_path))[0]
        )
        assert (list(read[0]), read[0].rules, {*read[1]}) == (list(found), found.rules, {*names["special_tokens"]})
    values = json.loads((tmp_path / "tokenizer.json").read_text())
    for changes, reason in (
        *DEBERTA_STEPS,
        ({"added_tokens": [{"content": "[MASK]", "id": 99, "special": True}]}, "do not follow"),
    ):
        (tmp_path / "tokenizer.json").write_text(json.dumps({**values, **changes}))
        with pytest.raises(UserError, match=reason):
            huggingface_tokenizers.with_added_tokens(
                TokenizerFolder(tmp_path), huggingface_tokenizers.read(TokenizerFolder(tmp_path))[0]
            )
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "spm.model").write_bytes(learned.rules)
    assert huggingface_tokenizers.read(TokenizerFolder(tmp_path)) == (list(learned), False)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    with pytest.raises(UserError, match="do_lower_case is True"):
        huggingface_tokenizers.read(TokenizerFolder(tmp_path))


DEBERTA_STEPS = [  # changes of tokenizer.json and what the sentence names
    ({"normalizer": {"type": "NFC"}}, "normalizer is NFC, which"),
    ({"pre_tokenizer": {"type": "Punctuation"}}, "pre_tokenizer is Punctuation"),
]


def test_model_without_a_charsmap_becomes_a_tokenizer_json():
    pieces = (("<pad>", 0.0), ("<unk>", 0.0), ("[CLS]", 0.0), ("[SEP]", 0.0), ("[MASK]", 0.0), ("▁a", -1.0))
    model = sentencepiece_model.UnigramModel(pieces=pieces, unknown_id=1, charsmap=b"")
    found = sentencepiece_model.tokens_of(sentencepiece_model.serialize(model, {}), "a")
    assert sentencepiece_model.to_tokenizer(found, lower_case=True).encode("A").tokens == ["[CLS]", "▁a", "[SEP]"]
