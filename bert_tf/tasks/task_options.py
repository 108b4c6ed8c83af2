"""Options of tasks: a dataclass for each kind, passed to its functions in `tasks.catalog`."""

import dataclasses

from bert_tf.config.options import POSITIVE, flag
from bert_tf.data import tag_schemes
from bert_tf.heads.base.table_options import (
    DatasetOptions,
    LabelOptions,
    LongTextOptions,
    ProbabilityOptions,
    RowOptions,
    SentenceOptions,
    TableOptions,
    TaskOptions,
)
from bert_tf.heads.vectors.vector_choice import FEATURES


@dataclasses.dataclass(frozen=True, kw_only=True)
class GlueOptions(DatasetOptions, SentenceOptions):
    """GLUE."""

    use_tfds: bool = flag(False, "Load GLUE from tensorflow-datasets instead of data_dir; downloads missing data.")


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
        "linear",
        "Tagging: label each word independently, or the words of a sentence as a chain (CRF).",
        ("linear", "crf"),
    )
    document_context: bool = flag(False, "Tagging: fill rows with the sentences of the document around each sentence.")
    feature_layers: str = flag("", "Tagging: train a BiLSTM on these vectors of the frozen encoder.", ("", *FEATURES))
    lstm_size: int = flag(768, "With feature_layers: output size of each BiLSTM layer, both directions together.")
    feature_cache: str = flag(
        "", "With feature_layers: folder to cache the vectors in. Default: a folder in output_dir.", free=True
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorOptions(RowOptions, LongTextOptions):
    """Sentence vectors."""

    normalize_vectors: str = flag(
        "", "Sentence vectors of length 1. Default: as in init_checkpoint, else true.", ("", "true", "false")
    )
    similarity_scale: float = flag(
        20.0, "Sentence vectors: factor of cosines in losses that compare examples.", valid=POSITIVE
    )
    matryoshka_dims: str = flag(
        "",
        "Sentence vectors: dimensions, such as 384,128,64, that vectors can be truncated to afterwards; the loss is "
        "summed over them. Default: only the full size.",
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
    word_alignment: bool = flag(
        False, "Extract answer texts with google-research/bert's word alignment heuristic.", free=True
    )


BY_FAMILY: dict[str, type[TaskOptions]] = {  # of tasks in `tasks.catalog`
    "glue": GlueOptions,
    "swag": SentenceOptions,
    "xnli": SentenceOptions,
    "pawsx": SentenceOptions,
    "python_manual": SentenceOptions,
    "table": TableOptions,
    "few_shot": TableOptions,
    "ner": TagOptions,
    "vectors": VectorOptions,
}
SHORT_NAMES = {  # of tasks whose family can be omitted
    **dict.fromkeys(("pairs", "triplets", "sts", "simcse"), "vectors"),
    **dict.fromkeys(("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli", "ax"), "glue"),
}


def of_task(name: str) -> type[TaskOptions] | None:
    """The options of a task by its name, without loading it; None if it is unknown or external."""
    family = name.lower().partition("/")[0].replace("-", "")
    return BY_FAMILY.get(SHORT_NAMES.get(family, family))
