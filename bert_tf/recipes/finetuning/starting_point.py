"""Starting point of fine-tuning: the task with its tokenizer, the weights, and checks that head and memory fit."""

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.bert_config import POOLINGS
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.config.train_config import check_layers
from bert_tf.data import tables
from bert_tf.data.examples import label_columns
from bert_tf.errors import UserError
from bert_tf.heads.base.table_options import LabelOptions
from bert_tf.heads.base.text_head import TextHead
from bert_tf.model import weights
from bert_tf.recipes.finetuning import sweep
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.runtime import files, run_files, terminal
from bert_tf.runtime.cluster import number_of_workers
from bert_tf.tasks import catalog
from bert_tf.tasks.task import FineTuningTask
from bert_tf.tasks.task_options import VectorOptions
from bert_tf.text import vocabulary, vocabulary_learning
from bert_tf.text.tokenizer import create_tokenizer
from bert_tf.training import step_memory
from bert_tf.training.run_directory import RunFolder

UNNAMED = re.compile(r"label_\d+")  # Hugging Face's default label names


def use_trained_model(options: FineTuningFlags, folder: RunFolder) -> FineTuningFlags:
    """Without training: the flags with the model of the run folder, else init_checkpoint, and its labels."""
    if options.do_train:
        return options
    if is_trained(folder):
        options = options.decided({"init_checkpoint": folder.path}, "without training, the model of the run")
        is_refitted = bool(run_files.read_run(folder.path).get("refit"))
        if options.do_eval and is_refitted and not options.values().get("eval_file"):
            raise UserError(
                f"The model in {folder.path} is trained on all rows, including the held-out ones: pass do_eval=false, "
                "or other rows as eval_file."
            )
    if not options.model.init_checkpoint:
        raise UserError(f"There is no checkpoint in {folder.path}: train first, or pass init_checkpoint.")
    if isinstance(options, LabelOptions) and not options.labels:
        labels = formats.labels(options.model.init_checkpoint) or ""
        options = options.decided({"labels": labels}, "the labels of the checkpoint")
    return options


def is_trained(folder: RunFolder) -> bool:
    """Returns whether a folder contains a trained model, from one run or the best of several."""
    return bool(folder.last_step()) or files.exists(folder.file(sweep.WEIGHTS))


def create_task(options: FineTuningFlags, start: Checkpoint, folder: RunFolder) -> FineTuningTask:
    """The task named by the flags, with its tokenizer."""
    tokenizer_for = functools.partial(_create_tokenizer, options, start, folder)
    options = _with_recorded_pooling(options, start)
    return catalog.get(catalog.full_name(options.task_name))(options, tokenizer_for)


def _with_recorded_pooling(options: FineTuningFlags, start: Checkpoint) -> FineTuningFlags:
    """The flags with the checkpoint's pooling, if the task trains text embeddings and no pooling is specified.

    Raises UserError if the checkpoint produces embeddings in a way that training does not support.
    """
    recorded, name = start.sentence_vectors, catalog.full_name(options.task_name)
    if recorded is None or not isinstance(options, VectorOptions) or not (name.startswith("vectors/") or "." in name):
        return options
    if not options.pooling:
        recorded.check_supported(options.model.init_checkpoint)
        if recorded.layers or recorded.pooling not in POOLINGS:
            layers = "".join(f", then {layer.kind}" for layer in recorded.layers)
            raise UserError(
                f"{options.model.init_checkpoint} uses the pooling {recorded.pooling}{layers}; training "
                f"supports one pooling of {', '.join(POOLINGS)} and no layers after it. Pass --pooling to train the "
                "encoder without the rest."
            )
    if any(recorded.prompts.values()) or recorded.truncate_dim:
        print(f"Training and the trained model ignore the prompts and truncate_dim of {options.model.init_checkpoint}.")
    values: dict[str, Any] = {
        "pooling": options.pooling or recorded.pooling,
        "normalize_vectors": options.normalize_vectors or str(recorded.normalize).lower(),
    }
    return options.replace(**values)


def with_pooling(options: FineTuningFlags, start: Checkpoint, task: FineTuningTask) -> Checkpoint:
    """The starting point with the pooling for a head on whole texts: from the flag, else its own.

    A sentence-transformers checkpoint has an untrained pooler, and often its embeddings are means of the tokens; a
    classifier then reads these, too. Adapters are written in PEFT's format, which includes the pooler.
    """
    config, recorded = start.config, start.sentence_vectors
    if not isinstance(task.head, TextHead) or not task.head.size:
        return start
    given = options.values().get("pooling")
    has_means = recorded is not None and recorded.pooling == "mean" and not recorded.unsupported
    is_free = "classifier/kernel" not in start.weights and not options.lora.lora_rank
    pooling = given or ("mean" if has_means and is_free and config.encoder_traits.may_pool_mean else config.pooling)
    if pooling == "mean" and options.lora.lora_rank:
        raise UserError("lora_rank requires a head on [CLS], as in PEFT's files: pass pooling=cls.")
    if pooling != config.pooling and not given:
        terminal.say(
            f"The head reads the mean of the tokens, like the embeddings of {options.model.init_checkpoint}; "
            "--pooling=cls makes a model that transformers can read."
        )
    return dataclasses.replace(start, config=dataclasses.replace(config, pooling=pooling))


def _create_tokenizer(
    options: FineTuningFlags, start: Checkpoint, folder: RunFolder, texts: Callable[[], Iterable[str]]
) -> Any:
    """A tokenizer with the vocabulary of the checkpoint or run folder, else one learned from the texts."""
    tokens = start.vocabulary
    if tokens is None and folder.last_step():
        tokens = vocabulary.read(folder.file("vocab.txt"))
    if tokens is None:
        iterator = iter(texts())
        first = list(itertools.islice(iterator, 1))  # an unreadable file fails before the line below
        print(f"Learning a vocabulary of {options.model.vocab_size:,} tokens", flush=True)
        tokens = vocabulary_learning.learn(
            itertools.chain(first, iterator),
            options.model.vocab_size,
            lower_case=start.lowers_case,
            kind=start.config.encoder_traits.tokenizer,
            special_tokens=start.special_tokens,
        )
    return create_tokenizer(tokens, start.lowers_case, special_tokens_in_strings=start.special_tokens)


def match_head(options: FineTuningFlags, start: Checkpoint, task: FineTuningTask) -> Checkpoint:
    """The starting point with the columns of its head in the order of the task's labels, matched by name.

    Raises UserError, before anything is written, if no training follows and the head does not fit the task: it is
    missing, has a different size, or different label names. LABEL_0, LABEL_1, ... do not count as names.
    """
    name, size = f"{task.head.weights}/kernel", task.head.size
    if not size:
        return start
    weights, names = start.weights, start.labels or []
    kernel, expected = weights.get(name), (start.config.hidden_size, size)
    if kernel is not None and kernel.shape[-1] == size:  # the model checks its width
        theirs, ours = ([str(label).casefold() for label in labels] for labels in (names, task.head.labels))
        if not theirs or theirs == ours or all(UNNAMED.fullmatch(label) for label in theirs):
            return start
        if sorted(theirs) == sorted(ours):
            order = [theirs.index(label) for label in ours]
            head = (name, name.replace("kernel", "bias"))
            reordered = {name: weights[name][..., order] for name in head}
            if potentials := [each for each in weights if each.startswith("crf/")]:
                reordered |= {each: weights[each][[*order, size, size + 1]][:, order] for each in potentials}
            return dataclasses.replace(start, weights=weights | reordered, labels=list(task.head.labels))
        reason = f"its labels are {', '.join(names)}, not {', '.join(task.head.labels)}"
    else:
        reason = f"it has no {name}" if kernel is None else f"its head is {kernel.shape}, expected {expected}"
    if options.do_train or not weights:
        return start
    raise _wrong_task(options, reason)


def _wrong_task(options: FineTuningFlags, reason: str) -> UserError:
    return UserError(
        f"{options.model.init_checkpoint} was not trained on this task ({reason}): train first, or pass a model that "
        "was."
    )


def checked_step(options: FineTuningFlags, start: Checkpoint, task: FineTuningTask) -> step_memory.Step:
    """A training step, for its memory; UserError if layers or memory do not suffice for it."""
    step = step_memory.Step(
        config=start.config,
        training=options.training,
        max_seq_length=options.max_seq_length,
        has_adapters=bool(options.lora.lora_rank),
        processes=max(1, number_of_workers()),
        rows_per_example=task.head.rows_per_example,
    )
    check_layers(options.training.num_frozen_layers, start.config.layers_with_weights)
    if options.do_train:
        step_memory.check(step, options.devices)
    return step


def assign_weights(model: Any, start: Checkpoint, options: FineTuningFlags) -> None:
    """Loads the weights of the starting point into the model and prints a report.

    Raises UserError if no training follows and the task head is missing or has a different shape.
    """
    if not start.weights:
        return
    loaded = weights.assign(model, start.weights)
    print(loaded, flush=True)
    mismatch = "; ".join(f"{name} is {theirs} there, {ours} here" for name, theirs, ours in loaded.shape_mismatch)
    missing = [name for name in loaded.newly_initialized if name not in model.unread]
    if options.do_train or not (missing or loaded.shape_mismatch):
        if mismatch:
            print(
                f"{options.model.init_checkpoint} was fine-tuned for a different task ({mismatch}): its head is "
                "reinitialized.",
                flush=True,
            )
        return
    raise _wrong_task(options, mismatch or f"it has no {missing[0]}")


def requested_splits(options: FineTuningFlags, task: FineTuningTask) -> list[str]:
    """The splits requested by the flags."""
    evaluated = list(task.eval_splits.values()) if options.do_eval else []
    splits = ["train"] * options.do_train + evaluated + list(task.test_splits) * options.do_predict
    return list(dict.fromkeys(splits))


def check_files(options: FineTuningFlags) -> None:
    """Raises UserError if a file named by a flag does not exist, or a table lacks the columns."""
    values = options.values()
    for flag, is_read in (
        ("train_file", options.do_train),
        ("eval_file", options.do_eval),
        ("predict_file", options.do_predict),
    ):
        path = values.get(flag)
        if not (is_read and path) or flag == "train_file" and files.is_folder(path):
            continue
        if not files.exists(path):
            raise UserError(f"There is no file {path}, which {flag} names.")
        if options.task_name == "table" and tables.is_table(path):
            row = next(tables.read(path, malformed=[]))[1]
            names = comma_separated(values["text_columns"])
            labels = label_columns(values["label_column"], row) if flag != "predict_file" else []
            tables.check_columns(path, row, [*names, *labels])


def check_evaluation(options: FineTuningFlags, task: FineTuningTask, *, several: bool) -> None:
    """Raises UserError if flags require evaluations during training, or runs to compare, without data for it."""
    training = options.training
    reasons = ["eval_steps"] * bool(training.eval_steps) + ["early_stop_patience"] * bool(training.early_stop_patience)
    reasons += ["keep_best"] * (training.keep_best and "keep_best" in options.given)  # the default is only a wish
    reasons += ["num_seeds or a grid"] * several
    if not reasons:
        return
    if several and not options.do_train:
        raise UserError("num_seeds and grids need training: pass do_train, or remove them.")
    if not (options.do_eval and task.criterion):
        missing = f"{task.name} has none" if options.do_eval else "do_eval is off"
        raise UserError(f"{reasons[0]} requires a development set to evaluate on, but {missing}.")
    for split in task.eval_splits.values():
        if not task.split(split).is_known:
            raise UserError(f"{reasons[0]} requires labels in the development set, but it has none.")
