"""Questions of SQuAD find their paragraph: by vectors, by BM25, by both, and with a reranker trained on others.

    python benchmarks/retrieval.py --model=all-minilm-l6-v2 --squad=dev-v2.0.json --train=new_wiki_v1.0.json

Runs `bert-tf index`, `mine`, `finetune` (a reranker from MODEL, listwise, with hard negatives) and `evaluate`, and
prints a table. Queries are drawn at random from the questions with an answer; every different paragraph is a candidate.
The reranker first learns from single sentences, which cost a fourth, and then from paragraphs.
"""

import argparse
import csv
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

METHODS = ("vectors", "bm25", "hybrid")
LIST, MINED = 4, 5  # texts of a query that the reranker compares, and hard negatives that some of them are drawn from
STAGES = (("sentences", 2 / 3, 2e-4, 80), ("paragraphs", 1, 1e-4, 192))  # until which share; rate; tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--squad", required=True, help="questions and paragraphs to find")
    parser.add_argument("--train", default="", help="file of the same form, for a reranker")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--train_questions", type=int, default=1200)
    parser.add_argument("--storages", default="float32", help="of the index, such as float32,int8,binary")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write("paragraphs", "questions", options.squad, options.questions)
        reranker = trained(options) if options.train else ""
        print("| | nDCG@10 | MRR@10 | recall@1 | recall@10 | recall@100 |\n|---|---:|---:|---:|---:|---:|", flush=True)
        for storage in options.storages.split(","):
            command("index", "paragraphs.csv", storage, f"--model={options.model}", "--id_column=id", "--bm25",
                    f"--storage={storage}")  # fmt: skip
            for method in METHODS:
                row(f"{method}, {storage}", storage, method)
        if reranker:
            row("hybrid, re-ranked", options.storages.split(",")[0], "hybrid", f"--reranker={reranker}")


def write(texts, questions, path, count):
    """Writes the paragraphs of a file of SQuAD, and some of its questions with the id and the text of theirs."""
    paragraphs, pairs = {}, {}
    for article in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            number = paragraphs.setdefault(paragraph["context"], len(paragraphs))
            pairs |= {each["question"]: number for each in paragraph["qas"] if each.get("answers")}
    drawn = random.Random(0).sample(sorted(pairs), min(count, len(pairs)))
    names = list(paragraphs)
    rows = {texts: [("id", "text"), *((n, text) for text, n in paragraphs.items())]}
    rows[questions] = [("query", "id", "text"), *((each, pairs[each], names[pairs[each]]) for each in drawn)]
    for name, lines in rows.items():
        with open(f"{name}.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(lines)


def trained(options):
    """The folder of a reranker that was trained on the questions of options.train."""
    write("train_paragraphs", "train_questions", options.train, options.train_questions)
    command("index", "train_paragraphs.csv", "train", f"--model={options.model}", "--id_column=id")
    command("mine", "train_questions.csv", "judged.jsonl", "--index=train", "--text_columns=query,text", "--judged",
            f"--negatives={MINED}", "--margin=-2")  # fmt: skip
    rows = [json.loads(line) for line in pathlib.Path("judged.jsonl").read_text(encoding="utf-8").splitlines()]
    queries = [rows[first : first + 1 + MINED] for first in range(0, len(rows), 1 + MINED)]
    answers, draw, start, first = answers_of(options.train), random.Random(0), options.model, 0
    paragraphs = sorted({paragraph for paragraph, _ in answers.values()})
    for stage, share, rate, length in STAGES:
        with open(f"{stage}.jsonl", "w", encoding="utf-8") as file:
            for positive, nearest, *near in queries[first : (first := round(share * len(queries)))]:
                texts = [nearest["text"], draw.choice(near)["text"], draw.choice(paragraphs)]
                if stage == "sentences":
                    texts = [sentence(text, draw.randrange(len(text))) for text in texts]
                right = sentence(*answers[positive["query"]]) if stage == "sentences" else positive["text"]
                for label, text in ((1, right), *((0, text) for text in texts)):
                    file.write(json.dumps({"query": positive["query"], "text": text, "label": label}) + "\n")
        command("finetune", f"{stage}.jsonl", "--task_name=table", "--label_type=relevance",
                "--text_columns=query,text", "--label_column=label", "--ranking_loss=listwise", f"--list_size={LIST}",
                "--train_batch_size=32", "--num_train_epochs=1", f"--learning_rate={rate}",
                f"--init_checkpoint={start}", f"--output_dir={stage}", f"--max_seq_length={length}",
                "--nodo_eval")  # fmt: skip
        start = stage
    return start


def answers_of(path):
    """{question: (its paragraph, where the answer begins)}."""
    articles = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    found = ((paragraph["context"], each) for paragraph in paragraphs for each in paragraph["qas"])
    return {each["question"]: (text, each["answers"][0]["answer_start"]) for text, each in found if each.get("answers")}


def sentence(text, place):
    """The sentence of a text around a character."""
    ends = [0, *(match.end() for match in re.finditer(r"[.!?]\s+(?=[A-Z\"'(])", text)), len(text)]
    return next(text[begin:end].strip() for begin, end in zip(ends, ends[1:], strict=False) if place < end)


def row(name, index, method, *flags):
    words = ("evaluate", index, "--file=questions.csv", "--text_columns=query", "--label_column=id")
    scores = json.loads(command(*words, f"--method={method}", "--json", *flags))["scores"]
    print(f"| {name} | " + " | ".join(f"{value:.4f}" for value in scores.values()) + " |", flush=True)


def command(*words):
    done = subprocess.run([sys.executable, "-m", "bert_tf", *words], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    main()
