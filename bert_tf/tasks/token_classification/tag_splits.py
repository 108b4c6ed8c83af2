"""Tagged sentences as arrays, and what is worth saying of them before hours of training.

N words, P pieces of them all, S sentences, R rows (windows of sentences), T slots in a row.
"""

import collections
import functools

import numpy as np
import tensorflow as tf

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.tasks import text_lengths
from bert_tf.tasks.token_classification.conll_files import DOCUMENT, joined
from bert_tf.tasks.token_classification.tag_windows import tokenize_words

WORDS_AT_ONCE = 1 << 16  # that are tokenized together
MOST_TYPES = 12  # whose shares are said
UNKNOWN = -1  # the number of a label that nobody knows, or asks for


class Split:
    """The sentences of a Tagged file as rows of pieces; `is_known` says whether they have tags.

    Words: `owners` (sentence), `rows` and `slots` int32 [N], where the first piece of each lies in the row that shows
    the most around it, -1 where it has no piece; `truth` int32 [N], labels of the TagSet. Pieces: `ids` and `labels`
    int32 [P], -1 but for the first of a word. Rows: `firsts`, `sizes`, and from `asked` on up to `asked_end` the
    pieces whose words are asked for there, int32 [R]; no row is without. `count`: rows, the examples of an epoch.
    """

    def __init__(self, tagged, tag_set, tokenizer, windows):
        self.tagged, self.sentences, self.tag_set = tagged, tagged.sentences, tag_set
        self.is_known = tagged.scheme is not None
        self.sizes_of_sentences = np.array([len(sentence.words) for sentence in self.sentences])
        self.owners = np.repeat(np.arange(len(self.sentences), dtype=np.int32), self.sizes_of_sentences)
        unknown = np.full(len(self.owners), UNKNOWN, np.int32)
        self.truth = np.concatenate(numbered(tagged, tag_set)).astype(np.int32) if self.is_known else unknown
        self.ids, counts = self._pieces(tokenizer)
        ends = np.cumsum(counts, dtype=np.int32)
        places = np.where(counts > 0, ends - counts, -1).astype(np.int32)  # [N], of first pieces
        self.labels = np.full(len(self.ids), UNKNOWN, np.int32)
        self.labels[places[counts > 0]] = self.truth[counts > 0]
        self._lay(windows, places, np.append(0, ends)[np.append(0, np.cumsum(self.sizes_of_sentences))])
        self.count = len(self.firsts)
        if not self.count:
            raise UserError(f"{tagged.path} has no word that the vocabulary can write; is it the right one?")

    def _pieces(self, tokenizer):
        words = [word for sentence in self.sentences for word in sentence.words]
        parts = [
            tokenize_words(tokenizer, words[first : first + WORDS_AT_ONCE])
            for first in range(0, len(words), WORDS_AT_ONCE)
        ]
        return (np.concatenate([part.numpy() for part in each]) for each in zip(*parts, strict=True))

    def _lay(self, windows, places, bounds):
        """Lays pieces into rows; places [N]: the first piece of each word, bounds [S + 1]: those of sentences."""
        starts, ends = bounds[:-1], bounds[1:]
        lows, highs = starts, ends
        if windows.document_context:
            documents = np.array([sentence.document for sentence in self.sentences])
            lows = starts[np.searchsorted(documents, documents, "left")]
            highs = ends[np.searchsorted(documents, documents, "right") - 1]
        self.sizes_in_pieces = ends - starts  # [S]
        plan = windows.plan(*(tf.constant(x, tf.int32) for x in (starts, ends, lows, highs)))
        has_piece = np.flatnonzero(places >= 0)
        best = plan.best_rows(tf.constant(self.owners[has_piece]), tf.constant(places[has_piece])).numpy()
        asked, numbers = np.unique(best, return_inverse=True)  # rows where some word is at its best
        self.firsts, self.sizes = (x.numpy()[asked] for x in (plan.firsts, plan.sizes))
        self.asked = np.full(len(asked), len(self.ids), np.int32)
        self.asked_end = np.zeros(len(asked), np.int32)
        np.minimum.at(self.asked, numbers, places[has_piece])
        np.maximum.at(self.asked_end, numbers, places[has_piece] + 1)
        self.rows, self.slots = (np.full(len(places), -1, np.int32) for _ in range(2))
        self.rows[has_piece] = numbers
        self.slots[has_piece] = 1 + places[has_piece] - self.firsts[numbers]  # behind [CLS]

    @functools.cached_property
    def examples(self):
        """The sentences as texts, list of Example; the label names the spans: "EU ORG, German MISC"."""
        found = []
        for number, sentence in enumerate(self.sentences):
            text, places = joined(sentence.words)
            label = named(spans_in_text(self.spans_of(sentence), text, places)) if self.is_known else None
            found.append(Example(str(number), (text,), label, f"line {sentence.line} of {self.tagged.path}"))
        return found

    def spans_of(self, sentence):
        """The true spans of a sentence, in words."""
        return self.tag_set.spans(self.tag_set.numbers(sentence.tags, self.tagged.scheme))

    def by_sentence(self, values):
        """Values of words as a list of arrays, one for each sentence that they reach to the end of."""
        ends = np.cumsum(self.sizes_of_sentences)
        complete = int(np.searchsorted(ends, len(values), "right"))
        return np.split(values, ends[:complete])[:complete]


def numbered(tagged, tag_set):
    """The numbers of the labels of a Tagged file's words, a list for each sentence.

    Raises UserError, with the line, for a tag that is none of the TagSet's.
    """
    found = []
    for sentence in tagged.sentences:
        numbers = tag_set.numbers(sentence.tags, tagged.scheme)
        if None in numbers:
            place = numbers.index(None)
            known = ", ".join(tag_set.types[: 2 * MOST_TYPES])
            raise UserError(
                f"In line {sentence.line + place} of {tagged.path} the tag is {sentence.tags[place]!r}; "
                f"expected O or a type of {known}, which are those that the model learns."
            )
        found.append(numbers)
    return found


def spans_in_text(spans, text, places):
    """Spans in words as [{"text", "label", "start", "end"}] in characters; `places` of the words."""
    found = []
    for kind, first, end in spans:
        start, stop = places[first][0], places[end - 1][1]
        found.append({"text": text[start:stop], "label": kind, "start": start, "end": stop})
    return found


def named(entities):
    """What was found in a text, for people: "EU ORG, German MISC"."""
    return ", ".join(f"{entity['text']} {entity['label']}" for entity in entities)


def described(name, split, windows):
    """What there is of a Split, and warnings: a list of sentences for people."""
    numbers = _numbers(split)
    said = [f"{numbers['sentences']:,} sentences"]
    said[0] += f" of {numbers['documents']:,} documents" * (numbers["documents"] > 1)
    said.append(f"{numbers['words']:,} words")
    if split.is_known:
        counts = _counts(split)
        total = sum(counts.values())
        shares = ", ".join(f"{kind} {count / total:.1%}" for kind, count in counts.most_common(MOST_TYPES))
        more = f" and {len(counts) - MOST_TYPES} other types" if len(counts) > MOST_TYPES else ""
        said.append(f"{total:,} entities in {split.tagged.scheme.upper()}{f': {shares}{more}' if total else ''}")
    long = int((split.sizes_in_pieces + 2 > windows.max_seq_length).sum())
    said.append(f"all fit into {windows.max_seq_length} pieces" if not long else _about_length(split, windows, long))
    said += ["filled up with the document around"] * windows.document_context
    lost = numbers["words_without_piece"]
    said += [f"{lost:,} words have no piece and are tagged O"] * bool(lost)
    warnings = split.tagged.warnings()
    if windows.document_context and not split.tagged.has_documents:
        warnings.append(f"{split.tagged.path} has no {DOCUMENT} line: taken for one document.")
    return [f"{name}: {'; '.join(said)}.", *(f"Warning: {warning}" for warning in warnings)]


def _about_length(split, windows, long):
    longest = int(split.sizes_in_pieces.max()) + 2
    return (
        f"{long:,} ({long / len(split.sentences):.1%}) sentences longer than {windows.max_seq_length} pieces "
        f"(the longest: {longest:,}), read in windows"
    )


def _counts(split):
    """How many true spans there are of each type."""
    return collections.Counter(kind for sentence in split.sentences for kind, _, _ in split.spans_of(sentence))


def statistics(split, windows):
    """How much there is of a Split, as {name: number} for the report, and how long its sentences are."""
    counts = _counts(split) if split.is_known else collections.Counter()
    shares = {f"share_of_{kind}": round(count / sum(counts.values()), 4) for kind, count in counts.most_common()}
    lengths = text_lengths.statistics(split.sizes_in_pieces + 2, windows.max_seq_length)
    return {**_numbers(split), **lengths, **shares}


def _numbers(split):
    return {
        "sentences": len(split.sentences),
        "documents": len({sentence.document for sentence in split.sentences}),
        "words": len(split.owners),
        "words_without_piece": int((split.slots < 0).sum()),
        "rows": split.count,
    }
