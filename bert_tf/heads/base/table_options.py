"""Options of tables: the location of a task's texts and labels, and how they become examples."""

import dataclasses

from bert_tf.config.bert_config import POOLINGS
from bert_tf.config.flag_groups import RunOptions
from bert_tf.config.options import flag, group
from bert_tf.config.train_config import LossSettings
from bert_tf.text.truncation import LONGEST_FIRST, TRUNCATIONS

SPLIT_FLAGS = {"train": "train_file", "dev": "eval_file", "test": "predict_file"}  # the flag of each split


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskOptions(RunOptions):
    """Data to train on and to predict."""

    train_file: str = flag(
        "",
        "Training data: a table, or preprocessed examples (.tf_record). Default: train.tsv, .csv, .jsonl in data_dir.",
    )
    predict_file: str = flag("", "Data to predict, with or without labels. Default: test.* in data_dir.", free=True)
    doc_stride: int = flag(0, "Tokens from the start of a window to the start of the next; 0: half of max_seq_length.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileOptions(TaskOptions):
    """Files of a task."""

    data_dir: str = flag("", "Folder with the task's files.")
    eval_file: str = flag(
        "", "Labeled evaluation data: a table or a tagged file. Default: dev.* in data_dir.", free=True
    )
    criterion: str = flag(
        "",
        "Metric that selects the best weights and the best run, such as macro_f1, or a function of your own: "
        "my_lab.scores:kappa. Default: the task's first metric.",
        names_code=True,
    )

    def file_of(self, split: str) -> str:
        """The file passed for a split, train, dev or test, or ""."""
        return {"train": self.train_file, "dev": self.eval_file, "test": self.predict_file}[split]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelOptions(FileOptions):
    """Names of labels."""

    labels: str = flag("", "Comma-separated labels of a table or tags, in order. Default: those of the training data.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongTextOptions(FileOptions):
    """Long texts, and the loss."""

    long_texts: str = flag(
        "cut", "Texts longer than max_seq_length: truncate, or read whole in overlapping windows.", ("cut", "windows")
    )
    pooling: str = flag(
        "",
        "How token embeddings are pooled into a text embedding; for labels cls, through the pooler, or mean. "
        "Default: as in init_checkpoint, else cls for labels and mean for sentence embeddings.",
        ("", *POOLINGS),
    )
    loss: LossSettings = group(LossSettings)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProbabilityOptions(TaskOptions):
    """Probabilities."""

    temperature: str = flag(
        "1",
        "Divide logits by this temperature in predictions and export; best: fitted on the development set (classes, "
        "labels, choices and questions).",
        free=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceOptions(LongTextOptions, ProbabilityOptions):
    """Texts, pairs and choices."""

    class_weights: str = flag(
        "none",
        "Class weights in the loss: none; balanced, by inverse frequency; numbers in the order of the labels, 1,3; "
        "or for some labels, yes=3.",
    )
    truncation: str = flag(
        LONGEST_FIRST, "Pairs longer than max_seq_length: which text is truncated.", tuple(TRUNCATIONS)
    )
    max_windows: int = flag(8, "Maximum number of windows per text; the rest is not read.")
    window_pooling: str = flag("mean", "How to combine the pooled windows of a text.", ("mean", "max"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetOptions(FileOptions):
    """Datasets of tensorflow-datasets."""

    tfds_dir: str = flag("", "Folder of tensorflow-datasets. Default: ~/tensorflow_datasets.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowOptions(DatasetOptions):
    """Tables."""

    tfds_name: str = flag(
        "", "Dataset of tensorflow-datasets as a table, such as ag_news_subset; its features are the columns."
    )
    eval_fraction: float = flag(
        0.1, "Fraction of the training table held out for evaluation if there is no evaluation table."
    )
    text_columns: str = flag(
        "", "(or --text) Table columns, comma-separated: a text, a pair, or a text and its choices.", aliases=("text",)
    )
    label_column: str = flag("label", "(or --label) Table column with the label.", aliases=("label",))
    id_column: str = flag("", "Table column with the ids for predictions. Default: row numbers.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions(RowOptions, SentenceOptions, LabelOptions):
    """Labels of a table."""

    folds: int = flag(
        0,
        "Cross-validation: split the training table into N parts, train N runs, each evaluated on one part, report "
        "mean and standard deviation, and train the final model on all rows; for tables of up to a few hundred rows.",
    )
    fold: int = flag(0, "With folds: train only the run evaluated on this part, from 1.")
    refit: bool = flag(
        False,
        "Then train again on all rows, including those held out, for the best number of epochs; the reported scores "
        "are from the first model. Default: true for a table of fewer than 1,000 rows without an evaluation table.",
    )
    stratify: bool = flag(True, "Stratify the held-out rows by label.")
    bad_rows: str = flag(
        "skip", "Rows of a table without text or label, or with too many or too few fields.", ("skip", "stop")
    )
    normalize_labels: bool = flag(False, "Lower-case the labels of a table and collapse their spaces.")
    join_labels: bool = flag(
        True,
        "Merge classes of a table that differ only in case or spaces into the most common one, if it has at least "
        "twice as many rows as the others.",
    )
    label_type: str = flag(
        "classes",
        "Type of a table's labels: one of several classes, any number of labels per text, a number, which choice is "
        "right, or for rerankers how well a text answers a query, from 0 to 1 or as any score.",
        ("classes", "multi_label", "regression", "choice", "relevance", "relevance_score"),
        names_code=True,
    )
    label_separator: str = flag(",", "Separator between labels in one cell (tables with --label_type=multi_label).")
    label_threshold: str = flag(
        "",
        "Probability above which a label is predicted (--label_type=multi_label); best: per label, the threshold "
        "with the best F1 on the development set.",
        free=True,
    )
