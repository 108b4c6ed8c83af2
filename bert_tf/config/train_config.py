"""TrainConfig and others: training settings, as frozen dataclasses whose fields are flags of the scripts."""

import dataclasses
import math

from bert_tf.config.options import COUNT, NOT_NEGATIVE, PART, POSITIVE, SHARE, Group, Range, flag
from bert_tf.errors import UserError
from bert_tf.runtime.settings import MAX_SEED

JIT_CHOICES = ("auto", "true", "false")
ALL_REDUCE_PRECISIONS = ("float32", "bfloat16")
FROZEN = ("none", "embeddings", "encoder")  # choices of `freeze`
AUTO = -1.0  # the head's learning rate depends on whether it is new and on the number of examples
BY_PROPORTION = -1  # the number of warm-up steps is a share of all steps
SEED = Range(lambda value: 0 <= value <= MAX_SEED, f"a whole number from 0 to {MAX_SEED:,}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimization(Group):
    """Batches, learning rate and optimizer."""

    train_batch_size: int = flag(32, "Rows per training step, over all replicas and micro-batches.", valid=COUNT)
    eval_batch_size: int = flag(8, "Rows per batch in evaluation and prediction.", valid=COUNT, free=True)
    num_accumulation_steps: int = flag(
        1,
        "Micro-batches per step (gradient accumulation); less memory, same result. auto: twice as many whenever memory "
        "runs out.",
        words={"auto": 0},
        valid=NOT_NEGATIVE,
    )
    learning_rate: float = flag(5e-5, "Peak learning rate.", valid=NOT_NEGATIVE)
    optimizer: str = flag(
        "adamw",
        "adamw: as in google-research/bert, without bias correction; adamw_corrected: with it; lamb: for large "
        "batches; muon: LAMB with orthogonal updates of hidden matrices, for few steps.",
        members_of="bert_tf.training.optimizers",
    )
    warmup_proportion: float = flag(0.1, "Fraction of the training steps used for warm-up.", valid=SHARE)
    weight_decay: float = flag(0.01, "Weight decay; not applied to LayerNorm and biases.", valid=NOT_NEGATIVE)
    continuous_schedule: bool = flag(
        True,
        "Start the decay at the end of warm-up; false: at step 0, as in google-research/bert, so that the rate drops "
        "there.",
    )
    decay_power: float = flag(
        1.0, "Power of the decay of the learning rate; 1: linear; 0.5: like NVIDIA's LAMB.", valid=POSITIVE
    )
    random_seed: int = flag(12345, "Random seed.", valid=SEED)
    save_checkpoints_steps: int = flag(1000, "Steps between checkpoints.", valid=COUNT, free=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compute(Group):
    """Precision and compilation."""

    iterations_per_loop: int = flag(
        0,
        "Training steps per call of the device; auto: 1 on CPUs, 8 on GPUs and TPUs. Same result.",
        words={"auto": 0},
        valid=NOT_NEGATIVE,
        free=True,
    )
    precision: str = flag(
        "auto",
        "Compute precision; auto: bfloat16 if the hardware supports it; tf32: float32 with TF32 products on GPUs.",
        ("auto", "float32", "tf32", "bfloat16", "float16"),
    )
    jit_compile: str = flag(
        "auto", "Compile forward and backward pass with XLA; auto: on GPUs.", JIT_CHOICES, free=True
    )
    gradient_checkpointing: bool = flag(
        False,
        "Recompute layers in the backward pass instead of storing their activations; less memory, same result.",
        free=True,
    )
    use_one_hot_embeddings: str = flag(
        "auto", "Look up token embeddings by a matrix product; auto: on TPUs.", ("auto", "true", "false"), free=True
    )
    packed_rows: int = flag(
        0,
        "Under XLA: rows of max_seq_length per micro-batch, with several texts packed into a row; a "
        "micro-batch that does not fit is padded. 0: one text per row. Without XLA the number of rows is dynamic.",
        valid=NOT_NEGATIVE,
        free=True,
    )
    all_reduce_precision: str = flag(
        "float32",
        "Precision for summing the gradients of replicas, once per step, after accumulation; bfloat16 halves "
        "the traffic and rounds each gradient to 8 bits.",
        ALL_REDUCE_PRECISIONS,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongTraining(Group):
    """The length of pre-training and what makes it cheaper."""

    num_train_steps: int = flag(100000, "Number of training steps.", valid=COUNT, free=True)
    num_warmup_steps: int = flag(
        BY_PROPORTION,
        "Number of warm-up steps. Default: warmup_proportion of the steps.",
        valid=Range(lambda value: value >= BY_PROPORTION, NOT_NEGATIVE.expected),
    )
    budget_minutes: float = flag(
        0.0,
        "Minutes of training instead of num_train_steps; warm-up and decay are shares of the time; 0: num_train_steps.",
        valid=NOT_NEGATIVE,
    )
    train_biases: bool = flag(
        True, "false: the encoder's dense layers have no biases (they stay 0, or as in init_checkpoint)."
    )
    token_dropping: float = flag(
        0.0,
        "Share of the tokens of each row that the middle layers do not see in training, such as 0.5, for up to a "
        "quarter less work; masked tokens are kept. It needs three layers or more.",
        valid=PART,
    )
    input_streams: int = flag(
        0,
        "Streams that batches are made of, each with its own shards: this many hosts can read without reading all; "
        "auto: one for 16 shards, up to 64. Runs with a different number have different batches.",
        words={"auto": 0},
        valid=NOT_NEGATIVE,
    )
    max_eval_steps: int = flag(100, "Maximum number of batches per evaluation.", valid=COUNT, free=True)
    keep_checkpoint_max: int = flag(3, "Number of newest checkpoints to keep; 0: all.", free=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuning(Group):
    """Length of training, and which weights are kept."""

    layerwise_learning_rate_decay: float = flag(
        1.0,
        "Learning rate of a layer relative to the layer above, such as 0.9; the head uses the full rate.",
        valid=Range(lambda value: 0 < value <= 1, "more than 0, up to 1"),
    )
    head_learning_rate: float = flag(
        AUTO,
        "Peak learning rate of the head; same: learning_rate; auto: at least 1e-3 for tags and answers if the "
        "checkpoint has no such head and there are fewer than 10,000 examples, else learning_rate.",
        words={"auto": AUTO, "same": 0.0},
        valid=Range(lambda value: value == AUTO or NOT_NEGATIVE.holds(value), NOT_NEGATIVE.expected),
    )
    num_frozen_layers: int = flag(0, "Freeze the embeddings and the first N layers; 0: none.", valid=NOT_NEGATIVE)
    freeze: str = flag("none", "Weights to freeze: the embeddings, or the encoder without its pooler.", FROZEN)
    ema_decay: float = flag(
        0.0,
        "Decay of the moving average of the weights, such as 0.999, which is evaluated, kept and exported in their "
        "place; 0: the weights themselves.",
        valid=Range(PART.holds, "0 or more, below 1, such as 0.999"),
    )
    fgm_epsilon: float = flag(
        0.0,
        "Adversarial training (FGM): also train on embeddings perturbed by this norm towards a larger loss, such as 1; "
        "twice the time. 0: off.",
        valid=NOT_NEGATIVE,
    )
    eval_steps: int = flag(
        0, "Steps between evaluations; 0: at every checkpoint and at the end of every epoch.", valid=NOT_NEGATIVE
    )
    early_stop_patience: int = flag(0, "Stop after N evaluations without improvement; 0: never.", valid=NOT_NEGATIVE)
    keep_best: bool = flag(
        True,
        "Keep the weights with the best evaluation score instead of the last ones. Default: if there is a "
        "development set.",
    )


def check_layers(num_frozen_layers: int, num_hidden_layers: int) -> None:
    """Raises UserError if more layers should be frozen than the model has."""
    if num_frozen_layers > num_hidden_layers:
        raise UserError(
            f"num_frozen_layers is {num_frozen_layers}, but the model has {num_hidden_layers} layers: "
            f"choose {num_hidden_layers} or fewer."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig(Optimization, FineTuning, LongTraining, Compute):
    """All settings that `training` reads. The scripts show some of it as flags.

    num_train_examples: the length of an epoch, which ends with an evaluation; 0: no epochs. evaluates: whether there
    is held-out data. unfreeze_steps: steps between training one more layer, from the head down; 0: all from the start.
    See `training.learning_rates`, `training.input_streams`, `training.weight_average` and `training.gradients`.
    """

    num_train_examples: int = 0
    evaluates: bool = True
    unfreeze_steps: int = 0

    def check(self) -> None:
        """Raises UserError for incompatible values."""
        if self.head_learning_rate > 0 and not self.learning_rate:
            raise UserError(
                "head_learning_rate needs a learning_rate above 0: pass freeze=encoder to train only the head."
            )
        if self.train_batch_size % (self.num_accumulation_steps or 1):
            raise UserError(
                f"train_batch_size {self.train_batch_size} cannot be split into {self.num_accumulation_steps} equal "
                "micro-batches: choose num_accumulation_steps that divides it."
            )

    @property
    def warmup_steps(self) -> int:
        """The number of warm-up steps."""
        by_proportion = int(self.num_train_steps * self.warmup_proportion)
        return by_proportion if self.num_warmup_steps == BY_PROPORTION else self.num_warmup_steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig(Group):
    """Masking of tokens (google-research/bert `create_pretraining_data.py`)."""

    masked_lm_prob: float = flag(
        0.15, "Fraction of tokens to mask.", valid=Range(lambda value: 0 < value < 1, "a share above 0 and below 1")
    )
    max_predictions_per_seq: int = flag(
        20, "Maximum number of masked tokens per row.", valid=Range(COUNT.holds, "1 or more")
    )
    do_whole_word_mask: bool = flag(False, "Mask all tokens of a word together.")
    max_span_words: int = flag(
        1, "Above 1: mask spans of whole words, up to this many (SpanBERT: 10).", valid=Range(COUNT.holds, "1 or more")
    )
    static_masking: bool = flag(False, "Use the same mask for a row in every epoch, as in google-research/bert.")
    masking_mix: str = flag(
        "80/10/10", "Percentages of masked tokens shown as [MASK], left unchanged, replaced by a random token."
    )

    @property
    def replacement_probs(self) -> tuple[float, float, float]:
        """Probabilities of a masked token becoming [MASK], becoming a random token, or staying; their sum is 1."""
        mask, same, other = (float(part) / 100 for part in self.masking_mix.split("/"))
        return mask, other, same

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _is_mix(self.masking_mix):
            raise UserError(
                f"masking_mix is {self.masking_mix!r}; expected three numbers whose sum is 100, such as 80/10/10: the "
                "percentages of masked tokens that become [MASK], stay, and become a random token."
            )


def _is_mix(text: str) -> bool:
    try:
        parts = [float(part) for part in text.split("/")]
    except ValueError:
        return False
    return len(parts) == 3 and min(parts) >= 0 and math.isclose(sum(parts), 100)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistillationConfig(Group):
    """Distillation from a teacher, see `training.distillation`."""

    teacher: str = flag("", "Trained model to imitate: a run folder or any checkpoint; see docs/distillation.md.")
    distillation: str = flag(
        "distilbert",
        "With teacher: distilbert, tinybert or minilm, or factors of losses such as soft_targets=1,task=0.5.",
    )
    distillation_temperature: float = flag(
        2.0,
        "With teacher: divisor of the logits for soft targets.",
        valid=Range(POSITIVE.holds, "a number above 0, such as 2"),
    )
    layer_map: str = flag(
        "",
        "With num_hidden_layers or teacher: its layer for each layer of the model, such as 2,4,6; default: every n-th.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoraConfig(Group):
    """Adapters of low rank, see `model.lora`."""

    lora_rank: int = flag(
        0,
        "Train adapters of this rank instead of the encoder (LoRA), such as 8; exports contain them. 0: none.",
        valid=Range(NOT_NEGATIVE.holds, "0 or more, such as 8"),
    )
    lora_alpha: float = flag(
        16.0,
        "With lora_rank: the output of adapters is multiplied by this and divided by the rank.",
        valid=Range(POSITIVE.holds, "more than 0"),
    )
    lora_targets: str = flag(
        "query,value", "With lora_rank: modules to adapt: query, key, value, project_out, expand, contract."
    )

    @property
    def scale(self) -> float:
        """The factor for the output of adapters."""
        return self.lora_alpha / self.lora_rank


@dataclasses.dataclass(frozen=True, kw_only=True)
class LossSettings(Group):
    """Changes of the loss that training minimises.

    Evaluations also report the plain loss. label_smoothing: Szegedy et al. 2016, section 7. focal_gamma: exponent of
    1 - p, which weights an example by its probability p (Lin et al. 2017, equation 4).
    """

    label_smoothing: float = flag(
        0.0,
        "Share of the target spread over all labels, such as 0.1; for classes and labels.",
        valid=Range(PART.holds, "0 or more, below 1"),
    )
    focal_gamma: float = flag(
        0.0,
        "Exponent of the focal loss, such as 2: correct examples count less; 0: cross entropy.",
        valid=Range(NOT_NEGATIVE.holds, "0 or more, such as 2"),
    )
    pos_weight: str = flag(
        "",
        "Weights of positive labels in the loss (--label_type=multi_label): balanced, negative texts per positive one "
        "of each label; a number; numbers in the order of the labels; or for some labels, urgent=3.",
    )
    ranking_loss: str = flag(
        "",
        "Loss of rerankers (--label_type=relevance and relevance_score) that compares the texts of a query: listwise, "
        "or margin_mse. Default: each pair independently.",
        ("", "listwise", "margin_mse"),
    )
    list_size: int = flag(
        1, "With ranking_loss: consecutive rows of the table with the same query, the best text first.", valid=COUNT
    )

    @property
    def is_plain(self) -> bool:
        """Returns whether the loss is unchanged."""
        return self == LossSettings()
