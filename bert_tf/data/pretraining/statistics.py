"""Statistics of a corpus and its records, summed over shards and formatted as a small table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

MAX_UNKNOWN_RATE = 0.05  # of all tokens; in text that fits its vocabulary [UNK] stays below 0.005
MAX_DUPLICATE_RATE = 0.3  # of all sentences; repeated text stalls the loss


def summarize(
    shards: Sequence[Mapping[str, int]], hashes: Iterable[np.ndarray], max_seq_length: int, hash_bits: int
) -> dict[str, Any]:
    """Statistics of one split from those of its shards, and arrays of sentence hashes (uint64).

    hash_bits: one in 2 ** hash_bits sentences was sampled, by its hash, so that the duplicates of a sampled sentence
    are all sampled; "duplicate_sentences" is then an estimate, and "duplicates_sampled" says so.
    """
    names = ("documents", "sentences", "tokens", "unknown", "instances", "instance_tokens", "random_next", "bytes")
    total = {name: sum(shard[name] for shard in shards) for name in names}
    all_hashes = np.concatenate([np.zeros(0, np.uint64), *hashes])
    duplicates = len(all_hashes) - len(np.unique(all_hashes))
    positions = total["instances"] * max_seq_length
    return total | {
        "single_document_buckets": sum(shard["documents"] == 1 for shard in shards),
        "duplicate_sentences": duplicates << hash_bits,
        "duplicates_sampled": hash_bits > 0,
        "unknown_rate": total["unknown"] / max(1, total["tokens"]),
        "mean_length": total["instance_tokens"] / max(1, total["instances"]),
        "padding_share": 1 - total["instance_tokens"] / positions if positions else 0.0,
        "random_next_share": total["random_next"] / max(1, total["instances"]),
    }


def find_problems(
    statistics: Mapping[str, Mapping[str, Any]], *, nsp: bool, evaluates_on_training_text: bool
) -> list[str]:
    """Warnings about what is likely to spoil the training; empty if all looks well."""
    train, warnings = statistics["train"], []
    if nsp and train["single_document_buckets"]:
        warnings.append(
            f"{train['single_document_buckets']} training shard(s) hold one document: no true random next sentence, "
            "the second segment comes from the same document."
        )
    if evaluates_on_training_text:
        warnings.append("The corpus is one document: evaluation uses the training text; give an eval_file.")
    if train["unknown_rate"] > MAX_UNKNOWN_RATE:
        warnings.append(f"{train['unknown_rate']:.0%} of the tokens are [UNK]: the vocabulary does not fit the text.")
    if train["duplicate_sentences"] > MAX_DUPLICATE_RATE * train["sentences"]:
        rate = train["duplicate_sentences"] / train["sentences"]
        warnings.append(f"{rate:.0%} of the sentences are duplicates: repeated text stalls the training.")
    return warnings


def describe(statistics: Mapping[str, Mapping[str, Any]]) -> str:
    """Formats manifest["statistics"] as a table, one column per split."""
    splits = [split for split in ("train", "eval") if statistics[split]["instances"]]
    rows = [("", *splits)]
    for title, text in (
        ("documents", lambda s: f"{s['documents']:,}"),
        ("sentences", lambda s: f"{s['sentences']:,}"),
        ("  duplicates", lambda s: f"{'about ' * s['duplicates_sampled']}{s['duplicate_sentences']:,}"),
        ("tokens", lambda s: f"{s['tokens']:,}"),
        ("  [UNK]", lambda s: f"{s['unknown_rate']:.2%}"),
        ("instances", lambda s: f"{s['instances']:,}"),
        ("  mean length", lambda s: f"{s['mean_length']:.1f}"),
        ("  padding", lambda s: f"{s['padding_share']:.1%}"),
        ("  random next", lambda s: f"{s['random_next_share']:.1%}"),
        ("record bytes", lambda s: f"{s['bytes']:,}"),
    ):
        rows.append((title, *(text(statistics[split]) for split in splits)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
    layouts = ", ".join(f"{count} {layout}" for layout, count in sorted(statistics["train"]["layouts"].items()))
    return "\n".join([*lines, f"files: {layouts}"])
