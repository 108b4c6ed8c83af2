"""The tokenizer against literal results and the plain-Python oracle, eagerly and inside Dataset.map."""

import time
import unicodedata

import numpy as np
import oracle_tokenizer as oracle
import pytest
import tensorflow as tf
import tiny
import warm
from c_loader import run_in_c
from tokenizer_cases import HARD_STRINGS, VOCABULARY, both_ways, tokens_of

from bert_tf.errors import UserError
from bert_tf.text.characters import reference_tokenize
from bert_tf.text.tokenizer import Tokenizer, pack
from bert_tf.text.vocabulary import SPECIAL_TOKENS


@pytest.fixture(scope="module")
def uncased():
    return Tokenizer(VOCABULARY)


@pytest.fixture(scope="module")
def cased():
    return Tokenizer(VOCABULARY, lower_case=False)


# ---- Literals ----


UNCASED = {
    "The quick foxes jumped!": "the quick fox ##es jump ##ed !",
    "naïve cafe\u0301 CAFÉ": "naive cafe cafe",
    "Straße": "st ##raße",
    "ﬁnd": "ﬁ ##nd",
    "ＡＢ，": "[UNK] ，",
    "ΟΔΟΣ": "ο ##δ ##ος",
    "ΟΔΟΣΟ": "ο ##δ ##ο ##σ ##ο",
    "ΑΣ\u00ad ΑΣ\u00adΑ": "α ##ς α ##σ ##α",
    "İstanbul": "istanbul",
    "a\0b a\ufffdb a\u200bb soft\u00ad": "a ##b a ##b a ##b s ##o ##f ##t",
    "x\u00a0x\u2028x\u3000x\tx": "x x x x x",
    "我爱x你": "我 爱 x 你",
    "\uf900": "豈",
    "한": "ᄒ ##ᅡ ##ᆫ",
    "[MASK] [CLS]": "[ mask ] [ cls ]",
    "don't $x": "don ' t $ x",
    "😀 😀나": "😀 [UNK]",
    "x" * 200: "x " + "##x " * 198 + "##x",
    "x" * 201 + " fox": "[UNK] fox",
    "fox " + "я" * 150 + ".": "fox я " + "##я " * 149 + ".",
    "я" * 201: "[UNK]",
    "": "",
}
CASED = {
    "The fox": "[UNK] fox",
    "Straße straße": "Straße st ##raße",
    "İ": "İ",
    "한": "한",
    "x\u00adx\u200bx x\u00a0x\u2003x": "x ##x ##x x x x",
    "cafe cafe\u0301": "cafe [UNK]",
}


@both_ways
def test_texts_are_split_like_the_original(run, uncased):
    assert tokens_of(uncased, run(uncased, list(UNCASED))) == list(UNCASED.values())


@both_ways
def test_cased_tokenizer_keeps_case_and_accents(run, cased):
    assert tokens_of(cased, run(cased, list(CASED))) == list(CASED.values())


@pytest.mark.parametrize("text", list(UNCASED), ids=ascii)
def test_batch_composition_has_no_effect(uncased, text):  # not only together with others
    assert tokens_of(uncased, uncased([text])) == [UNCASED[text]]


def test_special_ids_come_from_the_vocabulary(uncased):
    ids = uncased.pad_id, uncased.unknown_id, uncased.cls_id, uncased.sep_id, uncased.mask_id
    assert ids == (0, 1, 2, 3, 4)
    assert uncased.size == len(uncased.vocabulary) == len(VOCABULARY)


def test_repeated_token_has_its_last_id():
    assert Tokenizer([*SPECIAL_TOKENS, "fox", "dog", "fox"])(["fox dog"]).to_list() == [[7, 6]]


def test_is_continuation_marks_tokens_with_two_hashes():
    tokenizer = Tokenizer([*SPECIAL_TOKENS, "fox", "##es"])
    assert tokenizer.is_continuation.tolist() == [False] * 6 + [True]


def test_no_texts_give_no_rows(uncased):
    assert uncased([]).to_list() == []
    assert [part.to_list() for part in uncased.with_offsets(tf.constant([], tf.string))] == [[], [], []]


def test_invalid_utf8_bytes_are_dropped(uncased):
    texts = [b"fo\xffx", b"\xe2\x82 dog", b"d\xf0\x9f\x98og", b"\xed\xa0\x80x", b"\xc0\xafx", b"\xff"]
    assert tokens_of(uncased, uncased(texts)) == ["fox", "dog", "dog", "x", "x", ""]
    assert tokens_of(uncased, uncased.with_offsets(texts)[0]) == ["fox", "dog", "dog", "x", "x", ""]


def test_megabyte_text_is_split_completely(uncased):
    ids, _, ends = uncased.with_offsets(["naïve fox " * 100_000])
    assert ids.row_lengths().numpy().tolist() == [200_000]
    assert ends.values[-1].numpy() == 1_000_000 - 1


def test_time_for_rare_characters_is_linear(uncased):
    text = "한 豈 " * 20_000 + ("я" * 150 + " ") * 500
    started = time.perf_counter()
    ids, _, _ = uncased.with_offsets([text])
    assert ids.row_lengths().numpy().tolist() == [4 * 20_000 + 150 * 500]
    assert time.perf_counter() - started < 5  # 0.2 s; copying the text for each token took minutes


def test_words_already_split_give_the_tokens_of_the_text(uncased):
    rows = [["The", "quick-fox", "", "ran."], [], ["n't", "A b"]]
    ids = uncased(rows, is_split_into_words=True)
    assert ids.to_list() == uncased([" ".join(row) for row in rows]).to_list() and ids.dtype == tf.int32
    words = uncased.tokenize_words(rows)
    assert words.row_lengths().numpy().tolist() == [4, 0, 2]
    assert words.to_list()[0][2] == [] and words.to_list()[0][0] == uncased(["The"]).to_list()[0]
    assert uncased([], is_split_into_words=True).nrows() == 0


SPECIAL_TEXTS = {
    "a[MASK]b [SEP]": "a [MASK] b [SEP]",
    "[mask] [MASK][MASK]": "[ mask ] [MASK] [MASK]",
    "[E1]x fox [E1]es <e>ΑΣ[MASK]": "[E1]x fox [E1] e ##s <e> α ##ς [MASK]",
    "한[CLS]é fox [SEP": "ᄒ ##ᅡ ##ᆫ [CLS] e fox [ s ##e ##p",
    "a\0[E1]\0b [E1": "a [E1] b [ [UNK]",
    "": "",
}


@pytest.fixture(scope="module")
def marked():
    added = ["[E1]", "[E1]x", "<e>"]
    return Tokenizer([*VOCABULARY, *added], special_tokens_in_strings=added)


@both_ways
def test_special_tokens_in_strings_are_tokens_by_choice(run, marked):
    assert tokens_of(marked, run(marked, list(SPECIAL_TEXTS))) == list(SPECIAL_TEXTS.values())
    five = Tokenizer(VOCABULARY, special_tokens_in_strings=True)
    assert run(five, ["[CLS] the [MASK] [E1]"]).to_list()[0][:3] == [five.cls_id, VOCABULARY.index("the"), five.mask_id]


def test_special_tokens_in_strings_agree_with_plain_python_and_offsets(marked):
    texts = [*SPECIAL_TEXTS, *HARD_STRINGS, *(f"[E1]{text}<e>" for text in HARD_STRINGS)]
    known = set(marked.vocabulary)
    expected = [
        " ".join(reference_tokenize(text, known, lower_case=True, special_tokens=marked.special_tokens))
        for text in texts
    ]
    ids, starts, ends = marked.with_offsets(texts)
    assert tokens_of(marked, marked(texts)) == tokens_of(marked, ids) == expected
    for text, row, begins, stops in zip(texts, tokens_of(marked, ids), starts.to_list(), ends.to_list(), strict=True):
        for token, start, end in zip(row.split(" "), begins, stops, strict=bool(row)):
            assert token not in ("[E1]", "[E1]x", "<e>") or text[start:end] == token
    assert [part.to_list() for part in marked.with_offsets(["한[E1]é"], unit="byte")[1:]] == [
        [[0, 0, 0, 3, 7]],
        [[3, 3, 3, 7, 9]],
    ]
    assert marked([]).to_list() == [] and marked.with_offsets([])[0].to_list() == []


def test_special_tokens_in_strings_agree_with_hugging_face(marked):
    import tokenizers

    theirs = tokenizers.BertWordPieceTokenizer({token: i for i, token in enumerate(marked.vocabulary)})
    theirs.add_special_tokens(["[E1]", "[E1]x", "<e>"])
    texts = [text for text in SPECIAL_TEXTS if "Σ" not in text]  # the original makes a final sigma of it
    assert marked(texts).to_list() == [theirs.encode(text, add_special_tokens=False).ids for text in texts]


def test_special_tokens_travel_into_a_saved_model(marked, tmp_path):
    module = tf.Module()
    module.tokenize = tf.function(marked, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    tf.saved_model.save(module, str(tmp_path))
    ids = tf.saved_model.load(str(tmp_path)).tokenize(tf.constant(list(SPECIAL_TEXTS)))
    assert tokens_of(marked, ids) == list(SPECIAL_TEXTS.values())


def test_special_tokens_in_words_already_split(marked):
    words = [["The", "[MASK]", "a[E1]"], []]
    assert tokens_of(marked, marked(words, is_split_into_words=True)) == ["the [MASK] a [E1]", ""]


def test_special_tokens_must_be_in_the_vocabulary():
    with pytest.raises(UserError, match=r"'\[E9\]' is not in the vocabulary"):
        Tokenizer(VOCABULARY, special_tokens_in_strings=["[E9]"])


def test_ids_to_tokens_keeps_the_shape(uncased):
    assert uncased.ids_to_tokens(uncased(["foxes", ""])).to_list() == [[b"fox", b"##es"], []]
    assert uncased.ids_to_tokens(tf.constant([[2, 3]])).numpy().tolist() == [[b"[CLS]", b"[SEP]"]]


def test_tokenize_encode_and_decode_take_and_return_plain_values(uncased):
    assert uncased.tokenize("The foxes ran.") == ["the", "fox", "##es", "ran", "."]
    assert uncased.tokenize("") == []
    one, pair = uncased.encode("The foxes ran."), uncased.encode("The fox", "")
    assert [uncased.vocabulary[number] for number in one] == ["[CLS]", "the", "fox", "##es", "ran", ".", "[SEP]"]
    assert [uncased.vocabulary[number] for number in pair] == ["[CLS]", "the", "fox", "[SEP]", "[SEP]"]
    packed = pack(uncased, [["The fox"], ["ran ."]], 8)
    assert uncased.encode("The fox", "ran .") == packed["token_ids"][0].numpy().tolist()[:7]
    assert uncased.decode(one) == "the foxes ran ." and uncased.decode([]) == ""
    assert all(type(number) is int for number in one)


def test_detokenize_joins_word_tokens_and_drops_padding(uncased):
    packed = pack(uncased, [["the foxes ran"]], 9)
    assert uncased.detokenize(packed["token_ids"]) == ["[CLS] the foxes ran [SEP]"]
    assert uncased.detokenize(uncased(["jumped", ""])) == ["jumped", ""]
    assert uncased.detokenize([2, 3]) == "[CLS] [SEP]"


# ---- The oracle ----


def assigned_characters():
    codes = (*range(0xD800), *range(0xE000, 0x110000))
    return [chr(code) for code in codes if unicodedata.category(chr(code)) not in ("Cn", "Co")]


def assert_like_the_oracle(tokenizer, texts):
    known = set(tokenizer.vocabulary)
    rows = tokenizer(texts).to_list()
    different = [
        (text, [tokenizer.vocabulary[i] for i in row])
        for text, row in zip(texts, rows, strict=True)
        if oracle.tokenize(text, known, lower_case=tokenizer.lower_case) != [tokenizer.vocabulary[i] for i in row]
    ]
    assert len(rows) == len(texts) and different == []


@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_every_assigned_character_is_handled_like_the_original(lower_case):
    texts = [f"a{c}b" for c in assigned_characters()]
    characters = set()  # that the original can output: without them all would be [UNK] and look alike
    for character in assigned_characters():
        normalized = unicodedata.normalize("NFD", character.lower()) if lower_case else character
        characters.update(c for c in normalized if unicodedata.category(c) not in ("Cc", "Cf", "Zs", "Zl", "Zp", "Mn"))
        characters.update(character if not lower_case and unicodedata.category(character) == "Mn" else "")
    reordered = {c for c in characters if unicodedata.combining(c)} if lower_case else set()  # refused in a vocabulary
    tokens = sorted(characters - reordered - {"\ufffd"})
    tokenizer = Tokenizer([*SPECIAL_TOKENS, *tokens, *(f"##{c}" for c in tokens)], lower_case=lower_case)
    assert len(texts) > 140_000
    assert_like_the_oracle(tokenizer, texts)


def test_hard_strings_are_split_like_the_original(uncased, cased):
    assert_like_the_oracle(uncased, HARD_STRINGS)
    assert_like_the_oracle(cased, HARD_STRINGS)


@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_offsets_refer_to_the_original_text(uncased, cased, lower_case):
    tokenizer = uncased if lower_case else cased
    texts = [text for text in HARD_STRINGS if "Σ" not in text]
    ids, starts, ends = (part.to_list() for part in tokenizer.with_offsets(texts))
    for text, *rows in zip(texts, ids, starts, ends, strict=True):
        expected = oracle.tokenize_with_offsets(text, set(VOCABULARY), lower_case=lower_case)
        assert [VOCABULARY[i] for i in rows[0]] == [token for token, *_ in expected]
        assert rows[1] == [start for _, start, *_ in expected]
        assert all(first <= end <= last for (*_, first, last), end in zip(expected, rows[2], strict=True))


def test_byte_and_character_offsets_give_the_same_substrings(uncased):
    ids, starts, ends = (part.to_list() for part in uncased.with_offsets(HARD_STRINGS))
    _, byte_starts, byte_ends = (part.to_list() for part in uncased.with_offsets(HARD_STRINGS, unit="byte"))
    assert sum(map(len, ids)) > 1000
    for text, *rows in zip(HARD_STRINGS, starts, ends, byte_starts, byte_ends, strict=True):
        for start, end, byte_start, byte_end in zip(*rows, strict=True):
            assert text[start:end].encode() == text.encode()[byte_start:byte_end]


@both_ways
def test_offsets_count_characters_or_bytes(run, uncased):
    text = "naïve cafe\u0301 나x. ΟΔΟΣ"
    ids, starts, ends = run(uncased.with_offsets, [text])
    assert tokens_of(uncased, ids) == ["naive cafe [UNK] . ο ##δ ##ος"]
    assert [text[s:e] for s, e in zip(starts.to_list()[0], ends.to_list()[0], strict=True)] == [
        "naïve", "cafe\u0301", "나x", ".", "Ο", "Δ", "ΟΣ",
    ]  # fmt: skip
    _, starts, ends = run(lambda texts: uncased.with_offsets(texts, unit="byte"), [text])
    assert starts.to_list() == [[0, 7, 14, 18, 20, 22, 24]]
    assert ends.to_list() == [[6, 13, 18, 19, 22, 24, 28]]


def test_tokens_of_one_character_share_its_offsets(uncased):
    ids, starts, ends = uncased.with_offsets(["x 한 x"])
    assert tokens_of(uncased, ids) == ["x ᄒ ##ᅡ ##ᆫ x"]
    assert (starts.to_list(), ends.to_list()) == ([[0, 2, 2, 2, 4]], [[1, 3, 3, 3, 5]])


@pytest.mark.parametrize(("character", "token", "size"), [("豈", "豈", 3), ("\U0002f800", "丽", 4), ("\u037e", ";", 2)])
def test_token_ends_with_its_last_character(character, token, size):
    tokenizer = Tokenizer([*SPECIAL_TOKENS, "x", token])
    ids, starts, ends = tokenizer.with_offsets(["x", f"x{character}x"], unit="byte")
    assert tokens_of(tokenizer, ids) == ["x", f"x {token} x"]
    assert (starts.to_list()[1], ends.to_list()[1]) == ([0, 1, 1 + size], [1, 1 + size, 2 + size])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda tokenizer: tokenizer("the fox"), "Put it into a list"),
        (lambda tokenizer: tokenizer.with_offsets(["fox"], unit="word"), "unit='word'"),
        (lambda tokenizer: Tokenizer(["[PAD]", "[UNK]", "fox"]), r"no \[CLS\], \[SEP\], \[MASK\]"),
        (lambda tokenizer: Tokenizer([*SPECIAL_TOKENS, "x" * 201])(["x"]), "201 bytes"),
    ],
)
def test_errors_say_what_to_do(uncased, call, message):
    with pytest.raises(UserError, match=message):
        call(uncased)


def test_kernel_that_disagrees_with_the_original_is_refused(monkeypatch):
    monkeypatch.setattr("bert_tf.text.wordpiece.final_sigma_pattern", lambda: "(no)Σ(match)")
    with pytest.raises(RuntimeError, match="tensorflow-text .* splits"):
        Tokenizer([*SPECIAL_TOKENS, "ο", "##δ", "##ο", "##σ", "##ς"])(["ο"])


def test_tokenizer_created_while_tracing_works_everywhere():
    tokenizers = []

    @tf.function
    def tokenize(texts):
        tokenizers.append(Tokenizer([*SPECIAL_TOKENS, "fox", "##es"]))
        return tokenizers[-1](texts)

    assert tokenize(tf.constant(["foxes"])).to_list() == [[5, 6]]
    assert tokenizers[-1](["foxes"]).to_list() == [[5, 6]]


SERVED = ["The naïve foxes, ΟΔΟΣ", "я" * 150 + " 한", b"d\xffog", ""]


@pytest.fixture(scope="module")
def saved(uncased, tmp_path_factory):
    """A SavedModel of all that a served task uses: its folder, and its outputs for SERVED in this process."""
    folder = tmp_path_factory.mktemp("saved") / "model"

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="texts")])
    def serve(texts):
        ids, starts, ends = uncased.with_offsets(texts)
        return {
            "token_ids": pack(uncased, [texts, ids], 12)["token_ids"],
            "tokens": uncased.ids_to_tokens(ids).to_tensor("."),
            "starts": starts.to_tensor(-1),
            "ends": ends.to_tensor(-1),
        }

    module = tf.Module()
    module.serve = serve
    tf.saved_model.save(module, str(folder), signatures=serve)
    return folder, {name: value.numpy() for name, value in serve(tf.constant(SERVED)).items()}


@pytest.mark.slow
def test_saved_model_works_with_tensorflow_text_alone(saved, tmp_path):
    folder, expected = saved
    np.save(tmp_path / "texts.npy", np.array([t.encode() if isinstance(t, str) else t for t in SERVED], object))
    program = (
        "import sys, numpy, tensorflow as tf, tensorflow_text\n"
        "texts = tf.constant(numpy.load(sys.argv[2] + '/texts.npy', allow_pickle=True))\n"
        "outputs = tf.saved_model.load(sys.argv[1]).serve(texts)\n"
        "numpy.savez(sys.argv[2] + '/outputs.npz', **{name: value.numpy() for name, value in outputs.items()})\n"
    )
    done = warm.run("-c", program, folder, tmp_path, cwd=tmp_path, without_package=True)
    assert done.returncode == 0, done.stderr
    outputs = np.load(tmp_path / "outputs.npz", allow_pickle=True)
    assert {name: outputs[name].tolist() for name in expected} == {name: v.tolist() for name, v in expected.items()}
    assert expected["tokens"].shape[1] > 150


@pytest.mark.slow
def test_saved_model_works_without_python(saved):
    folder, expected = saved
    names = ["token_ids", "starts", "ends"]
    assert run_in_c(folder, {"texts": SERVED}, names) == {name: expected[name].tolist() for name in names}


@pytest.mark.parametrize("text", ["bad \ud83d", "\udcff"])
def test_half_a_surrogate_pair_is_one_sentence(text):
    tokenizer = Tokenizer([*tiny.SPECIAL, "a"])
    for call in (
        lambda: tokenizer(["a", text]),
        lambda: tokenizer.tokenize(text),
        lambda: tokenizer.encode("a", text),
        lambda: tokenizer.with_offsets([text]),
        lambda: tokenizer([["a", text]], is_split_into_words=True),
    ):
        with pytest.raises(UserError, match="A text is not Unicode: it contains half a surrogate pair"):
            call()
