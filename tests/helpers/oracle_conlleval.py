"""conlleval (Erik Tjong Kim Sang, for CoNLL-2000 to 2003) in plain Python, written from its description for tests.

It walks through the words once with what it calls a chunk open or closed on each side; nothing here is shared with
bert_tf. S-, which the original script does not know, is a chunk of one word, as in its successors.
"""


def ends(previous, tag, previous_type, kind):
    """Returns whether a chunk ended between the previous word and this one."""
    pairs = ("BB", "BS", "BO", "IB", "IS", "IO", "EE", "EI", "EB", "ES", "EO", "SE", "SI", "SB", "SS", "SO")
    return previous + tag in pairs or (previous not in "O." and previous_type != kind)


def starts(previous, tag, previous_type, kind):
    """Returns whether a chunk starts with this word."""
    pairs = ("BB", "IB", "EB", "SB", "OB", "BS", "IS", "ES", "SS", "OS", "OI", "OE", "EE", "EI", "SE", "SI")
    return previous + tag in pairs or (tag not in "O." and previous_type != kind)


def evaluate(expected_tags, predicted_tags):
    """{type or "": (precision, recall, F1)} of lists of sentences' tags; "" is all types together."""
    correct, predicted_counts, true_counts = {}, {}, {}

    def add(counts, kind):
        counts[kind] = counts.get(kind, 0) + 1

    for true_tags, guessed_tags in zip(expected_tags, predicted_tags, strict=True):
        in_correct, last = False, [("O", ""), ("O", "")]
        for pair in [*zip(true_tags, guessed_tags, strict=True), ("O", "O")]:
            here = [(tag[0], tag[2:]) for tag in pair]
            ended = [ends(p, t, pk, k) for (p, pk), (t, k) in zip(last, here, strict=True)]
            started = [starts(p, t, pk, k) for (p, pk), (t, k) in zip(last, here, strict=True)]
            if in_correct:
                if all(ended) and last[0][1] == last[1][1]:
                    in_correct = False
                    add(correct, last[0][1])
                elif ended[0] != ended[1] or here[0][1] != here[1][1]:
                    in_correct = False
            if all(started) and here[0][1] == here[1][1]:
                in_correct = True
            for counts, is_start, (_, kind) in zip((true_counts, predicted_counts), started, here, strict=True):
                if is_start:
                    add(counts, kind)
            last = here
    kinds = sorted(predicted_counts.keys() | true_counts.keys())
    table = {
        kind: _scores(correct.get(kind, 0), predicted_counts.get(kind, 0), true_counts.get(kind, 0)) for kind in kinds
    }
    return {"": _scores(*(sum(counts.values()) for counts in (correct, predicted_counts, true_counts))), **table}


def _scores(correct, predicted_counts, true_counts):
    precision, recall = (correct / count if count else 0.0 for count in (predicted_counts, true_counts))
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else 0.0
