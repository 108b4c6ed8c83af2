"""Fine-tuning from flags to report: task -> model -> train -> evaluate -> predict -> export -> report.

One run, or several of one sweep. Every script that fine-tunes calls `main` with its flags.
"""

import contextlib
import dataclasses
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from bert_tf import heads
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.train_config import TrainConfig
from bert_tf.recipes import ending, initialization, teaching
from bert_tf.recipes.finetuning import baselines, preparation, ready, sweep
from bert_tf.recipes.finetuning.finetuning_flags import FEW_EXAMPLES, FineTuningFlags
from bert_tf.reports.wording import count_text
from bert_tf.runtime import xla_options
from bert_tf.runtime.tf_config import worker_number
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training.run_directory import RunFolder, recorded_flags

if TYPE_CHECKING:
    import tensorflow as tf

    from bert_tf.training.evaluator import Evaluator


log = logging.getLogger("bert_tf")


class Setup(NamedTuple):
    """What all runs of a sweep share: checkpoint, task with its tokenizer, devices, and the teacher if there is one."""

    start: Checkpoint
    task: FineTuningTask
    strategy: "tf.distribute.Strategy"
    teacher: Checkpoint | None = None


def main(options: FineTuningFlags) -> None:
    """Fine-tunes as the flags of a script say."""
    computed = options.computed_defaults()
    options = options.with_defaults(computed)
    options = options.with_earlier_defaults(recorded_flags(options.output_dir), computed)
    runs = sweep.plan(options)
    for each in runs.values():
        each.check()
    options = runs.get("", options)
    xla_options.set_up(options.devices.xla_cache)
    with contextlib.closing(RunFolder(options.output_dir, is_chief=worker_number() == 0)) as folder:
        run_in_folder(options, runs, folder)


def run_in_folder(options: FineTuningFlags, runs: dict[str, FineTuningFlags], folder: RunFolder) -> None:
    """One run, or several, and their report."""
    if options.do_train:
        sweep.check_free(folder, several=len(runs) > 1)
    options = preparation.use_trained_model(options, folder)
    setup = prepare(options, runs, folder)
    options = preparation.with_selection(options, setup.task)
    runs = {name: preparation.with_selection(each, setup.task) for name, each in runs.items()}
    if len(runs) == 1:
        run(options, folder, setup)
    else:
        run_sweep(options, runs, folder, setup)
    if folder.is_chief:
        ending.finish(folder, for_program=options.from_program)


def prepare(options: FineTuningFlags, runs: dict[str, FineTuningFlags], folder: RunFolder) -> Setup:
    """Reads checkpoint and data; errors in them are raised here, before anything is written."""
    start = initialization.resolve(options)
    strategy = initialization.start_devices(options.devices)
    if options.export_attention:
        from bert_tf.export import attention_signature

        attention_signature.check(start.config)
    ready.check_vocabulary(options, start)
    task = preparation.create_task(options, start, folder)
    ready.attach(task, options, start)
    task.groups_by_length = options.group_by_length
    preparation.check_evaluation(preparation.with_selection(options, task), task, several=len(runs) > 1)
    splits = preparation.requested_splits(options, task)
    for split in splits:
        task.split(split)
    for split in splits:
        print(*task.describe(split), sep="\n", flush=True)
    start = preparation.match_head(options, start, task)
    teacher = preparation.match_teacher(options, initialization.read_teacher(options, start), task)
    if options.write_examples:
        task.ready_specs()  # raises for a task without ready examples
    preparation.check_memory(max(runs.values(), key=lambda each: each.training.train_batch_size), start, task)
    start = dataclasses.replace(start, config=dataclasses.replace(start.config, vocab_size=task.tokenizer.size))
    return Setup(start, task, strategy, teacher)


def run_sweep(options: FineTuningFlags, runs: dict[str, FineTuningFlags], folder: RunFolder, setup: Setup) -> None:
    """Every run of a sweep that is not finished; then its results, and the best run in the folder of the sweep."""
    preparation.open_folder(folder, options)
    sweep.begin(folder, runs)
    outcomes = sweep.run_all(runs, folder, lambda each, own: run(each, own, setup))
    if folder.is_chief:
        sweep.report_results(folder, runs, outcomes, setup.task)


def run(options: FineTuningFlags, folder: RunFolder, setup: Setup) -> None:
    """One run, in its folder: trains, evaluates, predicts, exports."""
    import keras

    from bert_tf.training import precision
    from bert_tf.training.evaluator import Evaluator
    from bert_tf.training.loop import train

    start, task, strategy, teacher = setup
    steps = preparation.number_of_steps(options, task)
    examples = task.split("train").count if options.do_train else 0
    head_rate = preparation.new_head_rate(start, task)
    config = preparation.train_config(options, examples, max(1, steps), new_head_rate=head_rate)
    preparation.open_folder(folder, options)
    splits = preparation.requested_splits(options, task)
    if options.write_examples and folder.is_chief:
        ready.write(task, options, start, splits)
    folder.update(text_statistics={split: task.statistics(split) for split in splits})
    preparation.write_tokenizer_files(folder, start, task)

    keras.utils.set_random_seed(options.training.random_seed)
    with strategy.scope():
        model = task.create_model(start.config, dtype=precision.configure(options.training.precision))
    preparation.assign_weights(model, start, options)
    with strategy.scope():
        preparation.attach_adapters(model, options)
    about = {"config": start.config.to_dict(), "training": dataclasses.asdict(config), "criterion": task.criterion}
    folder.update(**about, parameters=model.count_params())

    evaluator = Evaluator(task, model, config, strategy)
    if options.do_train:
        candidate = baselines.score(options, task, start, evaluator, folder)
        announce(options, config)
        taught = teaching.with_teacher(task, model, teacher, options.distillation, strategy)
        with folder.phase("train"):
            steps = train(taught, model, config, strategy, folder, evaluator, candidate)
        preparation.merge_adapters(model, options, task, folder)
    if options.do_eval:
        with folder.phase("evaluate"):
            task = evaluate(options, task, evaluator, steps, folder)
    else:
        task = preparation.load_calibration(task, folder)
    if options.do_predict:
        with folder.phase("predict"):
            predict(options, task, evaluator, folder)
    if options.do_export and folder.is_chief:
        with folder.phase("export"):
            export_and_demo(options, task, model, folder)


def announce(options: FineTuningFlags, config: TrainConfig) -> None:
    """Prints the length of training, why which optimizer is used, and the learning rate of a new head."""
    few = options.training.optimizer == "auto" and config.num_train_examples < FEW_EXAMPLES
    reason = f" (Adam with bias correction, as there are fewer than {FEW_EXAMPLES:,} examples)" if few else ""
    head = f"; learning rate of the head {config.head_learning_rate:g}" if config.head_learning_rate else ""
    print(
        f"Training on {count_text(config.num_train_examples, 'example')}, "
        f"{count_text(options.training.num_train_epochs, 'epoch')}, {count_text(config.num_train_steps, 'step')}, "
        f"{config.optimizer}{reason}{head}",
        flush=True,
    )


def evaluate(
    options: FineTuningFlags, task: FineTuningTask, evaluator: "Evaluator", steps: int, folder: RunFolder
) -> FineTuningTask:
    """Prints and writes the results on the evaluation splits; returns the task with the best thresholds."""
    splits = task.eval_splits
    if splits and not any(task.split(split).is_known for split in splits.values()):
        print("The evaluation data have no labels: nothing to score.")
        return preparation.load_calibration(task, folder)
    results = evaluator()
    calibrated = calibrate(task, evaluator.predictions, folder)
    if calibrated is not task and task.rescores:
        for prefix, split in splits.items():
            scores = calibrated.scores(evaluator.predictions[split], split)
            results |= {f"{prefix}{name}": value for name, value in scores.items()}
    if steps:
        folder.log(steps, {f"eval_{name}": value for name, value in results.items()})
    print("On the development set:")
    print_scores(results)
    baselines.compare(options, task, results, folder)
    folder.write_json("eval_results.json", results)
    report_details(calibrated, evaluator.predictions, folder)
    return calibrated


def calibrate(task: FineTuningTask, predictions: dict[str, Any], folder: RunFolder) -> FineTuningTask:
    """The task with the thresholds that are best on {split: predictions}, which are stored, or with stored ones."""
    calibrated, sentences = task.calibrated(predictions)
    if calibrated is task:
        return preparation.load_calibration(task, folder)
    folder.write_json(task.calibration_file, calibrated.calibration)
    for sentence in sentences:
        print(sentence, flush=True)
    return calibrated


def report_details(task: FineTuningTask, predictions: dict[str, Any], folder: RunFolder) -> None:
    """Prints and writes the details of {split: predictions}, and warns if these are worthless."""
    details = {split: task.details(values, split) for split, values in predictions.items()}
    folder.write_json("eval_details.json", details)
    for table in details.values():
        for line in task.summary(table):
            print(line, flush=True)
    reasons = (task.collapse(values, split) for split, values in predictions.items())
    warn_of_collapse(next(filter(None, reasons), None), folder)


def warn_of_collapse(reason: str | None, folder: RunFolder) -> None:
    """Notes why the predictions of a run are worthless (None: they are not), and warns of it."""
    folder.update(collapsed=reason)
    if reason:
        log.warning(
            "%s has collapsed: on the development set %s. Try another random_seed, a lower learning_rate, more "
            "num_train_epochs, or for classes of uneven size --class_weights=balanced --criterion=macro_f1.",
            folder.path,
            reason,
        )


def print_scores(scores: dict[str, float]) -> None:
    """Prints {score: number}, one in a line."""
    for name, value in scores.items():
        print(f"  {name:26} {value:.4f}", flush=True)


def predict(options: FineTuningFlags, task: FineTuningTask, evaluator: "Evaluator", folder: RunFolder) -> None:
    """Writes predictions for each test split; those of a labelled development set are scored for the report."""
    for split in task.test_splits:
        predictions = evaluator.predictions.get(split) or evaluator.evaluate_split(split)[1]
        if not folder.is_chief:
            continue
        print(*task.write_predictions(folder.path, split, predictions), sep="\n", flush=True)
        if not options.do_eval and split in task.eval_splits.values() and task.split(split).is_known:
            folder.write_json("eval_results.json", task.scores(predictions, split))
            folder.write_json("eval_details.json", {split: task.details(predictions, split)})


def export_and_demo(options: FineTuningFlags, task: FineTuningTask, model: Any, folder: RunFolder) -> None:
    """Exports the model, compares the export with it, and prints predictions of the export for a few examples.

    The examples are written too: the page of the server shows them.
    """
    from bert_tf.export.loaded_model import Signature, declared_inputs
    from bert_tf.export.saved_model import export
    from bert_tf.heads.base.answering import answered, texts_by_input

    path, splits = folder.file("export"), [*task.eval_splits.values(), *task.test_splits]
    split = (preparation.requested_splits(options, task) or splits)[-1]
    about = preparation.about_export(options, task)
    loaded = export(
        task,
        model,
        task.tokenizer,
        path,
        examples=task.serving_examples(split),
        about=about,
        with_attention=options.export_attention,
    )
    print(f"The export, {path}, answers as the model does:")
    exported = Signature(loaded.signatures["serving_default"], path, declared_inputs(path))
    examples = task.demo_examples(split)
    outputs = exported.predict(examples)
    for number, example in enumerate(examples):
        values = {name: array[number] for name, array in outputs.items()}
        labels = tuple(about.get("labels") or ())
        row = answered(example, values, head=heads.get(task.kind), labels=labels, inputs=exported.inputs)
        print(f"  {task.demo_line(example, row)}", flush=True)
    inputs = [{"inputs": texts_by_input(example, exported.inputs)} for example in examples]
    folder.write_json("examples.json", {"export": inputs})
