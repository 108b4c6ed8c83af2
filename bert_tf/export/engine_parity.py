"""What a model for another engine is tried with: texts of several lengths, alone and together; differences and times.

B texts, T slots in a row, P masked positions.
"""

import statistics
import time

import numpy as np

TIMED_SLOTS, WARM, TIMED = 128, 3, 15  # calls
MOST_TRIED, TOGETHER = 32, 8
SENTENCES = (
    "Yes.",
    "A gripping film, and well told.",
    "The with statement wraps the execution of a block with methods that are defined by a context manager.",
    "In 1998 Ann Smith moved from Paris to New York, where she works for a small company that makes maps; her brother, "
    "who is older, stayed behind and teaches at a school near the river, as their father did before him.",
)


def rows_of(texts, tokenizer, config):
    """Lists of ids; without a tokenizer any, about as many, the same in every run."""
    if tokenizer is not None:  # it cuts texts to the positions that the model has
        return [encoded.ids for encoded in tokenizer.encode_batch(list(texts))]
    draw, most = np.random.default_rng(0), config.max_position_embeddings
    return [draw.integers(0, config.vocab_size, min(2 + len(text) // 5, most)).tolist() for text in texts]


def trials(rows, *, slots, **options):
    """What `inputs_of` makes, with its options: each row alone, several together, and last one row of so many slots."""
    rows = rows[:MOST_TRIED]
    joined = sum(rows, [])
    one = (joined * (slots // len(joined) + 1))[:slots]
    return [inputs_of(batch, **options) for batch in (*([row] for row in rows), rows[:TOGETHER], [one])]


def inputs_of(rows, *, segments=2, has_masks=False):
    """Lists of ids -> int32 `token_ids`, `segment_ids` [B, T], `lengths` [B], and `masked_lm_positions` [B, P].

    segments: how many kinds of them the model knows.
    """
    lengths = np.array([len(row) for row in rows], np.int32)
    token_ids = np.zeros([len(rows), max(lengths)], np.int32)
    for ids, row in zip(token_ids, rows, strict=True):
        ids[: len(row)] = row
    inputs = {"token_ids": token_ids, "segment_ids": np.zeros_like(token_ids), "lengths": lengths}
    inputs["segment_ids"][:, 1::3] = min(1, segments - 1)  # so that not only the first is seen
    if has_masks:
        inputs["masked_lm_positions"] = np.tile(np.arange(min(lengths), dtype=np.int32)[:3], [len(rows), 1])
    return inputs


def difference(expected, given, batches, token_outputs):
    """Largest difference of two functions' answers, as a share of the largest answer of an output; inf if not a number.

    token_outputs: the outputs [B, T, ...] of which only the slots within a text's length count.
    """
    largest, apart = {}, {}
    for inputs in batches:
        answers, others = expected(inputs), given(inputs)
        used = np.arange(inputs["token_ids"].shape[1])[None, :] < inputs["lengths"][:, None]  # [B, T]
        for name, other in others.items():
            if other.shape != answers[name].shape or not np.all(np.isfinite(other)):
                return np.inf
            a, b = (x[used] if name in token_outputs else x for x in (answers[name], other))
            largest[name] = max(largest.get(name, 0.0), float(np.max(np.abs(a))))
            apart[name] = max(apart.get(name, 0.0), float(np.max(np.abs(a - b))))
    return max(apart[name] / max(largest[name], 1e-30) for name in apart)


def median_seconds(functions, inputs):
    """Of each function's calls, in turns, so that what else the machine does is shared out evenly."""
    seconds = [[] for _ in functions]
    for _ in range(WARM + TIMED):
        for function, taken in zip(functions, seconds, strict=True):
            start = time.perf_counter()
            function(inputs)
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken[WARM:]) for taken in seconds]
