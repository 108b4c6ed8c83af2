"""A run folder as the report's tests make it, and its page as a browser's reader sees it."""

import json
import re

from bert_tf.reports.report import write_report

RUN = {
    "name": "first words",
    "command": ["run_pretraining.py", "--input_file=my books/*.txt", "--num_train_steps=20"],
    "flags": {"learning_rate": 0.00012345, "input_file": "my books/*.txt"},
    "config": {"num_hidden_layers": 2, "hidden_size": 128, "vocab_size": 8000},
    "versions": {"tensorflow": "2.21.0"},
    "machine": {"cores": 2},
    "started": "2026-11-21T09:00:00+00:00",
    "finished": "2026-11-21T09:03:20+00:00",
    "phases": {"prepare": 12.3, "train": 180.0},
    "parameters": 1480322,
}
METRICS = [
    {"step": 10, "loss": 9.5, "learning_rate": 0.0001},
    {"step": 20, "loss": 7.25, "learning_rate": 0.00005},
    {"step": 20, "eval_loss": 7.5},
]


def page_of(folder, *, run=RUN, metrics=(), **files):
    """Writes a run folder and returns the text of its report."""
    (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics), encoding="utf-8")
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return (folder / "report.html").read_text(encoding="utf-8") if write_report(folder) else ""


def as_read(page):
    """The words of a page: no tags, no style, single spaces."""
    body = re.sub(r"<(style|script)>.*?</\1>", " ", page, flags=re.S)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())
