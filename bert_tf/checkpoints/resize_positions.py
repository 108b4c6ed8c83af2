"""Changes the number of positions of a checkpoint, for longer or shorter sequences than it was trained with.

P positions before, N positions after, D hidden size.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf import heads
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.heads.span import SpanHead, answer_search

TABLE = "position_table"  # suffix of the name of the weights with a row for each position


def with_positions(checkpoint: Checkpoint, count: int) -> Checkpoint:
    """The checkpoint with N = `count` positions.

    The P rows are repeated as often as needed; further training adapts them. Longformer found this initialization best
    (Beltagy et al. 2020, section 5).

    Raises:
        UserError: `count` is too small, or the checkpoint has no position table.
    """
    fewest = _fewest(checkpoint)
    if count < fewest:
        raise UserError(f"max_position_embeddings is {count}; expected {fewest} or more.")
    if not any(name.endswith(TABLE) for name in checkpoint.weights):
        raise UserError("The checkpoint has no position embeddings that could be resized.")
    first = checkpoint.config.encoder_traits.position_offset

    def resized(table: np.ndarray) -> np.ndarray:  # [first + P, D] -> [first + N, D]
        return np.concatenate([table[:first], np.resize(table[first:], (count, table.shape[-1]))])

    weights = {name: resized(array) if name.endswith(TABLE) else array for name, array in checkpoint.weights.items()}
    config = dataclasses.replace(checkpoint.config, max_position_embeddings=count)
    answers = _in_rows_of(checkpoint.answers, count)
    return dataclasses.replace(checkpoint, config=config, weights=weights, answers=answers)


def _fewest(checkpoint: Checkpoint) -> int:
    """Positions of a pair with a single token; for questions, of one with a token and a text of one token."""
    separators = checkpoint.host_tokenizer.separators if checkpoint.vocabulary else 1
    is_of_questions = heads.of_checkpoint(checkpoint.kind, checkpoint.weights) is SpanHead
    return answer_search.fewest_positions(separators) if is_of_questions else 3 + separators


def _in_rows_of(answers: Mapping[str, Any], count: int) -> Mapping[str, Any]:
    """See `Checkpoint.answers`; limits recorded lengths of sequences and windows to `count` tokens."""
    if not answers.get("host"):
        return answers
    most = {"max_seq_length": count, "stride": count // 2, "doc_stride": count // 3, "max_query_length": count // 4}

    def shortened(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: min(value, most[name]) if name in most else value for name, value in values.items()}

    host = shortened(answers["host"])
    if host.get("windows"):
        host["windows"] = shortened(host["windows"])
    return {**answers, "host": host}


def with_position_table(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with its sinusoidal positions as a table of learned ones, which computes the same function.

    Other formats and engines support only learned positions. A checkpoint that has them is returned unchanged.
    """
    config = checkpoint.config
    if config.position_embedding_type == "absolute":
        return checkpoint
    from bert_tf.model.embeddings import sinusoids

    first = np.zeros([config.encoder_traits.position_offset, config.embedding_width], np.float32)
    table = np.concatenate([first, sinusoids(config.max_position_embeddings, config.embedding_width)])
    return dataclasses.replace(
        checkpoint,
        config=dataclasses.replace(config, position_embedding_type="absolute"),
        weights={**checkpoint.weights, f"encoder/embeddings/{TABLE}": table},
    )
