"""Prediction of the tokens behind [MASK] (Devlin et al. 2018, section 3.1, task 1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from bert_tf.config.bert_config import BertConfig
from bert_tf.heads.base.answers import FilledMasks, Token
from bert_tf.heads.base.head import Head, Outputs, as_text

PREDICTIONS = 10  # tokens returned for each [MASK] by the export


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


def lm_kind(config: BertConfig) -> str:
    """Which tokens a model with this configuration predicts.

    "masked": masked tokens. "left_to_right", a causal model (paper section 5.1, "LTR"): every token but the first, at
    the position before it. "both_ways", two language models: also every token but the last, at the position after it.
    """
    if config.encoder_traits.pretraining == "both_ways":
        return "both_ways"
    return "left_to_right" if config.is_causal else "masked"


def task_name(config: BertConfig, names: Iterable[str] = (), *, finds_replaced: bool = False) -> str:
    """The task in `tasks.catalog` that pre-trains a model with this configuration.

    names: canonical names of its initial weights. finds_replaced: whether it is to find replaced tokens;
    an ELECTRA always does, as does a model initialized with a generator.
    """
    finds_replaced |= config.encoder_traits.pretraining == "replaced_tokens"
    finds_replaced |= any(name.startswith("generator/") for name in names)
    return f"pretraining/{'replaced_tokens' if finds_replaced else 'mlm_nsp'}"


def host_settings(kind: str) -> dict[str, Any]:
    """See `export.host.masks`; kind: from `lm_kind`."""
    return {"stages": "masks", "lm_kind": kind, "predictions": PREDICTIONS}


HEAD = MaskedLm
