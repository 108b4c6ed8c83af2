"""TrainConfig, FineTuningConfig, MaskingConfig: how a model is trained, as frozen dataclasses."""

import dataclasses
import math
from typing import ClassVar

from bert_tf.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is trained; the defaults are those of google-research/bert `run_pretraining.py`."""

    train_batch_size: int = 32  # global: of all replicas and micro-batches together
    eval_batch_size: int = 8
    learning_rate: float = 5e-5
    num_train_steps: int = 100000
    num_warmup_steps: int = 10000
    num_accumulation_steps: int = 1
    optimizer: str = "adamw"
    continuous_schedule: bool = False
    weight_decay: float = 0.01
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = 3  # the newest; 0: all
    max_eval_steps: int = 100
    random_seed: int = 12345
    precision: str = "auto"
    jit_compile: str = "auto"
    gradient_checkpointing: bool = False
    packed_rows: int = 0
    # Fields of FineTuningConfig, which has flags for them.
    layerwise_learning_rate_decay: ClassVar[float] = 1.0
    num_frozen_layers: ClassVar[int] = 0
    num_train_examples: ClassVar[int] = 0
    evaluates: ClassVar[bool] = True
    eval_steps: ClassVar[int] = 0
    early_stop_patience: ClassVar[int] = 0
    keep_best: ClassVar[bool] = False

    def __post_init__(self):
        positive = "train_batch_size eval_batch_size num_train_steps num_accumulation_steps save_checkpoints_steps"
        for name in (*positive.split(), "max_eval_steps"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; expected a whole number above 0.")
        for name in ("learning_rate", "num_warmup_steps", "weight_decay", "packed_rows"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"{name} is {getattr(self, name)}; expected 0 or more.")
        if self.train_batch_size % self.num_accumulation_steps:
            raise UserError(
                f"train_batch_size {self.train_batch_size} cannot be cut into {self.num_accumulation_steps} equal "
                "micro-batches: choose num_accumulation_steps that divides it."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningConfig(TrainConfig):
    """How a pre-trained model is trained further; without the fields of its own it is as the original does it.

    layerwise_learning_rate_decay, num_frozen_layers: see `optimizers.layer_factors` and `optimizers.trained`.
    num_train_examples: the length of an epoch, at the end of which it is evaluated; 0: there are no epochs.
    evaluates: whether there is something to evaluate on. eval_steps: evaluate after so many steps; 0: whenever it saves
        and at the end of an epoch. early_stop_patience: stop after so many evaluations without a better criterion of
        the task; 0: never. keep_best: end with the weights of the best evaluation, not with the last.
    """

    layerwise_learning_rate_decay: float = 1.0
    num_frozen_layers: int = 0
    num_train_examples: int = 0
    evaluates: bool = True
    eval_steps: int = 0
    early_stop_patience: int = 0
    keep_best: bool = False

    def __post_init__(self):
        super().__post_init__()
        for name in ("num_frozen_layers", "eval_steps", "early_stop_patience"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} is {getattr(self, name)}; expected 0 or more.")
        if not 0 < self.layerwise_learning_rate_decay <= 1:
            raise UserError(
                f"layerwise_learning_rate_decay is {self.layerwise_learning_rate_decay}; expected more than 0, up to 1."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """How tokens are hidden (google-research/bert `create_pretraining_data.py`)."""

    masked_lm_prob: float = 0.15
    max_predictions_per_seq: int = 20
    do_whole_word_mask: bool = False
    max_span_words: int = 1  # above 1: runs of whole words, up to so many
    static_masking: bool = False  # True: a record is masked alike in every epoch, as in the original's files
    masking_mix: str = "80/10/10"  # of the masked pieces in hundred: shown as [MASK], as they are, as a random piece

    @property
    def shares(self):
        """Shares of the masked pieces that are shown as [MASK], as a random piece, as they are: sum 1."""
        mask, same, other = (float(part) / 100 for part in self.masking_mix.split("/"))
        return mask, other, same

    def __post_init__(self):
        if not _is_mix(self.masking_mix):
            raise UserError(
                f"masking_mix is {self.masking_mix!r}; expected three numbers whose sum is 100, such as 80/10/10: how "
                "many of the masked pieces are shown as [MASK], as they are, as a random piece."
            )
        if not 0 < self.masked_lm_prob < 1:
            raise UserError(f"masked_lm_prob is {self.masked_lm_prob}; expected a share above 0 and below 1.")
        if self.max_predictions_per_seq < 1:
            raise UserError(f"max_predictions_per_seq is {self.max_predictions_per_seq}; expected 1 or more.")
        if self.max_span_words < 1:
            raise UserError(f"max_span_words is {self.max_span_words}; expected 1 or more.")


def _is_mix(text):
    try:
        parts = [float(part) for part in text.split("/")]
    except ValueError:
        return False
    return len(parts) == 3 and min(parts) >= 0 and math.isclose(sum(parts), 100)
