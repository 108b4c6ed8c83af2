"""Text to record shards: the same bytes by any way, resuming after an interruption, and errors of users."""

import concurrent.futures
import json
import os
import random
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import faults
import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.data.pretraining import buckets, duplicates, stages, workers
from bert_tf.data.pretraining.pairs import FlatDocuments
from bert_tf.data.pretraining.record_input import read_records
from bert_tf.data.pretraining.records import RecordOptions, describe, open_records, prepare
from bert_tf.data.pretraining.statistics import find_problems
from bert_tf.data.pretraining.workers import IN_THIS_PROCESS
from bert_tf.errors import MachineError, UserError
from bert_tf.runtime import folder_lock

WORDS = ["rain", "gold", "star", "he", "left", "rose", "cold", "fire", "pool", "road", "##s", "##ed", ".", "!", ","]


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join([*tiny.SPECIAL, *WORDS]) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """200 documents of 1 to 12 sentences, one per line."""
    generator = random.Random(0)
    folder = tmp_path_factory.mktemp("text")
    documents = []
    for number in range(200):
        sentences = [f"star {number} " * (line == 0) + sentence(generator) for line in range(generator.randint(1, 12))]
        documents.append("\n".join(sentences) + "\n")
    (folder / "a.txt").write_text("\n".join(documents[:120]))
    (folder / "b.txt").write_text("\n".join(documents[120:]))
    return str(folder)


def sentence(generator):
    return " ".join(generator.choices(WORDS[:10], k=generator.randint(2, 9))).capitalize() + "."


@pytest.fixture
def make(tmp_path, vocab_file, text):
    """Prepares records in a folder of the test, by default of the text; other options by name."""

    def make(name="r", input_file=text, eval_file="", num_workers=IN_THIS_PROCESS, accept_cleaned=False, **changes):
        options = RecordOptions(**{"vocab_file": vocab_file, "max_seq_length": 32, "dupe_factor": 2} | changes)
        call = {"input_file": input_file, "eval_file": eval_file, "num_workers": num_workers}
        return prepare(tmp_path / name, options, **call, accept_cleaned=accept_cleaned)

    return make


def shard_bytes(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.name != "manifest.json"}


def parse(files):
    """Parsed by TensorFlow's own reader: list of dicts of lists."""
    records = []
    for serialized in tf.data.TFRecordDataset(files):
        features = tf.train.Example.FromString(serialized.numpy()).features.feature
        records.append({name: list(feature.int64_list.value) for name, feature in features.items()})
    return records


def test_records_have_the_documented_format(make):
    manifest = make()
    records = parse(manifest["train_files"])
    statistics = manifest["statistics"]["train"]
    assert len(records) == statistics["instances"] > 300
    for record in records:
        ids, (second,) = record["token_ids"], record["second_start"]
        assert len(ids) <= 32 and ids[0] == 2 and ids[second - 1] == 3 and ids[-1] == 3
        assert ids.count(3) == 2 and 0 not in ids
    labels = [record["next_sentence_label"][0] for record in records]
    assert sum(labels) == statistics["random_next"] > len(records) / 2
    every = records + parse(manifest["eval_files"])
    assert len({record["record_id"][0] for record in every}) == len(every)
    assert np.mean([len(record["token_ids"]) for record in records]) == pytest.approx(statistics["mean_length"])


def test_statistics_and_token_counts_describe_the_text(tmp_path, make):
    manifest = make()
    train, held_out = (manifest["statistics"][split] for split in ("train", "eval"))
    counts = np.load(tmp_path / "r" / "token_counts.npy")
    assert counts.sum() == train["tokens"] and counts[1] == train["unknown"]
    assert train["documents"] + held_out["documents"] == 200 and 4 <= held_out["documents"] <= 18
    assert counts[7] >= train["documents"]  # "star" begins each document
    assert train["layouts"] == {"sentences": 2}
    table = describe(manifest["statistics"])
    assert f"{train['instances']:,}" in table and "2 files: a sentence in each line" in table
    assert "random next" in table and "random next" not in describe(manifest["statistics"], nsp=False)
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert manifest["wanted"]["train_input"][0].startswith("a.txt ") and str(tmp_path) not in json.dumps(manifest)
    names = ["eval-00000-of-00001.tfrecord", "manifest.json", "token_counts.npy", "train-00000-of-00001.tfrecord"]
    assert sorted(os.listdir(tmp_path / "r")) == names


def test_held_out_documents_are_not_in_training(make, vocab_file, text, small_parts):
    tokens = [*(str(digit) for digit in range(10)), *(f"##{digit}" for digit in range(10))]
    digits = Path(vocab_file).with_name("digits.txt")
    digits.write_text(Path(vocab_file).read_text() + "\n".join(tokens) + "\n")
    manifest = make(vocab_file=str(digits), max_seq_length=512)  # nothing is truncated

    def documents(files):
        firsts = set()
        for record in parse(files):
            text = " ".join(tokens[i - 20] if i >= 20 else "|" for i in record["token_ids"]).replace(" ##", "")
            firsts |= set(text.replace("|", "").split())
        return firsts

    train, held_out = documents(manifest["train_files"]), documents(manifest["eval_files"])
    assert len(train) > 100 and held_out and not train & held_out


def test_records_do_not_depend_on_number_of_workers(tmp_path, make, small_parts):
    make("here")
    manifest = make("two", num_workers=2)
    assert len(manifest["train_files"]) > 3
    assert shard_bytes(tmp_path / "here") == shard_bytes(tmp_path / "two")


def test_compressed_shards_hold_the_same_records(make):
    plain = make("plain")
    packed = make("packed", compress=True)
    assert packed["train_files"][0].endswith(".tfrecord.gz")
    assert list(read_records(packed["train_files"])) == list(read_records(plain["train_files"]))


def test_each_pass_and_each_seed_makes_different_pairs(make):
    manifest = make()
    instances = [tuple(record["token_ids"]) for record in parse(manifest["train_files"])]
    assert len(set(instances)) > 0.8 * len(instances)
    single = make("once", dupe_factor=1)
    other = make("seed", random_seed=1)
    assert parse(other["train_files"])[:20] != parse(manifest["train_files"])[:20]
    assert 0.4 < single["statistics"]["train"]["instances"] / len(instances) < 0.6


def test_interrupted_preparation_continues_with_missing_shards(tmp_path, make, small_parts):
    make("whole")
    written = []

    def interrupted(work, *arguments):
        if len(written) == 2:
            Path(work, "train-00003.123.partial").write_bytes(b"half")
            raise KeyboardInterrupt
        written.append(arguments[-2])

    with faults.on_call(workers, "write_shard", interrupted), pytest.raises(KeyboardInterrupt):
        make()
    with pytest.raises(UserError, match="manifest.json cannot be read .*: expected records"):
        open_records(tmp_path / "r")
    before = {path: os.stat(path).st_mtime_ns for path in written}
    with faults.on_call(workers, "write_part", AssertionError("All parts are written.")):
        make()
    assert {path: os.stat(path).st_mtime_ns for path in written} == before
    assert shard_bytes(tmp_path / "r") == shard_bytes(tmp_path / "whole")


def test_finished_records_are_reused_and_work_files_removed(tmp_path, make):
    first = make()
    for name in ("work/train-00000.jsonl", "options.json"):  # a call was killed right after it wrote the manifest
        (tmp_path / "r" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "r" / name).touch()
    with faults.on_call(workers, "write_shard", AssertionError("All shards are written.")):
        assert make() == first
    assert not {"work", "options.json"} & set(os.listdir(tmp_path / "r"))


def test_second_process_waits_for_the_first(tmp_path, make, capsys):
    pytest.importorskip("fcntl", reason="locks of folders are those of POSIX")
    folder = tmp_path / "r"
    folder.mkdir()
    lock, manifests = folder_lock.acquire(folder), []
    waiting = threading.Thread(target=lambda: manifests.append(make()))
    waiting.start()
    output = ""
    while "Waiting for another process" not in output:
        output += capsys.readouterr().out
        time.sleep(0.01)
    assert waiting.is_alive() and not list(folder.iterdir())
    lock.release()
    waiting.join()
    assert manifests[0]["train_files"] and make() == manifests[0]


@pytest.mark.slow
def test_changed_options_or_text_are_named(make, text):
    make()
    with pytest.raises(UserError, match=r"different dupe_factor \(2 -> 3\)"):
        make(dupe_factor=3)
    make("cleaned", duplicates="documents")
    make("cleaned", accept_cleaned=True)
    with pytest.raises(UserError, match=r"different duplicates \(documents -> None\)"):
        make("cleaned")
    with pytest.raises(UserError, match=r"different input_file \(2 files -> 1 file\)"):
        make(input_file=text + "/a.txt")
    with pytest.raises(UserError, match="different input_file"):
        make(input_file="")


def test_truncated_and_missing_shards_are_named(tmp_path, make):
    manifest = make()
    (path,) = manifest["train_files"]
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[:-7])
    with pytest.raises(UserError, match=rf"{path} has {len(content) - 7} bytes, not {len(content)}"):
        open_records(tmp_path / "r")
    os.remove(path)
    with pytest.raises(UserError, match=f"{path} is missing"):
        make()


def test_eval_file_is_used(make, text):
    manifest = make(input_file=text + "/a.txt", eval_file=text + "/b.txt")
    assert manifest["statistics"]["train"]["documents"] == 120
    assert manifest["statistics"]["eval"]["documents"] == 80


def test_held_out_text_without_tokens_is_refused(tmp_path, make, text):
    (tmp_path / "blank.txt").write_text("\u200b\n", encoding="utf-8")
    with pytest.raises(UserError, match="eval_file has no text that the vocabulary can split into tokens"):
        make(input_file=text + "/a.txt", eval_file=tmp_path / "blank.txt")


@pytest.mark.parametrize(
    "changes, warns",
    [
        ({}, True),
        ({"sentences": 19_725}, False),
        ({"instances": 199}, False),
        ({"instances": 200}, True),
        ({"random_next_share": 0.55}, False),
    ],
)
def test_paragraphs_that_are_taken_for_documents_are_warned_of(changes, warns):
    train = {"documents": 507, "sentences": 1500, "instances": 2000, "random_next_share": 0.68}
    train |= {"single_document_buckets": 0, "unknown_rate": 0.0, "duplicate_sentences": 0} | changes
    warnings = find_problems({"train": train}, nsp=True, evaluates_on_training_text=False)
    assert bool(warnings) == warns and all("--text_layout=files" in warning for warning in warnings)


def test_single_document_is_evaluated_on_itself_with_warnings(tmp_path, make):
    (tmp_path / "a.txt").write_text("He left. Gold. Cold rain. A fire.\n")
    manifest = make(input_file=tmp_path / "a.txt")
    assert manifest["statistics"]["eval"]["documents"] == manifest["statistics"]["train"]["documents"] == 1
    assert any("no true random next" in warning for warning in manifest["warnings"])
    assert any("evaluation uses the training text" in warning for warning in manifest["warnings"])


def test_one_of_two_documents_is_held_out(tmp_path, make):
    (tmp_path / "a.txt").write_text("He left.\nGold.\n\nCold rain.\nThe fire.\nHe rose.\n")
    manifest = make(input_file=tmp_path / "a.txt")
    assert [manifest["statistics"][split]["documents"] for split in ("train", "eval")] == [1, 1]


def test_duplicates_and_unknown_tokens_give_warnings(tmp_path, make):
    (tmp_path / "a.txt").write_text(("He left.\nGold.\n\n" + "Xylophone zebra.\nUnknown rain.\n\n") * 5)
    manifest = make(input_file=tmp_path / "a.txt", eval_fraction=0.0)
    assert manifest["statistics"]["train"]["duplicate_sentences"] == 16
    assert manifest["eval_files"] == []
    assert len(manifest["warnings"]) == 2


def test_documents_of_one_sentence_give_a_warning_with_the_flag_that_joins_them(tmp_path, make):
    generator = random.Random(0)
    (tmp_path / "a.txt").write_text("\n\n".join(sentence(generator) for _ in range(250)))
    assert any("--text_layout=files" in warning for warning in make(input_file=tmp_path / "a.txt")["warnings"])
    assert make("all", input_file=tmp_path / "a.txt", text_layout="files")["warnings"][0].startswith("1 training shard")


def test_without_pairs_a_record_is_one_segment(make, text):
    manifest = make(nsp=False)
    records = parse(manifest["train_files"])
    for record in records:
        assert record["token_ids"].count(3) == 1 and record["token_ids"][-1] == 3
        assert record["second_start"] == [len(record["token_ids"])] and record["next_sentence_label"] == [0]
    tokens = sum(len(record["token_ids"]) - 2 for record in records)
    assert tokens == 2 * manifest["statistics"]["train"]["tokens"]  # each of the two passes holds the whole text


@pytest.mark.parametrize("content", ["", "\n\n \n"])
def test_empty_input_is_refused_and_leaves_no_files(tmp_path, make, content):
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(UserError, match="contains no text"):
        make(input_file=tmp_path / "a.txt")
    assert list((tmp_path / "r").iterdir()) == []


@pytest.mark.parametrize(
    "changes", [{"max_seq_length": 4}, {"short_seq_prob": 1.5}, {"dupe_factor": 0}, {"eval_fraction": 1.0}]
)
def test_invalid_options_are_named(make, changes):
    (name,) = changes
    with pytest.raises(UserError, match=f"{name}={changes[name]}; expected"):
        make(**changes)


def test_failing_worker_is_one_clear_error(make):
    message = r"Writing records in .* failed .no space on the disk: .*No space left on device.*; finished shards"
    full = OSError(28, "No space left on device")
    with faults.on_call(concurrent.futures.Future, "result", full), pytest.raises(MachineError, match=message):
        make(num_workers=1)


def test_sentence_hashes_depend_on_order_and_length():
    ids = np.array([5, 6, 6, 5, 5, 6, 5, 0], np.int32)
    a, b, c, d = duplicates.sentence_hashes(ids, np.array([2, 2, 2, 2]))
    assert a == c and len({int(a), int(b), int(d)}) == 3
    assert len(duplicates.sentence_hashes(ids[:0], np.array([], np.int64))) == 0


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) + 1])
def test_packed_documents_keep_the_last_id_of_a_vocabulary(size):
    ids = np.array([0, size - 1], np.int32)
    documents = FlatDocuments(ids, buckets.starts([2]), buckets.starts([1]))
    numbered = buckets.NumberedDocuments(np.array([7]), documents)
    bytes_per_id = stages.id_bytes(SimpleNamespace(size=size))
    ((_, piece),) = buckets.pack_buckets(numbered, np.array([0]), bytes_per_id)
    assert buckets.unpack([piece]).documents.ids.tolist() == [0, size - 1]
    assert bytes_per_id == (2 if size <= 65536 else 4)
