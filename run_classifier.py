"""Fine-tunes BERT on sentences and pairs: GLUE, SWAG, or a table of your own; evaluates, predicts, exports.

python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC --init_checkpoint=uncased_L-12_H-768_A-12
"""

import dataclasses

from bert_tf import fine_tuning, flags, report, starting_point, sweep
from bert_tf.cluster import worker_number
from bert_tf.config import SIZES
from bert_tf.errors import UserError
from bert_tf.flags import flag
from bert_tf.quiet import start_tensorflow
from bert_tf.run_folder import RunFolder, read_json

# What stands for the defaults when no flag says what to learn: which part of Python's manual a passage comes from.
DEMONSTRATION = {
    "task_name": "python_manual",
    "model_size": "tiny",
    "dropout_prob": 0.0,  # as in the demonstration of run_pretraining.py
    "vocab_size": 1500,
    "learning_rate": 1e-3,
    "num_train_epochs": 12.0,
    "eval_steps": 64,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flags:
    task_name: str = flag("", "What to learn: MRPC, MNLI or another task of GLUE, swag, table, my_package.module/name.")
    data_dir: str = flag("", "Folder with the files of the task.")
    use_tfds: bool = flag(False, "Take GLUE from tensorflow-datasets, instead of data_dir; downloads what is missing.")
    tfds_dir: str = flag("", "Folder of tensorflow-datasets; without it its own, ~/tensorflow_datasets.")
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
    id_column: str = flag("", "Of a table: the column with ids for predictions; else they are numbers of rows.")
    label_type: str = flag(
        "class", "Of a table: one class, several labels a text, or a number.", ("class", "several", "number")
    )
    label_separator: str = flag(",", "Of a table: what parts several labels in a cell.")
    labels: str = flag("", "Of a table: the labels in order, with commas; without: those of the training data.")
    class_weights: str = flag("none", "balanced: classes count alike, however rare.", ("none", "balanced"))
    max_seq_length: int = flag(128, "Pieces in a row, [CLS] and [SEP] included.")
    long_texts: str = flag(
        "cut", "Texts longer than a row: cut; or read whole, in windows that overlap.", ("cut", "windows")
    )
    doc_stride: int = flag(0, "Pieces from the start of a window to that of the next; 0: half of max_seq_length.")
    max_windows: int = flag(8, "Most windows of a text; what lies behind is not read.")
    window_pooling: str = flag("mean", "What becomes of the pooled vectors of a text's windows.", ("mean", "max"))
    do_train: bool = flag(True, "Train.")
    do_eval: bool = flag(True, "Evaluate on the development set.")
    do_predict: bool = flag(False, "Predict the test set.")
    do_export: bool = flag(True, "Export a SavedModel that takes strings.")
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
    demonstration = not any(map(flags.given, ("task_name", "data_dir", "train_file", "predict_file")))
    options = flags.read(Flags, instead=starting_point.demonstration(DEMONSTRATION) if demonstration else {})
    runs = sweep.plan(options)
    for each in runs.values():
        check(each)
    options = runs.get("", options)
    folder = RunFolder(options.output_dir, writes=worker_number() == 0)
    if options.do_train:
        sweep.expect_free(folder, several=len(runs) > 1)
    options = fine_tuning.with_what_was_trained(options, folder)
    start = starting_point.find(options, lower_case_given=flags.given("do_lower_case"))
    start_tensorflow()
    task, tokenizer = fine_tuning.make_task(options, start, folder)
    fine_tuning.expect_evaluation(options, task, several=len(runs) > 1)
    for split in wanted_splits(options, task):
        task.source(split)  # the user's mistakes in files come before anything is written
    for split in wanted_splits(options, task):
        print(*task.described(split), sep="\n", flush=True)
    start = fine_tuning.with_head(options, start, task)
    fine_tuning.expect_room(max(runs.values(), key=lambda each: each.train_batch_size), start, task)
    start = dataclasses.replace(start, config=dataclasses.replace(start.config, vocab_size=tokenizer.size))
    parts = start, task, tokenizer, create_strategy(options)
    if len(runs) == 1:
        run(options, folder, *parts)
    else:
        run_several(options, runs, folder, *parts)
    if folder.writes:
        folder.finish()
        print(f"All of it is in {folder.path}; look at {report.write_report(folder.path)}.")


def create_strategy(options):
    """Where to train."""
    from bert_tf import distribute

    return distribute.create_strategy(
        options.distribution_strategy, num_logical_devices=options.num_logical_devices, tpu_name=options.tpu_name
    )


def run(options, folder, start, task, tokenizer, strategy):
    """One run, in its folder."""
    steps = fine_tuning.number_of_steps(options, task)
    open_folder(folder, options)
    folder.update(text_statistics={split: task.statistics(split) for split in wanted_splits(options, task)})
    fine_tuning.write_text_side(folder, start, tokenizer, task)
    learn(options, start, task, tokenizer, steps, folder, strategy)


def run_several(options, runs, folder, *parts):
    """Every run of a sweep that is not finished, then what came of them all and the best one, in the sweep's folder."""
    open_folder(folder, options)
    sweep.begin(folder, runs)
    outcomes = sweep.go_through(runs, folder, lambda each, own: run(each, own, *parts))
    if folder.writes:
        sweep.conclude(folder, runs, outcomes, parts[1])


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
    """Begins or goes on with one run or several; raises UserError for flags that do not go with what is there."""
    asked = dataclasses.asdict(options)
    decisive = {name: value for name, value in asked.items() if name not in FREE_FLAGS | set(sweep.ONE_RUN)}
    compared = decisive if folder.last_step() or sweep.is_in(folder) else {}
    if not options.do_train and fine_tuning.is_trained(folder):  # what was trained stays as it was
        compared = {name: decisive[name] for name in MODEL_FLAGS}
        decisive = (read_json(folder.file("run.json")) or {}).get("decisive", decisive)
    folder.open(name=options.task_name, flags=asked, decisive=decisive, compared=compared)


def learn(options, start, task, tokenizer, steps, folder, strategy):
    """Trains, evaluates, predicts, exports."""
    import keras

    from bert_tf import precision
    from bert_tf.train import Evaluator, train

    examples = len(task.source("train").texts) if options.do_train else 0
    config = fine_tuning.train_config(options, examples, max(1, steps))
    keras.utils.set_random_seed(options.random_seed)
    with strategy.scope():
        model = task.model(start.config, dtype=precision.policy(options.precision))
    fine_tuning.assign_weights(model, start, options)
    folder.update(config=start.config.to_dict(), training=dataclasses.asdict(config), parameters=model.count_params())
    if options.do_train:
        fine_tuning.announce(options, config)
        with folder.phase("train"):
            steps = train(task, model, config, strategy, folder)
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
    from bert_tf import predictions
    from bert_tf.classification import details

    results = evaluator()
    folder.write_json("eval_results.json", results)
    if steps:
        folder.log(steps, {f"eval_{name}": value for name, value in results.items()})
    print("On the development set:")
    for name, value in results.items():
        print(f"  {name:26} {value:.4f}")
    fine_tuning.warn_of_collapse(task, evaluator.answers, folder)
    tables = {}
    for split, answers in evaluator.answers.items():
        hardest = predictions.hardest(task.goal, task.source(split), answers)
        tables[split] = {**details(task.goal, answers, task.source(split)), "hardest": hardest}
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
    print(f"The export, {folder.file('export')}, answers as the model does:")
    fine_tuning.show_answers(folder.file("export"), task.source(split).examples)


if __name__ == "__main__":
    flags.define(Flags)
    flags.run(main)
