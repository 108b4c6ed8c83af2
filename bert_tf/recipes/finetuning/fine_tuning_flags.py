"""The flags that all scripts share which fine-tune; a script adds its own to them."""

import dataclasses

from bert_tf.config.bert_config import ENCODERS, SIZES
from bert_tf.config.device_flags import DEVICE_FLAGS, DeviceFlags
from bert_tf.config.flags import flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningFlags(DeviceFlags):
    """Checkpoint and recipe."""

    init_checkpoint: str = flag(
        "", "Pre-trained checkpoint in any format, or a run folder. Default: train from scratch."
    )
    bert_config_file: str = flag("", "bert_config.json. Default: the one next to init_checkpoint.")
    vocab_file: str = flag("", "vocab.txt. Default: the one next to init_checkpoint.")
    do_lower_case: bool = flag(True, "Lower-case and strip accents. Default: as in init_checkpoint.")
    model_size: str = flag("base", "Model size when training from scratch.", tuple(SIZES))
    dropout_prob: float = flag(0.1, "Dropout of hidden states and attention weights when training from scratch.")
    encoder: str = flag(
        "", "Encoder; see bert_tf/model/encoders. Default: as in init_checkpoint, else bert.", ("", *ENCODERS)
    )
    vocab_size: int = flag(30522, "Size of a vocabulary learned from the training texts.")
    do_train: bool = flag(True, "Train the model.")
    do_eval: bool = flag(True, "Evaluate on the development set.")
    do_predict: bool = flag(False, "Write predictions.")
    do_export: bool = flag(True, "Export a SavedModel that takes strings.")
    export_attention: bool = flag(
        False, "Add a signature to the export that returns attention weights; see docs/serving.md."
    )
    train_batch_size: int = flag(32, "Rows per training step, over all replicas and micro-batches.")
    eval_batch_size: int = flag(8, "Rows per batch in evaluation and prediction.")
    learning_rate: float = flag(5e-5, "Peak learning rate.")
    num_train_epochs: float = flag(3.0, "Number of passes over the training data.")
    num_seeds: int = flag(
        1, "Number of runs, with random_seed and the seeds after it; reports mean and standard deviation."
    )
    learning_rate_grid: str = flag("", "Learning rates to try, such as 5e-5,4e-5,3e-5,2e-5; replaces learning_rate.")
    train_batch_size_grid: str = flag("", "Batch sizes to try, such as 16,32; replaces train_batch_size.")
    num_train_epochs_grid: str = flag("", "Numbers of epochs to try, such as 2,3,4; replaces num_train_epochs.")
    warmup_proportion: float = flag(0.1, "Fraction of the training steps used for warm-up.")
    num_accumulation_steps: int = flag(1, "Micro-batches per step (gradient accumulation); less memory, same result.")
    optimizer: str = flag(
        "auto",
        "adamw: the original's, without bias correction; adamw_corrected: with it; lamb: for large batches; "
        "auto: adamw_corrected below 10,000 training examples, else adamw.",
        ("auto", "adamw", "adamw_corrected", "lamb"),
    )
    weight_decay: float = flag(0.01, "Weight decay; not applied to LayerNorm and biases.")
    layerwise_learning_rate_decay: float = flag(
        1.0, "Learning rate of a layer relative to the layer above, such as 0.9; the head uses the full rate."
    )
    num_frozen_layers: int = flag(0, "Freeze the embeddings and the first N layers; 0: none.")
    continuous_schedule: bool = flag(False, "Start the decay at the end of warm-up, without the original's jump there.")
    random_seed: int = flag(12345, "Random seed.")
    save_checkpoints_steps: int = flag(1000, "Steps between checkpoints.")
    eval_steps: int = flag(0, "Steps between evaluations; 0: at every checkpoint and at the end of every epoch.")
    early_stop_patience: int = flag(0, "Stop after N evaluations without improvement; 0: never.")
    keep_best: bool = flag(False, "Keep the weights with the best evaluation score instead of the last ones.")


# What may differ between two starts of one run, as it does not decide what is learned.
FREE_FLAGS = (
    frozenset("output_dir do_train do_eval do_predict do_export export_attention eval_batch_size".split())
    | {"save_checkpoints_steps"}
    | DEVICE_FLAGS
)


def free_flags(options):
    """Those of FREE_FLAGS that these flags leave free: not how often it saves where it evaluates then to decide."""
    selects = options.keep_best or options.early_stop_patience
    return FREE_FLAGS - {"save_checkpoints_steps"} if selects and not options.eval_steps else FREE_FLAGS
