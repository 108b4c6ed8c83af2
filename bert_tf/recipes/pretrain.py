"""Pre-trains BERT on raw text: vocabulary, records, training, evaluation, SavedModel.

Without flags it uses the Python documentation installed with the interpreter and takes a few minutes; with --input_file
it uses your own text.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.train_config import TrainConfig
from bert_tf.data.examples import Example
from bert_tf.data.pretraining import records
from bert_tf.errors import UserError, count_text, listed
from bert_tf.export import engine_network, loaded_model, opening
from bert_tf.heads.base import text_lengths
from bert_tf.heads.base.head import as_text
from bert_tf.heads.base.servable import TextTask
from bert_tf.heads.masked_lm import lm_kind, task_name
from bert_tf.model import weights
from bert_tf.recipes import advice, teacher
from bert_tf.recipes.pretraining import planning, preparation
from bert_tf.recipes.pretraining.planning import Plan
from bert_tf.recipes.pretraining.pretraining_flags import TEXT_FLAGS, Flags
from bert_tf.reports import next_steps, plan_text
from bert_tf.runtime import files, head_records, process, terminal
from bert_tf.runtime.cluster import worker_number
from bert_tf.runtime.lazy import keras, module
from bert_tf.tasks import catalog
from bert_tf.tasks.pretraining.held_out import held_out_examples, masked_sentences, unigram_loss
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training import checkpointing, distribute, precision, traced_gradients
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.run_directory import PRETRAINING, RunFolder

loop, saved_model = module("bert_tf.training.loop"), module("bert_tf.export.saved_model")
DEMO_SENTENCES = (
    "Return True [MASK] the file exists.",
    "Raises an [MASK] if the value is not valid.",
    "If the expression is not given, the [MASK] is None.",
)


def main(given: Flags) -> None:
    """Runs all phases of the recipe in turn; each can be resumed, and does nothing once it is finished."""
    process.set_up_xla(given.devices.xla_cache)
    plans = planning.make(given)
    for plan in plans:
        if given.dry_run:
            plan_text.show(plan.lines(), plan.options)
        else:
            run_phase(planning.when_begun(plan))


def run_phase(plan: Plan) -> None:
    """Runs all stages: vocabulary and records, then task, training, evaluation and export, then the report."""
    options, start = plan.options, plan.start
    with contextlib.closing(RunFolder(options.output_dir, is_chief=worker_number() == 0)) as folder:
        # Vocabulary and records
        open_run(folder, options)
        with folder.phase("prepare"):
            if folder.is_chief:
                config, manifest = preparation.prepare(start, options, plan.facts, folder)
            else:
                config, manifest = preparation.wait_for_chief(options, plan.facts, folder)
        start = dataclasses.replace(start, config=config)
        in_both = manifest.get("evaluates_on_training_text")
        folder.update(evaluated_on="the training text" if in_both else "held-out text")
        print(describe(manifest, nsp=bool(options.next_sentence_weight)), flush=True)
        for warning in manifest["warnings"]:
            print(f"Warning: {warning}", flush=True)
        if options.prepare_only:
            print(f"The records are in {preparation.records_folder(options, folder)}.")
            return
        if is_finished(folder, options):
            print(f"This run is finished; its results are in {folder.path}.")
            return
        if options.do_train and not options.training.budget_minutes and "statistics" in manifest:
            for line in advice.before_pretraining(config, options, manifest["statistics"]["train"]["tokens"]):
                print(line, flush=True)

        # Model, and the report on it
        run_model(plan, start, manifest, folder)
        if folder.is_chief:
            next_steps.finish(folder, for_program=options.from_program)


@traced_gradients.forgotten()
def run_model(plan: Plan, start: Checkpoint, manifest: Mapping[str, Any], folder: RunFolder) -> None:
    """Creates task and model, trains, evaluates and exports. start: includes the run's vocabulary."""
    options, training = plan.options, plan.training
    # Devices, before any operation of TensorFlow
    strategy = distribute.strategy_of(options.devices)

    # Task and model
    tokenizer = Tokenizer.from_file(
        folder.file("vocab.txt"), start.lowers_case, special_tokens_in_strings=start.special_tokens
    )
    task = create_task(options, start, manifest, tokenizer)
    keras.utils.set_random_seed(options.training.random_seed)
    with strategy.scope():
        model = task.create_model(start.config, dtype=precision.configure(options.training.precision))
        if start.weights:
            print(weights.assign(model, start.weights))
    taught = teacher.taught(task, model, plan.teacher, options.distillation, strategy)
    evaluator = Evaluator(task, model, training, strategy)
    with task.reading():
        record_model(model, evaluator, options, folder)
    folder.write_json(head_records.TASK, {"task": task.name, "labels": [], "kind": None, "host": task.host_settings})

    # Training, evaluation, export
    @functools.cache
    def loss_by_frequency() -> float:
        held_out = evaluator.batches("eval").take(training.max_eval_steps)
        return unigram_loss(records.token_counts(manifest), held_out)

    def warn(results: Mapping[str, float]) -> None:
        for line in advice.after_pretraining(results["masked_lm_loss"], loss_by_frequency(), training):
            terminal.say(line)

    if options.do_train:
        with folder.phase("train"):
            loop.train(taught, model, training, strategy, folder, evaluator, warns_half_way=warn)
    elif folder.last_step():
        checkpointing.load_weights(weights.variables(model), folder.checkpoints)
    if options.do_eval:
        with folder.phase("evaluate"):
            results = evaluator() | {"unigram_masked_lm_loss": loss_by_frequency()}
            report_results(results, training, folder)
            warn(results)
    if options.do_export and folder.is_chief:
        with folder.phase("export"):
            export_and_demo(task, model, tokenizer, evaluator, options, folder)


def describe(manifest: Mapping[str, Any], *, nsp: bool) -> str:
    """Description of the records, for the terminal. nsp: whether the next sentence is predicted."""
    if "statistics" in manifest:
        return records.describe(manifest["statistics"], nsp=nsp)
    train, held_out = (len(manifest[f"{split}_files"]) for split in ("train", "eval"))
    return f"{train} files of records masked by another program, {held_out} held out"


def open_run(folder: RunFolder, options: Flags) -> None:
    """Starts or resumes the run; raises UserError for flags that do not match the existing run."""
    if not (options.do_train or options.prepare_only or options.model.init_checkpoint or folder.last_step()):
        raise UserError(f"There is no checkpoint in {folder.path}: train first, or pass init_checkpoint.")
    compared = decisive = options.decisive()
    if not folder.last_step():
        has_vocabulary = files.exists(folder.file("vocab.txt"))
        compared = {name: value for name, value in decisive.items() if has_vocabulary and name in TEXT_FLAGS}
    folder.open(name=PRETRAINING, decisive=decisive, compared=compared, **options.recorded())


def is_finished(folder: RunFolder, options: Flags) -> bool:
    """Returns whether the same command finished before and all its outputs exist."""
    outputs = [
        ("report.html",),
        ("eval_results.json",) * options.do_eval,
        ("export", "saved_model.pb") * options.do_export,
    ]
    exist = all(files.exists(folder.file(*names)) for names in outputs)
    exist &= not options.export_attention or bool(loaded_model.about(folder.file("export")).get("attention"))
    is_trained = not options.do_train or folder.last_step() >= options.training.num_train_steps
    if options.do_train and options.training.budget_minutes:
        is_trained = (
            folder.last_step() > 0 and folder.run.get("budget_seconds", 0) >= 60 * options.training.budget_minutes
        )
    finished = folder.run["finished"] if exist and is_trained else None
    folder.update(finished=finished)
    return bool(finished)


def create_task(options: Flags, start: Checkpoint, manifest: Mapping[str, Any], tokenizer: "Tokenizer") -> "TextTask":
    """Masked LM, with next-sentence prediction if it has weight, or replaced-token detection, on the records."""
    return catalog.get(task_name(start.config, start.weights, finds_replaced=options.replaced_tokens))(
        manifest,
        tokenizer,
        options.masking,
        next_sentence_weight=options.next_sentence_weight,
        lm_kind=lm_kind(start.config),
        masked_lm_epsilon=options.masked_lm_epsilon,
    )


def record_model(model: "keras.Model", evaluator: "Evaluator", options: Flags, folder: RunFolder) -> None:
    """Adds the configuration, the number of parameters and the row lengths to run.json."""
    splits = {split: evaluator.batches(split) for split in ("train", "eval")}
    rows = {split: text_lengths.of_rows(batches, options.max_seq_length) for split, batches in splits.items()}
    folder.update(config=model.config.to_dict(), parameters=model.count_params(), text_statistics=rows)
    print(f"Training {model.count_params():,} parameters", flush=True)


def report_results(results: Mapping[str, float], training: TrainConfig, folder: RunFolder) -> None:
    """Prints and writes the evaluation results."""
    folder.write_json("eval_results.json", results)
    step = folder.last_step() if training.budget_minutes else training.num_train_steps
    folder.log(step, {f"eval_{name}": value for name, value in results.items()})
    print(f"On {folder.run['evaluated_on']}, after {count_text(step, 'step')}:")
    for name, value in results.items():
        print(f"  {name:26} {value:.4f}", flush=True)


def export_and_demo(
    task: "TextTask",
    model: "keras.Model",
    tokenizer: "Tokenizer",
    evaluator: "Evaluator",
    options: Flags,
    folder: RunFolder,
) -> None:
    """Exports the model, fills masks with the export, and writes examples for the report."""
    held_out = held_out_examples(evaluator.batches("eval"), model, tokenizer)
    sentences = masked_sentences(held_out) if options.input_file else list(DEMO_SENTENCES)
    examples = {"serving_default": {"text": sentences}}
    if options.next_sentence_weight:
        examples["next_sentence"] = {"text_a": sentences, "text_b": [*sentences[1:], sentences[0]]}
    with_attention = options.export_attention
    about = {"attention": with_attention}
    path = folder.file("export")
    loaded = saved_model.export(
        task,
        model,
        tokenizer,
        path,
        examples=examples,
        about=about,
        with_attention=with_attention,
        engine_names=opening.names_of(options.export_engines),
    )
    exported = opening.of_saved_model(path, jit_compile="false", loaded=loaded)
    outputs = exported.predict([Example("", (sentence,)) for sentence in sentences])
    filled = []
    if engines := engine_network.available(path):
        print(f"The export has a model for {listed(engines)} too.")
    print("The export fills masks:")
    for sentence, tokens, scores in zip(sentences, outputs["pieces"], outputs["scores"], strict=True):
        best = [{"piece": as_text(t), "score": float(s)} for t, s in zip(tokens[0][:5], scores[0][:5], strict=True)]
        filled.append({"text": sentence, "answers": best})
        print(f"  {sentence}  ->  " + "; ".join(f'"{answer["piece"]}" {answer["score"]:.0%}' for answer in best[:3]))
    folder.write_json("examples.json", {"fill_mask": filled, "held_out": held_out})
