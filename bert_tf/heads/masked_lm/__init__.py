"""Prediction of the tokens behind [MASK] (Devlin et al. 2018, section 3.1, task 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from bert_tf.heads.base.answers import FilledMasks, Token
from bert_tf.heads.base.head import Head, Outputs, as_text


class MaskedLm(Head):
    """Predicts masked tokens with the word embedding table."""

    kind = weights = "masked_lm"
    model_class = "Pretrainer"
    signature_inputs: ClassVar[tuple[frozenset[str], ...]] = (frozenset({"text"}),)
    signature_outputs = frozenset({"pieces", "scores"})

    @classmethod
    def answer(cls, outputs: Outputs, labels: Sequence[str]) -> FilledMasks:
        """From "pieces" and "scores" [M, K], best first, with padding after the masks of the text."""
        masks = [
            [Token(token=as_text(piece), probability=float(score)) for piece, score in zip(*mask, strict=True)]
            for mask in zip(outputs["pieces"], outputs["scores"], strict=True)
        ]
        return FilledMasks(masks=[mask for mask in masks if mask[0].token])


HEAD = MaskedLm
