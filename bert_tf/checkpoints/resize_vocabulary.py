"""Changes the vocabulary of a checkpoint: adds words of a domain, or removes tokens of other languages.

V tokens before, W tokens after, D hidden size.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.text import tokenizer_kinds, vocabulary
from bert_tf.text.characters import basic_tokenize, wordpiece
from bert_tf.text.tokenizer_settings import TokenizerSettings

BY_TOKEN = ("token_table", "masked_lm/output_bias")  # suffixes of the names of weights with a row for each token


@dataclasses.dataclass(frozen=True)
class VocabularyChange:
    """Numbers of tokens that keep their embeddings, are new, and were removed."""

    kept: int
    new: int
    removed: int

    def __str__(self) -> str:
        return (
            f"{self.kept:,} tokens keep their embeddings, {self.new:,} are new (each the mean of the tokens it was "
            f"split into before), {self.removed:,} are removed."
        )


def with_vocabulary(checkpoint: Checkpoint, tokens: Sequence[str]) -> tuple[Checkpoint, VocabularyChange]:
    """The checkpoint with `tokens` [W], in any order, in place of its vocabulary [V].

    A token in both vocabularies keeps its row of every table. A new token starts as the mean of the old tokens that it
    splits into, or of all old tokens if one of those is [UNK]; further training adapts it.

    Raises:
        UserError: the checkpoint lacks a vocabulary or its casing, or `tokens` lacks a special token.
    """
    before, lower_case = checkpoint.vocabulary, checkpoint.lower_case
    if before is None or lower_case is None:
        missing, flag = ("vocabulary", "vocab_file") if before is None else ("casing", "do_lower_case")
        raise UserError(f"The checkpoint has no {missing}, which a new vocabulary is compared with: pass --{flag}.")
    if {vocabulary.kind_of(before), vocabulary.kind_of(tokens)} != {tokenizer_kinds.WORDPIECE}:
        raise UserError("Only a WordPiece vocabulary can be replaced, and only by another WordPiece vocabulary.")
    vocabulary.check_special_tokens(tokens, "The new vocabulary")
    ids, settings = {token: number for number, token in enumerate(before)}, vocabulary.settings_of(before)
    sources = [[ids[token]] if token in ids else _old_ids(token, ids, lower_case, settings) for token in tokens]
    weights = {
        name: _resized(array, sources) if name.endswith(BY_TOKEN) else array
        for name, array in checkpoint.weights.items()
    }
    config = dataclasses.replace(checkpoint.config, vocab_size=len(tokens))
    kept = len(ids.keys() & set(tokens))
    change = VocabularyChange(kept=kept, new=len(tokens) - kept, removed=len(ids) - kept)
    tokens = vocabulary.with_settings(tokens, settings)
    return dataclasses.replace(checkpoint, config=config, weights=weights, vocabulary=tokens), change


def _old_ids(token: str, ids: Mapping[str, int], lower_case: bool, settings: TokenizerSettings) -> list[int]:
    """Ids of the old tokens that a new one splits into; all ids if one of them is unknown."""
    is_suffix = token.startswith("##")
    words = basic_tokenize(token.removeprefix("##"), lower_case=lower_case, settings=settings)
    parts = [
        part
        for number, word in enumerate(words)
        for part in wordpiece(word, ids, settings.max_word_characters, inside=is_suffix and not number)
    ]
    return list(range(len(ids))) if not parts or "[UNK]" in parts else [ids[part] for part in parts]


def _resized(array: np.ndarray, sources: Sequence[list[int]]) -> np.ndarray:
    """[V, D] or [V], and W lists of rows -> [W, D] or [W]."""
    return np.stack([array[rows[0]] if len(rows) == 1 else array[rows].mean(0) for rows in sources])
