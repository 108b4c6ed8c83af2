"""The work of one worker process: a bucket of documents becomes a shard of records and its statistics.

N ids in the bucket, S sentences, D documents, I instances, V vocabulary. TensorFlow is imported by the functions that
need it, so that the parent process, which only distributes jobs, stays small.
"""

import dataclasses
import functools
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf.data.pretraining import pairs
from bert_tf.data.pretraining.buckets import read_bucket
from bert_tf.runtime import atomic_files
from bert_tf.runtime.tensorflow_startup import start_tensorflow

if TYPE_CHECKING:
    from bert_tf.text.tokenizer import Tokenizer

BATCH_CHARACTERS = 1_000_000  # of text tokenized at once
UINT = np.uint64


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardJob:
    """Everything a worker needs to write one shard; the same job gives the same bytes anywhere."""

    bucket: str  # the file of documents
    shard: str  # the record file to write
    statistics: str  # .json, with .counts.npy and .hashes.npy next to it
    number: int  # unique among all shards; goes into record ids and the seed
    vocab_file: str
    lower_case: bool
    special_tokens_in_strings: tuple[str, ...]
    max_seq_length: int
    short_seq_prob: float
    short_seq_per_document: bool
    passes: int
    random_seed: int
    nsp: bool
    pairs: str  # of segments, see `pairs.KINDS`
    hash_bits: int  # one in 2 ** hash_bits sentences is sampled for counting duplicates


def start_worker() -> None:
    """Prepares a fresh worker process: one thread, no accelerator, and an end when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the parent handles it
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    parent = multiprocessing.parent_process()
    if parent is not None:  # a killed parent would leave its workers waiting for ever
        threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()
    start_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _exit_after(process: BaseProcess) -> None:
    process.join()
    os._exit(1)


def write_shard(job: ShardJob) -> dict[str, int]:
    """Writes the shard and, last, its statistics file; both appear whole or not at all. Returns the statistics."""
    documents, statistics, counts, hashes = tokenize_bucket(job)
    rows = make_instances(documents, job)
    statistics |= write_records(documents, rows, job)
    path = Path(job.statistics)
    for extension, array in ((".counts.npy", counts), (".hashes.npy", hashes)):
        array_path = path.with_suffix(extension)
        with atomic_files.atomic_write(array_path, shared=True) as partial, open(partial, "wb") as file:
            np.save(file, array)
    atomic_files.write_lines(path, [json.dumps(statistics)], shared=True)
    return statistics


def make_instances(documents: pairs.FlatDocuments, job: ShardJob) -> np.ndarray:
    """All passes over the documents of a bucket, shuffled: int64 [I, 5], see `bert_tf.data.pretraining.pairs`."""
    one_pass = functools.partial(
        pairs.KINDS[job.pairs if job.nsp or job.pairs == pairs.FULL_SENTENCES else ""],
        documents,
        max_seq_length=job.max_seq_length - (_separators(job) - 1 if job.nsp else 0),
        short_seq_prob=job.short_seq_prob,
        short_seq_per_document=job.short_seq_per_document,
    )
    rows = np.concatenate([one_pass(pairs.BufferedRandom(_generator(job, number))) for number in range(job.passes)])
    return rows[_generator(job, job.passes).permutation(len(rows))]


def _separators(job: ShardJob) -> int:
    return _tokenizer(job.vocab_file, job.lower_case, job.special_tokens_in_strings)[0].separators


def _generator(job: ShardJob, number: int) -> np.random.Generator:
    return np.random.default_rng([job.random_seed, job.number, number])


@functools.lru_cache(maxsize=1)
def _tokenizer(vocab_file: str, lower_case: bool, special_tokens: tuple[str, ...]) -> tuple["Tokenizer", Callable]:
    """The tokenizer (2 s to build) and its traced function, cached for the next job of this process."""
    import tensorflow as tf

    from bert_tf.text import tokenizer_kinds

    tokenizer = tokenizer_kinds.from_file(vocab_file, lower_case, special_tokens_in_strings=special_tokens)
    strings = [tf.TensorSpec([None], tf.string)]
    return tokenizer, tf.function(tokenizer.inside_text, input_signature=strings, autograph=False)


def tokenize_bucket(job: ShardJob) -> tuple[pairs.FlatDocuments, dict[str, int], np.ndarray, np.ndarray]:
    """Tokenizes a bucket: documents, statistics, int64 [V] counts of the ids, uint64 hashes of (some) sentences."""
    tokenizer, tokenize = _tokenizer(job.vocab_file, job.lower_case, job.special_tokens_in_strings)
    counts = np.zeros(tokenizer.size, np.int64)
    all_ids, all_lengths, all_documents, all_hashes = [], [], [], []
    for number_of_documents, texts, document_of_text in _batches(read_bucket(job.bucket)):
        ragged = tokenize(texts)
        ids, lengths = ragged.values.numpy(), ragged.row_lengths().numpy()  # [n], [s]
        document_of_text = document_of_text[lengths > 0]  # sentences without a token (odd spaces) are dropped
        lengths = lengths[lengths > 0]
        sizes = np.bincount(document_of_text, minlength=number_of_documents)
        hashes = sentence_hashes(ids, lengths)
        counts += np.bincount(ids, minlength=tokenizer.size)
        all_ids.append(ids)
        all_lengths.append(lengths)
        all_documents.append(sizes[sizes > 0])
        all_hashes.append(hashes[hashes & UINT(2**job.hash_bits - 1) == 0])
    documents = pairs.FlatDocuments(_concatenate(all_ids, np.int32), _starts(all_lengths), _starts(all_documents))
    statistics = {
        "documents": len(documents.document_starts) - 1,
        "sentences": len(documents.sentence_starts) - 1,
        "tokens": len(documents.ids),
        "unknown": int(counts[tokenizer.unknown_id]),
    }
    return documents, statistics, counts, _concatenate(all_hashes, np.uint64)


def _batches(documents: Iterable[list[str]]) -> Iterator[tuple[int, list[str], np.ndarray]]:
    """Yields (number of documents, texts, int64 document of each text) of about BATCH_CHARACTERS each."""
    texts: list[str] = []
    owners: list[int] = []
    number = size = 0
    for document in documents:
        texts.extend(document)
        owners.extend([number] * len(document))
        number += 1
        size += sum(map(len, document))
        if size >= BATCH_CHARACTERS:
            yield number, texts, np.array(owners)
            texts, owners, number, size = [], [], 0, 0
    if texts:
        yield number, texts, np.array(owners)


def _concatenate(arrays: Sequence[np.ndarray], dtype: Any) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype)


def _starts(lengths: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(_concatenate(lengths, np.int64))]).astype(np.int64)


def sentence_hashes(ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Ids int32 [n] of sentences of these lengths (all above 0) -> uint64 [s]; equal sentences have equal hashes."""
    if not len(lengths):
        return np.zeros(0, UINT)
    starts = np.cumsum(lengths) - lengths
    positions = np.arange(len(ids)) - np.repeat(starts, lengths)
    values = _mix(ids.astype(UINT) + (positions.astype(UINT) << UINT(32)))
    return _mix(np.add.reduceat(values, starts))


def _mix(x: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64: each bit of the result depends on all bits of x."""
    x = (x ^ (x >> UINT(30))) * UINT(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> UINT(27))) * UINT(0x94D049BB133111EB)
    return x ^ (x >> UINT(31))


def write_records(documents: pairs.FlatDocuments, rows: np.ndarray, job: ShardJob) -> dict[str, int]:
    """Writes one tf.train.Example per instance; returns the manifest's statistics of the shard."""
    import tensorflow as tf

    tokenizer, _ = _tokenizer(job.vocab_file, job.lower_case, job.special_tokens_in_strings)
    ids, cls, sep = documents.ids, [tokenizer.cls_id], [tokenizer.sep_id]
    total = 0
    with atomic_files.atomic_write(job.shard, shared=True, folder=os.path.dirname(job.statistics)) as partial:
        with tf.io.TFRecordWriter(partial, options="GZIP" if job.shard.endswith(".gz") else None) as writer:
            for index, (start, end, second, second_end, random_next) in enumerate(rows.tolist()):
                first = ids[start:end]
                if job.pairs == pairs.FULL_SENTENCES:
                    first = np.insert(first, pairs.documents_inside(documents, start, end) - start, sep)
                token_ids = cls + first.tolist() + (sep * tokenizer.separators if job.nsp else sep)
                second_start = len(token_ids)
                if job.nsp:
                    token_ids += ids[second:second_end].tolist() + sep
                total += len(token_ids)
                writer.write(serialize_record(token_ids, second_start, random_next, (job.number << 32) + index))
        size = os.path.getsize(partial)
    return {
        "instances": len(rows),
        "instance_tokens": total,
        "random_next": int(rows[:, pairs.RANDOM_NEXT].sum()),
        "bytes": size,
    }


def serialize_record(token_ids: Sequence[int], second_start: int, next_sentence_label: int, record_id: int) -> bytes:
    """One serialized tf.train.Example; second_start is the first position of segment 1, label 1 is a random next."""
    from tensorflow.train import Example

    example = Example()
    feature = example.features.feature
    feature["token_ids"].int64_list.value.extend(token_ids)
    feature["second_start"].int64_list.value.append(second_start)
    feature["next_sentence_label"].int64_list.value.append(next_sentence_label)
    feature["record_id"].int64_list.value.append(record_id)
    return example.SerializeToString(deterministic=True)
