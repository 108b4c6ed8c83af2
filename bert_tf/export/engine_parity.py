"""Compares a model in another engine with the live one: inputs of several lengths, output differences, times.

B texts, T positions in a row, P masked positions.
"""

import statistics
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from bert_tf.config.bert_config import BertConfig

Arrays = dict[str, np.ndarray]
Function = Callable[[Arrays], Arrays]

TIMED_LENGTH, WARM_UP_CALLS, TIMED_CALLS = 128, 3, 15
MAX_TEXTS, MAX_BATCH = 32, 8
SENTENCES = (
    "Yes.",
    "A gripping film, and well told.",
    "The with statement wraps the execution of a block with methods that are defined by a context manager.",
    "In 1998 Ann Smith moved from Paris to New York, where she works for a small company that makes maps; her brother, "
    "who is older, stayed behind and teaches at a school near the river, as their father did before him.",
)


def token_ids_of(texts: Iterable[str], tokenizer: Any, config: BertConfig) -> list[list[int]]:
    """Lists of ids from a `tokenizers.Tokenizer`; without a tokenizer, reproducible random ids of similar lengths."""
    if tokenizer is not None:  # it truncates to the positions of the model
        return [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
    random, longest = np.random.default_rng(0), config.max_position_embeddings
    return [random.integers(0, config.vocab_size, min(2 + len(text) // 5, longest)).tolist() for text in texts]


def batches(rows: Sequence[list[int]], *, length: int, **options: Any) -> list[Arrays]:
    """Inputs with the options of `inputs_of`: single rows, several together, and one row of `length` tokens."""
    rows = rows[:MAX_TEXTS]
    joined = sum(rows, [])
    long_row = (joined * (length // len(joined) + 1))[:length]
    return [inputs_of(batch, **options) for batch in (*([row] for row in rows), rows[:MAX_BATCH], [long_row])]


def inputs_of(rows: Sequence[Sequence[int]], *, segments: int = 2, has_masks: bool = False) -> Arrays:
    """Lists of ids -> int32 `token_ids`, `segment_ids` [B, T], `lengths` [B], and `masked_lm_positions` [B, P].

    segments: the number of segments in the model.
    """
    lengths = np.array([len(row) for row in rows], np.int32)
    token_ids = np.zeros([len(rows), max(lengths)], np.int32)
    for padded, row in zip(token_ids, rows, strict=True):
        padded[: len(row)] = row
    inputs = {"token_ids": token_ids, "segment_ids": np.zeros_like(token_ids), "lengths": lengths}
    inputs["segment_ids"][:, 1::3] = min(1, segments - 1)  # every segment occurs
    if has_masks:
        inputs["masked_lm_positions"] = np.tile(np.arange(min(lengths), dtype=np.int32)[:3], [len(rows), 1])
    return inputs


def difference(
    expected: Function, actual: Function, batches: Iterable[Arrays], token_outputs: Collection[str]
) -> float:
    """Largest difference between the outputs of two functions, relative to the largest expected value of an output.

    Args:
        expected: the reference.
        actual: the function to compare with it.
        batches: their inputs.
        token_outputs: outputs [B, T, ...], compared only within the lengths of the texts.

    Returns:
        The difference; infinity if shapes differ or a value is not finite.
    """
    largest: dict[str, float] = {}
    differences: dict[str, float] = {}
    for inputs in batches:
        expected_outputs, actual_outputs = expected(inputs), actual(inputs)
        used = np.arange(inputs["token_ids"].shape[1])[None, :] < inputs["lengths"][:, None]  # [B, T]
        for name, output in actual_outputs.items():
            if output.shape != expected_outputs[name].shape or not np.all(np.isfinite(output)):
                return np.inf
            a, b = (x[used] if name in token_outputs else x for x in (expected_outputs[name], output))
            largest[name] = max(largest.get(name, 0.0), float(np.max(np.abs(a))))
            differences[name] = max(differences.get(name, 0.0), float(np.max(np.abs(a - b))))
    return max(differences[name] / max(largest[name], 1e-30) for name in differences)


def median_seconds(functions: Sequence[Function], inputs: Arrays) -> list[float]:
    """The median time per call of each function; calls alternate, so that other load on the machine affects all."""
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(WARM_UP_CALLS + TIMED_CALLS):
        for function, times in zip(functions, seconds, strict=True):
            start = time.perf_counter()
            function(inputs)
            times.append(time.perf_counter() - start)
    return [statistics.median(times[WARM_UP_CALLS:]) for times in seconds]
