"""Files of word vectors in every layout as the static encoder, and damaged ones."""

import gzip

import numpy as np
import pytest

from bert_tf.checkpoints import formats, pretrained
from bert_tf.errors import UserError
from bert_tf.extras.formats import word_vectors
from bert_tf.text.tokenizer import tokenizer_of
from bert_tf.text.vocabulary import SPECIAL_TOKENS

WORDS = ["the", "fox", "New_York", "über", "fox", ". . .", "##ed", "<unk>", "科", ","]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 4)).astype(np.float32).round(3)
KEPT = [0, 1, 3, 8, 9]  # once each, and as a tokenizer finds them


def lines(words=WORDS, vectors=VECTORS):
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, vectors, strict=True)).encode()


def binary(between=b"\n"):
    return b"".join(
        word.replace(" ", "_").encode() + b" " + row.astype("<f4").tobytes() + between
        for word, row in zip(WORDS, VECTORS, strict=True)
    )


HEADER = f"{len(WORDS)} 4\n".encode()
FILES = {
    "glove.txt": lines(),
    "word2vec.txt": HEADER + lines().replace(b"\n", b" \n"),
    "fasttext.vec": HEADER + lines(),
    "word2vec.bin": HEADER + binary(),
    "gensim.bin": HEADER + binary(b""),
    "fasttext.vec.gz": gzip.compress(HEADER + lines()),
}


def written(folder, name, data):
    (folder / name).write_bytes(data)
    return str(folder / name)


@pytest.mark.parametrize("name", FILES)
def test_every_layout_gives_the_words_that_texts_contain(name, tmp_path, capsys):
    path = written(tmp_path, name, FILES[name])
    assert [each for each in formats.names() if formats.load(each).recognizes(path)] == ["word_vectors"]
    read = formats.read(path)
    assert read.vocabulary == [*SPECIAL_TOKENS, *(WORDS[number] for number in KEPT)]
    assert (read.config.encoder, read.config.hidden_size, read.lower_case) == ("static", 4, True)
    table = read.weights["encoder/embeddings/token_table"]
    np.testing.assert_array_equal(table[5:], VECTORS[KEPT])
    np.testing.assert_array_equal(table[:5], [np.zeros(4), VECTORS[7], *np.zeros((3, 4))])
    assert f"5 of the words in {path} are skipped" in capsys.readouterr().out


def test_vectors_are_those_of_the_tokens_of_a_text(tmp_path):
    loaded = pretrained.load(written(tmp_path, "glove.txt", lines(["the", "Fox"], VECTORS[:2])))
    assert tokenizer_of(loaded).lower_case is False, "as there is a capital letter"
    ids = tokenizer_of(loaded)(["the Fox fox"]).to_list()
    assert ids == [[5, 6, 1]]
    inputs = {"token_ids": np.array([[2, *ids[0], 3]], np.int32), "lengths": np.int32([5])}
    tokens = loaded.model(inputs)["tokens"][0].numpy()
    np.testing.assert_allclose(tokens[1:4], [*VECTORS[:2], VECTORS[:2].mean(0)], atol=1e-6)


DAMAGED = {
    "short.txt": (lines() + b"wolf 1.0 2.0\n", "Line 11 of .* has 2 numbers after a word; expected 4"),
    "words.txt": (lines() + b"wolf 1.0 2.0 x 3.0\n", "Line 11 of .* has something other than numbers after b'wolf'"),
    "nan.vec": (HEADER + lines(WORDS[:-1], VECTORS[:-1]) + b"a 1 2 nan 4\n", "Line 11 of .* number that is not finite"),
    "large.txt": (lines() + b"a 1 2 1e39 4\n", "Line 11 of .* number that is not finite"),
    "latin.txt": (lines() + b"\xfcber 1 2 3 4\n", r"Line 11 of .* begins with b'\\xfcber', which is not UTF-8"),
    "fewer.vec": (b"99 4\n" + lines(), "has 10 words; its first line promises 99"),
    "cut.bin": (HEADER + binary()[:-9], "Word 10 of .* is cut short"),
    "cut.vec.gz": (gzip.compress(HEADER + lines() * 50)[:-40], "is not a whole .gz file"),
    "none.txt": (b"New_York 1 2\n", "no word that a text can contain"),
    "zero.vec": (b"3 0\n", "3 words of 0 numbers"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_one_sentence_with_the_line(name, tmp_path):
    data, message = DAMAGED[name]
    with pytest.raises(UserError, match=message):
        word_vectors.read(written(tmp_path, name, data))


def test_a_file_too_large_for_the_machine_is_refused_before_it_is_read(tmp_path, with_memory):
    with_memory(1 << 20)
    with pytest.raises(UserError, match="this machine has 0.0 GiB"):
        word_vectors.read(written(tmp_path, "huge.vec", b"3000000 300\n"))


def test_other_text_files_are_not_recognized(tmp_path):
    for name, data in {
        "vocab.txt": b"[PAD]\n[UNK]\n",
        "a.txt": b"",
        "b.txt": b"see 3 4 x\n",
        "c.json": lines(),
    }.items():
        assert not word_vectors.recognizes(written(tmp_path, name, data))
