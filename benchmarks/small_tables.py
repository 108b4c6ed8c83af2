"""Small tables: bert-tf's default recipe beside simpler models, transformers' Trainer and SetFit, on the same rows.

  python benchmarks/small_tables.py run DATA CHECKPOINT cells.jsonl --systems=tf_idf,frozen,bert_tf
  python benchmarks/small_tables.py run DATA CHECKPOINT cells.jsonl --systems=trainer,setfit   # with those packages
  python benchmarks/small_tables.py table cells.jsonl

DATA holds glue/SST-2, glue/MRPC, glue/CoLA, conll2003 and text_en/100_english_novels. The six-class set are paragraphs
of six novels, the multi-label set are sentences of CoNLL-2003 with the types of their entities. CHECKPOINT is a BERT in
Hugging Face's layout. Each cell is a random sample of so many rows, and a score on 400 others; a cell that cells.jsonl
has is not run again. All systems read 64 tokens and have their defaults, but for SetFit, whose pairs are bounded.
"""

import argparse
import collections
import csv
import dataclasses
import functools
import json
import os
import pathlib
import random
import statistics
import tempfile
import time

import numpy as np

SIZES, TESTED, LENGTH = (16, 64, 256, 1000), 400, 64
ENTITIES = ("LOC", "MISC", "ORG", "PER")
SEPARATOR = ","
METRICS = {"SST-2": "accuracy", "MRPC": "f1", "CoLA": "matthews", "novels": "accuracy", "entities": "micro_f1"}


def read_sets(folder: pathlib.Path) -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """{set: [(texts, label)]}; several labels are joined by SEPARATOR."""
    glue = {"SST-2": ((0,), 1, 1), "MRPC": ((3, 4), 0, 1), "CoLA": ((3,), 1, 0)}
    sets = {}
    for name, (texts, label, header) in glue.items():
        lines = (folder / "glue" / name / "train.tsv").read_text("utf-8-sig").splitlines()[header:]
        rows = [line.split("\t") for line in lines]
        sets[name] = [(tuple(row[at] for at in texts), f"class {row[label]}") for row in rows]
    novels = {path.stem: _paragraphs(path) for path in (folder / "text_en" / "100_english_novels").glob("*.txt")}
    novels = dict(sorted(novels.items(), key=lambda novel: -len(novel[1]))[:6])
    fewest = min(map(len, novels.values()))
    sets["novels"] = [((text,), novel.split("_")[0]) for novel, texts in novels.items() for text in texts[:fewest]]
    sets["entities"] = list(_sentences(folder / "conll2003" / "eng.train"))
    return sets


def _paragraphs(path: pathlib.Path) -> list[str]:
    texts = [" ".join(text.split()) for text in path.read_text("utf-8-sig").replace("\r", "").split("\n\n")]
    return [text[:300] for text in texts if len(text) > 80]


def _sentences(path: pathlib.Path):
    for block in path.read_text("utf-8").split("\n\n"):
        words = [line.split() for line in block.splitlines() if line and not line.startswith("-DOCSTART-")]
        if len(words) > 5:
            found = sorted({word[-1][2:] for word in words} & set(ENTITIES))
            yield (" ".join(word[0] for word in words),), SEPARATOR.join(found)


def labels_of(rows) -> list[str]:
    """The names of all labels, sorted."""
    return sorted({label for _, labels in rows for label in labels.split(SEPARATOR) if label})


def numbered(rows, names: list[str], *, several: bool) -> np.ndarray:
    """Class numbers [n], or 0 and 1 for each label [n, C]."""
    if not several:
        return np.array([names.index(label) for _, label in rows], np.int32)
    return np.array([[name in label.split(SEPARATOR) for name in names] for _, label in rows], np.float32)


def score(metric: str, labels: np.ndarray, predicted: np.ndarray) -> float:
    """Of scikit-learn."""
    from sklearn import metrics

    if metric == "accuracy":
        return float(metrics.accuracy_score(labels, predicted))
    if metric == "matthews":
        return float(metrics.matthews_corrcoef(labels, predicted))
    return float(metrics.f1_score(labels, predicted, average={"f1": "binary", "micro_f1": "micro"}[metric]))


def tf_idf(train, test, names, checkpoint, *, several):
    """The baseline of bert-tf."""
    from bert_tf.tasks import baseline

    texts = [np.array([row[0] for row in rows], object) for rows in (train, test)]
    return baseline.tf_idf(texts[0], numbered(train, names, several=several), texts[1], is_balanced=False)


def frozen(train, test, names, checkpoint, *, several):
    """The linear head of bert-tf on the vectors that its classifier reads before training."""
    from bert_tf.model.packing import CPU_COSTS, PackingSpec
    from bert_tf.tasks import baseline
    from bert_tf.text.tokenizer import pack

    model, tokenizer = untrained(checkpoint)

    def vectors(rows) -> np.ndarray:
        batches = [rows[first : first + 50] for first in range(0, len(rows), 50)]
        columns = [list(map(list, zip(*(row[0] for row in batch), strict=True))) for batch in batches]
        inputs = (pack(tokenizer, texts, LENGTH) for texts in columns)
        return np.concatenate([model.vectors(model.complete(x), None, PackingSpec(CPU_COSTS)).numpy() for x in inputs])

    labels = numbered(train, names, several=several)
    return baseline.fit_vectors(vectors(train), labels, len(names)).predict(vectors(test), labels)


@functools.cache
def untrained(checkpoint: str):
    """A classifier with the encoder of a checkpoint, which pools as that was trained to, and the tokenizer."""
    from bert_tf.checkpoints import formats
    from bert_tf.model import heads, weights
    from bert_tf.text.tokenizer import create_tokenizer

    start = formats.read(checkpoint)
    pooling = "mean" if start.sentence_vectors and start.sentence_vectors.pooling == "mean" else "cls"
    model = heads.Classifier(dataclasses.replace(start.config, pooling=pooling), 1)
    weights.assign(model, start.weights)
    return model, create_tokenizer(start.vocabulary, start.lowers_case)


def bert_tf(train, test, names, checkpoint, *, several, **options):
    """The recipe of a table that is given alone."""
    import bert_tf

    columns = ["first", "second"][: len(train[0][0])]
    if several:
        options |= {"label_type": "multi_label", "label_separator": SEPARATOR}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "table.csv")
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([[*columns, "label"], *([*texts, label] for texts, label in train)])
        options |= {"output_dir": os.path.join(folder, "run"), "init_checkpoint": checkpoint, "do_export": False}
        run = bert_tf.fine_tune(path, text=columns, label="label", max_seq_length=LENGTH, **options)
        answers = run.load().predict([texts if len(texts) > 1 else texts[0] for texts, _ in test])
    return numbered([((), answer.label) for answer in answers], names, several=several)


def trainer(train, test, names, checkpoint, *, several):
    """The Trainer of transformers with its defaults: 3 epochs, batches of 8, 5e-5 falling to 0."""
    import torch
    import transformers

    transformers.set_seed(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    problem = "multi_label_classification" if several else "single_label_classification"
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        checkpoint, num_labels=len(names), problem_type=problem
    )
    labels = numbered(train, names, several=several)

    def encoded(rows):
        return tokenizer(*map(list, zip(*(row[0] for row in rows), strict=True)), truncation=True, max_length=LENGTH)

    inputs = encoded(train)
    data = [
        {
            **{name: inputs[name][row] for name in inputs},
            "labels": labels[row].tolist(),
        }
        for row in range(len(train))
    ]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(folder, save_strategy="no", report_to="none", disable_tqdm=True)
        collator = transformers.DataCollatorWithPadding(tokenizer)
        transformers.Trainer(model, arguments, train_dataset=data, data_collator=collator).train()
    model.eval()
    with torch.no_grad():
        batch = tokenizer.pad(encoded(test), return_tensors="pt")
        logits = np.concatenate(
            [
                model(**{name: x[first : first + 50] for name, x in batch.items()}).logits.numpy()
                for first in range(0, len(test), 50)
            ]
        )
    return (logits > 0).astype(np.float32) if several else logits.argmax(1)


def setfit(train, test, names, checkpoint, *, several):
    """SetFit with a number of pairs for each row: by default it has pairs by the square of the rows."""
    import datasets
    from setfit import SetFitModel, Trainer, TrainingArguments

    labels = numbered(train, names, several=several).astype(int).tolist()
    data = datasets.Dataset.from_dict({"text": [" ".join(row[0]) for row in train], "label": labels})
    strategy = {"multi_target_strategy": "one-vs-rest"} if several else {}
    model = SetFitModel.from_pretrained(checkpoint, **strategy)
    model.model_body.max_seq_length = LENGTH
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, num_iterations=20 if len(train) <= 64 else 5, report_to="none")
        Trainer(model, arguments, train_dataset=data).train()
    return np.asarray(model.predict([" ".join(row[0]) for row in test]))


SYSTEMS = {system.__name__: system for system in (tf_idf, frozen, bert_tf, trainer, setfit)}


def run(arguments: argparse.Namespace) -> None:
    """Runs the cells that are missing and adds a line for each."""
    done = {tuple(cell[name] for name in ("system", "set", "rows", "seed")) for cell in read_cells(arguments.cells)}
    sets = read_sets(pathlib.Path(arguments.data))
    for size in map(int, arguments.rows.split(",")):
        for seed in range(arguments.seeds or (5 if size <= 64 else 3)):
            for name, rows in sets.items():
                rows = random.Random(seed).sample(rows, size + TESTED)
                train, test, names = rows[TESTED:], rows[:TESTED], labels_of(rows)
                several = name == "entities"
                for system in arguments.systems.split(","):
                    if (system, name, size, seed) in done:
                        continue
                    start = time.process_time()
                    predicted = SYSTEMS[system](train, test, names, arguments.checkpoint, several=several)
                    value = score(METRICS[name], numbered(test, names, several=several), predicted)
                    cell = {"system": system, "set": name, "rows": size, "seed": seed, "score": value}
                    cell["cpu_seconds"] = round(time.process_time() - start, 1)
                    with open(arguments.cells, "a", encoding="utf-8") as file:
                        print(json.dumps(cell), file=file)


def read_cells(path: str) -> list[dict]:
    """The cells in a file, [] if there is none."""
    return [json.loads(line) for line in open(path, encoding="utf-8")] if os.path.exists(path) else []


class Commands:
    """The commands `run` and `table` of a benchmark whose cells are JSON lines."""

    def __init__(self, doc: str, run, table, *, given: tuple[str, ...] = ("data", "checkpoint")) -> None:
        self._parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        commands = self._parser.add_subparsers(required=True)
        self._running, showing = commands.add_parser("run"), commands.add_parser("table")
        for name in given:
            self._running.add_argument(name)
        for each, function in ((self._running, run), (showing, table)):
            each.add_argument("cells", help="JSON lines, one for each cell")
            each.set_defaults(call=function)
        self.add_argument = self._running.add_argument

    def call(self) -> None:
        """Runs the command of the command line."""
        arguments = self._parser.parse_args()
        arguments.call(arguments)


def table(arguments: argparse.Namespace) -> None:
    """Prints the cells as Markdown: mean ± standard deviation over seeds, in percent."""
    cells = collections.defaultdict(list)
    for cell in read_cells(arguments.cells):
        cells[cell["set"], cell["rows"], cell["system"]].append(100 * cell["score"])
    systems = [name for name in SYSTEMS if any(key[2] == name for key in cells)]
    print(f"| set | rows | {' | '.join(systems)} |\n|---|---|{'---|' * len(systems)}")
    for name in METRICS:
        for size in SIZES:
            values = [cells[name, size, system] for system in systems]
            if any(values):
                print(f"| {name} | {size} | {' | '.join(map(shown, values))} |")


def shown(values: list[float]) -> str:
    if not values:
        return ""
    return f"{statistics.mean(values):.1f}" + (f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else "")


def main() -> None:
    """Parses the command line."""
    running = Commands(__doc__, run, table)
    running.add_argument("--systems", default=",".join(SYSTEMS))
    running.add_argument("--seeds", type=int, default=0, help="default: 5 up to 64 rows, else 3")
    running.add_argument("--rows", default=",".join(map(str, SIZES)))
    running.call()


if __name__ == "__main__":
    main()
