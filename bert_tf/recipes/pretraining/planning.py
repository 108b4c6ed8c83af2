"""The plan of pre-training: every decision, made before anything is written."""

import dataclasses

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import count_text
from bert_tf.recipes import advice, teacher
from bert_tf.recipes.pretraining import named_recipes, own_text, preparation
from bert_tf.recipes.pretraining.pretraining_flags import (
    Flags,
    with_computed_settings,
    without_dropping,
    without_pairs,
)
from bert_tf.reports import plan_text
from bert_tf.runtime import machine, process
from bert_tf.training import step_memory
from bert_tf.training.run_directory import RunFolder, recorded_flags

# Derived from the text, the time and the machine; a resumed run keeps them.
COMPUTED = ("num_train_steps", "save_checkpoints_steps", *own_text.FLAGS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a phase.

    Attributes:
        options: the flags with all decided values and the reasons.
        training: the training settings; run.json records those in `options`, which keep a recipe's token dropping even
            if the model has too few layers for it.
        start: the starting point of the model; its vocabulary is None if one is to be learned.
        teacher: a trained model to learn from, if any.
    """

    options: Flags
    training: TrainConfig
    start: Checkpoint
    teacher: Checkpoint | None

    def show(self) -> None:
        """Prints the plan."""
        plan_text.show(self.lines(), self.options)

    def lines(self) -> dict[str, str]:
        """{topic: sentence}."""
        options, config = self.options, self.start.config
        training, tokens = self.training, preparation.text_tokens(options)
        per_step = training.train_batch_size * options.max_seq_length
        source = options.input_file or options.records_dir or "Python's manual and library"
        lines = {
            "text": f"{source}, about {tokens:,} tokens" if tokens else source,
            "checkpoint": plan_text.model(config, options.model.init_checkpoint),
            "run folder": options.output_dir,
            "rows": f"{options.max_seq_length} tokens, {training.train_batch_size} rows per step",
        }
        if not options.do_train:
            return {**lines, "training": "none"}
        if training.budget_minutes:
            lines["training"] = f"{training.budget_minutes:g} minutes"
        else:
            seen = per_step * training.num_train_steps
            passes = f", about {max(seen / tokens, 0.1):,.1f} passes over the text" if tokens else ""
            lines["training"] = f"{count_text(training.num_train_steps, 'step')}{passes}"
        lines["training"] += f"; checkpoint and evaluation every {count_text(training.save_checkpoints_steps, 'step')}"
        lines["rates"] = plan_text.rates(training)
        lines["memory"] = step_memory.described(preparation.step_of(options, self.start), options.devices)
        if training.budget_minutes:
            seconds = 60 * training.budget_minutes
        else:
            gpus = machine.gpus_used(options.devices.device)
            seconds = advice.training_seconds(config, per_step * training.num_train_steps, gpus=gpus)
        return {**lines, "time": plan_text.time(seconds)}


def make(options: Flags) -> Plan:
    """The plan of a phase; reads headers of files and writes nothing.

    Raises UserError for every error that can be detected now.
    """
    options = _with_recorded(options)
    options = preparation.with_computed_defaults(options)
    process.set_up_xla(options.devices.xla_cache)
    options.training.check()
    start = preparation.resolve(options)
    taught_by = teacher.read(options, start)
    options = without_pairs(options, start.config)
    training = without_dropping(options, start.config).training
    return Plan(options=options, training=training, start=start, teacher=taught_by)


def _with_recorded(options: Flags) -> Flags:
    """The flags, with the recorded values if a run is resumed."""
    folder = options.output_dir
    recorded = recorded_flags(folder)
    is_begun = bool(RunFolder(folder).last_step())
    keeps_warm_up = is_begun and recorded.get("warmup_proportion") == options.training.warmup_proportion
    kept = recorded_flags(folder, (*COMPUTED, *["num_warmup_steps"] * keeps_warm_up))
    return options.with_defaults(kept, f"the run in {folder} was started with it")


def phases_of(given: Flags) -> list[Flags]:
    """The flags of each phase: just one, except for recipes with several."""
    settings = named_recipes.settings(given.recipe, given.recipe_scale)
    return named_recipes.in_turn([with_computed_settings(given, phase) for phase in settings])


def before_training(phases: list[Flags]) -> list[Plan]:
    """The plans of all phases, before one has saved the checkpoint for the next."""
    first = phases[0].model.init_checkpoint
    return [make(options.replace(init_checkpoint=first)) for options in phases]
