"""The flags that all scripts share which fine-tune; a script adds its own to them."""

import dataclasses

from bert_tf.config.flag_groups import DEVICE_FLAGS, DeviceFlags, ModelFlags, OptimizationFlags, RunFlags
from bert_tf.config.flags import changed, flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningFlags(ModelFlags, RunFlags, OptimizationFlags, DeviceFlags):
    """Data, recipe and sweeps."""

    train_file: str = flag("", "Training data: a table. Default: train.tsv, .csv or .jsonl in data_dir.")
    predict_file: str = flag("", "Data to predict, with or without labels. Default: test.* in data_dir.")
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
    warmup_proportion: float = flag(0.1, "Fraction of the training steps used for warm-up.")
    optimizer: str = changed(
        OptimizationFlags,
        "optimizer",
        "auto",
        choices=("auto",),
        help="adamw: the original's, without bias correction; adamw_corrected: with it; lamb: for large batches; "
        "auto: adamw_corrected below 10,000 training examples, else adamw.",
    )
    layerwise_learning_rate_decay: float = flag(
        1.0, "Learning rate of a layer relative to the layer above, such as 0.9; the head uses the full rate."
    )
    num_frozen_layers: int = flag(0, "Freeze the embeddings and the first N layers; 0: none.")
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
