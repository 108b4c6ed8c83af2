"""What a model answers to the texts of a split, as files: for people, for programs, for a leaderboard.

n examples, C classes.
"""

import json
import os


def described(goal, split, answers):
    """A list of n dictionaries: id, texts, the label's name, probabilities by label (or the value), the truth if known.

    answers: the task's {name: array [n, ...]} for the whole split.
    """
    guesses = goal.guesses(answers)
    names = goal.named(guesses)
    truth = goal.named(split.truth) if split.is_known else [None] * len(names)
    rows = []
    for number, example in enumerate(split.examples[: len(names)]):
        row = {"id": example.id, "text_a": example.texts[0]}
        row |= {"text_b": example.texts[1]} if len(example.texts) == 2 else {}
        row |= {"choices": list(example.texts[1:])} if len(example.texts) > 2 else {}
        row["label"] = names[number]
        if "probabilities" in answers:
            row["probabilities"] = dict(zip(goal.labels, map(float, answers["probabilities"][number]), strict=True))
        else:
            row["value"] = float(guesses[number])
        if truth[number] is not None:
            row["truth"] = truth[number]
        rows.append(row)
    return rows


def write(folder, name, rows):
    """Writes `name`.jsonl (everything), `name`.tsv (the same as a table) and, as the original does, test_results.tsv.

    In .tsv tabs and ends of lines inside a text become spaces. Returns the path of the .tsv file.
    """
    _write(os.path.join(folder, f"{name}.jsonl"), (json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    path = os.path.join(folder, f"{name}.tsv")
    _write(path, _tab_separated([_columns(row) for row in rows]))
    results = name.replace("predictions", "test_results")
    numbers = (list(row.get("probabilities", {"": row.get("value")}).values()) for row in rows)
    _write(os.path.join(folder, f"{results}.tsv"), ("\t".join(map(str, line)) + "\n" for line in numbers))
    return path


def write_submission(folder, name, rows):
    """Writes the file that GLUE's leaderboard takes: a header, then index and label (or number) of each example."""
    os.makedirs(folder, exist_ok=True)
    lines = [f"{number}\t{row['label']}\n" for number, row in enumerate(rows)]
    _write(os.path.join(folder, name), ["index\tprediction\n", *lines])


def _columns(row):
    columns = {
        name: value for name, value in row.items() if name not in ("text_a", "text_b", "choices", "probabilities")
    }
    columns |= {f"probability {label}": f"{value:.6f}" for label, value in row.get("probabilities", {}).items()}
    texts = {name: row[name] for name in ("text_a", "text_b") if name in row}
    texts |= {f"choice {number}": text for number, text in enumerate(row.get("choices", []))}
    return {**columns, **texts}


def _tab_separated(rows):
    yield "\t".join(rows[0]) + "\n"
    for row in rows:
        yield (
            "\t".join(" ".join(str(value).split("\t")).replace("\r", " ").replace("\n", " ") for value in row.values())
            + "\n"
        )


def _write(path, lines):
    with open(f"{path}.partial", "w", encoding="utf-8", newline="") as file:
        file.writelines(lines)
    os.replace(f"{path}.partial", path)
