"""Results of fine-tuning: scores, thresholds, predictions and the export, printed and written."""

import logging
from collections.abc import Sequence
from typing import Any

from bert_tf.errors import listed
from bert_tf.export import engine_network, opening
from bert_tf.heads.base.answering import answered, texts_by_input
from bert_tf.recipes.finetuning import baselines
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.runtime import head_records
from bert_tf.runtime.lazy import module
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.run_directory import RunFolder

saved_model = module("bert_tf.export.saved_model")
log = logging.getLogger("bert_tf")


def evaluate(
    options: FineTuningFlags, task: FineTuningTask, evaluator: "Evaluator", steps: int, folder: RunFolder
) -> FineTuningTask:
    """Prints and writes the results on the evaluation splits; returns the task with the best thresholds."""
    splits = task.eval_splits
    if splits and not any(task.split(split).is_known for split in splits.values()):
        print("The evaluation data has no labels: nothing to score.")
        return load_calibration(task, folder)
    results = evaluator()
    calibrated = calibrate(options, task, evaluator.predictions, folder)
    if calibrated is not task and task.head.training.rescores:
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


def calibrate(
    options: FineTuningFlags, task: FineTuningTask, predictions: dict[str, Any], folder: RunFolder
) -> FineTuningTask:
    """The task with the thresholds that are best on {split: predictions}, which are saved, or with saved ones."""
    calibrated, sentence = task.calibrated(predictions)
    if calibrated is task:
        return load_calibration(task, folder)
    record_head(options, calibrated, folder)
    if sentence:
        print(sentence, flush=True)
    return calibrated


def load_calibration(task: FineTuningTask, folder: RunFolder) -> FineTuningTask:
    """The task with the thresholds saved in the folder by an earlier evaluation, if any."""
    stored = head_records.read_task(folder.path).get("calibration")
    return task.replaced(head=task.head.with_calibration(stored)) if stored else task


def record_head(options: FineTuningFlags, task: FineTuningTask, folder: RunFolder) -> None:
    """Writes how the model answers: contents of about.json, the settings of its rows, and its fitted thresholds.

    Without training, only the thresholds of a model change.
    """
    own, earlier = {"task": task.name, **about_export(options, task)}, head_records.read_task(folder.path)
    host = task.host_settings
    if earlier.get("host") and host and not options.do_train:
        own = {**earlier, **{name: own[name] for name in ("temperature", "thresholds") if name in own}}
        if search := host.get("search"):
            found = {name: search[name] for name in ("temperature", "threshold")}
            host = {**earlier["host"], "search": {**earlier["host"]["search"], **found}}
        else:
            host = earlier["host"]
    folder.write_json(head_records.TASK, {**own, "host": host, "calibration": task.head.calibration})


def report_details(task: FineTuningTask, predictions: dict[str, Any], folder: RunFolder) -> None:
    """Prints and writes the details of {split: predictions}, and warns if the predictions are worthless."""
    details = {split: task.head.training.details(values, task.split(split)) for split, values in predictions.items()}
    folder.write_json("eval_details.json", details)
    for table in details.values():
        for line in task.head.summary(table):
            print(line, flush=True)
    reasons = (task.head.collapse(values, task.split(split)) for split, values in predictions.items())
    balancing = task.head.wording().balancing_beyond(folder.run.get("flags") or {})
    warn_of_collapse(next(filter(None, reasons), None), folder, balancing)


def warn_of_collapse(reason: str | None, folder: RunFolder, balancing: str) -> None:
    """Records why the predictions of a run are worthless (None: they are not), and warns about it.

    balancing: flags that help with labels of uneven size.
    """
    folder.update(collapsed=reason)
    if reason:
        log.warning(
            "%s has collapsed: on the development set %s. Try another random_seed, a lower learning_rate%s more "
            "num_train_epochs%s.",
            folder.path,
            reason,
            *((",", f", or for labels of uneven size {balancing}") if balancing else (" or", "")),
        )


def print_scores(scores: dict[str, float]) -> None:
    """Prints {score: number}, one per line."""
    for name, value in scores.items():
        print(f"  {name:26} {value:.4f}", flush=True)


def predict(options: FineTuningFlags, task: FineTuningTask, evaluator: "Evaluator", folder: RunFolder) -> None:
    """Writes predictions for each test split; those on a labeled development set are scored for the report."""
    for split in task.test_splits:
        predictions = evaluator.predictions.get(split) or evaluator.evaluate_split(split)[1]
        if not folder.is_chief:
            continue
        print(*task.write_predictions(folder.path, split, predictions), sep="\n", flush=True)
        if not options.do_eval and split in task.eval_splits.values() and task.split(split).is_known:
            folder.write_json("eval_results.json", task.scores(predictions, split))
            folder.write_json("eval_details.json", {split: task.head.training.details(predictions, task.split(split))})


def export_and_demo(
    options: FineTuningFlags, task: FineTuningTask, model: Any, folder: RunFolder, splits: Sequence[str]
) -> None:
    """Exports the model, compares the export with it, and prints predictions of the export for a few examples.

    The examples are of the last of `splits`, which the run reads, and are also written to a file for the server's page.
    """
    path = folder.file("export")
    split = [*task.eval_splits.values(), *task.test_splits, *splits][-1]
    about = about_export(options, task)
    loaded = saved_model.export(
        task,
        model,
        task.tokenizer,
        path,
        examples=task.head.training.serving_examples(task.split(split)),
        about=about,
        with_attention=options.export_attention,
        engine_names=opening.names_of(options.export_engines),
    )
    engines = engine_network.available(path)
    added = f", with a model for {listed(engines)}" if engines else ""
    print(f"Export {path} verified against the model{added}. Examples:")
    exported = opening.of_saved_model(path, jit_compile="false", loaded=loaded)
    examples = task.head.training.demo_examples(task.split(split))
    outputs = exported.predict(examples)
    for number, example in enumerate(examples):
        values = {name: array[number] for name, array in outputs.items()}
        labels = tuple(about.get("labels") or ())
        row = answered(example, values, head=type(task.head), labels=labels, inputs=exported.inputs)
        print(f"  {task.head.training.demo_line(example, row)}", flush=True)
    inputs = [{"inputs": texts_by_input(example, exported.inputs)} for example in examples]
    folder.write_json("examples.json", {"export": inputs})


def about_export(options: FineTuningFlags, task: FineTuningTask) -> dict[str, Any]:
    """Contents of about.json except the task's name: the head, and how to read a labeled file."""
    values = options.values()
    reads = {name: values[name] for name in task.head.training.file_flags if name in values}
    return {**({"attention": True} if options.export_attention else {}), **task.about(), "reads": reads}
