"""The flags that all scripts share which fine-tune; a script adds its own to them."""

import dataclasses

from bert_tf.config.bert_config import ENCODERS, SIZES
from bert_tf.config.device_flags import DEVICE_FLAGS, DeviceFlags
from bert_tf.config.flags import flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningFlags(DeviceFlags):
    """Checkpoint and recipe."""

    init_checkpoint: str = flag("", "Pre-trained BERT of any format, or a run folder; without it: from scratch.")
    bert_config_file: str = flag("", "bert_config.json; without it the one beside init_checkpoint.")
    vocab_file: str = flag("", "vocab.txt; without it the one beside init_checkpoint.")
    do_lower_case: bool = flag(True, "Lower-case and strip accents; without this flag, as init_checkpoint says.")
    model_size: str = flag("base", "Size of a model from scratch.", tuple(SIZES))
    dropout_prob: float = flag(0.1, "Dropout of a model from scratch, of hidden states and of attention.")
    encoder: str = flag(
        "", "What encodes; without it what init_checkpoint has, or bert. See bert_tf/encoders.", ("", *ENCODERS)
    )
    vocab_size: int = flag(30522, "Size of a vocabulary that is learned from the training texts.")
    do_train: bool = flag(True, "Train.")
    do_eval: bool = flag(True, "Evaluate on the development set.")
    do_predict: bool = flag(False, "Predict what is to be predicted.")
    do_export: bool = flag(True, "Export a SavedModel that takes strings.")
    export_attention: bool = flag(False, "The export also says which token looks where; see docs/serving.md.")
    train_batch_size: int = flag(32, "Rows in a step, of all replicas and micro-batches together.")
    eval_batch_size: int = flag(8, "Rows in a batch of evaluation and prediction.")
    learning_rate: float = flag(5e-5, "Learning rate at the start of the decay.")
    num_train_epochs: float = flag(3.0, "Passes over the training data.")
    num_seeds: int = flag(1, "Runs with random_seed and the numbers after it; says mean and standard deviation.")
    learning_rate_grid: str = flag("", "Learning rates to try, such as 5e-5,4e-5,3e-5,2e-5, instead of learning_rate.")
    train_batch_size_grid: str = flag("", "Batch sizes to try, such as 16,32, instead of train_batch_size.")
    num_train_epochs_grid: str = flag("", "Passes to try, such as 2,3,4, instead of num_train_epochs.")
    warmup_proportion: float = flag(0.1, "Share of the steps in which the learning rate rises.")
    num_accumulation_steps: int = flag(1, "Micro-batches whose gradients make a step; less memory, same result.")
    optimizer: str = flag(
        "auto",
        "adamw: the original's; adamw_corrected: with bias correction; auto: that one below 10,000 examples.",
        ("auto", "adamw", "adamw_corrected", "lamb"),
    )
    weight_decay: float = flag(0.01, "Decay of weights; not of LayerNorm and biases.")
    layerwise_learning_rate_decay: float = flag(
        1.0, "Learning rate of a layer as a share of the next higher one's; the head has all of it. Such as 0.9."
    )
    num_frozen_layers: int = flag(0, "Layers that are not trained, from the first on, and the embeddings; 0: none.")
    continuous_schedule: bool = flag(False, "Decay from the end of warm-up, without the original's jump there.")
    random_seed: int = flag(12345, "Seed of everything random.")
    save_checkpoints_steps: int = flag(1000, "Save after so many steps.")
    eval_steps: int = flag(0, "Evaluate after so many steps; 0: whenever it saves and at the end of every epoch.")
    early_stop_patience: int = flag(0, "Stop after so many evaluations without a better score; 0: never.")
    keep_best: bool = flag(False, "End with the weights that scored best in an evaluation, not with the last.")


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
