"""The plan of a records folder: the parts of the input, the buckets, and the jobs of both stages.

No TensorFlow here. It depends only on the options and the input, so every engine does the same.
"""

import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.data.pretraining import duplicates, record_files, stages
from bert_tf.data.pretraining.buckets import Assignment, Bucket, num_buckets
from bert_tf.data.pretraining.stages import PartJob, PartResult, ShardJob
from bert_tf.errors import UserError, count_text, listed
from bert_tf.runtime.settings import MAX_SEED
from bert_tf.text import chinese_words, corpus, vocabulary
from bert_tf.text.demo_corpus import installed_python
from bert_tf.text.sources import Source, fingerprint, kind_of, parts, text_size

log = logging.getLogger("bert_tf")
MAX_SAMPLED_SENTENCES = 4_000_000  # 8-byte hashes for counting duplicates; larger corpora are sampled
# In a manifest only if not the default: earlier manifests lack them.
CLEANING = ("skip_damaged", "duplicates", "duplicate_sentences")
LATER_OPTIONS = ("pairs", "short_seq_per_document", "chinese_word_segmentation", *CLEANING)


class EmptyInputError(UserError):
    """The input contains no text."""


Sources = dict[str, list[Source]]  # by split


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """The options that, with the input, determine the bytes of the records; named like the original's flags."""

    vocab_file: str
    lower_case: bool = True
    special_tokens_in_strings: tuple[str, ...] = ()  # recognized in texts
    max_seq_length: int = 128
    short_seq_prob: float = 0.1
    short_seq_per_document: bool = False
    dupe_factor: int = 10  # passes over the training documents, each with different pairs
    random_seed: int = 12345
    nsp: bool = True  # False: one segment per record, for training without next-sentence prediction
    pairs: str = "next"  # label task of rows with two segments, or without nsp "full_sentences": `pairs.KINDS`
    eval_fraction: float = 0.05  # fraction of documents, without eval_file; 0: no evaluation records
    compress: bool = False  # .tfrecord.gz shards: 0.4 to 0.6 of the size, written at 0.6 of the speed
    text_layout: str = "auto"
    text_field: str = "text"
    language: str = "auto"
    chinese_word_segmentation: bool = False  # records mark ideographs that are one word, see `chinese_words`
    skip_damaged: bool = False  # skip unreadable data, and list the losses in the manifest

    duplicates: str = "none"  # documents to drop: exact duplicates ("documents") or also near-duplicates ("near")
    duplicate_sentences: bool = False  # drop repeated sentences

    def __post_init__(self) -> None:
        for name, is_valid, expected in (
            ("max_seq_length", self.max_seq_length >= (5 if self.nsp else 4), "at least 5 (4 without nsp)"),
            ("short_seq_prob", 0 <= self.short_seq_prob <= 1, "a probability from 0 to 1"),
            ("dupe_factor", self.dupe_factor >= 1, "at least 1"),
            ("random_seed", 0 <= self.random_seed <= MAX_SEED, f"from 0 to {MAX_SEED:,}"),
            ("duplicates", self.duplicates in duplicates.KINDS, f"one of {', '.join(duplicates.KINDS)}"),
            ("eval_fraction", 0 <= self.eval_fraction < 1, "from 0 to less than 1"),
        ):
            if not is_valid:
                raise UserError(f"{name}={getattr(self, name)}; expected {expected}.")

    @property
    def tokenizer_options(self) -> tuple[bool, tuple[str, ...], bool]:
        """The options of `record_tokenizer.create`, after the vocabulary."""
        return self.lower_case, self.special_tokens_in_strings, self.chinese_word_segmentation

    @property
    def extension(self) -> str:
        """The extension of a shard."""
        return "tfrecord.gz" if self.compress else "tfrecord"


@dataclasses.dataclass(frozen=True)
class Plan:
    """The plan of a records folder: see `make_plan`.

    request: everything the records depend on, as plain data (manifest["wanted"]). sources: by split, empty for the
    demonstration. vocabulary: the tokens. buckets: the number of buckets of each split.
    """

    options: RecordOptions
    request: dict[str, Any]
    sources: Sources
    vocabulary: list[str]
    buckets: dict[str, int]

    def part_jobs(self) -> list[PartJob]:
        """Stage 1 as jobs."""
        options = self.options
        by_split = [
            (split, part)
            for split in ("train", "eval")
            for part in parts(self.sources.get(split, []), stages.PART_BYTES)
        ]
        if "train" not in self.sources:
            by_split.insert(0, ("train", ()))
        assignment = self.assignment(sum(split == "train" for split, _ in by_split))
        return [
            PartJob(
                number=number,
                sources=part,
                split=split,
                assignment=assignment,
                skip_damaged=options.skip_damaged,
                duplicates=options.duplicates,
                duplicate_sentences=options.duplicate_sentences,
            )
            for number, (split, part) in enumerate(by_split)
        ]

    def assignment(self, first_eval_part: int = 0) -> Assignment:
        """The assignment of documents to buckets."""
        options = self.options
        fraction = 0.0 if "eval" in self.sources else options.eval_fraction
        return Assignment(options.random_seed, self.buckets, fraction, first_eval_part)

    @property
    def drops_duplicates(self) -> bool:
        """Returns whether the keys of all parts must be compared."""
        return self.options.duplicates != "none" or self.options.duplicate_sentences

    def check_text(self, result: PartResult) -> None:
        """Raises UserError if an input file contains no text."""
        if not result.documents:
            raise EmptyInputError("input_file contains no text.")
        if "eval" in self.sources and not result.eval_documents:
            raise EmptyInputError("eval_file contains no text.")

    def bucket_list(self) -> list[Bucket]:
        """All buckets, "eval" first so that they do not delay the end of the last worker."""
        return [(split, bucket) for split in ("eval", "train") for bucket in range(self.buckets[split])]

    def shard_job(self, bucket: Bucket, result: PartResult) -> ShardJob:
        """The stage 2 job of a bucket, once the counts of all parts are known."""
        options, (split, number) = self.options, bucket
        return ShardJob(
            bucket=bucket,
            number=number + (self.buckets["train"] if split == "eval" else 0),
            passes=options.dupe_factor if split == "train" else 1,
            hash_bits=hash_bits(result),
            held_out=result.smallest[1] if result.smallest and not result.held_out else None,
            in_both=result.documents == 1,
            max_seq_length=options.max_seq_length,
            short_seq_prob=options.short_seq_prob,
            short_seq_per_document=options.short_seq_per_document,
            random_seed=options.random_seed,
            nsp=options.nsp,
            pairs=options.pairs,
        )

    def shard_name(self, bucket: Bucket) -> str:
        """The file name of a bucket's shard."""
        split, number = bucket
        return f"{split}-{number:05d}-of-{self.buckets[split]:05d}.{self.options.extension}"

    def layouts(self) -> dict[str, int]:
        """{layout: number of files} of the training text; files of JSON lines count as "jsonl"."""
        counts: dict[str, int] = {}
        for source in self.sources.get("train", []):
            layout = kind_of(source)
            counts[layout] = counts.get(layout, 0) + 1
        return counts or {"installed Python": 1}


@dataclasses.dataclass(frozen=True)
class Collected:
    """An engine's results: counts of all parts, statistics of each shard, and data that cannot be added up.

    counts: int64 [V], how often each id occurs in "train". hashes: by split, arrays of sentence hashes (uint64).
    """

    result: PartResult
    shards: dict[Bucket, dict[str, int]]
    counts: np.ndarray
    hashes: dict[str, list[np.ndarray]]


def hash_bits(result: PartResult) -> int:
    """One in 2 ** this many sentences is sampled for counting duplicates."""
    return max(0, (result.sentences // MAX_SAMPLED_SENTENCES).bit_length())


def make_plan(
    options: RecordOptions, input_file: str | os.PathLike[str] = "", eval_file: str | os.PathLike[str] = ""
) -> Plan:
    """Looks at the input and the vocabulary; raises UserError if they are wrong."""
    sources: Sources = {}
    for split, patterns in (("train", input_file), ("eval", eval_file)):
        if patterns:
            kind = {"text_layout": options.text_layout, "language": options.language, "text_field": options.text_field}
            sources[split] = corpus.find_sources(patterns, **kind)
            if others := list(map(os.path.basename, corpus.left_out(patterns))):
                log.warning("%s of other types skipped: %s.", count_text(len(others), "file"), listed(others))
    tokens = vocabulary.read(options.vocab_file)
    train = _num_buckets(sources.get("train", []))
    evaluation = max(1, round(train * options.eval_fraction)) if options.eval_fraction else 0
    if "eval" in sources:
        evaluation = _num_buckets(sources["eval"])
    counts = {"train": train, "eval": evaluation}
    return Plan(options, _request(options, sources, tokens), sources, tokens, counts)


def _num_buckets(sources: Sequence[Source]) -> int:
    return num_buckets(sum(map(text_size, sources)))


def _request(options: RecordOptions, sources: Sources, tokens: list[str]) -> dict[str, Any]:
    defaults = {field.name: field.default for field in dataclasses.fields(options)}
    request = {
        name: value
        for name, value in dataclasses.asdict(options).items()
        if name not in LATER_OPTIONS or value != defaults[name]
    }
    request["special_tokens_in_strings"] = list(options.special_tokens_in_strings) or None  # None: as before it existed
    if options.chinese_word_segmentation:
        request["chinese_word_segmentation"] = f"{chinese_words.segmenter()}: {record_files.CONTINUATIONS}"
    request["vocab_file"] = f"{os.path.basename(options.vocab_file)} {digest(vocabulary.content_of(tokens))}"
    for split in ("train", "eval"):
        request[f"{split}_input"] = [fingerprint(source) for source in sources.get(split, [])]
    if "train" not in sources:
        request["train_input"] = ["installed Python " + digest(list(installed_python()))]
    return request


def digest(content: Any) -> str:
    """A short hash of plain data."""
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()


def check_same(
    folder: str | os.PathLike[str], old: Mapping[str, Any], new: Mapping[str, Any], *, accept_cleaned: bool = False
) -> None:
    """Raises UserError about the first option that differs; accept_cleaned: see `records.prepare`."""
    later = [each for each in LATER_OPTIONS if each in old and not (accept_cleaned and each in CLEANING)]
    for name in dict.fromkeys([*new, *later]):
        before, now = old.get(name), new.get(name)
        if before != now and not (name == "vocab_file" and _has_same_digest(before, now)):
            if isinstance(now, list):
                before, now = _first_difference(before or [], now)
                name = name.replace("train_input", "input_file").replace("eval_input", "eval_file")
            raise UserError(
                f"{folder} contains records made with a different {name} ({before} -> {now}); pass another folder, "
                f"the old {name}, or delete {folder}."
            )


def _has_same_digest(before: Any, now: Any) -> bool:
    """Returns whether two "name digest" entries have the same tokens: runs name every vocabulary vocab.txt."""
    return isinstance(before, str) and before.rpartition(" ")[2] == now.rpartition(" ")[2]


def _first_difference(before: Sequence[str], now: Sequence[str]) -> tuple[str, str]:
    for old, new in zip(before, now, strict=False):
        if old != new:
            return old, new
    return count_text(len(before), "file"), count_text(len(now), "file")
