"""Statistics of texts and their lengths for a page: in words and percent, with histograms on one scale."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bert_tf.reports.curves import is_number, number_text
from bert_tf.reports.wording import percent_text, value_text, words

NAMES = {  # titles of names that are unclear on their own
    "unknown": "Unknown tokens, [UNK]",
    "instances": "Rows",
    "instance_tokens": "Tokens in rows",
    "random_next": "Rows with a random second text",
    "bytes": "Size of the records",
    "single_document_buckets": "Shards of a single document",
    "duplicate_sentences": "Repeated sentences",
    "padding_share": "Padding",
    "layouts": "Files by layout",
    "predictions_per_row": "Masked tokens per row",
    "most_predictions_in_a_row": "Masked tokens per row, at most",
    "mean_length": "Mean length in tokens",
    "longest": "Longest, in tokens",
    "padding_in_full_rows": "Padding in rows of full length",
    "padding_in_batches": "Padding in batches cut to their longest row",
    "padding_when_packed": "Padding when several texts share a row",
    "in_several_windows": "Questions read in several windows",
    "answers_not_found": "Questions whose answer is not in the text",
}
# Counts and their wholes: the first of these that the split has.
WHOLES = {
    "unknown": ("tokens",),
    "random_next": ("instances",),
    "duplicate_sentences": ("sentences",),
    "in_several_windows": ("questions",),
    "answers_not_found": ("questions",),
}
TEXTS = ("windows", "examples", "sentences", "texts")
REPEATED = ("unknown_rate", "random_next_share", "duplicates_sampled", "lengths")  # shown in other rows, or as bars


class Table(NamedTuple):
    """Rows of text: `alone` [(name, value)] outside of splits, and `rows` [(name, one value per split)]."""

    alone: list[tuple[str, str]]
    splits: list[str]
    rows: list[tuple[str, list[str]]]
    has_rows_of_a_sample: bool


class Histogram(NamedTuple):
    """bars: [(height in percent of the tallest of all splits, title)]. unit: "text" or "row"."""

    split: str
    bars: list[tuple[float, str]]
    width: int
    start_of_last: int
    unit: str
    tallest: str


def table(statistics: Mapping[str, Any]) -> Table:
    """Statistics as rows of text; values that are dictionaries are splits, with a column each."""
    splits = {name: values for name, values in statistics.items() if isinstance(values, dict)}
    names = dict.fromkeys(name for values in splits.values() for name in values if name not in REPEATED)
    return Table(
        alone=[(_title(name), value_text(value)) for name, value in statistics.items() if name not in splits],
        splits=list(splits),
        rows=[(_title(name), [_value(name, values) for values in splits.values()]) for name in names],
        has_rows_of_a_sample="rows_in_the_sample" in names,
    )


def _title(name: str) -> str:
    longer = name.removeprefix("longer_than_")
    return NAMES.get(name, words(name) if longer == name else f"Longer than {longer} tokens")


def _value(name: str, values: Mapping[str, Any]) -> str:
    """Formats a named value: a count with its share of the whole, a share, or a size."""
    value = values.get(name)
    if not is_number(value):
        return value_text(value)
    if name == "bytes":
        return (
            f"{number_text(round(value / 1e6, 1))} MB" if value >= 1e6 else f"{number_text(round(value / 1e3, 1))} kB"
        )
    if name.startswith(("padding_", "share_of_")):
        return percent_text(value)
    candidates = TEXTS if name.startswith("longer_than_") else WHOLES.get(name, ())
    whole = next((values[part] for part in candidates if is_number(values.get(part)) and values[part] > 0), None)
    about = "about " if name == "duplicate_sentences" and values.get("duplicates_sampled") is True else ""
    return about + number_text(value) + (f" ({percent_text(value / whole)})" if whole else "")


def histograms(statistics: Mapping[str, Any]) -> list[Histogram]:
    """The text lengths of each split; bars of all splits have the same width and scale, if possible."""
    known = {}
    for split, values in statistics.items():
        lengths = values.get("lengths") if isinstance(values, dict) else None
        counts, width = (lengths.get(name) for name in ("counts", "width")) if isinstance(lengths, dict) else (0, 0)
        if is_number(width) and width >= 1 and isinstance(counts, list) and counts and all(map(is_number, counts)):
            known[split] = counts, int(width)
    widest = max((width for _, width in known.values()), default=1)
    if all(widest % width == 0 for _, width in known.values()):
        known = {split: (_merge(counts, widest // width), widest) for split, (counts, width) in known.items()}
        most = max((len(counts) for counts, _ in known.values()), default=0)
        known = {split: (counts + [0] * (most - len(counts)), widest) for split, (counts, _) in known.items()}
    tallest = max((max(counts) / (sum(counts) or 1) for counts, _ in known.values()), default=0) or 1
    return [_histogram(split, *known[split], tallest, statistics[split]) for split in known]


def _merge(counts: Sequence[float], size: int) -> list[float]:
    """Sums of `size` neighboring bars."""
    return [sum(counts[first : first + size]) for first in range(0, len(counts), size)]


def _histogram(split: str, counts: Sequence[float], width: int, tallest: float, values: Iterable[str]) -> Histogram:
    total = sum(counts) or 1
    bars = [
        (
            100 * count / total / tallest,
            f"{bar * width + 1} to {(bar + 1) * width} tokens: {number_text(count)} ({percent_text(count / total)})",
        )
        for bar, count in enumerate(counts)
    ]
    return Histogram(
        split=split,
        bars=bars,
        width=width,
        start_of_last=(len(counts) - 1) * width + 1,
        unit="row" if "rows_in_the_sample" in values else "text",  # pre-training packs text into rows
        tallest=percent_text(max(counts) / total),
    )


def verdict(scores: Mapping[str, Any], classes: Sequence[Mapping[str, Any]]) -> str:
    """A sentence or two comparing the final scores with a model that has learned nothing. "" if unknown.

    classes: the result of `scoreboard.class_details`; only the first split is used.
    """
    loss, unigram, accuracy = (
        scores.get(name) for name in ("masked_lm_loss", "unigram_masked_lm_loss", "masked_lm_accuracy")
    )
    if is_number(loss) and is_number(unigram) and max(loss, unigram) < 100:
        share = f" It predicts {percent_text(accuracy)} of the masked tokens correctly." if is_number(accuracy) else ""
        comparison = "no better" if loss >= unigram else f"{number_text(round(unigram - loss, 2))} nats better"
        return (
            f"The masked LM loss of {number_text(loss)} equals choosing among {_choices(loss)} equally likely tokens "
            f"(perplexity). It is {comparison} than guessing tokens by their frequency, without the context: "
            f"{number_text(unigram)}, or {_choices(unigram)} tokens.{share}"
        )
    counts = classes[0]["counts"] if classes else []
    total = sum(map(sum, counts))
    if not total:
        return ""
    right, sizes = sum(row[number] for number, row in enumerate(counts)), list(map(sum, counts))
    label = classes[0]["labels"][sizes.index(max(sizes))]
    return (
        f"{number_text(right)} of {number_text(total)} examples ({percent_text(right / total)}) are correct. Always "
        f"predicting the most frequent class, {label}, would be correct for {percent_text(max(sizes) / total)}."
    )


def _choices(loss: float) -> str:
    perplexity = math.exp(loss)
    return f"{perplexity:,.0f}" if perplexity >= 10 else f"{perplexity:.2g}"
