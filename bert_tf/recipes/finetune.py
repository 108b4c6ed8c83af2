"""Fine-tunes BERT on sentences, pairs and words: GLUE, SWAG, named entities, your own; evaluates, predicts, exports.

python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC --init_checkpoint=uncased_L-12_H-768_A-12
"""

import contextlib
import dataclasses
import gc
import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from bert_tf import heads
from bert_tf.checkpoints import sentence_transformers
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.flag_groups import RunOptions
from bert_tf.config.options import changed, fields_of, flag
from bert_tf.config.train_config import TrainConfig
from bert_tf.data import preprocessed_examples
from bert_tf.errors import UserError, count_text, leave_out
from bert_tf.heads.base.table_options import TableOptions
from bert_tf.model import weights
from bert_tf.recipes import initialization, teacher
from bert_tf.recipes.finetuning import (
    baselines,
    few_shot,
    folds,
    planning,
    preprocessed,
    results,
    starting_point,
    sweep,
    table_choice,
    trained_texts,
)
from bert_tf.recipes.finetuning.finetuning_flags import FEW_EXAMPLES, FineTuningFlags
from bert_tf.recipes.finetuning.planning import Plan, RunPlan
from bert_tf.reports import next_steps, plan_text
from bert_tf.runtime import files, head_records, process, run_files, terminal
from bert_tf.runtime.cluster import worker_number
from bert_tf.runtime.lazy import keras, module
from bert_tf.tasks.task import FineTuningTask
from bert_tf.tasks.task_options import BY_FAMILY, GlueOptions, TagOptions, VectorOptions, of_task
from bert_tf.text import special_tokens, vocabulary
from bert_tf.training import distribute, precision, traced_gradients
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.metrics_log import Diverged
from bert_tf.training.run_directory import RunFolder

lora, loop = module("bert_tf.model.lora"), module("bert_tf.training.loop")
peft_adapters = module("bert_tf.checkpoints.peft_adapters")
log = logging.getLogger("bert_tf")
ADAPTER = "adapter"  # in the run folder: only the adapters
# Defaults without flags that name data: predict which part of Python's manual a passage comes from.
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
class Flags(FineTuningFlags, GlueOptions, TableOptions, TagOptions, VectorOptions):
    """Data and tasks."""

    POSITIONAL: ClassVar[str] = "train_file"
    MOST_USED: ClassVar[tuple[str, ...]] = tuple(
        "train_file text_columns label_column init_checkpoint output_dir num_train_epochs learning_rate "
        "train_batch_size max_seq_length task_name data_dir".split()
    )
    WITH_POSITIONAL: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*table_choice.CHOSEN, *table_choice.RECIPE), "chosen from the table"),
        **{"init_checkpoint": table_choice.START, "output_dir": "runs/NAME of the table"},
    }

    task_name: str = flag(
        "",
        "Task: MRPC or another GLUE task, swag, xnli/de, table, ner/conll2003, pairs, or my_package.module/name.",
        names_code=True,
    )
    output_dir: str = changed(RunOptions, "output_dir", "runs/classifier")

    MODEL: ClassVar[frozenset[str]] = frozenset(("task_name", "label_type", "document_context", "tag_head", "pooling"))

    def computed_defaults(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The settings of the demonstration if no flag names data; the table's defaults if only a table is named."""
        if preprocessed_examples.is_file_of_them(self.train_file):
            return preprocessed.default_flags(self.train_file)
        if "train_file" in self.given and "task_name" not in self.given:
            values = {name: value for name, value in self.values().items() if name in self.given}
            is_new = self.given & {"bert_config_file", "model_size", "vocab_file", "vocab_size", "encoder"}
            given = {"init_checkpoint": "", **values} if is_new else values
            return table_choice.defaults(self.train_file, given), table_choice.REASONS
        if "tfds_name" in self.given and "task_name" not in self.given:
            return {"task_name": "table"}, {"task_name": "tfds_name without a task"}
        if self.task_name == few_shot.NAME:
            values = few_shot.defaults(self.train_file, self.given)
            return values, dict.fromkeys(values, "few labeled texts")
        if self.given & {"task_name", "data_dir", "train_file", "predict_file"}:
            return {}, {}
        question = "Which part of it is a passage from?"
        return initialization.demo_settings(self, DEMONSTRATION, question, "runs/classifier")

    @classmethod
    def flags_of(cls, task_name: str) -> set[str]:
        """The flags of a task: all except those of other tasks."""
        kind = of_task(task_name)
        others = {name for each in BY_FAMILY.values() for name in fields_of(each)} if kind else set()
        return fields_of(cls).keys() - others | fields_of(kind or cls).keys()

    def check(self) -> None:
        """Raises UserError without a task, and for a label threshold without independent labels."""
        super().check()
        if not self.task_name:
            raise UserError("Pass a task: task_name=MRPC, swag, table ... and data_dir, the folder with its files.")
        for name in sorted(self.given - self.flags_of(self.task_name)):
            raise leave_out(f"{name} does not apply to {self.task_name}")
        if self.label_threshold and self.label_type in heads.kinds("is_exclusive"):
            raise leave_out("label_threshold needs label_type=multi_label")


def main(options: FineTuningFlags) -> None:
    """Fine-tunes on texts, pairs, words or questions: a plan, then one run or several, and their report."""
    options = planning.with_chosen_defaults(options)
    process.set_up_xla(options.devices.xla_cache)
    with contextlib.closing(RunFolder(options.output_dir, is_chief=worker_number() == 0)) as folder:
        if not options.dry_run:
            folder.claim()
        plan = planning.make(options, folder)
        if options.dry_run:
            plan_text.show(plan.lines(), plan.options)
            return
        if plan.is_finished:
            terminal.say("To train again, pass another --output_dir.")
            print(f"This run is finished; its results are in {folder.path}.", flush=True)
            return
        execute(plan, folder)
        if folder.is_chief:
            next_steps.finish(folder, for_program=options.from_program)


def execute(plan: Plan, folder: RunFolder) -> None:
    """Carries out the runs of a plan in turn, except the finished ones, and sums their results up in its folder."""
    compared, outcomes = plan.compared, dict[str, sweep.Outcome]()
    if compared:
        open_folder(folder, plan.options)
        sweep.begin(folder, compared)
    finished = [each.name for each in plan.runs if each.is_compared and each.is_finished]  # the same on every worker
    last = plan.runs[-1]
    for number, each in enumerate(plan.runs, 1):
        if not each.is_compared:
            with folder.phase("all rows") if each.is_refit else contextlib.nullcontext():
                last = carry_out(each, folder)
            continue
        print(f"Run {number} of {len(compared)}: {each.name}{' is finished' * (each.name in finished)}", flush=True)
        try:
            if each.name not in finished:
                carry_out(each, folder)
            outcomes[each.name] = sweep.outcome_of(each.options.output_dir)
        except Diverged as error:
            log.warning("%s failed: %s", each.name, error)
            outcomes[each.name] = {"failed": str(error)}
        keras.backend.clear_session()  # functions and variables that refer to each other
        gc.collect()
        if len(outcomes) == len(compared):
            sweep.check_any(outcomes)
    if folder.is_chief:
        task = plan.runs[0].setup.task
        if plan.series == planning.SWEEP:
            sweep.report_results(folder, compared, outcomes, task)
        elif plan.series == planning.FOLDS:
            folds.report(folder, compared, outcomes, task, last.options)
        elif plan.series == planning.REFIT:
            folds.report_refit(folder, last.options)


def carry_out(plan: RunPlan, folder: RunFolder) -> RunPlan:
    """Carries out a run in its folder, which is in `folder`, or that itself; returns its plan as it was when begun."""
    if not plan.name:
        run(plan, folder)
        return plan
    with contextlib.closing(RunFolder(plan.options.output_dir, is_chief=folder.is_chief)) as own:
        plan = planning.when_begun(plan, own)
        run(plan, own)
        own.finish()
    return plan


@traced_gradients.forgotten()
def run(plan: RunPlan, folder: RunFolder) -> None:
    """One run, in its folder: trains, evaluates, predicts, exports."""
    options, splits, config = plan.options, plan.splits, plan.training
    start, task, taught_by, data = plan.setup
    strategy = distribute.strategy_of(options.devices)

    # Folder: flags, statistics, and the files of a checkpoint
    open_folder(folder, options)
    if options.write_examples and folder.is_chief:
        preprocessed.write(task, options, start, splits)
    recorded = {} if options.do_train else folder.run.get("text_statistics") or {}
    folder.update(text_statistics=recorded | {split: task.split(split).statistics() for split in splits})
    write_tokenizer_files(folder, start, task)
    if options.do_train or not head_records.read_task(folder.path).get("host"):
        results.record_head(options, results.load_calibration(task, folder), folder)
    if options.do_train:
        trained_texts.record(folder, task, [split for split in task.eval_splits.values() if split in splits])

    # Model
    keras.utils.set_random_seed(options.training.random_seed)
    with strategy.scope():
        model = task.create_model(start.config, dtype=precision.configure(options.training.precision))
    starting_point.assign_weights(model, start, options)
    if options.do_train and plan.has_new_head:
        baselines.begin_at_mean(task, model)
    if options.do_train and options.lora.lora_rank:
        peft_adapters.check_layout(model.config)
        with strategy.scope():
            lora.attach(model, options.lora)
    about: dict[str, Any] = {"config": start.config.to_dict(), "criterion": task.criterion}
    if options.do_train or "training" not in folder.run:  # the record of the training is kept
        about |= {"training": dataclasses.asdict(config), "data": dict(data)}
    folder.update(**about, parameters=model.count_params())

    # Training
    evaluator = Evaluator(task, model, config, strategy)
    steps = 0
    if options.do_train:
        head = None
        if options.baseline and plan.is_scored:
            head = baselines.score(task, evaluator, folder, has_encoder=bool(start.weights))
        if options.start == baselines.BEST and start.weights and plan.has_new_head:
            baselines.begin_linear(task, evaluator, head)
        if options.start in (baselines.FROZEN, few_shot.CONTRASTIVE):
            if not folder.last_step():
                if options.start == few_shot.CONTRASTIVE:
                    few_shot.train(task, model, config, strategy)
                baselines.fit_head(task, evaluator)
            config = dataclasses.replace(config, learning_rate=0.0, head_learning_rate=0.0, num_train_steps=1)
        evaluates_start = options.start == baselines.BEST and plan.is_scored
        announce(options, config)
        taught = teacher.taught(task, model, taught_by, options.distillation, strategy)
        with folder.phase("train"):
            steps = loop.train(taught, model, config, strategy, folder, evaluator, evaluates_start)
        if options.lora.lora_rank:
            write_adapters(model, options, task, folder)
            lora.merge(model)

    # Evaluation, predictions, export
    if options.do_eval:
        with folder.phase("evaluate"):
            task = results.evaluate(options, task, evaluator, steps, folder)
    else:
        task = results.load_calibration(task, folder)
    if options.do_predict:
        with folder.phase("predict"):
            results.predict(options, task, evaluator, folder)
    if options.do_export and folder.is_chief:
        with folder.phase("export"):
            results.export_and_demo(options, task, model, folder, splits)


def open_folder(folder: RunFolder, options: FineTuningFlags) -> None:
    """Starts or resumes one run or several; raises UserError for flags that do not match the folder's contents."""
    decisive = {name: value for name, value in options.decisive().items() if name not in sweep.ONE_RUN}
    compared = decisive if folder.last_step() or sweep.is_in(folder) else {}
    is_trained = not options.do_train and starting_point.is_trained(folder)
    if is_trained:  # the model does not change
        compared = {name: decisive[name] for name in options.MODEL}
        decisive = run_files.read_run(folder.path).get("decisive", decisive)
    folder.open(
        name=options.task_name, decisive=decisive, compared=compared, trains=not is_trained, **options.recorded()
    )


def write_tokenizer_files(folder: RunFolder, start: Checkpoint, task: FineTuningTask) -> None:
    """Writes the files that make the run folder a checkpoint: vocabulary, configuration, casing."""
    if folder.is_chief:
        vocabulary.write(folder.file("vocab.txt"), task.tokenizer.vocabulary)
        start.config.write(folder.file("bert_config.json"))
        sentence_transformers.write(folder.path, task.head.sentence_vectors, start.config.hidden_size)
    folder.write_json("tokenizer_config.json", special_tokens.settings(start.lowers_case, start.special_tokens))


def announce(options: FineTuningFlags, config: TrainConfig) -> None:
    """Prints the length of training, the optimizer with the reason for it, and the learning rate of a new head."""
    if options.start in (baselines.FROZEN, few_shot.CONTRASTIVE):
        print(
            f"The head is fitted to the embeddings of {count_text(config.num_train_examples, 'example')}.", flush=True
        )
        return
    few = options.training.optimizer == "auto" and config.num_train_examples < FEW_EXAMPLES
    reason = f" (Adam with bias correction for fewer than {FEW_EXAMPLES:,} examples)" if few else ""
    head = f"; learning rate of the head {config.head_learning_rate:g}" if config.head_learning_rate else ""
    print(
        f"Training on {count_text(config.num_train_examples, 'example')}, "
        f"{count_text(options.training.num_train_epochs, 'epoch')}, {count_text(config.num_train_steps, 'step')}, "
        f"{config.optimizer}{reason}{head}",
        flush=True,
    )


def write_adapters(model: Any, options: FineTuningFlags, task: FineTuningTask, folder: RunFolder) -> None:
    """Writes trained adapters in PEFT's format into the run folder."""
    if folder.is_chief:
        arrays = {name: variable.numpy() for name, variable in weights.variables(model).items()}
        adapter, path = options.lora, folder.file(ADAPTER)
        if files.exists(path):
            files.remove(path)
        base = options.model.init_checkpoint
        peft_adapters.write(path, arrays, model.config, adapter, kind=task.head.kind, base=base)
        print(f"The adapters, in PEFT's layout, are in {path}.", flush=True)
