"""The options of tasks: a dataclass for each kind, which its functions in `tasks.catalog` take."""

import dataclasses

from bert_tf import heads
from bert_tf.checkpoints.checkpoint import POOLINGS
from bert_tf.config.flag_groups import RunOptions
from bert_tf.config.options import POSITIVE, flag, group
from bert_tf.config.train_config import LossSettings
from bert_tf.data import tag_schemes
from bert_tf.tasks.embeddings.vector_choice import FEATURES
from bert_tf.text.truncation import LONGEST_FIRST, TRUNCATIONS


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskOptions(RunOptions):
    """Data to train on and to predict."""

    train_file: str = flag(
        "", "Training data: a table, or ready examples (.tf_record). Default: train.tsv, .csv or .jsonl in data_dir."
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelOptions(FileOptions):
    """Names of labels."""

    labels: str = flag("", "Comma-separated labels of a table or tags, in order. Default: those of the training data.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongTextOptions(FileOptions):
    """Long texts, and the loss."""

    long_texts: str = flag(
        "cut", "Texts longer than a row: truncate, or read whole in overlapping windows.", ("cut", "windows")
    )
    loss: LossSettings = group(LossSettings)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProbabilityOptions(TaskOptions):
    """Probabilities."""

    temperature: str = flag(
        "1",
        "Divide logits by this number before they become probabilities, in predictions and export; best: by the one "
        "that fits the development set (classes, choices and questions).",
        free=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceOptions(LongTextOptions, ProbabilityOptions):
    """Texts, pairs and choices."""

    class_weights: str = flag(
        "none",
        "Weights of classes in the loss: none; balanced, inversely to their frequency; numbers in the order of the "
        "labels, 1,3; or of some labels, yes=3.",
    )
    truncation: str = flag(
        LONGEST_FIRST, "Pairs longer than a row: which text loses tokens at its end.", tuple(TRUNCATIONS)
    )
    max_windows: int = flag(8, "Maximum number of windows per text; the rest is not read.")
    window_pooling: str = flag("mean", "How to combine the pooled vectors of a text's windows.", ("mean", "max"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetOptions(FileOptions):
    """Datasets of tensorflow-datasets."""

    tfds_dir: str = flag("", "Folder of tensorflow-datasets. Default: ~/tensorflow_datasets.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GlueOptions(DatasetOptions, SentenceOptions):
    """GLUE."""

    use_tfds: bool = flag(False, "Load GLUE from tensorflow-datasets instead of data_dir; downloads missing data.")


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
        "", "Comma-separated table columns: a text, a pair of texts, or a text and its choices.", aliases=("text",)
    )
    label_column: str = flag("label", "Table column with the label.", aliases=("label",))
    id_column: str = flag("", "Table column with the ids for predictions. Default: row numbers.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions(RowOptions, SentenceOptions, LabelOptions):
    """Labels of a table."""

    stratify: bool = flag(True, "Hold out the same part of the rows of every label.", earlier_default=False)
    bad_rows: str = flag(
        "skip", "Rows of a table without text or label, or with too many or too few fields.", ("skip", "stop")
    )
    normalize_labels: bool = flag(False, "Lower-case the labels of a table and join their spaces.")
    join_labels: bool = flag(
        True,
        "Join a class of a table that differs from another in case or spaces only with it, if it has a tenth of its "
        "rows or fewer.",
        earlier_default=False,
    )
    label_type: str = flag(
        "classes",
        "Type of a table's labels: one of several classes, any number of labels per text, a number, or which choice is "
        "right.",
        ("classes", "multi_label", "regression", "choice"),
        names_code=True,
        old_values=heads.OLD_KINDS,
    )
    label_separator: str = flag(",", "Separator between labels in one cell (tables with --label_type=multi_label).")
    label_threshold: str = flag(
        "",
        "Probability above which a label is predicted (--label_type=multi_label); best: per label, the threshold "
        "with the best F1 on the development set.",
        free=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TagOptions(LabelOptions):
    """Tagging of words."""

    word_column: int = flag(1, "Tagging: column with the word; -1: the last.")
    tag_column: int = flag(-1, "Tagging: column with the tag; -1: the last.")
    tag_scheme: str = flag(
        "auto", "Tagging: scheme of the tags; plain: each tag stands for itself.", ("auto", *tag_schemes.SCHEMES)
    )
    position_digits: bool = flag(False, "Tagging: strip the digit that ends every word, as in Weibo NER.")
    tag_head: str = flag(
        "linear", "Tagging: label each word by itself, or the words of a sentence as a chain.", ("linear", "crf")
    )
    document_context: bool = flag(False, "Tagging: fill rows with the sentences of the document around each sentence.")
    feature_layers: str = flag("", "Tagging: train a BiLSTM on these vectors of the frozen encoder.", ("", *FEATURES))
    lstm_size: int = flag(768, "With feature_layers: output size of each BiLSTM layer, both directions together.")
    feature_cache: str = flag(
        "",
        "With feature_layers: folder to cache the vectors in. Default: a folder in output_dir.",
        free=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorOptions(RowOptions, LongTextOptions):
    """Sentence vectors."""

    pooling: str = flag(
        "",
        "Sentence vectors: how the vectors of tokens become one. Default: as in init_checkpoint, else mean.",
        ("", *POOLINGS),
    )
    normalize_vectors: str = flag(
        "", "Sentence vectors of length 1. Default: as in init_checkpoint, else true.", ("", "true", "false")
    )
    similarity_scale: float = flag(
        20.0, "Sentence vectors: factor of cosines in losses that compare examples.", valid=POSITIVE
    )
    similarity_loss: str = flag("cosent", "Loss of --task_name=sts.", ("cosent", "cosine"))
    largest_score: float = flag(
        1.0,
        "With similarity_loss=cosine: the score of texts that mean the same, 5 in STS-B; scores are divided by it.",
        valid=POSITIVE,
    )
    eval_text_columns: str = flag(
        "sentence1,sentence2",
        "With --task_name=simcse: the two columns of texts in eval_file, for label_column.",
        free=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionOptions(ProbabilityOptions):
    """Questions and answers."""

    max_query_length: int = flag(64, "Maximum number of question tokens; longer questions are truncated.")
    n_best_size: int = flag(20, "Number of answers to list per question.", free=True)
    max_answer_length: int = flag(30, "Maximum number of tokens of an answer.", free=True)
    null_score_diff_threshold: float | None = flag(
        None,
        "Predict no answer if its score exceeds the best answer's by more than this. Default: the best "
        "threshold on the development set.",
        free=True,
    )
    word_alignment: bool = flag(False, "Extract answer texts with the original's word alignment heuristic.", free=True)


BY_FAMILY: dict[str, type[TaskOptions]] = {  # of tasks in `tasks.catalog`
    "glue": GlueOptions,
    "swag": SentenceOptions,
    "xnli": SentenceOptions,
    "pawsx": SentenceOptions,
    "python_manual": SentenceOptions,
    "table": TableOptions,
    "ner": TagOptions,
    "vectors": VectorOptions,
}
SHORT_NAMES = {  # of tasks whose family need not be given
    **dict.fromkeys(("pairs", "triplets", "sts", "simcse"), "vectors"),
    **dict.fromkeys(("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli", "ax"), "glue"),
}


def of_task(name: str) -> type[TaskOptions] | None:
    """The options of a task by its name, without loading it; None if it is unknown or from outside this package."""
    family = name.lower().partition("/")[0].replace("-", "")
    return BY_FAMILY.get(SHORT_NAMES.get(family, family))
