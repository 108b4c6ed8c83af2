"""Byte-level BPE in the graph against `tokenizers`: ids and offsets, vocabularies as files, rows of segments."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf
import tokenizer_cases
from tokenizers import ByteLevelBPETokenizer, processors
from tokenizers import Tokenizer as TheirTokenizer

from bert_tf.checkpoints import huggingface_tokenizers
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.huggingface_folder import TokenizerFolder
from bert_tf.checkpoints.resize_vocabulary import with_vocabulary
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.text import (
    byte_level,
    host_subwords,
    vocabulary,
    vocabulary_learning,
    whitespace,
)
from bert_tf.text.byte_bpe import ByteBpeTokenizer
from bert_tf.text.host_tokenizer import create_host_tokenizer
from bert_tf.text.ragged_scan import row_numbers
from bert_tf.text.tokenizer import Tokenizer, create_tokenizer, pack
from bert_tf.text.tokenizer_kinds import BYTE_BPE
from bert_tf.text.vocabulary import SubwordVocabulary

TEXTS = [
    "the quick brown fox jumped over the lazy dogs",
    "it's they're we've 1234 12 naïve café 漢字漢字",
    "aaaa aaa aa!",
]
HARD_STRINGS = [
    *("", " ", "  ", "a", "  a", "a  ", "a \n b", "\t\ta", "a\n\nb", "\r\n\r\n x", "x\u00a0y \u00a0z \u3000'"),
    *(
        "it's 's's 'real '' ''s !'s \n's x's't 'll've",
        "don't I'm we've he'll she'd they're 'RE 'S",
        "'s",
        "'",
        "''",
        "'t",
    ),
    *("aaa aaaa aaaaa", "12ab34 1.5e-3 ²½", "हिन्दी 漢字 😀👩\u200d👧 é e\u0301", "\0 \x01", "the fox the " * 9),
]


@pytest.fixture(scope="module")
def tokens():
    return vocabulary_learning.learn(TEXTS * 3, 340, kind=BYTE_BPE)


@pytest.fixture(scope="module")
def tokenizer(tokens):
    return create_tokenizer(tokens)


@pytest.fixture(scope="module")
def folder(tokens, tmp_path_factory):
    """As transformers has it."""
    path = tmp_path_factory.mktemp("byte_bpe")
    config = BertConfig.of_size("tiny", vocab_size=len(tokens), encoder="roberta")
    huggingface_tokenizers.write(str(path), Checkpoint(config=config, weights={}, vocabulary=tokens, lower_case=False))
    return path


@pytest.fixture(scope="module")
def theirs(folder):
    reference = ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    reference._tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return reference


def test_ids_and_offsets_are_those_of_tokenizers(tokenizer, theirs):
    texts = tokenizer_cases.probes("aábT .,'sretvmld\u0301 \n 1²我é😀\u2028 ''", [*HARD_STRINGS, *TEXTS])
    ids, starts, ends = (x.to_list() for x in tf.function(tokenizer.with_offsets)(tf.constant(texts)))
    for number, encoding in enumerate(theirs.encode_batch(texts, add_special_tokens=False)):
        assert ids[number] == encoding.ids, texts[number]
        assert list(zip(starts[number], ends[number], strict=True)) == encoding.offsets, texts[number]
    assert tokenizer(HARD_STRINGS).to_list() == ids[: len(HARD_STRINGS)]
    assert tokenizer.detokenize(ids[11:12]) == [HARD_STRINGS[11]]


def test_bytes_that_are_no_text_are_dropped_and_offsets_count_bytes(tokenizer):
    ids, starts, ends = tokenizer.with_offsets(tf.constant([b"a\xff\xc3\xa9 the"]), unit="byte")
    assert tokenizer.ids_to_tokens(ids).to_list() == tokenizer.ids_to_tokens(tokenizer(["aé the"])).to_list()
    assert (starts.to_list()[0][0], ends.to_list()[0][-1], starts.to_list()[0][-1]) == (0, 8, 5)


def test_words_have_a_space_before_them_and_pairs_two_separators(tokenizer):
    words = tokenizer.tokenize_words([["the", "", "fox"]])
    assert words.merge_dims(1, 2).to_list() == tokenizer([" the fox"]).to_list() and words.row_lengths(2).to_list()
    rows = pack(tokenizer, [["the fox"], ["the"]], 12)
    start, end = tokenizer.cls_id, tokenizer.sep_id
    first, second = tokenizer(["the fox"]).to_list()[0], tokenizer(["the"]).to_list()[0]
    expected = [start, *first, end, end, *second, end]
    assert rows["token_ids"].numpy()[0].tolist() == expected + [1] * (12 - len(expected))
    assert rows["lengths"].numpy().tolist() == [len(expected)]
    assert pack(tokenizer, [["the fox"], ["the"]], 6)["lengths"].numpy() == 6


def test_letters_continue_words_and_marks_do_not(tokenizer):
    ids, starts, ends = (x.values for x in tokenizer.with_offsets(["quickly, 漢字 it's"]))
    firsts = np.flatnonzero(~tokenizer.continues_word(ids, starts, ends).numpy())
    assert ["quickly, 漢字 it's"[starts[a] : starts[a] + 1] for a in firsts] == ["q", ",", "漢", "i", "'"]


def test_word_after_the_token_of_its_blank_is_one_word(tokenizer):
    texts = [" Ωa b", "x ", " 漢"]  # no merge joins a blank and these letters
    on_host = create_host_tokenizer(tokenizer.vocabulary)
    ids, starts, ends = tokenizer.with_offsets(texts)
    row = row_numbers(ids)
    continues = tokenizer.continues_word(ids.values, starts.values, ends.values).numpy()
    words = []
    for number, text in enumerate(texts):
        tokens = on_host.with_offsets(text)
        own = continues[row == number]
        assert own.tolist() == on_host.continues_word(tokens).tolist()
        words.append(int((~own).sum()))
    assert words == [2, 2, 1]


def test_white_space_is_trimmed_alike_in_the_graph_and_outside():
    texts = ["a  b", "", " \n", "\u3000é \u2003x\u0085", "漢 \t"]
    parts = [
        (row, *bounds)
        for row, text in enumerate(texts)
        for bounds in itertools.combinations_with_replacement(range(len(text) + 1), 2)
    ]
    starts, ends = whitespace.trimmed(tf.constant(texts), *map(tf.constant, zip(*parts, strict=True)))
    for part, start, end in zip(parts, starts.numpy(), ends.numpy(), strict=True):
        text = texts[part[0]]
        assert (start, end) == byte_level.trimmed(text, *part[1:]) and text[start:end] == text[
            part[1] : part[2]
        ].strip()


def test_masks_have_both_names(tokenizer):
    ids = tokenizer.ids_with_masks(["the [MASK] fox", "the <mask> fox"]).to_list()
    the, mask, fox = tokenizer(["the"]).to_list()[0], [tokenizer.mask_id], tokenizer([" fox"]).to_list()[0]
    assert ids == [the + mask + fox] * 2


@pytest.mark.parametrize("kept", (["vocab.json", "merges.txt"], ["tokenizer.json"]))
def test_folder_of_transformers_is_read_from_either_file(folder, tokens, kept, tmp_path):
    for name in kept:
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    read, lower_case = huggingface_tokenizers.read(TokenizerFolder(tmp_path))
    assert (read, lower_case, vocabulary.kind_of(read)) == (tokens, False, BYTE_BPE)
    assert read.rules == tokens.rules
    encoding = TheirTokenizer.from_file(str(folder / "tokenizer.json")).encode("the fox", "the <mask>")
    assert encoding.ids[:1] + encoding.ids[-2:] == [0, 4, 2] and encoding.ids.count(2) == 3


def test_vocabulary_is_a_file_with_its_rules_next_to_it(tokens, tmp_path):
    vocabulary.write(tmp_path / "vocab.txt", tokens)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["merges.txt", "vocab.txt"]
    again = vocabulary.read(tmp_path / "vocab.txt")
    assert (again, again.rules, again.kind) == (tokens, tokens.rules, BYTE_BPE)
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b c\n")
    with pytest.raises(
        UserError, match="The merges .merges.txt, or in tokenizer.json. have the line 'a b c'; expected two tokens"
    ):
        Tokenizer.from_file(str(tmp_path / "vocab.txt"))


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda tokens: [token for token in tokens if token != "Ġ"], "has no token for the byte 32"),
        (
            lambda tokens: tokens[:-1],
            "The merges .merges.txt, or in tokenizer.json. have the token .* which the vocabulary lacks",
        ),
        (lambda tokens: [token for token in tokens if token != "<mask>"], "The vocabulary has no <mask>"),
    ],
)
@pytest.mark.parametrize("kind", [ByteBpeTokenizer, host_subwords.ByteBpe])
def test_incomplete_vocabulary_is_one_sentence(tokens, change, reason, kind):
    with pytest.raises(UserError, match=reason):
        kind(SubwordVocabulary(change(tokens), BYTE_BPE, tokens.rules))


def test_words_are_added_to_wordpiece_alone(tokens):
    config = BertConfig.of_size("tiny", vocab_size=len(tokens), encoder="roberta")
    checkpoint = Checkpoint(config=config, weights={}, vocabulary=tokens, lower_case=False)
    with pytest.raises(UserError, match="Only a WordPiece vocabulary can be replaced"):
        with_vocabulary(checkpoint, tokens)
    with pytest.raises(UserError, match="Words can be added only to a WordPiece vocabulary"):
        vocabulary.extend(tokens, ["krill"])


def test_wrong_files_of_a_folder_are_one_sentence(folder, tmp_path):
    settings = json.loads((folder / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps({**settings, "model": {"type": "BPE", "vocab": {"a": 3}}}))
    with pytest.raises(UserError, match="are not 0 to 0, each once"):
        huggingface_tokenizers.read(TokenizerFolder(tmp_path))
    settings["model"]["merges"] = [["a", 3]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match=r"model.merges contains \['a', 3\]; expected pairs of tokens"):
        huggingface_tokenizers.read(TokenizerFolder(tmp_path))
    with pytest.raises(UserError, match="merges.txt is not UTF-8 text"):
        byte_level.parse_merges(b"\xff\xfe a b")
    with pytest.raises(UserError, match="special tokens and bytes need 261"):
        vocabulary_learning.learn(TEXTS, 261, kind=BYTE_BPE)
