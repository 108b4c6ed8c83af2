"""What fine-tuning needs before the first step: task and tokenizer, checks, length of training, weights, run folder."""

import dataclasses
import functools
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from bert_tf.checkpoints import sentence_transformers
from bert_tf.checkpoints.checkpoint import POOLINGS, Checkpoint
from bert_tf.config import options as option_values
from bert_tf.config.bert_config import check_layers
from bert_tf.config.train_config import AUTO, TrainConfig
from bert_tf.errors import UserError
from bert_tf.heads.base.table_options import LabelOptions
from bert_tf.recipes.finetuning import sweep
from bert_tf.recipes.finetuning.finetuning_flags import FEW_EXAMPLES, FineTuningFlags
from bert_tf.runtime import files
from bert_tf.runtime.json_files import read_json
from bert_tf.runtime.tf_config import number_of_workers
from bert_tf.tasks.task import FineTuningTask
from bert_tf.tasks.task_options import VectorOptions
from bert_tf.text import special_tokens, vocabulary, vocabulary_learning
from bert_tf.training import step_memory
from bert_tf.training.run_directory import RunFolder

ADAPTER = "adapter"  # folder of the run with adapters alone
UNNAMED = re.compile(r"label_\d+")  # what Hugging Face calls labels without a name


def use_trained_model(options: FineTuningFlags, folder: RunFolder) -> FineTuningFlags:
    """Without training: the flags with the model of the run folder, or else init_checkpoint, and its labels."""
    if options.do_train:
        return options
    if is_trained(folder):
        options = options.replace(init_checkpoint=folder.path)
    if not options.model.init_checkpoint:
        raise UserError(f"There is no checkpoint in {folder.path}: train first, or give init_checkpoint.")
    from bert_tf.checkpoints import formats

    if isinstance(options, LabelOptions) and not options.labels:
        options = options.replace(labels=formats.labels(options.model.init_checkpoint) or "")
    return options


def is_trained(folder: RunFolder) -> bool:
    """Whether a folder holds a model that was trained: that of a run, or the best of several."""
    return bool(folder.last_step()) or files.exists(folder.file(sweep.WEIGHTS))


def create_task(options: FineTuningFlags, start: Checkpoint, folder: RunFolder) -> FineTuningTask:
    """The task that the flags name, with its tokenizer."""
    from bert_tf.tasks import catalog

    tokenizer_for = functools.partial(_create_tokenizer, options, start, folder)
    options = _with_recorded_pooling(options, start)
    return catalog.get(catalog.full_name(options.task_name))(options, tokenizer_for)


def _with_recorded_pooling(options: FineTuningFlags, start: Checkpoint) -> FineTuningFlags:
    """The flags with the pooling of the checkpoint, where they choose vectors of texts and none is given.

    Raises UserError where the checkpoint makes vectors in a way that training does not have.
    """
    from bert_tf.tasks import catalog

    recorded, name = start.sentence_vectors, catalog.full_name(options.task_name)
    if recorded is None or not isinstance(options, VectorOptions) or not (name.startswith("vectors/") or "." in name):
        return options
    if not options.pooling:
        recorded.check_supported(options.model.init_checkpoint)
        if recorded.layers or recorded.pooling not in POOLINGS:
            layers = "".join(f", then {layer.kind}" for layer in recorded.layers)
            raise UserError(
                f"{options.model.init_checkpoint} makes vectors with the pooling {recorded.pooling}{layers}; training "
                f"has one pooling of {', '.join(POOLINGS)} and no layer after it. Pass --pooling to train the encoder "
                "without the rest."
            )
    if any(recorded.prompts.values()) or recorded.truncate_dim:
        print(
            "Training and the trained model are without the prompts and the truncate_dim of "
            f"{options.model.init_checkpoint}."
        )
    values: dict[str, Any] = {
        "pooling": options.pooling or recorded.pooling,
        "normalize_vectors": options.normalize_vectors or str(recorded.normalize).lower(),
    }
    return options.replace(**values)


def _create_tokenizer(
    options: FineTuningFlags, start: Checkpoint, folder: RunFolder, texts: Callable[[], Iterable[str]]
) -> Any:
    """With the vocabulary of the checkpoint, of the run folder, or else one learned from the texts."""
    from bert_tf.text import tokenizer_kinds

    tokens = start.vocabulary
    if tokens is None and folder.last_step():
        tokens = vocabulary.read(folder.file("vocab.txt"))
    if tokens is None:
        iterator = iter(texts())
        first = list(itertools.islice(iterator, 1))  # a file that cannot be read is an error before the line below
        print(f"Learning a vocabulary of {options.model.vocab_size:,} tokens", flush=True)
        tokens = vocabulary_learning.learn(
            itertools.chain(first, iterator),
            options.model.vocab_size,
            lower_case=start.lowers_case,
            kind=start.config.encoder_traits.tokenizer,
            special_tokens=start.special_tokens,
        )
    return tokenizer_kinds.create(tokens, start.lowers_case, special_tokens_in_strings=start.special_tokens)


def requested_splits(options: FineTuningFlags, task: FineTuningTask) -> list[str]:
    """The splits that the flags ask for."""
    evaluated = list(task.eval_splits.values()) if options.do_eval else []
    splits = ["train"] * options.do_train + evaluated + list(task.test_splits) * options.do_predict
    return list(dict.fromkeys(splits))


def is_scored(options: FineTuningFlags, task: FineTuningTask) -> bool:
    """Whether the run has a development set with labels, and a score that decides."""
    splits = task.eval_splits.values()
    return bool(options.do_eval and task.criterion and splits and all(task.split(split).is_known for split in splits))


def with_selection(options: FineTuningFlags, task: FineTuningTask) -> FineTuningFlags:
    """The flags without keep_best where it is only the default and there is nothing to select by."""
    if is_scored(options, task):
        return options
    return options if "keep_best" in options.given else options.replace(keep_best=False)


def check_evaluation(options: FineTuningFlags, task: FineTuningTask, *, several: bool) -> None:
    """Raises UserError if flags need evaluations during training, or runs to compare, without data for it."""
    training = options.training
    reasons = ["eval_steps"] * bool(training.eval_steps) + ["early_stop_patience"] * bool(training.early_stop_patience)
    reasons += ["keep_best"] * training.keep_best
    reasons += ["num_seeds or a grid"] * several
    if not reasons:
        return
    if several and not options.do_train:
        raise UserError("num_seeds and grids need training: give do_train, or leave them out.")
    if not (options.do_eval and task.criterion):
        missing = f"{task.name} has none" if options.do_eval else "do_eval is off"
        raise UserError(f"{reasons[0]} was given, which needs a development set to evaluate on, but {missing}.")
    for split in task.eval_splits.values():
        if not task.split(split).is_known:
            raise UserError(f"{reasons[0]} was given, which needs labels in the development set, but it has none.")


def check_memory(options: FineTuningFlags, start: Checkpoint, task: FineTuningTask) -> None:
    """Raises UserError if layers or memory do not suffice for a step of training."""
    check_layers(options.training.num_frozen_layers, start.config.layers_with_weights)
    if options.do_train:
        step = step_memory.Step(
            config=start.config,
            training=options.training,
            max_seq_length=options.max_seq_length,
            has_adapters=bool(options.lora.lora_rank),
            processes=max(1, number_of_workers()),
            rows_per_example=task.rows_per_example,
        )
        step_memory.check(step, options.devices)


def match_head(options: FineTuningFlags, start: Checkpoint, task: FineTuningTask) -> Checkpoint:
    """The starting point with the columns of its head in the order of the task's labels, by their names.

    Raises UserError, before anything is written, where no training follows and the head does not fit the task: there
    is none, it has another size, or its labels have other names. LABEL_0, LABEL_1, ... are no names.
    """
    if task.head is None:
        return start
    name, size = task.head
    weights, names = start.weights, start.labels or []
    kernel, expected = weights.get(name), (start.config.hidden_size, size)
    if kernel is not None and kernel.shape[-1] == size:  # the model checks its width
        theirs, ours = ([str(label).casefold() for label in labels] for labels in (names, task.labels))
        if not theirs or theirs == ours or all(UNNAMED.fullmatch(label) for label in theirs):
            return start
        if sorted(theirs) == sorted(ours):
            order = [theirs.index(label) for label in ours]
            head = (name, name.replace("kernel", "bias"))
            reordered = {name: weights[name][..., order] for name in head}
            if potentials := [each for each in weights if each.startswith("crf/")]:
                reordered |= {each: weights[each][[*order, size, size + 1]][:, order] for each in potentials}
            return dataclasses.replace(start, weights=weights | reordered, labels=list(task.labels))
        reason = f"its labels are {', '.join(names)}, not {', '.join(task.labels)}"
    else:
        reason = f"it has no {name}" if kernel is None else f"its head is {kernel.shape}, expected {expected}"
    if options.do_train or not weights:
        return start
    raise _wrong_task(options, reason)


def match_teacher(options: FineTuningFlags, teacher: Checkpoint | None, task: FineTuningTask) -> Checkpoint | None:
    """The teacher with the columns of its head in the order of the task's labels; UserError for one of another task."""
    if teacher is None:
        return None
    named = options.replace(init_checkpoint=options.distillation.teacher, do_train=False)
    return match_head(named, teacher, task)


def _wrong_task(options: FineTuningFlags, reason: str) -> UserError:
    return UserError(
        f"{options.model.init_checkpoint} was not trained on this task ({reason}): train first, or give a model that "
        "was."
    )


def number_of_steps(options: FineTuningFlags, task: FineTuningTask) -> int:
    """Steps of training: examples / batch size * epochs; 0 without training.

    For questions the windows count, so that an epoch has each of them once; the original's run_squad.py counts the
    questions, and stops a little before its epochs are over.
    """
    if not options.do_train:
        return 0
    if not task.split("train").is_known:
        raise UserError("The training data have no labels; give a table with a column of them.")
    training = options.training
    return max(1, int(task.split("train").count / training.train_batch_size * training.num_train_epochs))


def new_head_rate(start: Checkpoint, task: FineTuningTask) -> float:
    """The task's learning rate of a new head; 0 if the checkpoint has the head already, or there is none."""
    if task.head is None or not start.weights:
        return 0.0
    name, size = task.head
    is_known = name in start.weights and start.weights[name].shape[-1] == size
    return 0.0 if is_known else task.new_head_rate


def train_config(options: FineTuningFlags, examples: int, steps: int, *, new_head_rate: float = 0.0) -> TrainConfig:
    """How this number of examples is trained in this number of steps."""
    training, optimizer = options.training, options.training.optimizer
    if optimizer == "auto":
        optimizer = "adamw_corrected" if examples < FEW_EXAMPLES else "adamw"
    head_rate = training.head_learning_rate
    if head_rate == AUTO:
        is_faster = examples < FEW_EXAMPLES and 0 < training.learning_rate < new_head_rate
        head_rate = new_head_rate if is_faster else 0.0
    return dataclasses.replace(
        training,
        num_train_steps=steps,
        unfreeze_steps=math.ceil(training.unfreeze_epochs * examples / training.train_batch_size),
        freeze="encoder" if options.lora.lora_rank else training.freeze,
        num_warmup_steps=int(steps * training.warmup_proportion),
        optimizer=optimizer,
        head_learning_rate=head_rate,
        max_eval_steps=sys.maxsize,
        num_train_examples=examples,
        evaluates=options.do_eval,
    )


def open_folder(folder: RunFolder, options: FineTuningFlags) -> None:
    """Begins or resumes one run or several; raises UserError for flags that do not match what the folder holds."""
    values = options.values()
    free = options.free_flags() | set(sweep.ONE_RUN)
    decisive = {name: value for name, value in values.items() if name not in free}
    compared = decisive if folder.last_step() or sweep.is_in(folder) else {}
    if not options.do_train and is_trained(folder):  # the trained model stays as it was
        compared = {name: decisive[name] for name in options.MODEL}
        decisive = (read_json(folder.file("run.json")) or {}).get("decisive", decisive)
    upgrade = functools.partial(option_values.upgrade, type(options))
    folder.open(
        name=options.task_name,
        command=list(options.command),
        flags=values,
        decisive=decisive,
        compared=compared,
        upgrade=upgrade,
    )


def write_tokenizer_files(folder: RunFolder, start: Checkpoint, task: FineTuningTask) -> None:
    """Writes what makes the run folder a checkpoint: vocabulary, configuration, casing, labels."""
    if folder.is_chief:
        vocabulary.write(folder.file("vocab.txt"), task.tokenizer.vocabulary)
        start.config.write(folder.file("bert_config.json"))
        sentence_transformers.write(folder.path, task.sentence_vectors, start.config.hidden_size)
    folder.write_json("tokenizer_config.json", special_tokens.settings(start.lowers_case, start.special_tokens))
    folder.write_json("task.json", {"task": task.name, "labels": list(task.labels), "kind": task.kind})


def assign_weights(model: Any, start: Checkpoint, options: FineTuningFlags) -> None:
    """Puts the weights of the starting point into the model and prints what became of them.

    Raises UserError where no training follows and the head of the task is not among them, or has another shape.
    """
    from bert_tf.model import weights

    if not start.weights:
        return
    loaded = weights.assign(model, start.weights)
    print(loaded, flush=True)
    mismatch = "; ".join(f"{name} is {theirs} there, {ours} here" for name, theirs, ours in loaded.shape_mismatch)
    missing = [name for name in loaded.newly_initialized if name not in model.unread]
    if options.do_train or not (missing or loaded.shape_mismatch):
        if mismatch:
            print(
                f"The head of {options.model.init_checkpoint} is of another task ({mismatch}): reinitialized.",
                flush=True,
            )
        return
    raise _wrong_task(options, mismatch or f"it has no {missing[0]}")


def attach_adapters(model: Any, options: FineTuningFlags) -> None:
    """Adds the adapters that are trained, if flags ask for some."""
    from bert_tf.checkpoints import peft_adapters
    from bert_tf.model import lora

    if options.do_train and options.lora.lora_rank:
        peft_adapters.check_layout(model.config)
        lora.attach(model, options.lora)


def merge_adapters(model: Any, options: FineTuningFlags, task: FineTuningTask, folder: RunFolder) -> None:
    """Writes trained adapters as PEFT's files into the folder of the run, and merges them into the model."""
    from bert_tf.checkpoints import peft_adapters
    from bert_tf.model import lora, weights

    if not options.lora.lora_rank:
        return
    if folder.is_chief:
        arrays = {name: variable.numpy() for name, variable in weights.variables(model).items()}
        adapter, path = options.lora, folder.file(ADAPTER)
        if files.exists(path):
            files.remove(path)
        peft_adapters.write(path, arrays, model.config, adapter, kind=task.kind, base=options.model.init_checkpoint)
        print(f"The adapters, in PEFT's layout, are in {path}.", flush=True)
    lora.merge(model)


def about_export(options: FineTuningFlags, task: FineTuningTask) -> dict[str, Any]:
    """What an export says of itself besides the name of its task: about its head, and how a labelled file is read."""
    values = options.values()
    reads = {name: values[name] for name in task.file_flags if name in values}
    return {**task.about(), "reads": reads}


def load_calibration(task: FineTuningTask, folder: RunFolder) -> FineTuningTask:
    """The task with the thresholds that an earlier evaluation left in the folder, if any."""
    stored = read_json(folder.file(task.calibration_file)) if task.calibration_file else None
    return task.with_calibration(stored) if stored else task
