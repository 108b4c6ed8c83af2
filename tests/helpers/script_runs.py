"""Flags of a small model, for tests that run the scripts."""

import json
import pathlib

import warm

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = {
    "task_name": "table", "text_columns": "text", "label_column": "kind", "model_size": "tiny", "vocab_size": 60,
    "max_seq_length": 12, "train_batch_size": 4, "num_train_epochs": 2, "precision": "float32",
    "export_engines": "none",
}  # fmt: skip
SMALL_TRAINING = (
    "--model_size=tiny --vocab_size=60 --max_seq_length=16 --train_batch_size=4 --eval_batch_size=8 "
    "--precision=float32 --dropout_prob=0 --export_engines=none"
).split()
WORDS = "red blue green small large cat dog bird runs sleeps eats here there now".split()


def script(program, *, eager=True, **flags):
    """Runs a script; returns its exit code, standard output and the lines of standard error.

    flags: their values; those of None are left out. eager: see `warm.start`.
    """
    arguments = [f"--{name}={value}" for name, value in flags.items() if value is not None]
    done = warm.run(program, *arguments, eager=eager)
    return done.returncode, done.stdout, done.stderr.splitlines()


def write_small_data(folder, random):
    """Writes texts.txt, table.tsv, pairs.tsv, tags.conll and squad.json: few short texts of few words."""

    def text(count=6):
        return " ".join(random.sample(WORDS, count))

    def question(number):
        words = random.sample(WORDS, 8)
        place = random.randrange(1, 8)
        answer = {"text": words[place], "answer_start": len(" ".join(words[:place])) + 1}
        asked = {"id": str(number), "question": f"what is after {words[place - 1]}", "answers": [answer]}
        return {"context": " ".join(words), "qas": [asked]}

    texts = [text() for _ in range(24)]
    table = [f"{each}\t{'pet' if 'cat' in each else 'other'}" for each in texts]
    pairs = [f"{text(4)}\t{text(4)}\t{random.random():.3f}" for _ in range(12)]
    tags = [[f"{word} {'B-PET' if word in ('cat', 'dog') else 'O'}" for word in each.split()] for each in texts]
    questions = {"version": "1.1", "data": [{"title": "t", "paragraphs": [question(number) for number in range(12)]}]}
    (folder / "texts.txt").write_text("\n\n".join(f"{text()}.\n{text()}." for _ in range(60)))
    (folder / "table.tsv").write_text("\n".join(["text\tlabel", *table]) + "\n")
    (folder / "pairs.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *pairs]) + "\n")
    (folder / "tags.conll").write_text("\n\n".join("\n".join(lines) for lines in tags) + "\n")
    (folder / "squad.json").write_text(json.dumps(questions))
