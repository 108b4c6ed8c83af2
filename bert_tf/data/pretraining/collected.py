"""What an engine returns when both stages are done: counts and statistics, but no documents."""

import dataclasses

import numpy as np

from bert_tf.data.pretraining.buckets import Bucket
from bert_tf.data.pretraining.parts import PartResult


@dataclasses.dataclass(frozen=True)
class Collected:
    """The counts of all parts, the statistics of each shard, and over all shards of a split what cannot be added up.

    counts: int64 [V], how often each id occurs in "train". hashes: by split, arrays of sentence hashes (uint64).
    """

    result: PartResult
    shards: dict[Bucket, dict[str, int]]
    counts: np.ndarray
    hashes: dict[str, list[np.ndarray]]
