"""Questions as arrays, and what is worth saying of them before hours of training.

Q questions, W windows of them all.
"""

import numpy as np
import tensorflow as tf

from bert_tf.questions import place_of

AT_ONCE = 256  # questions that are tokenized, or answered, together outside of batches


class Split:
    """Questions with their windows in a row: window w is number `numbers[w]` of question `owners[w]`, int32 [W].

    answer_starts, answer_ends: characters of the first answer of each question that stands in its context, int32 [Q];
    0 and 0 where there is none. `can_be_learned` bool [Q]: the truth is known, and its place; `lost`: the questions
    whose answers do not stand in their contexts. `count`: windows to learn from; `is_known`: if there are any.
    """

    def __init__(self, questions, tokenizer, windows):
        self.questions = list(questions)
        self.texts = np.array([q.question for q in self.questions], object)
        self.contexts, self.context_numbers = _numbered([q.context for q in self.questions])
        counts = self._counts(tokenizer, windows)
        self.owners = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        firsts = np.cumsum(counts) - counts
        self.numbers = (np.arange(len(self.owners)) - firsts[self.owners]).astype(np.int32)
        places = [next(filter(None, (place_of(q, answer) for answer in q.answers)), (0, 0)) for q in self.questions]
        self.answer_starts, self.answer_ends = np.array(places, np.int32).reshape(-1, 2).T
        lost = np.array([bool(q.answers) for q in self.questions]) & (self.answer_ends == 0)
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

    def _counts(self, tokenizer, windows):
        """How many windows each question has, int32 [Q]."""
        count = tf.function(lambda q, c: windows.counts(windows.pieces(tokenizer, q, c)), reduce_retracing=True)
        found = [np.zeros(0, np.int32)]
        for first in range(0, len(self.texts), AT_ONCE):
            contexts = self.contexts[self.context_numbers[first : first + AT_ONCE]]
            found.append(count(tf.constant(self.texts[first : first + AT_ONCE]), tf.constant(contexts)).numpy())
        return np.concatenate(found)


def _numbered(values):
    """The different values in an array, and for each value its number there: contexts are kept once."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array(list(numbers), object), np.array([numbers[value] for value in values], np.int32)


def described(name, split, windows):
    """What there is, and warnings: a list of sentences on a Split, for people."""
    numbers = statistics(split)
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


def statistics(split):
    """How much there is of a Split, as {name: number} for the report."""
    return {
        "questions": len(split.questions),
        "contexts": len(split.contexts),
        "windows": len(split.owners),
        "in_several_windows": int((np.bincount(split.owners, minlength=len(split.questions)) > 1).sum()),
        "answers_not_found": len(split.lost),
    }
