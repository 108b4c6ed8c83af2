"""GLUE (Wang et al. 2018) from its official files: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI and AX.

Labels, metrics and columns are those of the benchmark; MNLI has two development and two test sets.
"""

import dataclasses
import functools
import logging
import os

from bert_tf import classification, examples
from bert_tf.errors import UserError
from bert_tf.goals import Classes, Number

ENTAILMENT = ("contradiction", "entailment", "neutral")
log = logging.getLogger("bert_tf")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """How the files of one task are made. `labels` empty: a number.

    headerless: the columns of files without a header. files: {split: name}. submissions: {split: the leaderboard's
    name}. tolerant: rows with too few fields are passed over, as they are known to be there.
    """

    folder: str
    texts: tuple
    label: str = "label"
    labels: tuple = ("0", "1")
    scores: tuple = ("accuracy",)
    headerless: tuple = ()
    files: dict = dataclasses.field(
        default_factory=lambda: {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
    )
    eval_splits: dict = dataclasses.field(default_factory=lambda: {"": "dev"})
    submissions: dict
    tolerant: bool = False


PAIR, YES_NO = ("sentence1", "sentence2"), ("entailment", "not_entailment")
LAYOUTS = {
    "cola": Layout(
        folder="CoLA",
        texts=("sentence",),
        scores=("matthews", "accuracy"),
        headerless=("source", "label", "mark", "sentence"),
        submissions={"test": "CoLA.tsv"},
    ),
    "sst-2": Layout(folder="SST-2", texts=("sentence",), submissions={"test": "SST-2.tsv"}),
    "mrpc": Layout(
        folder="MRPC",
        texts=("#1 String", "#2 String"),
        label="Quality",
        scores=("f1", "accuracy"),
        submissions={"test": "MRPC.tsv"},
    ),
    "sts-b": Layout(
        folder="STS-B",
        texts=PAIR,
        label="score",
        labels=(),
        scores=("spearman", "pearson"),
        submissions={"test": "STS-B.tsv"},
    ),
    "qqp": Layout(
        folder="QQP",
        texts=("question1", "question2"),
        label="is_duplicate",
        scores=("f1", "accuracy"),
        submissions={"test": "QQP.tsv"},
        tolerant=True,
    ),
    "mnli": Layout(
        folder="MNLI",
        texts=PAIR,
        label="gold_label",
        labels=ENTAILMENT,
        files={
            "train": "train.tsv",
            **{
                f"{kind}_{part}": f"{kind}_{part}.tsv" for kind in ("dev", "test") for part in ("matched", "mismatched")
            },
        },
        eval_splits={"matched_": "dev_matched", "mismatched_": "dev_mismatched"},
        submissions={"test_matched": "MNLI-m.tsv", "test_mismatched": "MNLI-mm.tsv"},
    ),
    "qnli": Layout(folder="QNLI", texts=("question", "sentence"), labels=YES_NO, submissions={"test": "QNLI.tsv"}),
    "rte": Layout(folder="RTE", texts=PAIR, labels=YES_NO, submissions={"test": "RTE.tsv"}),
    "wnli": Layout(folder="WNLI", texts=PAIR, submissions={"test": "WNLI.tsv"}),
    # Nothing to train on: give a model of MNLI as init_checkpoint.
    "ax": Layout(
        folder="AX",
        texts=PAIR,
        labels=ENTAILMENT,
        scores=("matthews", "accuracy"),
        files={"test": "AX.tsv"},
        eval_splits={},
        submissions={"test": "AX.tsv"},
    ),
}
OTHER_NAMES = {"AX.tsv": ("diagnostic.tsv",)}  # names that some copies of GLUE give a file


def task(options, tokenizer_for, *, name):
    """One task of GLUE; see bert_tf.tasks for the arguments.

    options.data_dir: the folder of the task, or the one that holds all of GLUE. Raises UserError for a file that is
    missing or not as GLUE made it.
    """
    layout = LAYOUTS[name]
    splits = {split: functools.partial(read, options.data_dir, layout, split) for split in layout.files}
    return classification.task(
        f"glue/{name}",
        splits,
        Classes(layout.labels) if layout.labels else Number(),
        tokenizer_for(lambda: (text for example in splits["train"]() for text in example.texts)),
        max_seq_length=options.max_seq_length,
        texts=len(layout.texts),
        scores=layout.scores,
        class_weights=options.class_weights,
        eval_splits=layout.eval_splits,
        test_splits=tuple(layout.submissions),
        submissions=layout.submissions,
    )


def read(data_dir, layout, split):
    """The examples of a split, in the order of the file; test files have no labels."""
    path = _path(data_dir, layout, layout.files[split])
    is_test = split in layout.submissions
    broken = [] if layout.tolerant and not is_test else None
    found = examples.read(
        path,
        texts=layout.texts,
        label=None if is_test else layout.label,
        id_column="id" if layout.folder == "QQP" else None if _has_no_index(layout, is_test) else "index",
        columns=None if is_test or not layout.headerless else layout.headerless,
        broken=broken,
    )
    if broken:
        log.warning("Passed over %d rows of %s with too few or too many fields, lines %s.", len(broken), path, broken)
    return found


def _has_no_index(layout, is_test):
    return layout.folder in ("CoLA", "SST-2", "MRPC") and not is_test


def _path(data_dir, layout, name):
    if not data_dir:
        raise UserError(f"Give the folder with {layout.folder}'s {name} as data_dir.")
    names = (name, *OTHER_NAMES.get(name, ()))
    tried = [os.path.join(data_dir, *parts, name) for parts in ((), (layout.folder,)) for name in names]
    found = next((path for path in tried if os.path.isfile(path)), None)
    if found is None:
        raise UserError(f"There is no {name} in {data_dir}; expected GLUE's {layout.folder} there.")
    return found


TASKS = {f"glue/{name}": functools.partial(task, name=name) for name in LAYOUTS}
