"""Which chapter of Python's manual a passage comes from: a task for demonstrations, with data on every machine."""

import functools
from collections.abc import Mapping

from bert_tf.data.examples import Example
from bert_tf.heads.base.table_options import SentenceOptions
from bert_tf.heads.classes import Classes
from bert_tf.tasks.catalog import TokenizerFor
from bert_tf.tasks.task import FineTuningTask, text_task
from bert_tf.text import demo_corpus

# The topics of `pydoc_data.topics` by their chapter of the manual; library topics about types and strings are
# combined. Topics added by a later Python have no chapter and are skipped.
CHAPTERS = {
    "lexical analysis": "floating id-classes identifiers imaginary integers numbers strings",
    "data model": "attribute-access callable-types customization numeric-types objects sequence-types specialnames "
    "types",
    "execution model": "dynamic-features exceptions execmodel naming",
    "expressions": "atom-identifiers atom-literals attribute-references await binary bitwise booleans calls "
    "comparisons conversions dict exprlists in lambda lists operator-summary power shifting slicings subscriptions "
    "unary",
    "simple statements": "assert assignment augassign break continue del global import nonlocal pass raise return "
    "yield",
    "compound statements": "async class compound context-managers else for function if try while with",
    "built-in types": "bltin-code-objects bltin-ellipsis-object bltin-null-object bltin-type-objects formatstrings "
    "specialattrs string-methods truth typesfunctions typesmapping typesmethods typesmodules typesseq typesseq-mutable",
    "the debugger": "debugger",
}
EVERY = 5  # one passage in five is held out


def task(options: SentenceOptions, tokenizer_for: TokenizerFor) -> FineTuningTask:
    """Classifies passages by chapter; see tasks.catalog for the arguments. There is no file and no test set."""
    return text_task(
        "python_manual",
        {split: functools.partial(read, split) for split in ("train", "dev")},
        Classes(sorted(CHAPTERS)),
        tokenizer_for,
        options,
        test_splits=(),
    )


def read(split: str, topics: Mapping[str, str] | None = None) -> list[Example]:
    """The passages of a split; every fifth of each chapter is "dev", so that both have equal shares of the chapters."""
    chapter_of = {topic: chapter for chapter, names in CHAPTERS.items() for topic in names.split()}
    counts, examples = dict.fromkeys(CHAPTERS, 0), list[Example]()
    for topic, text in demo_corpus.passages(topics):
        if topic not in chapter_of:
            continue
        chapter = chapter_of[topic]
        counts[chapter] += 1
        if (counts[chapter] % EVERY == 0) == (split == "dev"):
            name = f"{chapter} {counts[chapter]}"
            examples.append(Example(name, (text,), chapter, f"passage {name} of Python's manual"))
    return examples


TASKS = {"python_manual": task}
