"""Precision, recall and F1 of whole entities, as conlleval counts them (Tjong Kim Sang and De Meulder 2003).

seqeval counts, loaded when asked; its default mode reads every sequence of tags as conlleval does. Free of TensorFlow.
"""

OUTSIDE = "O"
ALL = "micro avg"  # what seqeval calls all types together


def scores(truth, guesses, *, is_plain=False):
    """{"precision", "recall", "f1"}, of 1, of all entities together: right is one of which every word and the type is.

    truth, guesses: tags of each sentence, IOB2 or BIOES, lists of lists of str. is_plain: every word's tag is an entity
    of its own. Where there is nothing to be found, or nothing was, what cannot be divided is 0.
    """
    row = _report(truth, guesses, is_plain).get(ALL, {"precision": 0.0, "recall": 0.0, "f1-score": 0.0})
    return {"f1": float(row["f1-score"]), "precision": float(row["precision"]), "recall": float(row["recall"])}


def per_type(truth, guesses, *, is_plain=False):
    """[{"label", "precision", "recall", "f1", "count"}] of each type, sorted; `count` is how many are true."""
    return [
        {
            "label": kind,
            "precision": float(row["precision"]),
            "recall": float(row["recall"]),
            "f1": float(row["f1-score"]),
            "count": int(row["support"]),
        }
        for kind, row in _report(truth, guesses, is_plain).items()
        if not kind.endswith(" avg")
    ]


def _report(truth, guesses, is_plain):
    """Seqeval's table; {} where neither side has an entity, of which it makes an error."""
    from seqeval.metrics import classification_report

    if is_plain:
        truth, guesses = (
            [[tag if tag == OUTSIDE else f"B-{tag}" for tag in row] for row in side] for side in (truth, guesses)
        )
    if all(tag == OUTSIDE for side in (truth, guesses) for row in side for tag in row):
        return {}
    return classification_report(truth, guesses, output_dict=True, zero_division=0)
