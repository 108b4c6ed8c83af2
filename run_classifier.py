"""Fine-tunes BERT on sentences and pairs: GLUE, SWAG, or a table of your own; evaluates, predicts, exports.

python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC --init_checkpoint=uncased_L-12_H-768_A-12
"""

import dataclasses

from bert_tf import fine_tuning, flags, report, starting_point
from bert_tf.cluster import worker_number
from bert_tf.config import SIZES
from bert_tf.errors import UserError
from bert_tf.flags import flag
from bert_tf.quiet import start_tensorflow
from bert_tf.run_folder import RunFolder, read_json


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flags:
    task_name: str = flag("", "What to learn: MRPC, MNLI or another task of GLUE, swag, table, my_package.module/name.")
    data_dir: str = flag("", "Folder with the files of the task.")
    output_dir: str = flag("runs/classifier", "Folder of the run.")
    init_checkpoint: str = flag("", "Pre-trained BERT of any format, or a run folder; without it: from scratch.")
    bert_config_file: str = flag("", "bert_config.json; without it the one beside init_checkpoint.")
    vocab_file: str = flag("", "vocab.txt; without it the one beside init_checkpoint.")
    do_lower_case: bool = flag(True, "Lower-case and strip accents; without this flag, as init_checkpoint says.")
    model_size: str = flag("base", "Size of a model from scratch.", tuple(SIZES))
    dropout_prob: float = flag(0.1, "Dropout of a model from scratch, of hidden states and of attention.")
    vocab_size: int = flag(30522, "Size of a vocabulary that is learned from the training texts.")
    train_file: str = flag("", "Table to train on, instead of train.tsv, .csv or .jsonl in data_dir.")
    eval_file: str = flag("", "Table to evaluate on, instead of dev.*.")
    predict_file: str = flag("", "Table to predict, with or without labels, instead of test.*.")
    text_columns: str = flag("", "Of a table: the column with the text, or the two with a pair, with a comma.")
    label_column: str = flag("label", "Of a table: the column with the label.")
    label_type: str = flag(
        "class", "Of a table: one class, several labels a text, or a number.", ("class", "several", "number")
    )
    label_separator: str = flag(",", "Of a table: what parts several labels in a cell.")
    labels: str = flag("", "Of a table: the labels in order, with commas; without: those of the training data.")
    class_weights: str = flag("none", "balanced: classes count alike, however rare.", ("none", "balanced"))
    max_seq_length: int = flag(128, "Pieces in a row, [CLS] and [SEP] included; longer texts are cut.")
    do_train: bool = flag(True, "Train.")
    do_eval: bool = flag(True, "Evaluate on the development set.")
    do_predict: bool = flag(False, "Predict the test set.")
    do_export: bool = flag(True, "Export a SavedModel that takes strings.")
    train_batch_size: int = flag(32, "Rows in a step, of all replicas and micro-batches together.")
    eval_batch_size: int = flag(8, "Rows in a batch of evaluation and prediction.")
    learning_rate: float = flag(5e-5, "Learning rate at the start of the decay.")
    num_train_epochs: float = flag(3.0, "Passes over the training data.")
    warmup_proportion: float = flag(0.1, "Share of the steps in which the learning rate rises.")
    num_accumulation_steps: int = flag(1, "Micro-batches whose gradients make a step; less memory, same result.")
    optimizer: str = flag(
        "auto",
        "adamw: the original's; adamw_corrected: with bias correction; auto: that one below 10,000 examples.",
        ("auto", "adamw", "adamw_corrected", "lamb"),
    )
    weight_decay: float = flag(0.01, "Decay of weights; not of LayerNorm and biases.")
    continuous_schedule: bool = flag(False, "Decay from the end of warm-up, without the original's jump there.")
    random_seed: int = flag(12345, "Seed of everything random.")
    save_checkpoints_steps: int = flag(1000, "Save and evaluate after so many steps.")
    precision: str = flag(
        "auto",
        "Numbers to compute with; auto: bfloat16 where the hardware has it.",
        ("auto", "float32", "bfloat16", "float16"),
    )
    jit_compile: str = flag(
        "auto", "Compile forward and backward pass with XLA; auto: on GPUs.", ("auto", "true", "false")
    )
    distribution_strategy: str = flag(
        "auto", "Where to train.", ("auto", "one_device", "mirrored", "multi_worker", "tpu")
    )
    num_logical_devices: int = flag(1, "Cut the CPU into so many devices, to rehearse replicas.")
    tpu_name: str = flag("", "Name or address of the TPU.")


# What may differ between two starts of one run, as it does not decide what is learned.
FREE_FLAGS = frozenset(
    "output_dir eval_file predict_file do_train do_eval do_predict do_export eval_batch_size save_checkpoints_steps "
    "distribution_strategy num_logical_devices tpu_name jit_compile".split()
)
# What a trained model must be used with.
MODEL_FLAGS = frozenset(("task_name", "label_type"))


def main():
    options = flags.read(Flags)
    check(options)
    folder = RunFolder(options.output_dir, writes=worker_number() == 0)
    options = fine_tuning.with_what_was_trained(options, folder)
    start = starting_point.find(options, lower_case_given=flags.given("do_lower_case"))
    start_tensorflow()
    task, tokenizer = fine_tuning.make_task(options, start, folder)
    splits = wanted_splits(options, task)
    for split in splits:
        task.source(split)  # the user's mistakes in files come before anything is written
    steps = fine_tuning.number_of_steps(options, task)
    open_folder(folder, options)
    start = dataclasses.replace(start, config=dataclasses.replace(start.config, vocab_size=tokenizer.size))
    fine_tuning.write_text_side(folder, start, tokenizer, task)
    learn(options, start, task, tokenizer, steps, folder)
    if folder.writes:
        folder.finish()
        print(f"All of it is in {folder.path}; look at {report.write_report(folder.path)}.")


def check(options):
    """Raises UserError for numbers that no run could work with."""
    for name, right, expected in (
        ("num_train_epochs", 0 < options.num_train_epochs < 1e6, "more than 0"),
        ("warmup_proportion", 0 <= options.warmup_proportion <= 1, "0 to 1"),
        ("max_seq_length", options.max_seq_length >= 4, "4 or more"),
        ("num_logical_devices", options.num_logical_devices >= 1, "1 or more"),
    ):
        if not right:
            raise UserError(f"{name} is {getattr(options, name)}; expected {expected}.")
    if not options.task_name:
        raise UserError("Say what to learn: task_name=MRPC, swag, table ... and data_dir, the folder with its files.")
    fine_tuning.train_config(options, 1, 1)


def wanted_splits(options, task):
    """The splits that the flags ask for."""
    evaluated = list(task.eval_splits.values()) if options.do_eval else []
    return ["train"] * options.do_train + evaluated + list(task.test_splits) * options.do_predict


def open_folder(folder, options):
    """Begins or goes on with the run; raises UserError for flags that do not go with what is there."""
    asked = dataclasses.asdict(options)
    decisive = {name: value for name, value in asked.items() if name not in FREE_FLAGS}
    compared = decisive if folder.last_step() else {}
    if not options.do_train and folder.last_step():  # what was trained stays as it was
        compared = {name: decisive[name] for name in MODEL_FLAGS}
        decisive = (read_json(folder.file("run.json")) or {}).get("decisive", decisive)
    folder.open(name=options.task_name, flags=asked, decisive=decisive, compared=compared)


def learn(options, start, task, tokenizer, steps, folder):
    """Trains, evaluates, predicts, exports."""
    import keras

    from bert_tf import distribute, precision
    from bert_tf.train import Evaluator, train

    strategy = distribute.create_strategy(
        options.distribution_strategy, num_logical_devices=options.num_logical_devices, tpu_name=options.tpu_name
    )
    examples = len(task.source("train").texts) if options.do_train else 0
    config = fine_tuning.train_config(options, examples, max(1, steps))
    keras.utils.set_random_seed(options.random_seed)
    with strategy.scope():
        model = task.model(start.config, dtype=precision.policy(options.precision))
    fine_tuning.assign_weights(model, start, options)
    folder.update(config=start.config.to_dict(), parameters=model.count_params())
    if options.do_train:
        print(f"Training on {examples:,} examples, {steps:,} steps, {config.optimizer}", flush=True)
        with folder.phase("train"):
            train(task, model, config, strategy, folder)
    evaluator = Evaluator(task, model, config, strategy)
    if options.do_eval:
        with folder.phase("evaluate"):
            evaluate(task, evaluator, steps, folder)
    if options.do_predict:
        with folder.phase("predict"):
            predict(task, evaluator, folder)
    if options.do_export and folder.writes:
        with folder.phase("export"):
            show(options, task, model, tokenizer, folder)


def evaluate(task, evaluator, steps, folder):
    """Prints and writes what was reached on the development set."""
    from bert_tf.classification import details

    results = evaluator()
    folder.write_json("eval_results.json", results)
    folder.log(steps, {f"eval_{name}": value for name, value in results.items()})
    print("On the development set:")
    for name, value in results.items():
        print(f"  {name:26} {value:.4f}")
    tables = {split: details(task.goal, answers, task.source(split)) for split, answers in evaluator.answers.items()}
    folder.write_json("eval_details.json", tables)
    for table in tables.values():
        for row in table.get("per_class", []):
            print("  {label:26} precision {precision:.3f}  recall {recall:.3f}  F1 {f1:.3f}  of {count}".format(**row))


def predict(task, evaluator, folder):
    """Writes predictions.tsv and .jsonl for each test set, and what a leaderboard takes."""
    from bert_tf import predictions

    for split in task.test_splits:
        rows = predictions.described(task.goal, task.source(split), evaluator.over(split)[1])
        if not folder.writes:
            continue
        name = "predictions" if len(task.test_splits) == 1 else f"predictions_{split.removeprefix('test_')}"
        print(f"{len(rows):,} predictions are in {predictions.write(folder.path, name, rows)}.")
        if split in task.submissions:
            predictions.write_submission(folder.file("submission"), task.submissions[split], rows)


def show(options, task, model, tokenizer, folder):
    """Exports the model and compares the export with it on the first texts."""
    from bert_tf.classification import serving_examples
    from bert_tf.export import export

    split = (wanted_splits(options, task) or [*task.eval_splits.values(), *task.test_splits])[-1]
    export(
        task,
        model,
        tokenizer,
        folder.file("export"),
        examples=serving_examples(task.goal, task.source(split)),
        about={"labels": list(task.goal.labels)},
    )
    print(f"The export, {folder.file('export')}, answers as the model does.")


if __name__ == "__main__":
    flags.define(Flags)
    flags.run(main)
