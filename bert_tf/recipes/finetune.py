"""Fine-tunes BERT on sentences, pairs and words: GLUE, SWAG, named entities, your own; evaluates, predicts, exports.

python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC --init_checkpoint=uncased_L-12_H-768_A-12
"""

import dataclasses
from typing import Any, ClassVar

from bert_tf.config.flag_groups import RunOptions
from bert_tf.config.options import changed, fields_of, flag
from bert_tf.data import ready_examples
from bert_tf.errors import UserError
from bert_tf.heads.base.table_options import TableOptions
from bert_tf.recipes import initialization
from bert_tf.recipes.finetuning import ready, run, table_choice
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.tasks.task_options import BY_FAMILY, GlueOptions, TagOptions, VectorOptions, of_task

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
class Flags(FineTuningFlags, GlueOptions, TableOptions, TagOptions, VectorOptions):
    """Data and tasks."""

    POSITIONAL: ClassVar[str] = "train_file"
    MAX_USED: ClassVar[tuple[str, ...]] = tuple(
        "task_name data_dir text_columns label_column init_checkpoint output_dir num_train_epochs learning_rate "
        "train_batch_size max_seq_length".split()
    )

    task_name: str = flag(
        "",
        "Task: MRPC or another GLUE task, swag, xnli/de, table, ner/conll2003, pairs, or my_package.module/name.",
        names_code=True,
    )
    output_dir: str = changed(RunOptions, "output_dir", "runs/classifier")

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

    @classmethod
    def flags_of(cls, task_name: str) -> set[str]:
        """The flags that a task has: all, without those of other tasks."""
        kind = of_task(task_name)
        others = {name for each in BY_FAMILY.values() for name in fields_of(each)} if kind else set()
        return fields_of(cls).keys() - others | fields_of(kind or cls).keys()

    def check(self) -> None:
        """Raises UserError without a task, and for a threshold of labels that are not independent."""
        super().check()
        if not self.task_name:
            raise UserError("Give a task: task_name=MRPC, swag, table ... and data_dir, the folder with its files.")
        for name in sorted(self.given - self.flags_of(self.task_name)):
            raise UserError(f"{name} is not for {self.task_name}: leave it out.")
        others = ("classes", "regression", "choice", "relevance", "relevance_score")
        if self.label_threshold and self.label_type in others:
            raise UserError("label_threshold needs label_type=multi_label; leave it out.")


def main(options: Flags) -> None:
    """Fine-tunes on texts, pairs or words."""
    run.main(options)
