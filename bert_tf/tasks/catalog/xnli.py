"""XNLI (Conneau et al. 2018): whether a sentence follows from another, in 15 languages.

xnli/zh trains on the machine-translated training data of a language ("Translate Train" in google-research/bert
`multilingual.md`), xnli/zero_shot on English only, and is evaluated in every language.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence

from bert_tf.data import examples, tables
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base.table_options import SentenceOptions
from bert_tf.heads.classes import Classes
from bert_tf.runtime import files
from bert_tf.tasks.catalog import TokenizerFor
from bert_tf.tasks.task import FineTuningTask, text_task

LANGUAGES = "ar bg de el en es fr hi ru sw th tr ur vi zh".split()
LABELS = ("contradiction", "entailment", "neutral")
ZERO_SHOT, ENGLISH = "zero_shot", "en"
Read = Callable[[str, str, str], list[Example]]  # arguments: data_dir, split ("train", "dev" or "test") and language


def task(
    options: SentenceOptions,
    tokenizer_for: TokenizerFor,
    *,
    family: str,
    language: str,
    languages: Sequence[str],
    labels: Sequence[str],
    read: Read,
) -> FineTuningTask:
    """Pairs in a language, or with ZERO_SHOT in all of them; see bert_tf.tasks.catalog for the first two arguments."""
    trained = ENGLISH if language == ZERO_SHOT else language
    read_split = functools.partial(functools.cache(read), options.data_dir)
    evaluated = {"": trained}
    if language == ZERO_SHOT:  # English decides which weights are best: there is no data in other languages
        ordered = sorted(languages, key=lambda name: (name != ENGLISH, name))
        evaluated = {f"{name}_": name for name in ordered}
    splits: dict[str, Callable[[], list[Example]]] = {"train": functools.partial(read_split, "train", trained)}
    for prefix, name in evaluated.items():
        for part in ("dev", "test"):
            splits[f"{part}_{name}" if prefix else part] = functools.partial(read_split, part, name)
    return text_task(
        f"{family}/{language}",
        splits,
        Classes(labels),
        tokenizer_for,
        options,
        texts=2,
        eval_splits={prefix: f"dev_{name}" if prefix else "dev" for prefix, name in evaluated.items()},
        test_splits=tuple(split for split in splits if split.startswith("test")),
    )


def find(data_dir: str, *paths: str) -> str:
    """The first of several paths in data_dir that is a file; UserError if there is none."""
    path = next(filter(files.is_file, (os.path.join(data_dir, path) for path in paths)), None) if data_dir else None
    if path is None:
        raise UserError(f"There is no {paths[0]} in data_dir={data_dir!r}; pass the folder with the published files.")
    return path


def read(data_dir: str, split: str, language: str) -> list[Example]:
    """The examples of a language, from XNLI-1.0 and XNLI-MT-1.0 as published, in one folder or in data_dir itself."""
    if split == "train":
        name = f"multinli/multinli.train.{language}.tsv"
        rows = examples.read(find(data_dir, name, f"XNLI-MT-1.0/{name}"), texts=("premise", "hypo"), label="label")
        return [dataclasses.replace(row, label=str(row.label).replace("contradictory", LABELS[0])) for row in rows]
    path = find(data_dir, f"xnli.{split}.tsv", f"XNLI-1.0/xnli.{split}.tsv")
    return [example for name, example in _with_languages(path) if name == language]


@functools.cache
def _with_languages(path: str) -> list[tuple[str, Example]]:
    """(language, example) from a file with the pairs of all languages; the id is the number of the pair."""
    rows = []
    for location, row in tables.read(path):
        tables.check_columns(path, row, ("language", "sentence1", "sentence2", "gold_label", "pairID"))
        example = Example(row["pairID"], (row["sentence1"], row["sentence2"]), row["gold_label"], location)
        rows.append((row["language"], example))
    return rows


TASKS = {
    f"xnli/{language}": functools.partial(
        task, family="xnli", language=language, languages=LANGUAGES, labels=LABELS, read=read
    )
    for language in (*LANGUAGES, ZERO_SHOT)
}
