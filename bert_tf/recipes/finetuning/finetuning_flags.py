"""The flags that all scripts that fine-tune share; a script adds its own."""

import dataclasses
from typing import Any, ClassVar

from bert_tf.config import flags
from bert_tf.config.flag_groups import DEVICE_FLAGS, DeviceFlags, ModelFlags, OptimizationFlags, RunFlags
from bert_tf.config.flags import changed, flag
from bert_tf.config.train_config import FROZEN, LoraConfig
from bert_tf.errors import UserError

# Examples below which the corrected optimizer is the default, as fine-tuning on few fails now and then without it
# (Mosbach et al. 2020; Zhang et al. 2020), and below which a table is trained for a number of steps.
FEW_EXAMPLES = 10_000
AUTO = -1.0  # the learning rate of the head that depends on whether it is new, and on the number of examples


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningFlags(ModelFlags, RunFlags, OptimizationFlags, DeviceFlags):
    """Data, recipe and sweeps.

    FREE: flags that may differ between two starts of a run, as they do not decide what is learned. MODEL: flags that a
    trained model must be used with.
    """

    FREE: ClassVar[frozenset[str]] = DEVICE_FLAGS | frozenset(
        "output_dir parity temperature baseline do_train do_eval do_predict do_export export_attention eval_batch_size "
        "write_examples trust_code".split()
    )
    MODEL: ClassVar[frozenset[str]] = frozenset()

    train_file: str = flag(
        "", "Training data: a table, or ready examples (.tf_record). Default: train.tsv, .csv or .jsonl in data_dir."
    )
    predict_file: str = flag("", "Data to predict, with or without labels. Default: test.* in data_dir.")
    write_examples: str = flag(
        "", "Folder to write the rows of all splits into as TFRecords, which train_file may name later."
    )
    doc_stride: int = flag(0, "Tokens from the start of a window to the start of the next; 0: half of max_seq_length.")
    do_eval: bool = changed(RunFlags, "do_eval", help="Evaluate on the development set.")
    do_predict: bool = flag(False, "Write predictions.")
    num_train_epochs: float = flag(3.0, "Number of passes over the training data.")
    num_seeds: int = flag(
        1, "Number of runs, with random_seed and the seeds after it; reports mean and standard deviation."
    )
    learning_rate_grid: str = flag("", "Learning rates to try, such as 5e-5,4e-5,3e-5,2e-5; replaces learning_rate.")
    train_batch_size_grid: str = flag("", "Batch sizes to try, such as 16,32; replaces train_batch_size.")
    num_train_epochs_grid: str = flag("", "Numbers of epochs to try, such as 2,3,4; replaces num_train_epochs.")
    optimizer: str = changed(
        OptimizationFlags,
        "optimizer",
        "auto",
        choices=("auto",),
        help="adamw: the original's, without bias correction; adamw_corrected: with it; lamb: for large batches; "
        "muon: LAMB with orthogonal updates; auto: adamw_corrected below 10,000 training examples, else adamw.",
    )
    group_by_length: bool = flag(
        False, "Make each batch of training of texts of like length, so that there is less padding."
    )
    layerwise_learning_rate_decay: float = flag(
        1.0, "Learning rate of a layer relative to the layer above, such as 0.9; the head uses the full rate."
    )
    head_learning_rate: float = flag(
        AUTO,
        "Peak learning rate of the head; same: learning_rate; auto: at least 1e-3 for tags and answers where the "
        "checkpoint has no such head and fewer than 10,000 examples train it, else learning_rate.",
        words={"auto": AUTO, "same": 0.0},
        earlier_default=0.0,
    )
    num_frozen_layers: int = flag(0, "Freeze the embeddings and the first N layers; 0: none.")
    freeze: str = flag(
        "none", "Weights that stay as they are: the embeddings, or the encoder without its pooler.", FROZEN
    )
    lora_rank: int = flag(
        0, "Train adapters of this rank instead of the encoder (LoRA), such as 8; exports contain them. 0: none."
    )
    lora_alpha: float = flag(16.0, "With lora_rank: what adapters add is multiplied by this and divided by the rank.")
    lora_targets: str = flag(
        "query,value", "With lora_rank: what has adapters, of query, key, value, project_out, expand, contract."
    )
    unfreeze_epochs: float = flag(
        0.0,
        "Train only the head and the pooler at first, and one more layer from the top after every N epochs, which may "
        "be a fraction; 0: all layers from the start.",
    )
    ema_decay: float = flag(
        0.0,
        "Decay of the moving average of the weights, such as 0.999, which is evaluated, kept and exported in their "
        "place; 0: the weights themselves.",
    )
    fgm_epsilon: float = flag(
        0.0,
        "Adversarial training (FGM): also learn each text with the vectors of its tokens moved by this much to where "
        "the loss grows, such as 1; twice the time. 0: off.",
    )
    eval_steps: int = flag(0, "Steps between evaluations; 0: at every checkpoint and at the end of every epoch.")
    early_stop_patience: int = flag(0, "Stop after N evaluations without improvement; 0: never.")
    keep_best: bool = flag(
        True,
        "Keep the weights with the best evaluation score instead of the last ones. Default: where there is a "
        "development set.",
        earlier_default=False,
    )

    baseline: bool = flag(
        True, "Before training, score TF-IDF with a linear model on the same data, for the model to beat."
    )
    temperature: str = flag(
        "1",
        "Divide logits by this number before they become probabilities, in predictions and export; best: by the one "
        "that fits the development set (classes, choices and questions).",
    )

    @property
    def task_name(self) -> str:
        """The name of the task in `tasks.catalog`."""
        raise NotImplementedError

    @classmethod
    def computed_defaults(cls) -> dict[str, Any]:
        """{flag: value} that depend on other flags, as those of the demonstration if none says what to learn."""
        return {}

    def check(self) -> None:
        """Raises UserError for values that no run could work with."""
        flags.part(LoraConfig, self)
        for name, is_valid, expected in (
            ("num_train_epochs", 0 < self.num_train_epochs < 1e6, "more than 0"),
            ("warmup_proportion", 0 <= self.warmup_proportion <= 1, "0 to 1"),
            ("unfreeze_epochs", 0 <= self.unfreeze_epochs < 1e6, "0 or more"),
            ("max_seq_length", self.max_seq_length >= 4, "4 or more"),
            ("num_logical_devices", self.num_logical_devices >= 1, "1 or more"),
        ):
            if not is_valid:
                raise UserError(f"{name} is {getattr(self, name)}; expected {expected}.")

    @property
    def free_flags(self) -> frozenset[str]:
        """FREE, and the steps between checkpoints unless these are the steps between evaluations that decide."""
        selects = (self.keep_best or self.early_stop_patience) and not self.eval_steps
        return self.FREE if selects else self.FREE | {"save_checkpoints_steps"}
