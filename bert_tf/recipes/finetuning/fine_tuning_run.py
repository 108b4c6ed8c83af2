"""What every script that fine-tunes does: one run or several, from flags to report.

The script says what is its own in a `Script` and calls `main`.
"""

import dataclasses
import functools
from collections.abc import Callable

from bert_tf.config import flags
from bert_tf.errors import UserError
from bert_tf.recipes import initialization
from bert_tf.recipes.finetuning import fine_tuning, sweep
from bert_tf.recipes.finetuning.fine_tuning_flags import free_flags
from bert_tf.reports import report
from bert_tf.runtime.json_files import read_json
from bert_tf.runtime.tensorflow_startup import start_tensorflow
from bert_tf.runtime.tf_config import worker_number
from bert_tf.training.run_directory import RunFolder


@dataclasses.dataclass(frozen=True, kw_only=True)
class Script:
    """What one script says for itself.

    flags: the dataclass of its flags, a FineTuningFlags with `task_name`. free_flags: those that do not decide what is
    learned; model_flags: those that a trained model must be used with. demonstration(): {flag: value} for where flags
    do not say what to learn, else {}. check(options): raises UserError for flags that cannot be.
    evaluate(task, evaluator, steps, folder), predict(task, evaluator, folder) and
    show(options, task, model, tokenizer, folder): what becomes of a trained model.
    """

    flags: type
    free_flags: frozenset = frozenset()
    model_flags: frozenset = frozenset()
    demonstration: Callable
    check: Callable
    evaluate: Callable
    predict: Callable
    show: Callable


def main(script):
    """Runs the script with the flags of the command line."""
    options = flags.read(script.flags, instead=script.demonstration())
    runs = sweep.plan(options)
    for each in runs.values():
        check(each)
        script.check(each)
    options = runs.get("", options)
    folder = RunFolder(options.output_dir, writes=worker_number() == 0)
    if options.do_train:
        sweep.expect_free(folder, several=len(runs) > 1)
    options = fine_tuning.with_what_was_trained(options, folder)
    start = initialization.resolve(options, lower_case_given=flags.is_given("do_lower_case"))
    start_tensorflow()
    if options.export_attention:
        from bert_tf.export import attention_signature

        attention_signature.check(start.config)
    task, tokenizer = fine_tuning.make_task(options, start, folder)
    fine_tuning.expect_evaluation(options, task, several=len(runs) > 1)
    for split in wanted_splits(options, task):
        task.split(split)  # the user's mistakes in files come before anything is written
    for split in wanted_splits(options, task):
        print(*task.describe(split), sep="\n", flush=True)
    start = fine_tuning.with_head(options, start, task)
    fine_tuning.expect_room(max(runs.values(), key=lambda each: each.train_batch_size), start, task)
    start = dataclasses.replace(start, config=dataclasses.replace(start.config, vocab_size=tokenizer.size))
    parts = script, start, task, tokenizer, create_strategy(options)
    if len(runs) == 1:
        run(options, folder, *parts)
    else:
        run_several(options, runs, folder, *parts)
    if folder.writes:
        folder.finish()
        print(f"Results are in {folder.path}; the report is {report.write_report(folder.path)}.")


def create_strategy(options):
    """Where to train."""
    from bert_tf.training import distribute

    return distribute.create_strategy(
        options.distribution_strategy, num_logical_devices=options.num_logical_devices, tpu_name=options.tpu_name
    )


def run(options, folder, script, start, task, tokenizer, strategy):
    """One run, in its folder."""
    steps = fine_tuning.number_of_steps(options, task)
    open_folder(folder, options, script)
    folder.update(text_statistics={split: task.statistics(split) for split in wanted_splits(options, task)})
    fine_tuning.write_text_side(folder, start, tokenizer, task)
    learn(options, script, start, task, tokenizer, steps, folder, strategy)


def run_several(options, runs, folder, script, *parts):
    """Every run of a sweep that is not finished, then what came of them all and the best one, in the sweep's folder."""
    open_folder(folder, options, script)
    sweep.begin(folder, runs)
    outcomes = sweep.go_through(runs, folder, lambda each, own: run(each, own, script, *parts))
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
    fine_tuning.train_config(options, 1, 1)


def wanted_splits(options, task):
    """The splits that the flags ask for."""
    evaluated = list(task.eval_splits.values()) if options.do_eval else []
    return ["train"] * options.do_train + evaluated + list(task.test_splits) * options.do_predict


def open_folder(folder, options, script):
    """Begins or goes on with one run or several; raises UserError for flags that do not go with what is there."""
    asked = dataclasses.asdict(options)
    free = free_flags(options) | script.free_flags | set(sweep.ONE_RUN)
    decisive = {name: value for name, value in asked.items() if name not in free}
    compared = decisive if folder.last_step() or sweep.is_in(folder) else {}
    if not options.do_train and fine_tuning.is_trained(folder):  # what was trained stays as it was
        compared = {name: decisive[name] for name in script.model_flags}
        decisive = (read_json(folder.file("run.json")) or {}).get("decisive", decisive)
    upgrade = functools.partial(flags.upgrade, script.flags)
    folder.open(name=options.task_name, flags=asked, decisive=decisive, compared=compared, upgrade=upgrade)


def learn(options, script, start, task, tokenizer, steps, folder, strategy):
    """Trains, evaluates, predicts, exports."""
    import keras

    from bert_tf.training import precision
    from bert_tf.training.loop import Evaluator, train

    examples = task.split("train").count if options.do_train else 0
    config = fine_tuning.train_config(options, examples, max(1, steps))
    keras.utils.set_random_seed(options.random_seed)
    with strategy.scope():
        model = task.create_model(start.config, dtype=precision.policy(options.precision))
    fine_tuning.assign_weights(model, start, options)
    about = {"config": start.config.to_dict(), "training": dataclasses.asdict(config), "criterion": task.criterion}
    folder.update(**about, parameters=model.count_params())
    if options.do_train:
        fine_tuning.announce(options, config)
        with folder.phase("train"):
            steps = train(task, model, config, strategy, folder)
    evaluator = Evaluator(task, model, config, strategy)
    if options.do_eval:
        with folder.phase("evaluate"):
            script.evaluate(task, evaluator, steps, folder)
    if options.do_predict:
        with folder.phase("predict"):
            script.predict(task, evaluator, folder)
    if options.do_export and folder.writes:
        with folder.phase("export"):
            script.show(options, task, model, tokenizer, folder)


def conclude(results, steps, folder):
    """Prints and writes what was reached on the development set."""
    folder.write_json("eval_results.json", results)
    if steps:
        folder.log(steps, {f"eval_{name}": value for name, value in results.items()})
    print("On the development set:")
    for name, value in results.items():
        print(f"  {name:26} {value:.4f}")
