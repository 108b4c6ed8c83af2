"""Tagging: the head that labels each word of a sentence: named entities, chunks, parts of speech.

B rows of a batch, T positions in a row, C labels, N words of a split, R rows of a split.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from bert_tf.config.bert_config import BertConfig
from bert_tf.data import tag_schemes
from bert_tf.data.conll_files import ColumnLayout, ConllFile, Sentence
from bert_tf.data.examples import Example
from bert_tf.data.joined_words import join_words
from bert_tf.data.tag_schemes import TagSet
from bert_tf.errors import UserError, count_text
from bert_tf.heads.base import prediction_files
from bert_tf.heads.base.training import Training, model_heads
from bert_tf.heads.tags import Tags, entity_scores, tag_serving
from bert_tf.heads.tags.decoding import decode
from bert_tf.heads.tags.tag_rows import UNKNOWN, TagRows, entities_in_text, format_entities, label_numbers
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.runtime.atomic_files import write_lines
from bert_tf.runtime.lazy import keras, module, tf
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training.task import Batch, Objective, Predictions

crf_layer = module("bert_tf.model.crf")
Item = tuple[Sentence, Sequence[int]]
FEWEST_TAGGED = 0.02  # share of entity words; a model that tags fewer has learned nothing but O
HARDEST = 12  # sentences shown with their errors


class Tagging(Tags):
    """A dense layer on the first token of each word (Devlin et al. 2018, section 5.3), with or without a CRF.

    Args:
        tag_set: the tags to learn.
        windows: how sentences become rows.
        crf: whether the labels of a sentence are a chain, see `model.crf`. The words of a row are a part of it.
    """

    criterion = "f1"
    scored_with: ClassVar[tuple[str, ...]] = ("seqeval",)
    objectives = {"tag_loss": Objective()}

    def __init__(self, tag_set: TagSet, windows: TagWindows, *, crf: bool = False) -> None:
        self.tag_set, self.windows, self.crf = tag_set, windows, crf
        self.labels, self.size, self.max_seq_length = tag_set.labels, len(tag_set.labels), windows.max_seq_length

    # Training and scores

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """1.0 at positions that have a label, [B, T]."""
        return {"tag_loss": _has_label(batch)}

    def metrics(self, outputs: Any, batch: Batch) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """The cross entropy and the accuracy of all words; for a CRF the negative log likelihood of rows, per word."""
        if self.crf:
            return {"tag_loss": _sentence_losses(outputs, batch)}
        logits = outputs["logits"]  # [B, length of the longest row, C]
        length = tf.shape(logits)[1]
        labels, weights = batch["labels"][:, :length], _has_label(batch)[:, :length]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(labels, 0), logits)
        is_right = tf.cast(tf.equal(tf.argmax(logits, -1, tf.int32), labels), tf.float32)
        return {"tag_loss": (losses, weights), "accuracy": (is_right, weights)}

    def predictions(self, outputs: Any, batch: Batch) -> dict[str, tf.Tensor]:
        """The best label of each position, "labels", and its probability, "probabilities": float32 [B, T].

        For a CRF, whose sentences may span several rows, "logits" [B, T, C] and "potentials" [B, C + 2, C].
        """
        width = batch["labels"].shape[1]
        if self.crf:
            logits, potentials = outputs["logits"], outputs["potentials"]
            padded = tf.pad(logits, [[0, 0], [0, width - tf.shape(logits)[1]], [0, 0]])
            shape = [None, width, self.size]
            return {"logits": tf.ensure_shape(padded, shape), "potentials": potentials}
        probabilities = tf.nn.softmax(outputs["logits"])
        padding = [[0, 0], [0, width - tf.shape(probabilities)[1]]]
        best = {
            "labels": tf.cast(tf.argmax(probabilities, -1), tf.float32),
            "probabilities": tf.reduce_max(probabilities, -1),
        }
        return {name: tf.ensure_shape(tf.pad(x, padding), [None, width]) for name, x in best.items()}

    def scores(self, predictions: Predictions, split: TagRows) -> dict[str, float]:
        """{"f1", "precision", "recall"} of entities; for a CRF also "accuracy" of words."""
        if not split.is_known:
            return {}
        scores = entity_scores.scores(**self.tags_of(split, self.word_predictions(predictions, split)[0]))
        if self.crf:
            labels, predicted = self.compare(predictions, split)
            scores["accuracy"] = float(np.mean(labels == predicted)) if len(labels) else 0.0
        return scores

    def quick_scores(self, train: TagRows, held_out: TagRows) -> dict[str, dict[str, float]]:
        counts: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
        for word, number in zip(_words(train), train.word_labels.tolist(), strict=True):
            if number != UNKNOWN:
                counts[word][number] += 1
        usual = {word: each.most_common(1)[0][0] for word, each in counts.items()}
        guesses = np.array([usual.get(word, self.tag_set.outside) for word in _words(held_out)], np.int32)
        scores = entity_scores.scores(**self.tags_of(held_out, held_out.by_sentence(guesses)))
        return {"the most frequent tag of each word": scores}

    # Reports

    def compare(self, predictions: Predictions, split: TagRows) -> tuple[np.ndarray, np.ndarray]:
        """Labels and predicted labels of words, int32 [N] each."""
        predicted = np.concatenate([np.zeros(0, np.int32), *self.word_predictions(predictions, split)[0]])
        return split.word_labels[: len(predicted)], predicted

    def collapse(self, predictions: Predictions, split: TagRows) -> str | None:
        """See `Head`; also if hardly any word of an entity is tagged."""
        labels, predicted = self.compare(predictions, split)
        if self.tag_set.scheme == "plain":
            return super().collapse(predictions, split)
        true, found = (int((tags != self.tag_set.outside).sum()) for tags in (labels, predicted))
        if not true or found >= FEWEST_TAGGED * true:
            return None
        some = f"only {found:,} of {len(labels):,} words" if found else f"none of {len(labels):,} words"
        return f"{some} {'is' if found < 2 else 'are'} tagged as part of an entity; {true:,} are"

    def word_predictions(self, predictions: Predictions, split: TagRows) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Labels of words, as numbers, and their probabilities: arrays for the sentences predicted completely.

        A word without tokens is O with probability 1.
        """
        is_missing = split.rows >= len(predictions["row_numbers"])
        count = int(is_missing.argmax()) if is_missing.any() else len(is_missing)
        rows, positions = split.rows[:count], split.positions[:count]
        has_token = rows >= 0
        labels, probabilities = np.full(count, self.tag_set.outside, np.int32), np.ones(count, np.float32)
        if self.crf:
            best: Any = self._decoded(predictions, split, np.flatnonzero(has_token))
        else:
            best = tuple(predictions[name][rows, positions][has_token] for name in ("labels", "probabilities"))
        labels[has_token], probabilities[has_token] = best
        return split.by_sentence(labels), split.by_sentence(probabilities)

    def _decoded(self, predictions: Predictions, data: Any, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The labels of these words according to the CRF, and their probabilities, [len(words)] each."""
        if not len(words):
            return np.zeros(0, np.int32), np.zeros(0, np.float32)
        logits = predictions["logits"][data.rows[words], data.positions[words]]
        sentences = np.split(logits, np.flatnonzero(np.diff(data.owners[words])) + 1)
        found = [decode(self.tag_set, each, predictions["potentials"][0]) for each in sentences]
        labels = np.concatenate([each for each, _ in found])
        return labels, np.concatenate([shares for _, shares in found])[np.arange(len(labels)), labels]

    def sentence_predictions(self, predictions: Predictions, split: TagRows) -> list[dict[str, Any]]:
        """The predicted entities of each sentence: "id", "text", "entities" and, if known, "truth".

        An entity is {"text", "label", "start", "end", "score"}: characters of the text, and the mean probability of its
        words.
        """
        rows = []
        for number, (labels, probabilities) in enumerate(zip(*self.word_predictions(predictions, split), strict=True)):
            sentence, truth = split.items[number]
            text, word_spans = join_words(sentence.words)
            spans = self.tag_set.spans(labels)
            entities = entities_in_text(spans, text, word_spans)
            for entity, (_, first, end) in zip(entities, spans, strict=True):
                entity["score"] = round(float(probabilities[first:end].mean()), 6)
            row = {"id": str(number), "text": text, "entities": entities}
            if split.is_known:
                row["truth"] = entities_in_text(self.tag_set.spans(truth), text, word_spans)
            rows.append(row)
        return rows

    def tags_of(self, split: TagRows, predicted: Sequence[np.ndarray]) -> dict[str, Any]:
        """The arguments for `entity_scores.scores`; predicted: the labels of the words of the first sentences."""
        names = np.array(self.tag_set.tags, object)
        labels = split.by_sentence(split.word_labels)[: len(predicted)]
        return {
            "labels": [names[row].tolist() for row in labels],
            "predictions": [names[row].tolist() for row in predicted],
            "is_plain": self.tag_set.scheme == "plain",
        }

    # Exports

    @property
    def host_settings(self) -> dict[str, Any] | None:
        windows = {"max_seq_length": self.windows.max_seq_length, "stride": self.windows.stride}
        return {"stages": "tags", "windows": windows, "scheme": self.tag_set.scheme}


class TagTraining(Training):
    """Trains and exports a Tagging."""

    head: Tagging
    new_head_rate = 1e-3
    learns_in_steps = True
    file_flags = ("word_column", "tag_column", "tag_scheme", "position_digits")

    @classmethod
    def recorded(cls, kind: type[Tags], about: Mapping[str, Any], settings: Mapping[str, Any] | None) -> Tagging:
        if settings is not None:
            tag_set = TagSet(tuple(about["labels"]), settings["scheme"])
            return Tagging(tag_set, TagWindows(**settings["windows"]), crf=settings.get("crf", False))
        scheme = about.get("reads", {}).get("tag_scheme", "auto")
        return Tagging(TagSet.of(about["labels"], scheme), TagWindows(max_seq_length=128, stride=64))

    def rows_of(self, content: ConllFile, tokenizer: Tokenizer, *, is_trained: bool) -> TagRows:
        return TagRows(content, self.head.tag_set, tokenizer, self.head.windows, crf=self.head.crf)

    @property
    def label_bounds(self) -> tuple[int, int]:
        return UNKNOWN, self.head.size - 1

    def row_specs(self, tokenizer: Tokenizer) -> dict[str, tf.TensorSpec]:
        """The inputs of the model, and "labels"; for a CRF also whether a row begins and ends a sentence."""
        row, number = tf.TensorSpec([self.head.max_seq_length], tf.int32), tf.TensorSpec([], tf.int32)
        edges = {"begins": number, "ends": number} if self.head.crf else {}
        return {"token_ids": row, "segment_ids": row, "lengths": number, "labels": row, **edges}

    def details(self, predictions: Predictions, split: TagRows) -> dict[str, Any]:
        """{"per_class": scores of each type, "hardest": the sentences with the most missed and spurious entities}.

        In a sentence, "truth" lists missed entities, and "label" spurious ones; "true_entities" and "entities" are
        all true and predicted ones, as in `sentence_predictions`.
        """
        rows = []
        for row in self.head.sentence_predictions(predictions, split):
            missed, spurious = _without(row["truth"], row["entities"]), _without(row["entities"], row["truth"])
            names = {
                "label": format_entities(spurious) or "nothing",
                "truth": format_entities(missed) or "nothing else",
            }
            entities = {"true_entities": row["truth"], "entities": row["entities"]}
            rows.append(
                {"id": row["id"], "text": row["text"], **names, **entities, "wrong": len(missed) + len(spurious)}
            )
        rows = sorted((row for row in rows if row["wrong"]), key=lambda row: -row["wrong"])
        tags = self.head.tags_of(split, self.head.word_predictions(predictions, split)[0])
        return {"per_class": entity_scores.per_type(**tags), "hardest": rows[:HARDEST]}

    def write_predictions(
        self, folder: str, name: str, predictions: Predictions, split: TagRows, *, submission: str = ""
    ) -> list[str]:
        """See `Training`; if labels are known, the sentences include the scores.

        NAME.jsonl contains the entities of each sentence, and NAME.txt is the file with one more column: tags in the
        file's own scheme.
        """
        head, path = self.head, os.path.join(folder, f"{name}.txt")
        rows, labels = head.sentence_predictions(predictions, split), head.word_predictions(predictions, split)[0]
        write_lines(os.path.join(folder, f"{name}.jsonl"), map(prediction_files.json_line, rows))
        scheme = split.file.scheme or head.tag_set.scheme
        split.file.write(path, [tag_schemes.spans_to_tags(head.tag_set.spans(row), len(row), scheme) for row in labels])
        written = f"Wrote {count_text(len(rows), 'prediction')} to {path}"
        return prediction_files.described(written, head.scores(predictions, split))

    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        return model_heads.of_head(self.head, config, self.head.size, crf=self.head.crf, dtype=dtype)

    def content(self, path: str, reads: Mapping[str, Any]) -> ConllFile:
        fields = {"tag_scheme": "scheme"}
        file = ConllFile(path, ColumnLayout(**{fields.get(name, name): value for name, value in reads.items()}))
        if file.scheme is None:
            raise UserError(f"{path} has words only; expected a column with their tags too.")
        return file

    def labelled(self, path: str, reads: Mapping[str, Any]) -> list[Item]:
        file = self.content(path, reads)
        return list(zip(file.sentences, label_numbers(file, self.head.tag_set), strict=True))

    def texts_of(self, item: Item) -> Sequence[str]:
        return item[0].words

    def asked(self, item: Item, inputs: Mapping[str, int | None]) -> Iterator[Example]:
        yield Example("", item[0].words, None, "")

    def evaluate(self, kept: list[Item], outputs: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
        tag_set, labels = self.head.tag_set, self.head.labels
        names, outside = dict(zip(labels, tag_set.tags, strict=True)), labels[tag_set.outside]
        predictions = [[names[label or outside] for label in each["tags"]] for each in outputs]  # outputs fill `kept`
        tags: dict[str, Any] = {
            "labels": [[tag_set.tags[number] for number in numbers] for _, numbers in kept],
            "predictions": predictions,
            "is_plain": tag_set.scheme == "plain",
        }
        return entity_scores.scores(**tags), {"per_class": entity_scores.per_type(**tags)}

    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        return tag_serving.TagServing(model, tokenizer, self.head.tag_set, self.head.windows).signatures()

    def serving_examples(self, split: TagRows) -> dict[str, dict[str, list]]:
        return tag_serving.serving_examples(split.sentences)


TRAINING = TagTraining


def _words(split: TagRows) -> Iterator[str]:
    """All words of a split, in lower case."""
    return (word.lower() for sentence in split.sentences for word in sentence.words)


def _sentence_losses(outputs: Any, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
    """See `crf.row_losses`; tokens that do not begin a word have no effect."""
    logits = outputs["logits"]
    labels = batch["labels"][:, : tf.shape(logits)[1]]
    edges = (tf.cast(batch[name], tf.bool) if name in batch else None for name in ("begins", "ends"))
    return crf_layer.row_losses(logits, labels, labels != UNKNOWN, outputs["potentials"][0], *edges)


def _has_label(batch: Batch) -> tf.Tensor:
    return tf.cast(batch["labels"] != UNKNOWN, tf.float32)


def _without(entities: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entities that are not among the others, in their order."""
    known = {(entity["label"], entity["start"], entity["end"]) for entity in others}
    return [entity for entity in entities if (entity["label"], entity["start"], entity["end"]) not in known]
