"""Entities and questions from few examples: bert-tf's default recipe beside transformers' Trainer with its defaults.

  python benchmarks/few_examples.py run DATA CHECKPOINT cells.jsonl --kinds=tags --systems=bert_tf
  python benchmarks/few_examples.py run DATA CHECKPOINT cells.jsonl --systems=trainer     # needs transformers and torch
  python benchmarks/few_examples.py table cells.jsonl

DATA holds conll2003 and squadshifts. CHECKPOINT is a BERT in Hugging Face's layout. Each cell is a random sample of so
many sentences of CoNLL-2003's eng.train, scored by the F1 of entities on 1,000 sentences of eng.testa; or of so many
questions of SQuADShifts' new_wiki, scored by SQuAD's F1 on 300 questions of other articles. bert-tf holds a tenth of
the sample out to choose the checkpoint. The Trainer has 3 epochs, batches of 8 and 5e-5 falling to 0. A cell that
cells.jsonl has is not run again.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
import small_tables

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))

SIZES = {"tags": (100, 400, 2000), "questions": (200, 2000)}
TESTED = {"tags": 1000, "questions": 300}
Sentence = list[tuple[str, str]]  # words and tags


def read_sentences(path: pathlib.Path) -> list[Sentence]:
    """The sentences of a CoNLL file with IOB2 tags."""
    sentences = []
    for block in path.read_text("utf-8").split("\n\n"):
        lines = [line.split() for line in block.splitlines() if line and not line.startswith("-DOCSTART-")]
        if lines:
            tags = [line[-1] for line in lines]
            sentences.append([(line[0], tag) for line, tag in zip(lines, iob2(tags), strict=True)])
    return sentences


def iob2(tags: list[str]) -> list[str]:
    """IOB1 tags as IOB2: each entity begins with B."""
    found = []
    for before, tag in zip(["O", *tags], tags, strict=False):
        begins = tag != "O" and (tag[0] == "B" or before[1:] != tag[1:])
        found.append(f"B{tag[1:]}" if begins else tag)
    return found


def read_questions(path: pathlib.Path) -> list[list[dict[str, Any]]]:
    """The paragraphs of each article in SQuAD's layout."""
    return [article["paragraphs"] for article in json.loads(path.read_text("utf-8"))["data"]]


def squad(paragraphs: list[dict[str, Any]]) -> dict[str, Any]:
    """A file in SQuAD's layout, one article a paragraph."""
    return {"version": "1.1", "data": [{"title": "", "paragraphs": [each]} for each in paragraphs]}


def cpu_seconds() -> float:
    """Of this process and of those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def entity_f1(expected: list[list[str]], predicted: list[list[str]]) -> float:
    """Of seqeval."""
    from seqeval import metrics

    return float(metrics.f1_score(expected, predicted))


def tags_bert_tf(train: list[Sentence], test: list[Sentence], checkpoint: str) -> float:
    import pandas as pd

    import bert_tf

    rows = [(number, word, tag) for number, sentence in enumerate(train) for word, tag in sentence]
    frame = pd.DataFrame(rows, columns=["sentence_id", "word", "tag"])
    with tempfile.TemporaryDirectory() as folder:
        run = bert_tf.fine_tune(frame, output_dir=f"{folder}/run", init_checkpoint=checkpoint, do_export=False)
        found = run.load().tags([[word for word, _ in sentence] for sentence in test])
    return entity_f1(
        [[tag for _, tag in sentence] for sentence in test], [[each.tag for each in tags] for tags in found]
    )


def tags_trainer(train: list[Sentence], test: list[Sentence], checkpoint: str) -> float:
    import torch
    import transformers

    transformers.set_seed(0)
    names = sorted({tag for sentence in train for _, tag in sentence})
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.AutoModelForTokenClassification.from_pretrained(checkpoint, num_labels=len(names))

    def encoded(sentence: Sentence) -> tuple[dict[str, Any], list[int]]:
        """The inputs, and the position of the first token of each word."""
        inputs = tokenizer([word for word, _ in sentence], is_split_into_words=True, truncation=True, max_length=128)
        words = inputs.word_ids()
        firsts = {word: place for place, word in reversed(list(enumerate(words))) if word is not None}
        return dict(inputs), [firsts.get(number, 0) for number in range(len(sentence))]

    data = []
    for sentence in train:
        inputs, places = encoded(sentence)
        labels = [-100] * len(inputs["input_ids"])
        for place, (_, tag) in zip(places, sentence, strict=True):
            if place:
                labels[place] = names.index(tag)
        data.append({**inputs, "labels": labels})
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(folder, save_strategy="no", report_to="none", disable_tqdm=True)
        collator = transformers.DataCollatorForTokenClassification(tokenizer)
        transformers.Trainer(model, arguments, train_dataset=data, data_collator=collator).train()
    model.eval()
    found = []
    with torch.no_grad():
        for sentence in test:
            inputs, places = encoded(sentence)
            logits = model(**{name: torch.tensor([values]) for name, values in inputs.items()}).logits[0].numpy()
            found.append([names[int(logits[place].argmax())] if place else "O" for place in places])
    return entity_f1([[tag for _, tag in sentence] for sentence in test], found)


def questions_bert_tf(train: list[dict[str, Any]], test: list[dict[str, Any]], checkpoint: str) -> float:
    import bert_tf

    held_out = max(1, len(train) // 10)
    with tempfile.TemporaryDirectory() as folder:
        for name, paragraphs in {"train": train[held_out:], "dev": train[:held_out]}.items():
            pathlib.Path(folder, f"{name}.json").write_text(json.dumps(squad(paragraphs)))
        flags = [f"--train_file={folder}/train.json", f"--predict_file={folder}/dev.json", "--do_export=false"]
        flags += [f"--output_dir={folder}/run", f"--init_checkpoint={checkpoint}"]
        subprocess.run([sys.executable, "-m", "bert_tf", "squad", *flags], check=True)  # which ends its process
        asked = [(entry["question"], each["context"]) for each in test for entry in each["qas"]]
        answers = bert_tf.load(f"{folder}/run").answer
        texts = [answers(question, context).text for question, context in asked]
    return question_f1(test, texts)


def questions_trainer(train: list[dict[str, Any]], test: list[dict[str, Any]], checkpoint: str) -> float:
    import transformers
    import transformers_squad as peer

    transformers.set_seed(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(checkpoint)
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for paragraphs in (train, test):
            path = pathlib.Path(folder, "rows.json")
            path.write_text(json.dumps(squad(paragraphs)))
            rows.append(peer.read(path))
        inputs, owners, offsets = peer.features_of(tokenizer, rows[0])
        targets = peer.targets_of(rows[0], owners, offsets)
        data = [
            {**{name: x[n] for name, x in inputs.items()}, "start_positions": start, "end_positions": end}
            for n, (start, end) in enumerate(targets)
        ]
        arguments = transformers.TrainingArguments(folder, save_strategy="no", report_to="none", disable_tqdm=True)
        transformers.Trainer(model, arguments, train_dataset=data).train()
    answers = peer.predict(model, tokenizer, rows[1], "float32")
    return question_f1(test, [answers[row["id"]] for row in rows[1]])


def question_f1(test: list[dict[str, Any]], texts: list[str]) -> float:
    """SQuAD's F1."""
    from bert_tf.heads.span import squad_scores

    entries = [entry for each in test for entry in each["qas"]]
    scores = [
        max(squad_scores.f1(answer["text"], text) for answer in entry["answers"])
        for entry, text in zip(entries, texts, strict=True)
    ]
    return float(np.mean(scores))


def samples(folder: pathlib.Path, kind: str, size: int, seed: int) -> tuple[list, list]:
    """Training and test examples; the test examples are the same for all sizes and seeds."""
    draw = random.Random(seed)
    if kind == "tags":
        test = read_sentences(folder / "conll2003" / "eng.testa")
        return draw.sample(read_sentences(folder / "conll2003" / "eng.train"), size), test[: TESTED[kind]]
    articles = read_questions(folder / "squadshifts" / "new_wiki_v1.0.json")
    random.Random(0).shuffle(articles)
    chosen: list[list[dict[str, Any]]] = [[], []]
    left = [TESTED[kind], size]
    place = 0
    while left[0] > 0:
        chosen[0] += articles[place]
        left[0] -= sum(len(each["qas"]) for each in articles[place])
        place += 1
    rest = [paragraph for article in articles[place:] for paragraph in article]
    draw.shuffle(rest)
    for paragraph in rest:
        if left[1] > 0:
            chosen[1].append({**paragraph, "qas": paragraph["qas"][: left[1]]})
            left[1] -= len(paragraph["qas"])
    return chosen[1], chosen[0]


def run(arguments: argparse.Namespace) -> None:
    """Runs the cells that are missing and adds a line for each."""
    names = ("system", "kind", "examples", "seed")
    done = {tuple(cell[name] for name in names) for cell in small_tables.read_cells(arguments.cells)}
    for seed in map(int, arguments.seeds.split(",")):
        for kind in arguments.kinds.split(","):
            for size in map(int, arguments.examples.split(",")) if arguments.examples else SIZES[kind]:
                for system in arguments.systems.split(","):
                    if (system, kind, size, seed) in done:
                        continue
                    train, test = samples(pathlib.Path(arguments.data), kind, size, seed)
                    start = cpu_seconds()
                    score = globals()[f"{kind}_{system}"](train, test, arguments.checkpoint)
                    cell = dict(zip(names, (system, kind, size, seed), strict=True)) | {"score": score}
                    cell["cpu_seconds"] = round(cpu_seconds() - start, 1)
                    with open(arguments.cells, "a", encoding="utf-8") as file:
                        print(json.dumps(cell), file=file)


def table(arguments: argparse.Namespace) -> None:
    """Prints mean ± standard deviation over the samples as Markdown, in percent."""
    cells = collections.defaultdict(list)
    for cell in small_tables.read_cells(arguments.cells):
        cells[cell["kind"], cell["examples"], cell["system"]].append(100 * cell["score"])
    print("| kind | examples | bert_tf | transformers' Trainer |\n|---|---:|---:|---:|")
    for kind, sizes in SIZES.items():
        for size in sizes:
            found = [cells[kind, size, system] for system in ("bert_tf", "trainer")]
            if any(found):
                print(f"| {kind} | {size:,} | {' | '.join(map(small_tables.shown, found))} |")


def main() -> None:
    """Parses the command line."""
    running = small_tables.Commands(__doc__, run, table)
    running.add_argument("--kinds", default="tags,questions")
    running.add_argument("--systems", default="bert_tf,trainer")
    running.add_argument("--examples", default="", help="sizes of the samples")
    running.add_argument("--seeds", default="1,2,3", help="numbers of the samples")
    running.call()


if __name__ == "__main__":
    main()
