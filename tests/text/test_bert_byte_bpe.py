"""The byte-level BPE of ModernBERT against `tokenizers`: normal texts, runs of spaces as tokens, files both ways."""

import dataclasses
import json

import pytest
import tensorflow as tf
import tiny
import tokenizer_cases
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.data.tag_schemes import TagSet
from bert_tf.export import host
from bert_tf.heads.tags.tag_serving import TagServing
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.heads.tags.tagging import Tagging
from bert_tf.model import heads, weights
from bert_tf.text import byte_level, tokenizer_kinds, vocabulary, vocabulary_learning
from bert_tf.text.host_tokenizer import create_host_tokenizer
from bert_tf.text.tokenizer import create_tokenizer, pack

TEXTS = ["the quick brown fox  jumped    over the lazy dogs", "it's 12 naïve café 漢字   {\n    return  1;\n}", "aaa"]
HARD = [
    "",
    " ",
    "  ",
    "   a",
    "a  ",
    " \t  b",
    "e\u0301 a\u030a\u0323 한글 \u1100\u1161\u11a8",
    "\ufb01 \u212b",
    "  \u0301",
]
HARD += [
    "a [MASK] b",
    "a   [MASK]  b",
    "[CLS]x[SEP]",
    "a |||EMAIL||| b",
    "\u2423\u2423 a",
    " " * 30,
    "\u00a0\u00a0a\u3000 ",
]
LABELS = ("O", "B-X", "I-X")
SPECIAL = vocabulary.SPECIAL_TOKENS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """As the makers of ModernBERT have it: special tokens and runs of spaces are added after the vocabulary."""
    path = tmp_path_factory.mktemp("modern_bert")
    learned = vocabulary_learning.learn(TEXTS * 3, 330, kind=tokenizer_kinds.BERT_BYTE_BPE)
    ids = {token: number for number, token in enumerate(learned[5:])}
    theirs = Tokenizer(models.BPE(ids, byte_level.parse_merges(learned.rules)))
    theirs.normalizer = normalizers.NFC()
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.add_tokens([AddedToken(" " * size, normalized=True) for size in range(24, 1, -1)])
    theirs.add_tokens([AddedToken("|||EMAIL|||", normalized=True)])
    theirs.add_special_tokens([AddedToken(name, lstrip=name == "[MASK]", normalized=False) for name in SPECIAL])
    rows = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B [SEP]"}
    numbers = [(name, theirs.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    theirs.post_processor = processors.TemplateProcessing(special_tokens=numbers, **rows)
    config = dataclasses.replace(
        tiny.CONFIG, encoder="modern_bert", settings={"pad_token_id": theirs.token_to_id("[PAD]")}, vocab_size=400
    )
    arrays = tiny.random_weights(heads.Pretrainer(config))
    formats.write(Checkpoint(config=config, weights=arrays), path / "model", "huggingface")
    theirs.save(str(path / "model" / "tokenizer.json"))
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
    (path / "model" / "tokenizer_config.json").write_text(json.dumps(about))
    return path / "model"


def test_ids_offsets_and_rows_are_those_of_tokenizers_and_return(folder, tmp_path):
    theirs, read = Tokenizer.from_file(str(folder / "tokenizer.json")), formats.read(folder)
    assert vocabulary.kind_of(read.vocabulary) == tokenizer_kinds.BERT_BYTE_BPE and len(read.vocabulary) == 400
    texts = tokenizer_cases.probes("aábT .,'sret\u0301\u030a \n 1²한 \u1100\u1161 ''  ", [*HARD, *TEXTS], first=2)
    for name in ("native", "huggingface"):
        tokenizer = create_tokenizer(read.vocabulary, special_tokens_in_strings=read.special_tokens)
        ids, starts, ends = (x.to_list() for x in tokenizer.with_offsets(texts))
        assert tokenizer(texts).to_list() == ids
        for number, encoding in enumerate(theirs.encode_batch(texts, add_special_tokens=False)):
            assert ids[number] == encoding.ids, texts[number]
            for start, end, (begin, stop) in zip(starts[number], ends[number], encoding.offsets, strict=True):
                ours, whole = texts[number][start:end], texts[number][begin:stop]
                assert begin <= start and (ours.strip(" ").startswith(whole.strip(" ")) or not ours.strip()), texts[
                    number
                ]
        row = theirs.encode("the fox", "over")
        assert tokenizer.encode("the fox", "over") == row.ids
        packed = pack(tokenizer, [["the fox"], ["over"]], 16)
        assert packed["token_ids"][0, : len(row.ids)].numpy().tolist() == row.ids
        formats.write(read, tmp_path / f"{len(list(tmp_path.iterdir()))}", name)
        again = formats.read(max(tmp_path.iterdir()))
        assert again.vocabulary == read.vocabulary and again.config == read.config
        assert weights.compared(heads.Pretrainer(again.config), again.weights).newly_initialized == []
        read, texts = again, [*HARD, *TEXTS]
    again = Tokenizer.from_file(str(tmp_path / "1" / "tokenizer.json"))
    assert [x.ids for x in again.encode_batch(texts)] == [x.ids for x in theirs.encode_batch(texts)]


def test_masks_are_found_as_encode_finds_them(folder):
    read, texts = formats.read(folder), ["a [MASK] b", "a  \n[MASK] b", "[MASK][MASK]", " [CLS] [MASK]", "a b"]
    for recognized in (read.special_tokens, ()):
        options = {"special_tokens_in_strings": recognized}
        tokenizer = create_tokenizer(read.vocabulary, **options)
        on_host = create_host_tokenizer(read.vocabulary, **options)
        ids = tokenizer.ids_with_masks(texts).to_list()
        assert ids == [on_host.ids_with_masks(text) for text in texts]
        if recognized:
            assert ids == tokenizer(texts).to_list()
        a, b, mask = tokenizer(["a"]).to_list()[0], tokenizer([" b"]).to_list()[0], [tokenizer.mask_id]
        assert ids[:3] == [a + mask + b, a + mask + b, mask + mask]  # the white space before a mask belongs to it


@pytest.mark.parametrize(
    "text", ["New  York", "   a b", "a\nb", "a\t\r\nb ", "a   b", " \n ", "\u3000a\u00a0b", "ab\n\nab"]
)
def test_white_space_is_no_entity_and_no_part_of_one(folder, text):
    read = formats.read(folder)
    tokenizer = create_tokenizer(read.vocabulary, special_tokens_in_strings=read.special_tokens)
    on_host = create_host_tokenizer(read.vocabulary, special_tokens_in_strings=read.special_tokens)
    windows = TagWindows(max_seq_length=16, stride=7)
    task = Tagging(TagSet(LABELS, "iob2"), windows)
    words = TagServing(None, tokenizer, task.tag_set, windows)._read_texts(tf.constant(["x", text]))
    own = words.columns["owners"] == 1
    spans = [tf.boolean_mask(words.rest[name], own).numpy().tolist() for name in ("starts", "ends")]
    found = [text[start:end] for start, end in zip(*spans, strict=True)]
    assert found == text.split()
    (row,) = host.stages(task.host_settings, {"labels": LABELS}, on_host).read([[text]])[1]
    assert row.spans == list(zip(*spans, strict=True))


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFKC"}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
    ],
)
def test_other_steps_are_those_of_the_library(folder, change, tmp_path):
    content = json.loads((folder / "tokenizer.json").read_text())
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "tokenizer.json").write_text(json.dumps(content | change))
    read, theirs = formats.read(tmp_path), Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    own = create_host_tokenizer(read.vocabulary, special_tokens_in_strings=read.special_tokens)
    assert read.vocabulary.kind == tokenizer_kinds.LIBRARY
    for text in [*TEXTS, "a  b" + " " * 24 + "ﬁ [MASK]"]:
        assert own(text) == theirs.encode(text, add_special_tokens=False).ids
