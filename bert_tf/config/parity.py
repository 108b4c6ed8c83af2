"""Quirks of google-research/bert that a flag reproduces, and the remedy for each; `--parity` sets all of them.

docs/parity.md shows the same table; tests/config/test_parity.py compares the two.
"""

import dataclasses
from collections.abc import Collection
from typing import Any

from bert_tf.errors import UserError

CHOICES = ("google", "fixed")


@dataclasses.dataclass(frozen=True)
class Quirk:
    """A flag, its value with `--parity=google` and with `--parity=fixed`, and the effect of each."""

    flag: str
    google: Any
    fixed: Any
    original: str
    remedy: str


QUIRKS = (
    Quirk(
        "continuous_schedule",
        False,
        True,
        "the decay of the learning rate runs from step 0, so that the rate drops where warm-up ends",
        "the decay starts at the end of warm-up",
    ),
    Quirk(
        "optimizer",
        "adamw",
        "adamw_corrected",
        "Adam without bias correction: its first updates are too large",
        "bias correction (Mosbach et al. 2020)",
    ),
    Quirk(
        "head_learning_rate",
        0.0,
        -1.0,
        "the head has the learning rate of the encoder (`same`)",
        "1e-3 for a new head of tags or answers and fewer than 10,000 examples (`auto`)",
    ),
    Quirk(
        "num_warmup_steps",
        10_000,
        -1,
        "10,000 warm-up steps, regardless of the length of pre-training",
        "`warmup_proportion` of the steps",
    ),
    Quirk(
        "static_masking",
        True,
        False,
        "masks are drawn once, when records are written",
        "new masks in every epoch (Liu et al. 2019)",
    ),
    Quirk(
        "short_seq_per_document",
        True,
        False,
        "the shorter target length is drawn once per document, so that a long one may yield thousands of tiny rows",
        "it is drawn for each row",
    ),
    Quirk(
        "masked_lm_epsilon",
        1e-5,
        0.0,
        "a number is added to the count of predicted tokens that the loss is divided by",
        "nothing is added: the loss is the mean",
    ),
    Quirk(
        "keep_best",
        False,
        True,
        "the last weights are evaluated and kept",
        "the weights of the best evaluation, if there is a development set",
    ),
    Quirk(
        "word_alignment",
        True,
        False,
        "answers are mapped back to words by comparing characters, which returns too much where normalization changes "
        "their number",
        "answers are cut out by the offsets of their tokens",
    ),
    Quirk(
        "null_score_diff_threshold",
        0.0,
        None,
        "no answer is predicted if its score is above the best other one",
        "the threshold is chosen on the development set",
    ),
)


def values(choice: str, names: Collection[str]) -> dict[str, Any]:
    """Returns the {flag: value} set by a choice ("", "google" or "fixed"), for the flags among `names`."""
    if choice not in ("", *CHOICES):
        raise UserError(f"parity={choice!r}: expected one of {', '.join(CHOICES)}.")
    return {quirk.flag: getattr(quirk, choice) for quirk in QUIRKS if choice and quirk.flag in names}


def table() -> list[str]:
    """The lines of a Markdown table of all quirks."""
    lines = [
        "| flag | `google` | behavior in google-research/bert | `fixed` | fixed behavior |",
        "|---|---|---|---|---|",
    ]
    for quirk in QUIRKS:
        google, fixed = (_written(value) for value in (quirk.google, quirk.fixed))
        lines.append(f"| `--{quirk.flag}` | {google} | {quirk.original} | {fixed} | {quirk.remedy} |")
    return lines


def _written(value: Any) -> str:
    return "not set" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"
