"""Texts with [MASK]s to the most probable tokens: `tasks.pretraining.mask_filling` in NumPy.

M [MASK]s in a text, V vocabulary, K predictions for each.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.export.host import Numbers, Row


def output_positions(lm_kind: str, positions: Sequence[int]) -> list[int]:
    """The outputs that predict the tokens at these positions: `mask_filling.output_positions`."""
    if lm_kind == "masked":
        return list(positions)
    before = [max(position - 1, 0) for position in positions]
    return before if lm_kind == "left_to_right" else [2 * position for position in before]


class Stages:
    """See `export.host`. settings: "max_positions", "lm_kind" of `mask_filling`, "predictions" (K)."""

    inputs: dict[str, int | None] = {"text": None}
    outputs = ("pieces", "scores")

    def __init__(self, settings: dict[str, Any], about: dict[str, Any], tokenizer: Any) -> None:
        self._tokenizer, self._settings = tokenizer, settings

    def read(self, examples: Sequence[Sequence[str]]) -> tuple[list[Row], list[int]]:
        """A row for each text, truncated around its first mask, and its number of masks."""
        found, counts = [], []
        room, mask = self._settings["max_positions"] - 2, self._tokenizer.mask_id
        for (text,) in examples:
            ids = self._tokenizer.ids_with_masks(text)
            middle = ids.index(mask) if mask in ids else 0
            start = min(max(middle - room // 2, 0), max(len(ids) - room, 0))
            ids = [self._tokenizer.cls_id, *ids[start : start + room], self._tokenizer.sep_id]
            places = [place for place, number in enumerate(ids) if number == mask]
            found.append(Row(ids, [0] * len(ids), output_positions(self._settings["lm_kind"], places)))
            counts.append(len(places))
        return found, counts

    def answer(self, numbers: Numbers, counts: list[int]) -> dict[str, np.ndarray]:
        """The outputs of the signature."""
        width, size = max(counts), min(self._settings["predictions"], numbers["masked_lm_logits"][0].shape[-1])
        pieces = np.full((len(counts), width, size), "", object)
        scores = np.zeros(pieces.shape, np.float32)
        for row, count in enumerate(counts):
            for mask, logits in enumerate(numbers["masked_lm_logits"][row][:count]):
                best = np.argsort(-logits, kind="stable")[:size]
                shares = np.exp(logits - logits[best[0]])
                scores[row, mask] = shares[best] / shares.sum()
                pieces[row, mask] = [self._tokenizer.vocabulary[number] for number in best]
        return {"pieces": pieces, "scores": scores}
