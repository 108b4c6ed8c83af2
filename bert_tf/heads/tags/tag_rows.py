"""TagRows: tagged sentences as rows of tokens, with statistics to read before hours of training.

N words, P tokens of all words, S sentences, R rows (windows of sentences), T positions in a row.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.data import pipeline
from bert_tf.data.conll_files import DOCUMENT, ConllFile, Sentence
from bert_tf.data.examples import Example
from bert_tf.data.host_windows import Windows
from bert_tf.data.joined_words import join_words
from bert_tf.data.tag_schemes import Span, TagSet
from bert_tf.errors import UserError, count_text
from bert_tf.heads.base import text_lengths
from bert_tf.heads.base.rows import Rows
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.runtime.lazy import tf
from bert_tf.text.tokenizer import Tokenizer

MAX_TYPES = 12  # types whose shares are printed
UNKNOWN = -1  # the label of a word that is unknown or not predicted


class TagRows(Rows):
    """The sentences of a ConllFile as rows of tokens.

    Attributes:
        count: rows, the examples of an epoch.
        is_known: whether the sentences have tags.
        crf: whether batches specify where sentences begin and end.
        owners: the sentence of each word, int32 [N].
        word_labels: labels of words, numbers in the TagSet, UNKNOWN without tags, int32 [N].
        rows, positions: place of each word's first token with the most context, -1 for a word without tokens, int32
            [N].
        ids: token ids, int32 [P].
        token_labels: labels of the first tokens of words, UNKNOWN for other tokens, int32 [P].
        firsts, sizes: the tokens of each row, int32 [R].
        label_begins, label_ends: the tokens whose words are predicted in a row, int32 [R]; every row has some.
        begins, ends: whether these include the first and the last words of a sentence, bool [R].
    """

    def __init__(
        self, file: ConllFile, tag_set: TagSet, tokenizer: Tokenizer, windows: TagWindows, *, crf: bool = False
    ) -> None:
        self.file, self.sentences, self.tag_set = file, file.sentences, tag_set
        self.tokenizer, self.windows, self.crf = tokenizer, windows, crf
        self.is_known = file.scheme is not None
        self.word_counts = np.array([len(sentence.words) for sentence in self.sentences])  # [S]
        self.owners = np.repeat(np.arange(len(self.sentences), dtype=np.int32), self.word_counts)
        unknown = np.full(len(self.owners), UNKNOWN, np.int32)
        self.word_labels = np.concatenate(label_numbers(file, tag_set)).astype(np.int32) if self.is_known else unknown
        words = [word for sentence in self.sentences for word in sentence.words]
        self.ids, counts = tokenizer.on_host(words, inside_text=True)
        ends = np.cumsum(counts, dtype=np.int32)
        first_tokens = np.where(counts > 0, ends - counts, -1).astype(np.int32)  # [N]
        self.token_labels = np.full(len(self.ids), UNKNOWN, np.int32)
        self.token_labels[first_tokens[counts > 0]] = self.word_labels[counts > 0]
        self._fill_rows(first_tokens, np.append(0, ends)[np.append(0, np.cumsum(self.word_counts))])
        self.count = len(self.firsts)
        if not self.count:
            raise UserError(f"{file.path} has no word that the vocabulary covers; is it the right one?")

    def _fill_rows(self, first_tokens: np.ndarray, bounds: np.ndarray) -> None:
        """Fills rows with tokens; first_tokens [N]: one for each word; bounds [S + 1]: the tokens of sentences."""
        begins, room = bounds[:-1], self.windows.max_seq_length - 2
        self.token_counts = np.diff(bounds)  # [S]
        plans = [Windows.of(length, room, self.windows.stride) for length in self.token_counts.tolist()]
        counts = np.array([plan.number if plan.length else 0 for plan in plans])  # rows of each sentence
        has_token = np.flatnonzero(first_tokens >= 0)
        tokens, owners = first_tokens[has_token], self.owners[has_token]
        best = (np.cumsum(counts) - counts)[owners]  # the first row of its sentence
        for word in np.flatnonzero(counts[owners] > 1):
            best[word] += plans[owners[word]].best(int(tokens[word] - begins[owners[word]]))[0]
        used, numbers = np.unique(best, return_inverse=True)  # rows that are best for some word
        firsts, sizes = (x.astype(np.int32) for x in self._rows(plans, counts, bounds))
        self.firsts, self.sizes = firsts[used], sizes[used]
        self.label_begins = np.full(len(used), len(self.ids), np.int32)
        self.label_ends = np.zeros(len(used), np.int32)
        np.minimum.at(self.label_begins, numbers, tokens)
        np.maximum.at(self.label_ends, numbers, tokens + 1)
        self.begins, self.ends = (np.zeros(len(used), bool) for _ in range(2))
        self.begins[numbers[np.diff(owners, prepend=-1) != 0]] = True
        self.ends[numbers[np.diff(owners, append=-1) != 0]] = True
        self.rows, self.positions = (np.full(len(first_tokens), -1, np.int32) for _ in range(2))
        self.rows[has_token] = numbers
        self.positions[has_token] = 1 + tokens - self.firsts[numbers]  # after [CLS]

    def _rows(self, plans: Sequence[Windows], counts: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first token and the number of tokens of each row, int [R]; counts [S]: rows of each sentence."""
        starts = [plan.start(number) for plan, count in zip(plans, counts, strict=True) for number in range(count)]
        firsts = np.repeat(bounds[:-1], counts) + np.array(starts, int)
        sizes = np.repeat([plan.size for plan in plans], counts)
        if self.windows.document_context:
            documents = np.array([sentence.document for sentence in self.sentences])
            edges = (bounds[np.searchsorted(documents, documents, side)] for side in ("left", "right"))
            low, high = (np.repeat(edge, counts) for edge in edges)
            fits = np.repeat(counts == 1, counts)
            wide = np.where(fits, np.minimum(high - low, self.windows.max_seq_length - 2), sizes)
            firsts, sizes = np.where(fits, np.clip(firsts - (wide - sizes) // 2, low, high - wide), firsts), wide
        return firsts, sizes

    def batches(self, batch_size: int, *, seed: int | None = None, by_length: bool = False) -> tf.data.Dataset:
        """See `Rows`.

        Inputs of the model, "labels" int32 [B, T], UNKNOWN at positions without a prediction, "row_numbers" [B]; for
        a CRF also "begins" and "ends" int32 [B], 1 if the first or the last word of a sentence is predicted.
        """
        windows, count = self.windows, self.count
        ids, token_labels = (tf.constant(x) for x in (self.ids, self.token_labels))
        columns = [tf.constant(x) for x in (self.firsts, self.sizes, self.label_begins, self.label_ends)]
        if self.crf:
            columns += [tf.constant(x, tf.int32) for x in (self.begins, self.ends)]

        def batch_of(numbers: tf.Tensor) -> dict[str, tf.Tensor]:
            is_row = numbers < count
            first, size, begin, end, *edges = (tf.gather(x, tf.minimum(numbers, count - 1)) for x in columns)
            rows = windows.rows(self.tokenizer, ids, first, size)
            tokens = first[:, None] + tf.range(windows.max_seq_length)[None, :] - 1  # [B, T], after [CLS]
            is_predicted = (tokens >= begin[:, None]) & (tokens < end[:, None]) & is_row[:, None]
            labels = tf.gather(token_labels, tf.where(is_predicted, tokens, 0))
            return {
                **rows,
                "labels": tf.where(is_predicted, labels, UNKNOWN),
                "row_numbers": tf.cast(tf.where(is_row, numbers + 1, 0), tf.int32),
                **dict(zip(("begins", "ends"), edges, strict=False)),
            }

        lengths = self.sizes if by_length else None
        return pipeline.indexed_batches(count, batch_size, batch_of, seed=seed, lengths=lengths)

    @functools.cached_property
    def examples(self) -> list[Example]:  # type: ignore[override]
        """The sentences as texts; the label names the spans: "EU ORG, German MISC"."""
        examples = []
        for number, (sentence, labels) in enumerate(self.items):
            text, word_spans = join_words(sentence.words)
            label = None
            if self.is_known:
                label = format_entities(entities_in_text(self.tag_set.spans(labels), text, word_spans))
            examples.append(Example(str(number), (text,), label, self.file.place(sentence)))
        return examples

    @functools.cached_property
    def items(self) -> list[tuple[Sentence, list[int]]]:  # type: ignore[override]
        """Sentences with the labels of their words."""
        labels = [each.tolist() for each in self.by_sentence(self.word_labels)]
        return list(zip(self.sentences, labels, strict=True))

    def by_sentence(self, values: np.ndarray) -> list[np.ndarray]:
        """Values of the first words as a list of arrays, one for each sentence that they cover completely."""
        ends = np.cumsum(self.word_counts)
        complete = int(np.searchsorted(ends, len(values), "right"))
        return np.split(values, ends[:complete])[:complete]

    def describe(self, name: str) -> list[str]:
        numbers, windows = self._numbers(), self.windows
        parts = [count_text(numbers["sentences"], "sentence")]
        parts[0] += f" of {numbers['documents']:,} documents" * (numbers["documents"] > 1)
        parts.append(count_text(numbers["words"], "word"))
        if self.is_known:
            parts.append(self._describe_entities())
        lengths, room = self.token_counts + 2, windows.max_seq_length
        long = int((lengths > room).sum())
        parts.append(
            f"{long:,} ({long / len(lengths):.1%}) longer than {room} tokens (the longest: "
            f"{lengths.max():,}), read in windows"
            if long
            else f"all fit into {room} tokens"
        )
        parts += ["filled up with the surrounding document"] * windows.document_context
        unseen = numbers["words_without_piece"]
        parts += [f"{count_text(unseen, 'word')} without a token, tagged O"] * bool(unseen)
        warnings = self.file.warnings()
        if windows.document_context and not self.file.has_documents:
            warnings.append(f"{self.file.path} has no {DOCUMENT} line: read as one document.")
        return [f"{name}: {'; '.join(parts)}.", *(f"Warning: {warning}" for warning in warnings)]

    def _describe_entities(self) -> str:
        counts = self._type_counts
        total = sum(counts.values())
        shares = ", ".join(f"{kind} {count / total:.1%}" for kind, count in counts.most_common(MAX_TYPES))
        more = f" and {len(counts) - MAX_TYPES} other types" if len(counts) > MAX_TYPES else ""
        scheme = self.file.notation.name_of(str(self.file.scheme))
        return f"{count_text(total, 'entity', 'entities')} in {scheme}{f': {shares}{more}' if total else ''}"

    @functools.cached_property
    def _type_counts(self) -> collections.Counter[str]:
        return collections.Counter(kind for _, labels in self.items for kind, _, _ in self.tag_set.spans(labels))

    def statistics(self) -> dict[str, Any]:
        """The size of the split, the shares of types, the lengths of sentences."""
        counts = self._type_counts if self.is_known else collections.Counter()
        shares = {f"share_of_{kind}": round(count / sum(counts.values()), 4) for kind, count in counts.most_common()}
        lengths = text_lengths.statistics(self.token_counts + 2, self.windows.max_seq_length)
        return {**self._numbers(), **lengths, **shares}

    def _numbers(self) -> dict[str, int]:
        return {
            "sentences": len(self.sentences),
            "documents": len({sentence.document for sentence in self.sentences}),
            "words": len(self.owners),
            "words_without_piece": int((self.positions < 0).sum()),
            "rows": self.count,
        }


def label_numbers(file: ConllFile, tag_set: TagSet) -> list[list[int]]:
    """The numbers of the labels of a file's words, a list for each sentence.

    Raises UserError, with the line, for a tag that is not in the TagSet.
    """
    rows = []
    for sentence in file.sentences:
        tags = sentence.tags or ()
        numbers = tag_set.numbers(tags, str(file.scheme))
        if None in numbers:
            position = numbers.index(None)
            types = ", ".join(tag_set.types[: 2 * MAX_TYPES])
            raise UserError(
                f"In {file.place(sentence, position)} the tag is {file.notation.written(tags[position])!r}; "
                f"expected O or one of the types that the model learns: {types}."
            )
        rows.append([number for number in numbers if number is not None])
    return rows


def entities_in_text(spans: Sequence[Span], text: str, word_spans: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Spans in words as [{"text", "label", "start", "end"}] in characters; word_spans: from `join_words`."""
    entities = []
    for kind, first, last in spans:
        start, end = word_spans[first][0], word_spans[last - 1][1]
        entities.append({"text": text[start:end], "label": kind, "start": start, "end": end})
    return entities


def format_entities(entities: Sequence[dict[str, Any]]) -> str:
    """The entities of a text for people: "EU ORG, German MISC"."""
    return ", ".join(f"{entity['text']} {entity['label']}" for entity in entities)
