"""GLUE (Wang et al. 2018): CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI and AX.

Read from its official files, or from tensorflow-datasets, which downloads them.
Labels, metrics and columns are as in the benchmark; MNLI has two development and two test sets.
"""

import dataclasses
import functools
import logging
import os
from collections.abc import Mapping

from bert_tf.data import examples, tfds_datasets
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.classes import Classes
from bert_tf.heads.regression import Regression
from bert_tf.runtime import files
from bert_tf.tasks.catalog import TokenizerFor
from bert_tf.tasks.task import FineTuningTask, text_task
from bert_tf.tasks.task_options import GlueOptions

ENTAILMENT = ("contradiction", "entailment", "neutral")
log = logging.getLogger("bert_tf")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """The files of one task, and their equivalents in tensorflow-datasets. `labels` empty: a number.

    headerless: the columns of files without a header. files: {split: name}. submissions: {split: the leaderboard's
    name}. tolerant: skip rows with too few fields, a known fault of these files.
    config: its name in tensorflow-datasets; features: names of the texts there; parts: {split: its name there}.
    """

    folder: str
    texts: tuple[str, ...]
    label: str = "label"
    labels: tuple[str, ...] = ("0", "1")
    scores: tuple[str, ...] = ("accuracy",)
    headerless: tuple[str, ...] = ()
    files: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
    )
    eval_splits: Mapping[str, str] = dataclasses.field(default_factory=lambda: {"": "dev"})
    submissions: Mapping[str, str]
    tolerant: bool = False
    config: str
    features: tuple[str, ...]
    parts: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"train": "train", "dev": "validation", "test": "test"}
    )


PAIR, YES_NO = ("sentence1", "sentence2"), ("entailment", "not_entailment")
LAYOUTS = {
    "cola": Layout(
        folder="CoLA",
        texts=("sentence",),
        scores=("matthews", "accuracy"),
        headerless=("source", "label", "mark", "sentence"),
        submissions={"test": "CoLA.tsv"},
        config="cola",
        features=("sentence",),
    ),
    "sst-2": Layout(
        folder="SST-2", texts=("sentence",), submissions={"test": "SST-2.tsv"}, config="sst2", features=("sentence",)
    ),
    "mrpc": Layout(
        folder="MRPC",
        texts=("#1 String", "#2 String"),
        label="Quality",
        scores=("f1", "accuracy"),
        submissions={"test": "MRPC.tsv"},
        config="mrpc",
        features=PAIR,
    ),
    "sts-b": Layout(
        folder="STS-B",
        texts=PAIR,
        label="score",
        labels=(),
        scores=("spearman", "pearson"),
        submissions={"test": "STS-B.tsv"},
        config="stsb",
        features=PAIR,
    ),
    "qqp": Layout(
        folder="QQP",
        texts=("question1", "question2"),
        label="is_duplicate",
        scores=("f1", "accuracy"),
        submissions={"test": "QQP.tsv"},
        tolerant=True,
        config="qqp",
        features=("question1", "question2"),
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
        config="mnli",
        features=("premise", "hypothesis"),
        parts={
            "train": "train",
            **{
                f"{kind}_{part}": f"{known}_{part}"
                for kind, known in (("dev", "validation"), ("test", "test"))
                for part in ("matched", "mismatched")
            },
        },
    ),
    "qnli": Layout(
        folder="QNLI",
        texts=("question", "sentence"),
        labels=YES_NO,
        submissions={"test": "QNLI.tsv"},
        config="qnli",
        features=("question", "sentence"),
    ),
    "rte": Layout(
        folder="RTE", texts=PAIR, labels=YES_NO, submissions={"test": "RTE.tsv"}, config="rte", features=PAIR
    ),
    "wnli": Layout(folder="WNLI", texts=PAIR, submissions={"test": "WNLI.tsv"}, config="wnli", features=PAIR),
    # There is no training data: pass an MNLI model as init_checkpoint.
    "ax": Layout(
        folder="AX",
        texts=PAIR,
        labels=ENTAILMENT,
        scores=("matthews", "accuracy"),
        files={"test": "AX.tsv"},
        eval_splits={},
        submissions={"test": "AX.tsv"},
        config="ax",
        features=("premise", "hypothesis"),
        parts={"test": "test"},
    ),
}
OTHER_NAMES = {"AX.tsv": ("diagnostic.tsv",)}  # other names of files in some copies of GLUE


def task(options: GlueOptions, tokenizer_for: TokenizerFor, *, name: str) -> FineTuningTask:
    """One GLUE task; see bert_tf.tasks.catalog for the arguments.

    options.data_dir: the folder of the task, or the folder of all GLUE tasks. With options.use_tfds instead the data
    of tensorflow-datasets in options.tfds_dir, downloaded if missing. Raises UserError for a file that is missing or
    differs from the official format.
    """
    layout = LAYOUTS[name]
    read_split, folder = (read_tfds, options.tfds_dir) if options.use_tfds else (read, options.data_dir)
    splits = {split: functools.partial(read_split, folder, layout, split) for split in layout.files}
    return text_task(
        f"glue/{name}",
        splits,
        Classes(layout.labels) if layout.labels else Regression(),
        tokenizer_for,
        options,
        texts=len(layout.texts),
        scores=layout.scores,
        eval_splits=layout.eval_splits,
        test_splits=tuple(layout.submissions),
        submissions=layout.submissions,
    )


def read(data_dir: str, layout: Layout, split: str) -> list[Example]:
    """The examples of a split, in the order of the file."""
    return read_file(_path(data_dir, layout, layout.files[split]), layout, split)


def read_file(path: str, layout: Layout, split: str) -> list[Example]:
    """The examples of a file in the layout of a split; test splits have no labels."""
    is_test = split in layout.submissions
    has_index = is_test or layout.folder not in ("CoLA", "SST-2", "MRPC")
    malformed: list[str] | None = [] if layout.tolerant and not is_test else None
    rows = examples.read(
        path,
        texts=layout.texts,
        label=None if is_test else layout.label,
        id_column="id" if layout.folder == "QQP" else "index" if has_index else None,
        columns=None if is_test or not layout.headerless else layout.headerless,
        malformed=malformed,
    )
    if malformed:
        log.warning("Skipped %d rows with too few or too many fields: %s.", len(malformed), ", ".join(malformed))
    return rows


def read_tfds(tfds_dir: str, layout: Layout, split: str) -> list[Example]:
    """The same examples from tensorflow-datasets, in the order of the official file; their id is their `idx`."""
    has_numbers = layout.labels == Layout.labels  # in the files; tensorflow-datasets has names
    rows = tfds_datasets.read(
        f"glue/{layout.config}",
        layout.parts[split],
        data_dir=tfds_dir,
        texts=layout.features,
        label=None if split in layout.submissions else "label",
        named=bool(layout.labels) and not has_numbers,
    )
    return sorted(rows, key=lambda example: int(example.id))


def _path(data_dir: str, layout: Layout, name: str) -> str:
    if not data_dir:
        raise UserError(f"Pass the folder with {layout.folder}'s {name} as data_dir.")
    names = (name, *OTHER_NAMES.get(name, ()))
    paths = [os.path.join(data_dir, *parts, name) for parts in ((), (layout.folder,)) for name in names]
    path = next((path for path in paths if files.is_file(path)), None)
    if path is None:
        raise UserError(f"There is no {name} in {data_dir}; expected GLUE's {layout.folder} there.")
    return path


TASKS = {f"glue/{name}": functools.partial(task, name=name) for name in LAYOUTS}
