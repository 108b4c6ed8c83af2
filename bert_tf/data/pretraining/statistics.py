"""What a corpus and its records look like in numbers, added up over shards and put into a small table."""

import numpy as np

MUCH_UNKNOWN = 0.05  # of all pieces; in text that fits its vocabulary [UNK] stays below 0.005
MANY_DOUBLES = 0.3  # of all sentences; repeated text stalls the loss


def summary(of_shards, hashes, max_seq_length, hash_bits):
    """Statistics of one split from those of its shards (dicts), and arrays of sentence hashes (uint64).

    hash_bits: of 2 ** hash_bits sentences one was remembered, chosen by its hash, so that the doubles of a remembered
    sentence are all remembered; "duplicate_sentences" is then an estimate, and "duplicates_sampled" says so.
    """
    names = ("documents", "sentences", "tokens", "unknown", "instances", "instance_tokens", "random_next", "bytes")
    total = {name: sum(of_shard[name] for of_shard in of_shards) for name in names}
    hashes = np.concatenate([np.zeros(0, np.uint64), *hashes])
    doubles = len(hashes) - len(np.unique(hashes))
    slots = total["instances"] * max_seq_length
    return total | {
        "single_document_buckets": sum(of_shard["documents"] == 1 for of_shard in of_shards),
        "duplicate_sentences": doubles << hash_bits,
        "duplicates_sampled": hash_bits > 0,
        "unknown_rate": total["unknown"] / max(1, total["tokens"]),
        "mean_length": total["instance_tokens"] / max(1, total["instances"]),
        "padding_share": 1 - total["instance_tokens"] / slots if slots else 0.0,
        "random_next_share": total["random_next"] / max(1, total["instances"]),
    }


def warnings_about(statistics, ready, *, nsp):
    """Sentences about what is likely to spoil the training; none if all looks well."""
    train, warnings = statistics["train"], []
    if nsp and train["single_document_buckets"]:
        warnings.append(
            f"{train['single_document_buckets']} training shard(s) hold one document: no true random next sentence, "
            "the second segment comes from the same document."
        )
    if ready["evaluates_on_training_text"]:
        warnings.append("The corpus is one document: evaluation uses the training text; give an eval_file.")
    if train["unknown_rate"] > MUCH_UNKNOWN:
        warnings.append(f"{train['unknown_rate']:.0%} of the pieces are [UNK]: the vocabulary does not fit the text.")
    if train["duplicate_sentences"] > MANY_DOUBLES * train["sentences"]:
        share = train["duplicate_sentences"] / train["sentences"]
        warnings.append(f"{share:.0%} of the sentences occur before: repeated text stalls the training.")
    return warnings


def describe(statistics):
    """manifest["statistics"] -> a table for people, one column a split."""
    splits = [split for split in ("train", "eval") if statistics[split]["instances"]]
    rows = [("", *splits)]
    for title, text in (
        ("documents", lambda s: f"{s['documents']:,}"),
        ("sentences", lambda s: f"{s['sentences']:,}"),
        ("  seen before", lambda s: f"{'about ' * s['duplicates_sampled']}{s['duplicate_sentences']:,}"),
        ("tokens", lambda s: f"{s['tokens']:,}"),
        ("  [UNK]", lambda s: f"{s['unknown_rate']:.2%}"),
        ("instances", lambda s: f"{s['instances']:,}"),
        ("  mean length", lambda s: f"{s['mean_length']:.1f}"),
        ("  padding", lambda s: f"{s['padding_share']:.1%}"),
        ("  random next", lambda s: f"{s['random_next_share']:.1%}"),
        ("record bytes", lambda s: f"{s['bytes']:,}"),
    ):
        rows.append((title, *(text(statistics[split]) for split in splits)))
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(wide[0]), *map(str.rjust, row[1:], wide[1:])]).rstrip() for row in rows]
    layouts = ", ".join(f"{count} {layout}" for layout, count in sorted(statistics["train"]["layouts"].items()))
    return "\n".join([*lines, f"files: {layouts}"])
