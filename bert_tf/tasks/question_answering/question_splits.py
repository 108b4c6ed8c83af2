"""Questions as arrays, and what is worth saying of them before hours of training.

Q questions, W windows of them all.
"""

import numpy as np
import tensorflow as tf

from bert_tf.tasks import text_lengths
from bert_tf.tasks.question_answering.questions import place_of

AT_ONCE = 256  # questions that are tokenized, or answered, together outside of batches


class Split:
    """Questions with their windows in a row: window w is number `numbers[w]` of question `owners[w]`, int32 [W].

    Contexts are kept once, `context_numbers` int32 [Q] says which; `pieces` of both as `QuestionWindows.tokenize` makes
    them, in 12 bytes for each piece of a context. first_pieces, last_pieces: those of the context that share a
    character with the first answer that stands in it, int32 [Q]; 0 and -1 where there is none. `can_be_learned` bool
    [Q]: the truth is known, and its place; `lost`: the questions whose answers do not stand in their contexts.
    `count`: windows to learn from; `is_known`: if there are any.
    """

    def __init__(self, questions, tokenizer, windows):
        self.questions = list(questions)
        self.contexts, self.context_numbers = _numbered([q.context for q in self.questions])
        self.pieces = _tokenized([q.question for q in self.questions], self.contexts, tokenizer, windows)
        sizes = (self.pieces[name].row_lengths().numpy().astype(np.int32) for name in ("questions", "contexts"))
        question_sizes, context_sizes = sizes
        counts = windows.counts(question_sizes, context_sizes[self.context_numbers]).numpy()
        self.owners = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        firsts = np.cumsum(counts) - counts
        self.numbers = (np.arange(len(self.owners)) - firsts[self.owners]).astype(np.int32)
        places = [next(filter(None, (place_of(q, answer) for answer in q.answers)), (0, 0)) for q in self.questions]
        self.first_pieces, self.last_pieces = self._pieces_of(np.array(places, np.int32).reshape(-1, 2))
        lost = np.array([bool(q.answers) and place == (0, 0) for q, place in zip(self.questions, places, strict=True)])
        self.lost = [q for q, is_lost in zip(self.questions, lost, strict=True) if is_lost]
        self.can_be_learned = np.array([q.is_answerable is not None for q in self.questions]) & ~lost
        self.count = int(self.can_be_learned[self.owners].sum())
        self.is_known = self.count > 0
        self.rows = np.arange(len(self.owners), dtype=np.int64)  # the windows that batches are made of

    def training(self):
        """The same with the windows only that can be learned from."""
        other = object.__new__(Split)
        other.__dict__ |= self.__dict__
        other.rows = np.flatnonzero(self.can_be_learned[self.owners])
        return other

    def _pieces_of(self, places):
        """The first and last piece, int32 [Q] each, of what stands at places [Q, 2] of the contexts, in characters."""
        starts, ends = (self.pieces[name].values.numpy() for name in ("starts", "ends"))
        splits = self.pieces["contexts"].row_splits.numpy()
        found = np.tile(np.array([0, -1], np.int32), [len(places), 1])
        for row in np.flatnonzero(places[:, 1] > 0):
            context = slice(*splits[self.context_numbers[row] :][:2])
            found[row, 0] = np.searchsorted(ends[context], places[row, 0], "right")
            found[row, 1] = np.searchsorted(starts[context], places[row, 1]) - 1
        return found.T


def _tokenized(questions, contexts, tokenizer, windows):
    """`QuestionWindows.tokenize` of them all, made a few at a time; each context once."""
    texts = tf.TensorSpec([None], tf.string)
    make = tf.function(lambda q, c: windows.tokenize(tokenizer, q, c), input_signature=(texts, texts), autograph=False)
    parts = []
    for first in range(0, max(len(questions), len(contexts), 1), AT_ONCE):
        some = (np.array(texts[first : first + AT_ONCE], object) for texts in (questions, contexts))
        parts.append(make(*(tf.constant(texts, tf.string) for texts in some)))
    return {name: tf.concat([part[name] for part in parts], 0) for name in parts[0]}


def _numbered(values):
    """The different values in an array, and for each value its number there: contexts are kept once."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array(list(numbers), object), np.array([numbers[value] for value in values], np.int32)


def described(name, split, windows):
    """What there is, and warnings: a list of sentences on a Split, for people."""
    numbers = _numbers(split)
    unanswered = sum(question.is_answerable is False for question in split.questions)
    said = [f"{numbers['questions']:,} questions about {numbers['contexts']:,} texts"]
    said += [f"{unanswered:,} ({unanswered / len(split.questions):.1%}) without an answer"] * bool(unanswered)
    said.append(f"{numbers['windows']:,} windows of {windows.max_seq_length} pieces")
    several = numbers["in_several_windows"]
    said += [f"{several:,} questions need more than one"] * bool(several)
    warnings = []
    if split.lost:
        warnings.append(
            f"Warning: the answers to {len(split.lost):,} questions do not stand in their texts, the first is "
            f"{split.lost[0].id!r}: not trained on."
        )
    return [f"{name}: {', '.join(said)}.", *warnings]


def statistics(split, windows):
    """How much there is of a Split, as {name: number} for the report, and how long its windows are."""
    return {**_numbers(split), **text_lengths.statistics(_sizes(split, windows), windows.max_seq_length)}


def _numbers(split):
    return {
        "questions": len(split.questions),
        "contexts": len(split.contexts),
        "windows": len(split.owners),
        "in_several_windows": int((np.bincount(split.owners, minlength=len(split.questions)) > 1).sum()),
        "answers_not_found": len(split.lost),
    }


def _sizes(split, windows):
    """Pieces of each window, int [W], [CLS] and both [SEP] included."""
    questions, contexts = (split.pieces[name].row_lengths().numpy() for name in ("questions", "contexts"))
    questions, contexts = questions[split.owners], contexts[split.context_numbers][split.owners]  # [W]
    left = contexts - split.numbers * windows.stride(questions).numpy()
    return np.minimum(left + questions + 3, windows.max_seq_length)
