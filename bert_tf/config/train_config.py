"""TrainConfig and MaskingConfig: how a model is trained, as frozen dataclasses."""

import dataclasses
import math

from bert_tf.errors import UserError
from bert_tf.runtime.process import MAX_SEED

ALL_REDUCE_PRECISIONS = ("float32", "bfloat16")
FROZEN = ("none", "embeddings", "encoder")  # what `freeze` may name


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is trained; the defaults are those of google-research/bert `run_pretraining.py`."""

    train_batch_size: int = 32  # global: over all replicas and micro-batches
    eval_batch_size: int = 8
    learning_rate: float = 5e-5
    num_train_steps: int = 100000
    num_warmup_steps: int = 10000
    budget_minutes: float = 0.0  # training ends after them, the schedule of num_train_steps is stretched; 0: by steps
    train_biases: bool = True  # False: biases of the encoder's dense layers stay as they are, 0 in a new model
    token_dropping: float = 0.0  # share of each row that the middle layers do not see, see `model.token_dropping`
    input_lanes: int = 0  # see `training.lanes`; 0: as suits the number of shards
    num_accumulation_steps: int = 1  # 0: as many as memory makes necessary
    iterations_per_loop: int = 1  # steps of one call; 0: as suits the device
    optimizer: str = "adamw"  # a module of training/optimizers, or one from outside such as "my_lab.lion"
    continuous_schedule: bool = False
    decay_power: float = 1.0  # see `training.learning_rates`
    weight_decay: float = 0.01
    layerwise_learning_rate_decay: float = 1.0  # see `training.learning_rates`
    head_learning_rate: float = 0.0  # of the heads of tasks; 0: learning_rate
    num_frozen_layers: int = 0  # see `training.learning_rates`
    freeze: str = "none"  # one of FROZEN; see `training.learning_rates`
    unfreeze_steps: int = 0  # after which one more layer is trained, from the head down; 0: all from the start
    ema_decay: float = 0.0  # of the average of the weights, see `training.weight_average`; 0: none
    fgm_epsilon: float = 0.0  # of the perturbation, see `training.adversarial`; 0: none
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = 3  # the newest; 0: all
    max_eval_steps: int = 100
    random_seed: int = 12345
    precision: str = "auto"
    all_reduce_precision: str = "float32"  # in which replicas sum gradients
    jit_compile: str = "auto"
    gradient_checkpointing: bool = False
    use_one_hot_embeddings: str = "auto"
    packed_rows: int = 0
    num_train_examples: int = 0  # length of an epoch, which ends with an evaluation; 0: no epochs
    evaluates: bool = True  # whether there is held-out data
    eval_steps: int = 0  # steps between evaluations; 0: at every checkpoint and at the end of every epoch
    early_stop_patience: int = 0  # evaluations without a better criterion before training stops; 0: never stops early
    keep_best: bool = False  # end with the weights of the best evaluation instead of the last ones

    def __post_init__(self) -> None:
        positive = "train_batch_size eval_batch_size num_train_steps save_checkpoints_steps"
        for name in (*positive.split(), "max_eval_steps"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; expected a whole number above 0.")
        not_negative = "learning_rate num_warmup_steps weight_decay packed_rows num_frozen_layers eval_steps"
        not_negative += " head_learning_rate"
        not_negative += " unfreeze_steps fgm_epsilon budget_minutes early_stop_patience num_accumulation_steps"
        for name in (*not_negative.split(), "iterations_per_loop", "input_lanes"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"{name} is {getattr(self, name)}; expected 0 or more.")
        if not 0 <= self.random_seed <= MAX_SEED:
            raise UserError(f"random_seed is {self.random_seed}; expected a whole number from 0 to {MAX_SEED:,}.")
        if self.head_learning_rate and not self.learning_rate:
            raise UserError(
                "head_learning_rate needs a learning_rate above 0: give freeze=encoder to train the head alone."
            )
        if not 0 <= self.ema_decay < 1:
            raise UserError(f"ema_decay is {self.ema_decay}; expected 0 or more, below 1, such as 0.999.")
        if not 0 <= self.token_dropping < 1:
            raise UserError(f"token_dropping is {self.token_dropping}; expected 0 or more, below 1, such as 0.5.")
        if not 0 < self.layerwise_learning_rate_decay <= 1:
            raise UserError(
                f"layerwise_learning_rate_decay is {self.layerwise_learning_rate_decay}; expected more than 0, up to 1."
            )
        if not 0 < self.decay_power < math.inf:
            raise UserError(f"decay_power is {self.decay_power}; expected a number above 0.")
        if self.all_reduce_precision not in ALL_REDUCE_PRECISIONS:
            raise UserError(
                f"all_reduce_precision is {self.all_reduce_precision!r}; expected {' or '.join(ALL_REDUCE_PRECISIONS)}."
            )
        if self.train_batch_size % (self.num_accumulation_steps or 1):
            raise UserError(
                f"train_batch_size {self.train_batch_size} cannot be split into {self.num_accumulation_steps} equal "
                "micro-batches: choose num_accumulation_steps that divides it."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """How tokens are masked (google-research/bert `create_pretraining_data.py`)."""

    masked_lm_prob: float = 0.15
    max_predictions_per_seq: int = 20
    do_whole_word_mask: bool = False
    max_span_words: int = 1  # above 1: spans of whole words, up to this many
    static_masking: bool = False  # the same mask for a record in every epoch, as in the original's files
    masking_mix: str = "80/10/10"  # percentages that become [MASK], stay, become a random token

    @property
    def replacement_probs(self) -> tuple[float, float, float]:
        """Probabilities that a masked token becomes [MASK], becomes a random token, or stays; their sum is 1."""
        mask, same, other = (float(part) / 100 for part in self.masking_mix.split("/"))
        return mask, other, same

    def __post_init__(self) -> None:
        if not _is_mix(self.masking_mix):
            raise UserError(
                f"masking_mix is {self.masking_mix!r}; expected three numbers whose sum is 100, such as 80/10/10: the "
                "percentages of masked tokens that become [MASK], stay, and become a random token."
            )
        if not 0 < self.masked_lm_prob < 1:
            raise UserError(f"masked_lm_prob is {self.masked_lm_prob}; expected a share above 0 and below 1.")
        if self.max_predictions_per_seq < 1:
            raise UserError(f"max_predictions_per_seq is {self.max_predictions_per_seq}; expected 1 or more.")
        if self.max_span_words < 1:
            raise UserError(f"max_span_words is {self.max_span_words}; expected 1 or more.")


def _is_mix(text: str) -> bool:
    try:
        parts = [float(part) for part in text.split("/")]
    except ValueError:
        return False
    return len(parts) == 3 and min(parts) >= 0 and math.isclose(sum(parts), 100)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    """What a student learns from its teacher, see `training.distillation`."""

    distillation: str = "distilbert"  # a recipe, or factors of losses
    distillation_temperature: float = 2.0
    layer_map: str = ""  # the teacher's layer for each of the student's; "": every n-th

    def __post_init__(self) -> None:
        if not 0 < self.distillation_temperature < math.inf:
            raise UserError(
                f"distillation_temperature is {self.distillation_temperature}; expected a number above 0, such as 2."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """Adapters of low rank, see `model.lora`."""

    lora_rank: int = 0  # 0: none
    lora_alpha: float = 16.0  # over the rank, the factor of what they add
    lora_targets: str = "query,value"  # those of the paper's experiments

    @property
    def scale(self) -> float:
        """The factor of what adapters add."""
        return self.lora_alpha / self.lora_rank

    def __post_init__(self) -> None:
        if self.lora_rank < 0:
            raise UserError(f"lora_rank is {self.lora_rank}; expected 0 or more, such as 8.")
        if not 0 < self.lora_alpha < math.inf:
            raise UserError(f"lora_alpha is {self.lora_alpha}; expected more than 0.")
