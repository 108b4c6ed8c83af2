"""SWAG (Zellers et al. 2018): which of four endings goes on from a sentence (Devlin et al. 2018, section 4.4)."""

from bert_tf import classification, tables
from bert_tf.errors import UserError
from bert_tf.examples import Example
from bert_tf.goals import Choice

ENDINGS = ("ending0", "ending1", "ending2", "ending3")
NAMES = {"train": ("train",), "dev": ("val", "dev"), "test": ("test",)}  # of the official files, and the usual ones


def task(options, tokenizer_for):
    """SWAG, or other data in its columns (HellaSwag); see bert_tf.tasks for the arguments.

    options.data_dir holds train.csv, val.csv and test.csv, or the same as .tsv or .jsonl.
    The paper trains with batches of 16, learning rate 2e-5, 3 epochs.
    """
    splits = {split: lambda split=split: read(_path(options.data_dir, split)) for split in NAMES}
    return classification.task(
        "swag",
        splits,
        Choice(len(ENDINGS)),
        tokenizer_for(lambda: (text for example in splits["train"]() for text in example.texts)),
        max_seq_length=options.max_seq_length,
        texts=1 + len(ENDINGS),
        class_weights=options.class_weights,
    )


def read(path):
    """The examples of a file: texts are sent1, then sent2 with each of the endings."""
    found = []
    for line, row in tables.read(path):
        if not found:
            tables.expect_columns(path, row, ("sent1", "sent2", *ENDINGS))
        choices = tuple(f"{row['sent2']} {row[ending]}".strip() for ending in ENDINGS)
        number = str(row.get("", row.get("ind", len(found))))  # the first column has no name
        found.append(Example(number, (row["sent1"], *choices), row.get("label"), f"line {line} of {path}"))
    return found


def _path(data_dir, split):
    path = next(filter(None, (tables.find(data_dir, name) for name in NAMES[split])), None) if data_dir else None
    if path is None:
        raise UserError(f"There is no {NAMES[split][0]}.csv in data_dir={data_dir}; expected SWAG's files there.")
    return path


TASKS = {"swag": task}
