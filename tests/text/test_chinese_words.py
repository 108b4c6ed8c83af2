"""Chinese words for whole word masking: found among ids, in records of any engine, and masked whole."""

import importlib.metadata
import sys
import types

import faults
import numpy as np
import pytest
import tiny

from bert_tf.config.train_config import MaskingConfig
from bert_tf.data.pretraining.records import RecordOptions, prepare
from bert_tf.data.pretraining.workers import IN_THIS_PROCESS
from bert_tf.errors import UserError
from bert_tf.tasks.pretraining.pretraining_task import PretrainingTask
from bert_tf.text import record_tokenizer
from bert_tf.text.tokenizer import Tokenizer

WORDS = {"科技", "北京大学", "我们"}
PIECES = [*tiny.SPECIAL, *"科技北京大学我们爱", "we", "##s", ",", "。"]


def cut(text):
    """Words of at most four characters, the longest first: what jieba does with a dictionary of WORDS."""
    while text:
        word = next((text[:size] for size in (4, 3, 2) if text[:size] in WORDS), text[0])
        yield word
        text = text[len(word) :]


@pytest.fixture
def jieba(monkeypatch):
    fake = types.SimpleNamespace(setLogLevel=lambda level: None, Tokenizer=lambda: types.SimpleNamespace(cut=cut))
    monkeypatch.setitem(sys.modules, "jieba", fake)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.42.1")


def test_words_are_found_within_runs_of_ideographs_of_a_sentence(jieba):
    tokenizer = record_tokenizer.create(PIECES, True, (), True)
    texts = ["我们爱北京大学, wes科技。", "", "we", "科技科", "\u200b", "中科技x北京", "北京", "大学"]
    ids, counts = tokenizer(texts)
    marks = tokenizer.words(ids, np.concatenate([[0], np.cumsum(counts[counts > 0])]))
    expected = ".+ . .+++ . . . .+ . | . | .+. | . .+ . .. | .. | ..".replace(" ", "").replace("|", "")
    assert "".join("+" if mark else "." for mark in marks) == expected
    assert not len(tokenizer.words(ids[:0], np.zeros(1, np.int64)))


def test_missing_segmenter_and_other_vocabularies_are_refused():
    missing = importlib.metadata.PackageNotFoundError("jieba")
    with (
        faults.on_call(importlib.metadata, "version", missing),
        pytest.raises(UserError, match=r'needs jieba, which is not installed: pip install "bert-tf\[chinese\]"'),
    ):
        record_tokenizer.create(PIECES, True, (), True)


@pytest.fixture
def text(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    documents = ["我们爱北京大学, wes科技。\n科技我们。\n北京大学科技, 爱。\n"] * 12
    (tmp_path / "zh.txt").write_text("\n".join(documents), encoding="utf-8")
    return tmp_path


def records(folder, name, chinese_word_segmentation=True, **settings):
    options = RecordOptions(
        vocab_file=str(folder / "vocab.txt"),
        max_seq_length=24,
        dupe_factor=1,
        chinese_word_segmentation=chinese_word_segmentation,
    )
    return prepare(folder / name, options, input_file=str(folder / "zh.txt"), **settings)


def test_masked_words_are_whole_and_tokens_stay_characters(jieba, text):
    tokenizer = Tokenizer(PIECES)
    manifest = records(text, "marked", num_workers=IN_THIS_PROCESS)
    plain = records(text, "plain", chinese_word_segmentation=False, num_workers=IN_THIS_PROCESS)
    for split, larger in manifest["statistics"].items():
        assert larger.pop("bytes") > plain["statistics"][split].pop("bytes")
    assert manifest["statistics"] == plain["statistics"]
    masking = MaskingConfig(do_whole_word_mask=True, masked_lm_prob=0.3, max_predictions_per_seq=8)
    task = PretrainingTask(manifest, tokenizer, masking)
    several = 0
    for batch in task.train_batches(4, 1).take(4):
        rows = batch["token_ids"].numpy()
        assert rows.max() < tokenizer.size
        for row, positions, ids, weights in zip(
            rows, *(batch[f"masked_lm_{name}"].numpy() for name in ("positions", "ids", "weights")), strict=True
        ):
            used = positions[weights > 0]
            row = row.copy()
            row[used] = ids[weights > 0]
            tokens = [PIECES[each] for each in row if each]
            begin = 0
            for word in cut("".join(token if len(token) == 1 else "x" for token in tokens)):
                inside = set(range(begin, begin + len(word))) & set(used.tolist())
                assert len(inside) in (0, len(word)), (word, tokens, used)
                several += len(inside) > 1
                begin += len(word)
    assert several > 3
    with pytest.raises(UserError, match="different chinese_word_segmentation"):
        records(text, "marked", chinese_word_segmentation=False, num_workers=IN_THIS_PROCESS)
    manifest = text / "marked" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("jieba 0.42.1: word_continuations", "jieba 0.42.1"))
    with pytest.raises(
        UserError, match="of an earlier version, which marked Chinese words by different ids; delete it"
    ):
        records(text, "marked", num_workers=IN_THIS_PROCESS)


def test_beam_makes_the_same_records(jieba, text):
    pytest.importorskip("apache_beam", reason="pip install 'bert-tf[beam]'")
    made = {"local": {"num_workers": IN_THIS_PROCESS}, "beam": {"runner": "DirectRunner"}}
    for name, settings in made.items():
        records(text, name, **settings)
    local, beam = ({path.name: path.read_bytes() for path in (text / name).iterdir()} for name in made)
    assert local == beam
