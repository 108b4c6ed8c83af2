"""Flags that several scripts have, in groups that their dataclasses inherit: a flag is declared once."""

import dataclasses

from bert_tf.config import parity
from bert_tf.config.bert_config import SIZES
from bert_tf.config.flags import flag
from bert_tf.config.train_config import ALL_REDUCE_PRECISIONS

JIT_CHOICES = ("auto", "true", "false")
EXPORT_PRECISIONS = ("float32", "bfloat16", "float16")
XLA_CACHE_HELP = (
    "Folder in which XLA keeps what it compiles for GPUs, so that later starts are quick; auto: bert_tf/xla in the "
    "user's cache folder; none: nothing is kept."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFlags:
    """The model to start from, or the shape of a new one, and its vocabulary."""

    init_checkpoint: str = flag("", "Checkpoint to start from, in any format, or a run folder. Default: from scratch.")
    bert_config_file: str = flag("", "bert_config.json. Default: the one next to init_checkpoint.")
    model_size: str = flag("base", "Model size when training from scratch.", tuple(SIZES))
    num_hidden_layers: int = flag(
        0, "Layers to take from init_checkpoint, fewer than it has: every n-th, or those of layer_map. 0: all."
    )
    layer_map: str = flag(
        "",
        "With num_hidden_layers or teacher: its layer for each layer of the model, such as 2,4,6; default: every n-th.",
    )
    teacher: str = flag(
        "", "Trained model, as a run folder or any checkpoint, that training imitates; see docs/distillation.md."
    )
    distillation: str = flag(
        "distilbert",
        "With teacher: distilbert, tinybert or minilm, or factors of losses such as soft_targets=1,task=0.5.",
    )
    distillation_temperature: float = flag(2.0, "With teacher: what logits are divided by for soft targets.")
    dropout_prob: float = flag(0.1, "Dropout of hidden states and attention weights when training from scratch.")
    encoder: str = flag(
        "",
        "Encoder; see bert_tf/model/encoders. Default: as in init_checkpoint, else bert.",
        ("",),
        members_of="bert_tf.model.encoders",
    )
    trust_code: bool = flag(
        False, "Import modules outside of this package that files name, such as the encoder of a bert_config.json."
    )
    vocab_file: str = flag("", "vocab.txt. Default: the one next to init_checkpoint.")
    vocab_size: int = flag(30522, "Size of a vocabulary learned from the training texts.")
    do_lower_case: bool = flag(True, "Lower-case and strip accents. Default: as in init_checkpoint.")
    special_tokens_in_strings: str = flag(
        "",
        "Special tokens recognized in texts: all ([MASK], [SEP], ... and those that init_checkpoint adds), none, or "
        "the five and these: [E1],[/E1]. Default: as in init_checkpoint, else none, as the original.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFlags:
    """The run folder, its stages and the rows of a batch."""

    output_dir: str = flag("", "Run folder.")
    do_train: bool = flag(True, "Train the model.")
    do_eval: bool = flag(True, "Evaluate on held-out data.")
    do_export: bool = flag(True, "Export a SavedModel that takes strings.")
    export_attention: bool = flag(
        False, "Add signatures to the export that return attention weights and attributions; see docs/serving.md."
    )
    max_seq_length: int = flag(128, "Tokens per row, including [CLS] and [SEP].")
    random_seed: int = flag(12345, "Random seed.")
    parity: str = flag(
        "",
        "Set every flag in docs/parity.md that is not given: to the original's quirks, or to their remedies.",
        ("", *parity.CHOICES),
    )
    save_checkpoints_steps: int = flag(1000, "Steps between checkpoints.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizationFlags:
    """Batches, learning rate and optimizer."""

    train_batch_size: int = flag(32, "Rows per training step, over all replicas and micro-batches.")
    eval_batch_size: int = flag(8, "Rows per batch in evaluation and prediction.")
    num_accumulation_steps: int = flag(
        1,
        "Micro-batches per step (gradient accumulation); less memory, same result. auto: twice as many whenever memory "
        "runs out.",
        words={"auto": 0},
    )
    iterations_per_loop: int = flag(
        0, "Training steps per call of the device; auto: 1 on CPUs, 8 on GPUs and TPUs. Same result.", words={"auto": 0}
    )
    learning_rate: float = flag(5e-5, "Peak learning rate.")
    optimizer: str = flag(
        "adamw",
        "adamw: the original's, without bias correction; adamw_corrected: with it; lamb: for large batches; muon: "
        "LAMB with orthogonal updates of hidden matrices, for few steps.",
        members_of="bert_tf.training.optimizers",
    )
    warmup_proportion: float = flag(0.1, "Fraction of the training steps used for warm-up.")
    weight_decay: float = flag(0.01, "Weight decay; not applied to LayerNorm and biases.")
    continuous_schedule: bool = flag(
        True,
        "Start the decay at the end of warm-up; false: at step 0, as the original, so that the rate drops there.",
        earlier_default=False,
    )
    decay_power: float = flag(1.0, "Power of the decay of the learning rate; 1: linear; 0.5: as NVIDIA's LAMB.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceFlags:
    """Precision, compilation, replicas."""

    precision: str = flag(
        "auto",
        "Compute precision; auto: bfloat16 where the hardware supports it; tf32: float32 with TF32 products on GPUs.",
        ("auto", "float32", "tf32", "bfloat16", "float16"),
    )
    deterministic: bool = flag(
        False, "Use only operations whose result is the same bit for bit in every run; slower, on CPUs always so."
    )
    device: str = flag("auto", "Device to train on; auto: GPUs if there are any.", ("auto", "cpu", "gpu"))
    gpu_memory_growth: bool = flag(True, "Take memory of GPUs as it is needed; false: nearly all of it at the start.")
    gpu_memory_limit: int = flag(0, "MiB of each part of a GPU, with num_logical_devices.")
    jit_compile: str = flag("auto", "Compile forward and backward pass with XLA; auto: on GPUs.", JIT_CHOICES)
    xla_cache: str = flag("auto", XLA_CACHE_HELP)
    gradient_checkpointing: bool = flag(
        False,
        "Recompute layers in the backward pass instead of storing their activations; less memory, same result.",
        aliases=("recompute",),
    )
    use_one_hot_embeddings: str = flag(
        "auto", "Look up token embeddings by a matrix product; auto: on TPUs.", ("auto", "true", "false")
    )
    packed_rows: int = flag(
        0,
        "Under XLA: rows of max_seq_length per micro-batch, with several texts packed into a row; a "
        "micro-batch that does not fit is padded. 0: one text per row. Without XLA the number of rows is dynamic.",
    )
    distribution_strategy: str = flag(
        "auto", "tf.distribute strategy.", ("auto", "one_device", "mirrored", "multi_worker", "tpu")
    )
    all_reduce_precision: str = flag(
        "float32",
        "Precision in which replicas sum their gradients, once per step, after accumulation; bfloat16 halves what they "
        "send and rounds each gradient to 8 bits.",
        ALL_REDUCE_PRECISIONS,
    )
    num_logical_devices: int = flag(1, "Split the CPU, or each GPU, into N logical devices, to test data parallelism.")
    tpu_name: str = flag("", "Name or address of the TPU.")


# Flags that may change when a run is resumed: the result does not depend on them, except for dropout where texts are
# packed into other rows.
DEVICE_FLAGS = frozenset(
    "distribution_strategy num_logical_devices tpu_name jit_compile gradient_checkpointing packed_rows "
    "use_one_hot_embeddings iterations_per_loop deterministic device gpu_memory_growth gpu_memory_limit "
    "xla_cache".split()
)
