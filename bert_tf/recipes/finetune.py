"""Fine-tunes BERT on sentences, pairs and words: GLUE, SWAG, named entities, your own; evaluates, predicts, exports.

python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC --init_checkpoint=uncased_L-12_H-768_A-12
"""

import dataclasses
from typing import Any, ClassVar

from bert_tf import heads
from bert_tf.checkpoints.checkpoint import POOLINGS
from bert_tf.config.flag_groups import RunOptions
from bert_tf.config.options import changed, flag
from bert_tf.data import ready_examples
from bert_tf.errors import UserError
from bert_tf.recipes import initialization
from bert_tf.recipes.finetuning import ready, run, table_choice
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.tasks.embeddings.vector_choice import FEATURES
from bert_tf.tasks.token_classification import tag_schemes
from bert_tf.text.truncation import LONGEST_FIRST, TRUNCATIONS

# Defaults without flags that name data: which part of Python's manual a passage comes from.
DEMONSTRATION = {
    "task_name": "python_manual",
    "model_size": "tiny",
    "dropout_prob": 0.0,  # as in the demonstration of run_pretraining.py
    "vocab_size": 1500,
    "learning_rate": 1e-3,
    "num_train_epochs": 12.0,
    "eval_steps": 64,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flags(FineTuningFlags):
    """Data and tasks."""

    POSITIONAL: ClassVar[str] = "train_file"
    MOST_USED: ClassVar[tuple[str, ...]] = tuple(
        "task_name data_dir text_columns label_column init_checkpoint output_dir num_train_epochs learning_rate "
        "train_batch_size max_seq_length".split()
    )

    task_name: str = flag(
        "",
        "Task: MRPC or another GLUE task, swag, xnli/de, table, ner/conll2003, pairs, or my_package.module/name.",
        names_code=True,
    )
    data_dir: str = flag("", "Folder with the task's files.")
    use_tfds: bool = flag(False, "Load GLUE from tensorflow-datasets instead of data_dir; downloads missing data.")
    tfds_name: str = flag(
        "", "Dataset of tensorflow-datasets as a table, such as ag_news_subset; its features are the columns."
    )
    tfds_dir: str = flag("", "Folder of tensorflow-datasets. Default: ~/tensorflow_datasets.")
    output_dir: str = changed(RunOptions, "output_dir", "runs/classifier")
    eval_file: str = flag(
        "", "Labeled evaluation data: a table or a tagged file. Default: dev.* in data_dir.", free=True
    )
    eval_fraction: float = flag(
        0.1, "Fraction of the training table held out for evaluation if there is no evaluation table."
    )
    stratify: bool = flag(True, "Hold out the same part of the rows of every label.", earlier_default=False)
    text_columns: str = flag(
        "", "Comma-separated table columns: a text, a pair of texts, or a text and its choices.", aliases=("text",)
    )
    label_column: str = flag("label", "Table column with the label.", aliases=("label",))
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
    id_column: str = flag("", "Table column with the ids for predictions. Default: row numbers.")
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
    labels: str = flag("", "Comma-separated labels of a table or tags, in order. Default: those of the training data.")
    class_weights: str = flag(
        "none",
        "Weights of classes in the loss: none; balanced, inversely to their frequency; numbers in the order of the "
        "labels, 1,3; or of some labels, yes=3.",
    )
    label_smoothing: float = flag(0.0, "Part of the target that all labels share, such as 0.1; for classes and labels.")
    focal_gamma: float = flag(
        0.0, "Exponent of the focal loss, such as 2: examples that are right already count less; 0: cross entropy."
    )
    pos_weight: str = flag(
        "",
        "Weights of the labels that hold in the loss (--label_type=multi_label): balanced, texts without a label for "
        "each with it; a number; numbers in the order of the labels; or of some labels, urgent=3.",
    )
    criterion: str = flag(
        "",
        "Metric that selects the best weights and the best run, such as macro_f1, or a function of your own: "
        "my_lab.scores:kappa. Default: the task's first metric.",
        names_code=True,
    )
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
    long_texts: str = flag(
        "cut", "Texts longer than a row: truncate, or read whole in overlapping windows.", ("cut", "windows")
    )
    truncation: str = flag(
        LONGEST_FIRST, "Pairs longer than a row: which text loses tokens at its end.", tuple(TRUNCATIONS)
    )
    max_windows: int = flag(8, "Maximum number of windows per text; the rest is not read.")
    window_pooling: str = flag("mean", "How to combine the pooled vectors of a text's windows.", ("mean", "max"))

    pooling: str = flag(
        "",
        "Sentence vectors: how the vectors of tokens become one. Default: as in init_checkpoint, else mean.",
        ("", *POOLINGS),
    )
    normalize_vectors: str = flag(
        "", "Sentence vectors of length 1. Default: as in init_checkpoint, else true.", ("", "true", "false")
    )
    similarity_scale: float = flag(20.0, "Sentence vectors: factor of cosines in losses that compare examples.")
    similarity_loss: str = flag("cosent", "Loss of --task_name=sts.", ("cosent", "cosine"))
    largest_score: float = flag(
        1.0, "With similarity_loss=cosine: the score of texts that mean the same, 5 in STS-B; scores are divided by it."
    )
    eval_text_columns: str = flag(
        "sentence1,sentence2",
        "With --task_name=simcse: the two columns of texts in eval_file, for label_column.",
        free=True,
    )

    MODEL: ClassVar[frozenset[str]] = frozenset(("task_name", "label_type", "document_context", "tag_head", "pooling"))

    def computed_defaults(self) -> dict[str, Any]:
        """The settings of the demonstration if no flag names data; those for a table if it alone is given."""
        if ready_examples.is_file_of_them(self.train_file):
            return ready.default_flags(self.train_file)
        if "train_file" in self.given and "task_name" not in self.given:
            values = {name: value for name, value in self.values().items() if name in self.given}
            is_new = self.given & {"bert_config_file", "model_size", "vocab_file", "vocab_size", "encoder"}
            return table_choice.defaults(self.train_file, {"init_checkpoint": "", **values} if is_new else values)
        if "tfds_name" in self.given and "task_name" not in self.given:
            return {"task_name": "table"}
        if self.given & {"task_name", "data_dir", "train_file", "predict_file"}:
            return {}
        question = "Which part of it is a passage from?"
        return initialization.demo_settings(self, DEMONSTRATION, question, "runs/classifier")

    def check(self) -> None:
        """Raises UserError without a task, and for a threshold of labels that are not independent."""
        super().check()
        if not self.task_name:
            raise UserError("Give a task: task_name=MRPC, swag, table ... and data_dir, the folder with its files.")
        if self.task_name.startswith("ner/") and (self.label_smoothing or self.focal_gamma or self.pos_weight):
            raise UserError("label_smoothing, focal_gamma and pos_weight are for labels of texts; leave them out.")
        if self.label_threshold and self.label_type in ("classes", "regression", "choice"):
            raise UserError("label_threshold needs label_type=multi_label; leave it out.")


def main(options: Flags) -> None:
    """Fine-tunes on texts, pairs or words."""
    run.main(options)
