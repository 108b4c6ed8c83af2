"""The flags shared by all fine-tuning scripts; a script adds its own."""

import dataclasses
import math
import sys
from typing import Any, ClassVar

from bert_tf.config.flag_groups import RunOptions
from bert_tf.config.options import Range, changed, flag, group
from bert_tf.config.train_config import AUTO, LongTraining, LoraConfig, Optimization, TrainConfig
from bert_tf.errors import UserError
from bert_tf.heads.base.table_options import TaskOptions

# With fewer examples, the corrected optimizer is the default, because fine-tuning on few sometimes fails without it
# (Mosbach et al. 2020; Zhang et al. 2020), and training on a table is measured in steps.
FEW_EXAMPLES = 10_000


EPOCHS = Range(lambda value: 0 < value < 1e6, "more than 0")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training(TrainConfig):
    """Training settings of fine-tuning."""

    HIDDEN: ClassVar[tuple[type, ...]] = (LongTraining,)

    num_train_epochs: float = flag(3.0, "Number of passes over the training data.", valid=EPOCHS)
    optimizer: str = changed(
        Optimization,
        "optimizer",
        "auto",
        choices=("auto",),
        help="adamw: as in google-research/bert, without bias correction; adamw_corrected: with it; lamb: for large "
        "batches; muon: LAMB with orthogonal updates; auto: adamw_corrected below 10,000 training examples, else "
        "adamw.",
    )
    unfreeze_epochs: float = flag(
        0.0,
        "Train only the head and the pooler at first, and one more layer from the top after every N epochs, which may "
        "be a fraction; 0: all layers from the start.",
        valid=Range(lambda value: 0 <= value < 1e6, "0 or more"),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningFlags(TaskOptions):
    """Data, recipe and sweeps.

    MODEL: flags that must be the same whenever a trained model is used.
    """

    MODEL: ClassVar[frozenset[str]] = frozenset()

    write_examples: str = flag(
        "", "Folder to write the rows of all splits into as TFRecords, which train_file may name later.", free=True
    )
    do_eval: bool = changed(RunOptions, "do_eval", help="Evaluate on the development set.")
    do_predict: bool = flag(False, "Write predictions.", free=True)
    num_seeds: int = flag(
        1, "Number of runs, with random_seed and the seeds after it; reports mean and standard deviation."
    )
    learning_rate_grid: str = flag("", "Learning rates to try, such as 5e-5,4e-5,3e-5,2e-5; replaces learning_rate.")
    train_batch_size_grid: str = flag("", "Batch sizes to try, such as 16,32; replaces train_batch_size.")
    num_train_epochs_grid: str = flag("", "Numbers of epochs to try, such as 2,3,4; replaces num_train_epochs.")
    group_by_length: bool = flag(False, "Batch training texts of similar length, so that there is less padding.")
    baseline: bool = flag(
        True,
        "Before training, score baselines on the same data: the most frequent class, and linear models on TF-IDF and "
        "on the embeddings of the encoder before training.",
        free=True,
    )
    start: str = flag(
        "encoder",
        "frozen: only fit a linear head to the embeddings of the unchanged encoder, which takes seconds; best: start "
        "from that, train both, and keep the start if training does not beat it on the development set; contrastive: "
        "for few labels, pull the embeddings of each class together, then fit such a head (SetFit); encoder: train "
        "encoder and head.",
        ("encoder", "best", "frozen", "contrastive"),
    )
    training: Training = group(Training)
    lora: LoraConfig = group(LoraConfig)

    @property
    def task_name(self) -> str:
        """The name of the task in `tasks.catalog`."""
        raise NotImplementedError

    def computed_defaults(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Returns {flag: value} for flags that depend on other flags or the data, and {flag: reason}."""
        return {}, {}

    def check(self) -> None:
        """Raises UserError for values that cannot work in any run."""
        self.training.check()
        if self.max_seq_length < 4:
            raise UserError(f"max_seq_length is {self.max_seq_length}; expected 4 or more.")

    def free_flags(self) -> frozenset[str]:
        """Those of all scripts, without save_checkpoints_steps if it determines the steps between evaluations."""
        training = self.training
        selects = (training.keep_best or training.early_stop_patience) and not training.eval_steps
        return super().free_flags() - ({"save_checkpoints_steps"} if selects else set())

    def train_config(self, examples: int, *, new_head_rate: float = 0.0) -> TrainConfig:
        """The TrainConfig for this number of examples; new_head_rate: the task's learning rate for a new head.

        For questions, windows are examples, so that an epoch covers each of them once; run_squad.py in
        google-research/bert counts questions, and stops slightly before the end of its epochs.
        """
        training, optimizer = self.training, self.training.optimizer
        steps = max(1, int(examples / training.train_batch_size * training.num_train_epochs))
        if optimizer == "auto":
            optimizer = "adamw_corrected" if examples < FEW_EXAMPLES else "adamw"
        head_rate = training.head_learning_rate
        if head_rate == AUTO:
            is_faster = examples < FEW_EXAMPLES and 0 < training.learning_rate < new_head_rate
            head_rate = new_head_rate if is_faster else 0.0
        return dataclasses.replace(
            training,
            num_train_steps=steps,
            unfreeze_steps=math.ceil(training.unfreeze_epochs * examples / training.train_batch_size),
            freeze="encoder" if self.lora.lora_rank else training.freeze,
            num_warmup_steps=int(steps * training.warmup_proportion),
            optimizer=optimizer,
            head_learning_rate=head_rate,
            max_eval_steps=sys.maxsize,
            num_train_examples=examples,
            evaluates=self.do_eval,
        )
