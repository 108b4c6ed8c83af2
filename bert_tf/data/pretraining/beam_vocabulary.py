"""Counts the words of a corpus on Apache Beam, for a vocabulary of all the text rather than of its beginning."""

import collections
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam

from bert_tf.data.pretraining.parts import PART_BYTES
from bert_tf.runtime import atomic_files, beam_runner, files
from bert_tf.runtime.json_files import require_json
from bert_tf.text import corpus, vocabulary_learning

GROUPS = 64  # of parts, of which the counts are added up first
Counts = dict[str, int]


def count_words(
    sources: Sequence[corpus.Source], folder: str, *, lower_case: bool, runner: str, flags: Sequence[str]
) -> Counts:
    """How often each word occurs in all sources. The workers of the runner must see the sources and `folder`.

    Raises UserError for a file that is not text, or a runner that is not installed or fails.
    """
    with tempfile.TemporaryDirectory(dir=None if files.is_remote(folder) else folder) as scratch:
        path = os.path.join(folder if files.is_remote(folder) else scratch, "words.json")
        numbered = list(enumerate(corpus.parts(sources, PART_BYTES)))

        def build(pipeline: Any) -> None:
            counted = (
                pipeline
                | "Parts" >> beam.Create(numbered)
                | "Spread" >> beam.Reshuffle()
                | "Count" >> beam.Map(_count, lower_case)
                | "Groups" >> beam.GroupByKey()
                | "Add" >> beam.Map(lambda item: (0, _add(item[1])))
                | "All" >> beam.GroupByKey()
            )
            counted | "Write" >> beam.Map(_write, path)

        beam_runner.run(build, runner, flags)
        counts = require_json(path, "counts of words")
        files.remove(path)
        return counts


def _count(item: tuple[int, tuple[corpus.Source, ...]], lower_case: bool) -> tuple[int, Counts]:
    number, sources = item
    texts = (text for source in sources for document in corpus.read_documents(source) for text in document)
    return number % GROUPS, dict(vocabulary_learning.count_words(texts, lower_case=lower_case))


def _add(counts: Iterable[Counts]) -> Counts:
    total: collections.Counter[str] = collections.Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def _write(item: tuple[int, Iterable[Counts]], path: str) -> None:
    atomic_files.write_lines(path, [json.dumps(_add(item[1]))], shared=True)
