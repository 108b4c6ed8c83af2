"""Tagging words: rows and their labels, learning, predictions for a split, prediction files."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tagging_cases import CONFIG, FILE, TAG_SET, TOKENIZER, model_of, predicted_by, task_of

from bert_tf.data import conll_files, tag_schemes
from bert_tf.data.joined_words import join_words
from bert_tf.data.tag_schemes import TagSet
from bert_tf.errors import UserError
from bert_tf.heads.tags.tag_rows import TagRows
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.heads.tags.tagging import Tagging
from bert_tf.training import distribute
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.train_step import TrainStep


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("tagging") / "some.txt"
    path.write_text(FILE)
    return str(path)


@pytest.fixture(scope="module")
def predicted(path):
    return predicted_by(task_of(path))


def shown(task, batches):
    """{row number: (its tokens, the tokens that are predicted with their labels)} of batches."""
    rows = {}
    for batch in batches:
        assert all(x.shape.is_fully_defined() for x in batch.values())
        for row, number in enumerate(batch["row_numbers"].numpy()):
            labels = batch["labels"][row].numpy()
            if not number:
                assert (labels == -1).all()
                continue
            tokens = [token.decode() for token in TOKENIZER.ids_to_tokens(batch["token_ids"][row]).numpy()]
            predicted = [f"{tokens[i]} {TAG_SET.labels[labels[i]]}" for i in np.flatnonzero(labels >= 0)]
            rows[int(number)] = " ".join(tokens[: batch["lengths"][row]]), ", ".join(predicted)
    return rows


def test_first_tokens_are_predicted_once_with_most_context(path):
    assert shown(task_of(path), task_of(path).eval_batches(4, "dev")) == {
        1: (
            "[CLS] the fox saw jo ##ann ##a from paris . [SEP]",
            "the O, fox O, saw O, jo B-PER, from O, paris B-LOC, . O",
        ),
        2: ("[CLS] new york met jo [UNK] [SEP]", "new B-LOC, york I-LOC, met O, jo B-PER, [UNK] B-PER"),
        3: (
            "[CLS] we saw new york in the new paris , [UNK] [SEP]",
            "we O, saw O, new B-LOC, york I-LOC, in O, the O, new B-LOC",
        ),
        4: ("[CLS] in the new paris , [UNK] the fox from york [SEP]", "paris I-LOC, , O, [UNK] O, the O"),
        5: ("[CLS] , [UNK] the fox from york saw jo - [UNK] [SEP]", "fox O, from O, york B-LOC"),
        6: ("[CLS] [UNK] the fox from york saw jo - [UNK] . [SEP]", "saw O, jo B-PER, . O"),
        7: ("[CLS] 科 技 [SEP]", "科 B-LOC, 技 I-LOC"),
    }


def test_any_label_of_a_long_sentence_changes_the_fingerprint(tmp_path):
    file, fingerprints = tmp_path / "long.txt", set()
    for place in (0, 550, 1099):
        file.write_text("".join(f"fox {'B-PER' if word == place else 'O'}\n" for word in range(1100)))
        fingerprints.add(task_of(str(file)).split("dev").fingerprint)
    assert len(fingerprints) == 3


def test_document_context_fills_rows_and_predicts_own_sentence_only(path):
    rows = shown(task_of(path), task_of(path, context=True).eval_batches(4, "dev"))
    assert rows[1] == (
        "[CLS] the fox saw jo ##ann ##a from paris . new [SEP]",
        "the O, fox O, saw O, jo B-PER, from O, paris B-LOC, . O",
    )
    assert rows[2] == (
        "[CLS] paris . new york met jo [UNK] we saw new [SEP]",
        "new B-LOC, york I-LOC, met O, jo B-PER, [UNK] B-PER",
    )
    assert rows[7] == ("[CLS] 科 技 [SEP]", "科 B-LOC, 技 I-LOC"), "another document is not looked at"


@pytest.mark.parametrize("seed", range(12))
def test_every_token_is_covered_by_its_best_row(seed):
    draw = np.random.default_rng(seed)
    length = int(draw.integers(4, 14))
    windows = TagWindows(max_seq_length=length, stride=int(draw.integers(1, length - 1)))
    ends = np.cumsum(draw.integers(0, 30, 5))
    starts = np.append(0, ends[:-1])
    owners = np.repeat(np.arange(5), ends - starts)
    plan = windows.plan(*(tf.constant(x, tf.int32) for x in (np.append(0, ends), owners, range(ends[-1]))))
    firsts, sizes, best, positions = (x.numpy() for x in plan)
    assert (firsts[best] + positions - 1 == range(ends[-1])).all()
    rows = np.searchsorted(ends, firsts, "right")
    assert (sizes <= length - 2).all() and (firsts >= starts[rows]).all() and (firsts + sizes <= ends[rows]).all()
    for token, owner in enumerate(owners):
        room = {
            row: min(token - firsts[row], firsts[row] + sizes[row] - 1 - token) for row in np.flatnonzero(rows == owner)
        }
        assert best[token] == max(room, key=room.get) and room[best[token]] >= 0


@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_every_word_has_the_row_with_most_context(seed, context, tmp_path):
    draw = np.random.default_rng(seed)
    sizes, ends_document, room = draw.integers(1, 14, 15), draw.random(15) < 0.2, int(draw.integers(3, 12))
    texts = [
        "fox O\n" * size + "\n" + "-DOCSTART- O\n\n" * int(ends)
        for size, ends in zip(sizes, ends_document, strict=True)
    ]
    file = tmp_path / "random.txt"
    file.write_text("-DOCSTART- O\n\n" + "".join(texts))
    windows = TagWindows(max_seq_length=room + 2, stride=int(draw.integers(1, room + 1)), document_context=context)
    split = TagRows(conll_files.ConllFile(str(file), conll_files.ColumnLayout()), TAG_SET, TOKENIZER, windows)
    begins = np.cumsum(sizes) - sizes
    documents = np.cumsum(ends_document) - ends_document
    for word, (row, position) in enumerate(zip(split.rows, split.positions, strict=True)):
        first, size, owner = split.firsts[row], split.sizes[row], split.owners[word]
        assert first + position - 1 == word and 1 <= position <= size <= room
        begin, length = begins[owner], sizes[owner]
        if length > room:  # windows of the sentence, which a word's row fills completely
            starts = [min(start, length - room) for start in range(0, length - room + windows.stride, windows.stride)]
            around = [min(word - begin - start, start + room - 1 - word + begin) for start in starts]
            assert size == room and first == begin + starts[around.index(max(around))]
            continue
        own = np.flatnonzero(
            np.isin(split.owners, np.flatnonzero(documents == documents[owner]) if context else [owner])
        )
        assert size == min(len(own), room) and own[0] <= first and first + size - 1 <= own[-1]
        before, after = begin - first, first + size - begin - length
        is_centered = abs(before - after) <= 1 or first == own[0] or first + size - 1 == own[-1]
        assert min(before, after) >= 0 and is_centered


@pytest.mark.slow
def test_training_learns_tags_in_sixty_steps(path):
    task, strategy = task_of(path), distribute.create_strategy("one_device")
    with strategy.scope():
        model = model_of(task, strategy)
        learner = TrainStep(task, model, CONFIG, strategy)
    evaluate = Evaluator(task, model, CONFIG, strategy)
    before = evaluate()
    for batch in task.train_batches(4, 3).take(60):
        learner.step(batch)
    after = evaluate()
    assert after["loss"] < 0.1 * before["loss"] and after["f1"] == 1.0 > before["f1"] > 0
    predictions = evaluate.predictions["dev"]
    table = task.head.training.details(predictions, task.split("dev"))
    assert [(row["label"], row["count"]) for row in table["per_class"]] == [("LOC", 6), ("PER", 4)]
    assert table["hardest"] == [], "nothing is wrong"
    labels, predicted = task.head.compare(predictions, task.split("dev"))
    assert len(labels) == len(predicted) == 33 and predicted[5] == predicted[30] == 0, "no token: O"
    assert after["accuracy"] == pytest.approx(np.delete(labels == predicted, [5, 30]).mean())


@pytest.mark.slow
def test_two_replicas_tag_like_one_and_partial_rows_give_whole_sentences(path, predicted):
    mirrored = distribute.create_strategy("mirrored", num_logical_devices=2)
    rows, predictions = predicted
    assert [[e["label"] for e in row["entities"]] for row in predicted_by(task_of(path), mirrored)[0]] == [
        [e["label"] for e in row["entities"]] for row in rows
    ]
    part = {name: x[:4] for name, x in predictions.items()}
    task = task_of(path)
    assert (
        task.head.sentence_predictions(part, task.split("dev")) == rows[:2]
        and len(task.head.compare(part, task.split("dev"))[0]) == 13
    )


def test_predictions_add_a_column_and_entities_are_text_slices(path, predicted, tmp_path):
    task, (expected, predictions) = task_of(path), predicted
    lines = task.write_predictions(str(tmp_path), "test", predictions)
    assert lines[0] == f"Wrote 5 predictions to {tmp_path / 'predictions.txt'}; their scores:" and len(lines) == 4
    written = (tmp_path / "predictions.txt").read_text().splitlines()
    assert [line.rpartition(" ")[0] or line for line in written] == FILE.splitlines()
    again = conll_files.ConllFile(str(tmp_path / "predictions.txt"), conll_files.ColumnLayout(scheme="iob2"))
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert rows == expected and [row["text"] for row in rows[1:]][0::3] == ["New York met Jo Anna", "科技"]
    for row, sentence in zip(rows, again.sentences, strict=True):
        _, word_spans = join_words(sentence.words)
        spans = tag_schemes.tags_to_spans(sentence.tags)
        spans = [(kind, word_spans[a][0], word_spans[b - 1][1]) for kind, a, b in spans]
        assert [(e["label"], e["start"], e["end"]) for e in row["entities"]] == spans
        assert all(row["text"][e["start"] : e["end"]] == e["text"] for e in row["entities"] + row["truth"])


def test_hardest_sentences_name_missed_and_spurious_entities(path):
    task = task_of(path)
    split = task.split("dev")
    labels, has_token = np.zeros((split.count, 12), np.float32), split.rows >= 0
    labels[split.rows[has_token], split.positions[has_token]] = split.word_labels[has_token]
    labels[split.rows[-1], split.positions[-1]] = 0  # the second word of 科技 is O
    predictions = {"labels": labels, "probabilities": np.ones_like(labels), "row_numbers": np.arange(split.count)}
    (row,) = task.head.training.details(predictions, task.split("dev"))["hardest"]
    entities = [[e["text"] for e in row.pop(name)] for name in ("true_entities", "entities")]
    assert row == {"id": "4", "text": "科技", "label": "科 LOC", "truth": "科技 LOC", "wrong": 2}
    assert entities == [["科技"], ["科"]]


def test_invalid_input_is_refused_in_one_sentence(path, tmp_path):
    (tmp_path / "dev.txt").write_text("Jo B-PER\n\nEU O\nEU B-ORG\n")
    with pytest.raises(
        UserError, match=r"In line 4 of .*dev.txt the tag is 'B-ORG'; expected O or one of .*: LOC, PER"
    ):
        task_of(str(tmp_path / "dev.txt")).split("dev")
    (tmp_path / "none.txt").write_text("\u200b O\n")
    with pytest.raises(UserError, match="has no word that the vocabulary covers"):
        task_of(str(tmp_path / "none.txt")).split("dev")
    with pytest.raises(UserError, match="doc_stride is 11; expected 1 to 10"):
        task_of(path, stride=11)


def test_quick_model_gives_each_word_its_most_frequent_tag(path, tmp_path):
    (tmp_path / "train.txt").write_text("NEW B-LOC\n\nnew O\n\nNew B-LOC\nYork I-LOC\n\nAnn B-PER\n")
    (tmp_path / "dev.txt").write_text("new B-LOC\nyork I-LOC\nmet O\nAnn B-LOC\n")
    train, held_out = (task_of(str(tmp_path / f"{name}.txt")).split("dev") for name in ("train", "dev"))
    (scores,) = task_of(path).head.quick_scores(train, held_out).values()
    assert scores == {"f1": 0.5, "precision": 0.5, "recall": 0.5}


@pytest.mark.parametrize(
    "count, tagged, expected",
    [
        (150, 0, "none of 400 words is tagged as part of an entity; 150 are"),
        (150, 1, "only 1 of 400 words is tagged as part of an entity; 150 are"),
        (150, 2, "only 2 of 400 words are tagged as part of an entity; 150 are"),
        (150, 3, None),
        (0, 0, None),
    ],
)
def test_a_tagger_that_answers_o_everywhere_is_named(count, tagged, expected, monkeypatch):
    head = Tagging(TagSet.of_types(["PER"], "iob2"), TagWindows(max_seq_length=8, stride=4))
    labels = np.where(np.arange(400) < count, 1, 0)
    predicted = np.where(np.arange(400) >= 400 - tagged, 2, 0)
    monkeypatch.setattr(head, "compare", lambda predictions, split: (labels, predicted))
    assert head.collapse({}, None) == expected
