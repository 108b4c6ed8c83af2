"""The plan of pre-training: every decision, made before anything is written."""

import dataclasses

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import count_text
from bert_tf.export import opening
from bert_tf.recipes import advice, initialization, teacher
from bert_tf.recipes.pretraining import named_recipes, own_text, preparation
from bert_tf.recipes.pretraining.facts import Facts, of_phase
from bert_tf.recipes.pretraining.pretraining_flags import Flags, with_computed_settings, without_dropping, without_pairs
from bert_tf.reports import plan_text
from bert_tf.runtime import machine
from bert_tf.training import step_memory

# Derived from the text, the time and the machine; a resumed run keeps them.
COMPUTED = ("num_train_steps", "save_checkpoints_steps", *own_text.FLAGS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a phase.

    Attributes:
        options: the flags with all decided values and the reasons.
        facts: the facts that its files told.
        training: the training settings; run.json records those in `options`, which keep a recipe's token dropping even
            if the model has too few layers for it.
        start: the starting point of the model, of a later phase that of the first, until its turn comes; its vocabulary
            is None if one is to be learned.
        teacher: a trained model to learn from, if any.
        step: a training step, for its memory.
        is_first: whether no phase comes before it.
    """

    options: Flags
    facts: Facts
    training: TrainConfig
    start: Checkpoint
    teacher: Checkpoint | None
    step: step_memory.Step
    is_first: bool = True

    def lines(self) -> dict[str, str]:
        """{topic: sentence}."""
        options, config = self.options, self.start.config
        training, tokens = self.training, self.facts.tokens
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
            lines["training"] = count_text(training.budget_minutes, "minute")
        else:
            seen = per_step * training.num_train_steps
            passes = f", about {max(seen / tokens, 0.1):,.1f} passes over the text" if tokens else ""
            lines["training"] = f"{count_text(training.num_train_steps, 'step')}{passes}"
        lines["training"] += f"; checkpoint and evaluation every {count_text(training.save_checkpoints_steps, 'step')}"
        lines["rates"] = plan_text.rates(training)
        lines["memory"] = step_memory.described(self.step, options.devices)
        if training.budget_minutes:
            seconds = 60 * training.budget_minutes
        else:
            gpus = machine.gpus_used(options.devices.device)
            seconds = advice.training_seconds(config, per_step * training.num_train_steps, gpus=gpus)
        return {**lines, "time": plan_text.time(seconds)}


def make(given: Flags) -> list[Plan]:
    """The plans of all phases in turn, just one except for some recipes; reads headers of files and writes nothing.

    Raises UserError for every error that can be detected now.
    """
    plans: list[Plan] = []
    for options in phases_of(given):
        plans.append(_of_phase(options, plans[0] if plans else None))
    return plans


def _of_phase(options: Flags, first: Plan | None) -> Plan:
    """The plan of a phase. first: the plan of the first phase, if this is a later one."""
    # Numbers that follow from the text, the time and the machine
    facts = of_phase(options)
    options = _with_recorded(options, facts)
    options = preparation.with_computed_defaults(options, facts)
    options.training.check()
    preparation.check(options, facts)
    if not options.prepare_only:
        opening.names_of(options.export_engines)  # raises for an engine that cannot be written

    # Starting point
    start = first.start if first else _starting_point(options)
    preparation.check_start(options, start)
    step = preparation.checked_step(options, start)
    taught_by = first.teacher if first else teacher.read(options, start)

    # Losses
    options = without_pairs(options, start.config)
    training = without_dropping(options, start.config).training
    return Plan(
        options=options, facts=facts, training=training, start=start, teacher=taught_by, step=step, is_first=not first
    )


def when_begun(plan: Plan) -> Plan:
    """The plan of a phase whose turn it is: it starts from the weights of the phase before."""
    return plan if plan.is_first else dataclasses.replace(plan, start=_starting_point(plan.options))


def _starting_point(options: Flags) -> Checkpoint:
    return initialization.resolve(options, left_to_right=options.left_to_right)


def _with_recorded(options: Flags, facts: Facts) -> Flags:
    """The flags, with the recorded values if a run is resumed."""
    recorded = facts.recorded
    keeps_warm_up = facts.is_begun and recorded.get("warmup_proportion") == options.training.warmup_proportion
    names = (*COMPUTED, *["num_warmup_steps"] * keeps_warm_up)
    kept = {name: recorded[name] for name in names if name in recorded}
    return options.with_defaults(kept, f"the run in {options.output_dir} was started with it")


def phases_of(given: Flags) -> list[Flags]:
    """The flags of each phase: just one, except for recipes with several."""
    settings = named_recipes.settings(given.recipe, given.recipe_scale)
    return named_recipes.in_turn([with_computed_settings(given, phase) for phase in settings])
