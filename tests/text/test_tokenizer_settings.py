"""Settings of Hugging Face's tokenizers: accents and ideographs apart from casing, and the length of words."""

import itertools
import random

import pytest
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.text import record_tokenizer, vocabulary
from bert_tf.text.characters import reference_tokenize
from bert_tf.text.table_tokenizer import TableTokenizer
from bert_tf.text.tokenizer import create_tokenizer, pack
from bert_tf.text.tokenizer_settings import AddedToken, TokenizerSettings

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "aáeéiñoubcßIİΣσςé\u0301Ж東京大学漢字豈한かな!.,‼–😀"
TOKENS = [
    *SPECIAL,
    *sorted({*LETTERS, *(f"##{letter}" for letter in LETTERS)}),
    *"año ano está esta El el papá papa 東京 ##大学 行く に 。".split(),
]
RIGHT = [  # settings, lower case, text, tokens of transformers 5.24
    ({"strip_accents": False}, True, "El año está, papá.", "el año está , papá ."),
    ({"strip_accents": True}, False, "El año.", "El ano ."),
    ({}, True, "El año", "el ano"),
    ({"split_ideographs": False}, False, "東京大学 に 行く。", "東京 ##大学 に 行く 。"),
    ({}, False, "東京大学 に。", "東 京 大 学 に 。"),
    ({"no_final_sigma": True}, True, "ΣΣ, Σ", "σ ##σ , σ"),
    ({}, True, "ΣΣ, Σ", "σ ##ς , σ"),
    ({"max_word_characters": 100}, False, f"{'a' * 100} {'b' * 101} 漢", f"a {'##a ' * 99}[UNK] 漢"),
]


@pytest.mark.parametrize("settings, lower_case, text, expected", RIGHT)
def test_tokens_are_those_of_transformers(settings, lower_case, text, expected):
    tokens = vocabulary.with_settings(TOKENS, TokenizerSettings(**settings))
    assert " ".join(create_tokenizer(tokens, lower_case).tokenize(text)) == expected


def strings(seed, count):
    """Random texts of letters, ideographs, marks, spaces and any other characters."""
    source = random.Random(seed)
    extra = [
        "東京",
        "AÑO",
        "\U000f0001",
        "\U00100005",
        "\t",
        "\u00ad",
        "a" * 101,
        "漢" * 100,
        "漢" * 201,
        " ",
        " ",
        " ",
    ]

    def part():
        if source.random() < 0.8:
            return source.choice([*LETTERS, *extra])
        return chr(source.choice([source.randrange(1, 0x3000), source.randrange(0xE000, 0x30000)]))

    return ["".join(part() for _ in range(source.randrange(15))) for _ in range(count)]


@pytest.mark.parametrize(
    "lower_case, strip_accents, split_ideographs", list(itertools.product((True, False), repeat=3))
)
def test_graph_and_table_equal_the_reference(lower_case, strip_accents, split_ideographs):
    settings = TokenizerSettings(
        strip_accents=strip_accents,
        no_final_sigma=split_ideographs,
        split_ideographs=split_ideographs,
        max_word_characters=100,
    )
    tokens, texts = vocabulary.with_settings(TOKENS, settings), strings(5, 300)
    expected = [reference_tokenize(text, set(TOKENS), lower_case=lower_case, settings=settings) for text in texts]
    tokenizer = create_tokenizer(tokens, lower_case)
    ids, starts, ends = tokenizer.with_offsets(texts)
    assert [[TOKENS[number] for number in row] for row in ids.to_list()] == expected
    assert tokenizer(texts).to_list() == ids.to_list()
    for text, *offsets in zip(texts, starts.to_list(), ends.to_list(), strict=True):
        assert all(0 <= start < end <= len(text) for start, end in zip(*offsets, strict=True))
    flat, counts = TableTokenizer(tokens, lower_case)(texts)
    assert [TOKENS[number] for number in flat] == list(itertools.chain(*expected))
    assert counts.tolist() == [len(row) for row in expected]


FOUND = {"lstrip": True, "rstrip": True}, {"single_word": True}, {"normalized": True}, {"only_found": True}, {}


@pytest.mark.parametrize("found", FOUND)
def test_iterators_over_texts_can_be_saved(found, tmp_path):
    added = AddedToken(content="año", **found)
    tokens = vocabulary.with_settings(TOKENS, TokenizerSettings(added_tokens=(added,)))
    tokenizer = create_tokenizer(tokens, special_tokens_in_strings=("[MASK]", "año"))
    texts = tf.data.Dataset.from_tensor_slices(["a [MASK] b", "el año", "c"]).batch(1)
    rows = iter(texts.map(lambda text: pack(tokenizer, [text], 8)))
    first = next(rows)["token_ids"].numpy().tolist()
    checkpoint = tf.train.Checkpoint(rows=rows)
    path = checkpoint.save(str(tmp_path / "ckpt"))  # raises for a stateful operation
    second = next(rows)["token_ids"].numpy().tolist()
    checkpoint.restore(path)
    assert next(rows)["token_ids"].numpy().tolist() == second != first


def test_offsets_where_ideographs_are_letters():
    tokens = vocabulary.with_settings(TOKENS, TokenizerSettings(split_ideographs=False))
    ids, starts, ends = create_tokenizer(tokens, False).with_offsets(["a 東京大学 漢"])
    assert [TOKENS[number] for number in ids.to_list()[0]] == ["a", "東京", "##大学", "漢"]
    assert (starts.to_list(), ends.to_list()) == ([[0, 2, 4, 7]], [[1, 4, 6, 8]])


def test_settings_are_kept_next_to_the_vocabulary(tmp_path):
    path, settings = tmp_path / "vocab.txt", TokenizerSettings(strip_accents=False, max_word_characters=100)
    vocabulary.write(path, vocabulary.with_settings(TOKENS, settings))
    assert vocabulary.settings_of(vocabulary.read(path)) == settings
    assert record_tokenizer.from_file(str(path), True)(["año está"])[0].tolist() == [
        TOKENS.index("año"),
        TOKENS.index("está"),
    ]
    extended = vocabulary.extend(vocabulary.read(path), ["mañana"]).tokens
    assert vocabulary.settings_of(extended) == settings
    (tmp_path / "tokenizer_settings.json").write_text('{"stem": true}')
    with pytest.raises(UserError, match="has 'stem', which is not a setting"):
        vocabulary.read(path)


def test_plain_vocabularies_have_no_file_of_settings(tmp_path):
    vocabulary.write(tmp_path / "vocab.txt", vocabulary.with_settings(TOKENS, TokenizerSettings()))
    assert [each.name for each in tmp_path.iterdir()] == ["vocab.txt"]


def test_words_of_ideographs_need_ideographs_as_tokens():
    tokens = vocabulary.with_settings(TOKENS, TokenizerSettings(split_ideographs=False))
    with pytest.raises(UserError, match="chinese_word_segmentation requires a WordPiece vocabulary"):
        record_tokenizer.create(tokens, True, chinese_word_segmentation=True)


@pytest.mark.parametrize("flags", [{}, {"single_word": True, "lstrip": True, "rstrip": True}, {"normalized": True}])
def test_datasets_that_find_added_tokens_are_saved(flags, tmp_path):
    settings = TokenizerSettings(added_tokens=(AddedToken(content="año", **flags),))
    tokens = vocabulary.with_settings(TOKENS, settings)
    tokenizer = create_tokenizer(tokens, True, special_tokens_in_strings=["año", "[MASK]"])
    texts = tf.data.Dataset.from_tensors(["el año [MASK]", ""]).repeat()
    iterator = iter(texts.map(lambda batch: tokenizer(batch).to_tensor(shape=[2, 3])))
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    checkpoint.restore(checkpoint.save(str(tmp_path / "state")))
    assert [TOKENS[i] for i in next(iterator)[0].numpy()] == ["el", "año", "[MASK]"]
