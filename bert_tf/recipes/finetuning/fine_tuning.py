"""What fine-tuning does around the loop, whatever the task: task and tokenizer, length of training, weights.

`options` are the flags of a script that fine-tunes.
"""

import dataclasses
import logging
import os
import re
import sys
import textwrap

from bert_tf.config.bert_config import expect_layers
from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import UserError
from bert_tf.recipes.finetuning import sweep
from bert_tf.runtime import memory_estimate
from bert_tf.runtime.tf_config import number_of_workers
from bert_tf.text import vocabulary

# Examples below which the corrected optimizer is the default: fine-tuning on few fails now and then without it
# (Mosbach et al. 2020; Zhang et al. 2020).
FEW_EXAMPLES = 10_000
UNNAMED = re.compile(r"label_\d+")  # what Hugging Face calls labels without a name
# The flags that say how a task reads its files, by the kind of its head: its export says them too.
TABLE_FLAGS = ("text_columns", "label_column", "label_separator")
TAG_FLAGS = ("word_column", "tag_column", "tag_scheme", "position_digits")
READ_WITH = {"tags": TAG_FLAGS, "span": ("version_2_with_negative",)}
log = logging.getLogger("bert_tf")


def with_what_was_trained(options, folder):
    """Without training: the flags with the model of the run folder, or else init_checkpoint, and its labels."""
    if options.do_train:
        return options
    if is_trained(folder):
        options = dataclasses.replace(options, init_checkpoint=folder.path)
    if not options.init_checkpoint:
        raise UserError(f"There is no checkpoint in {folder.path}: train first, or give init_checkpoint.")
    from bert_tf.checkpoints import formats

    if not getattr(options, "labels", "there"):  # a flag that may say them, and does not
        options = dataclasses.replace(options, labels=formats.labels(options.init_checkpoint) or "")
    return options


def is_trained(folder):
    """Whether a folder holds a model that was trained: that of a run, or the best of several."""
    return bool(folder.last_step()) or os.path.exists(folder.file(sweep.WEIGHTS))


def make_task(options, start, folder):
    """The task of that name and its tokenizer; GLUE's tasks go by their own names too: SST-2, or sst2."""
    from bert_tf.tasks import catalog
    from bert_tf.text.tokenizer import Tokenizer

    made = []

    def tokenizer_for(texts):
        pieces = start.vocabulary
        if pieces is None and folder.last_step():
            pieces = vocabulary.read(folder.file("vocab.txt"))
        if pieces is None:
            print(f"Learning a vocabulary of {options.vocab_size:,} tokens", flush=True)
            pieces = vocabulary.learn(texts(), options.vocab_size, lower_case=start.lower_case)
        made.append(Tokenizer(pieces, start.lower_case))
        return made[0]

    task = catalog.get(catalog.to_fine_tune(options.task_name))(options, tokenizer_for)
    return task, made[0]


def expect_evaluation(options, task, *, several):
    """Raises UserError if flags ask to evaluate on the way or to compare runs, and there is nothing to do it on."""
    asked = [name for name in ("eval_steps", "early_stop_patience", "keep_best") if getattr(options, name)]
    asked += ["num_seeds or a grid"] * several
    if not asked:
        return
    if several and not options.do_train:
        raise UserError("num_seeds and grids go with training: give do_train, or leave them out.")
    if not (options.do_eval and task.criterion):
        missing = f"{task.name} has none" if options.do_eval else "do_eval is off"
        raise UserError(f"{asked[0]} was given, which needs a development set to evaluate on, but {missing}.")
    for split in task.eval_splits.values():
        if not task.split(split).is_known:
            raise UserError(f"{asked[0]} was given, which needs labels in the development set, but it has none.")


def expect_room(options, start, task):
    """Raises UserError if layers or memory do not suffice for a step of training."""
    expect_layers(options.num_frozen_layers, start.config.num_hidden_layers)
    if options.do_train:
        processes = max(1, number_of_workers())
        memory_estimate.check(start.config, options, processes=processes, rows_per_example=task.rows_per_example)


def with_head(options, start, task):
    """The starting point with the columns of its head in the order of the task's labels, by their names.

    Raises UserError, before anything is written, where no training follows and the head is none for the task: there is
    none, it has another size, or its labels have other names. LABEL_0, LABEL_1, ... are no names: their order counts.
    """
    name, size = task.head
    kernel, expected = (start.weights or {}).get(name), (start.config.hidden_size, size)
    if kernel is not None and kernel.shape[-1] == size:  # how wide it is, the model knows
        theirs, ours = ([str(label).casefold() for label in labels] for labels in (start.labels or (), task.labels))
        if not theirs or theirs == ours or all(UNNAMED.fullmatch(label) for label in theirs):
            return start
        if sorted(theirs) == sorted(ours):
            order = [theirs.index(label) for label in ours]
            named = (name, name.replace("kernel", "bias"))
            reordered = {name: start.weights[name][..., order] for name in named}
            return dataclasses.replace(start, weights=start.weights | reordered, labels=list(task.labels))
        found = f"it tells {', '.join(start.labels)} apart, not {', '.join(task.labels)}"
    else:
        found = f"it has no {name}" if kernel is None else f"its head is {kernel.shape}, expected {expected}"
    if options.do_train or not start.weights:
        return start
    raise UserError(
        f"{options.init_checkpoint} was not trained on this task ({found}): train first, or give a model that was."
    )


def number_of_steps(options, task):
    """Steps of training: examples / batch size * epochs; 0 without training.

    Of questions the windows count, so that an epoch has each of them once; the original's run_squad.py counts the
    questions themselves, and stops a little before its epochs are over.
    """
    if not options.do_train:
        return 0
    if not task.split("train").is_known:
        raise UserError("The training data have no labels; give a table with a column of them.")
    return max(1, int(task.split("train").count / options.train_batch_size * options.num_train_epochs))


def train_config(options, examples, steps):
    """The TrainConfig of so many examples and steps; what has no flag keeps its default."""
    optimizer = options.optimizer
    if optimizer == "auto":
        optimizer = "adamw_corrected" if examples < FEW_EXAMPLES else "adamw"
    computed = {
        "num_train_steps": steps,
        "num_warmup_steps": int(steps * options.warmup_proportion),
        "optimizer": optimizer,
        "max_eval_steps": sys.maxsize,
        "num_train_examples": examples,
        "evaluates": options.do_eval,
    }
    names = [field.name for field in dataclasses.fields(TrainConfig)]
    asked = {name: getattr(options, name) for name in names if hasattr(options, name)}
    return TrainConfig(**asked | computed)


def announce(options, config):
    """Says what is trained on and how long, and why with which optimizer."""
    few = options.optimizer == "auto" and config.num_train_examples < FEW_EXAMPLES
    reason = f" (Adam with bias correction, as there are fewer than {FEW_EXAMPLES:,} examples)" if few else ""
    print(
        f"Training on {config.num_train_examples:,} examples, {config.num_train_steps:,} steps, "
        f"{config.optimizer}{reason}",
        flush=True,
    )


def warn_of_collapse(reason, folder):
    """Warns, by its folder, of a run whose answers are worth nothing for a reason (None: they are not); notes it."""
    folder.update(collapsed=reason)
    if reason:
        log.warning(
            "%s has collapsed: on the development set %s. Try another random_seed, a lower learning_rate or more "
            "num_train_epochs.",
            folder.path,
            reason,
        )


def write_text_side(folder, start, tokenizer, task):
    """What makes the run folder a checkpoint that can be read: vocabulary, configuration, casing, labels."""
    if folder.writes:
        vocabulary.write(folder.file("vocab.txt"), tokenizer.vocabulary)
        start.config.write(folder.file("bert_config.json"))
    folder.write_json("tokenizer_config.json", {"do_lower_case": start.lower_case})
    folder.write_json("task.json", {"task": task.name, "labels": list(task.labels), "kind": task.kind})


def about_export(options, task):
    """What an export says of itself beside the name of its task: labels, kind, and how a labelled file is read.

    Of several labels also the probabilities above which they hold.
    """
    reads = {name: getattr(options, name) for name in READ_WITH.get(task.kind, TABLE_FLAGS) if hasattr(options, name)}
    thresholds = {"thresholds": task.goal.thresholds.tolist()} if task.kind == "several" else {}
    return {"labels": list(task.labels), "kind": task.kind, **thresholds, "reads": reads}


def assign_weights(model, start, options):
    """Puts the weights of the starting point into the model and prints what became of them.

    Raises UserError where no training follows and the head of the task is not among them, or is one of another task.
    """
    from bert_tf.model import weights

    if not start.weights:
        return
    found = weights.assign(model, start.weights)
    print(found, flush=True)
    wrong = "; ".join(f"{name} is {given} there, {expected} here" for name, given, expected in found.shape_mismatch)
    missing = [name for name in found.newly_initialized if name not in model.unread]
    if options.do_train or not (missing or found.shape_mismatch):
        if wrong:
            print(f"The head of {options.init_checkpoint} is of another task ({wrong}): drawn anew.", flush=True)
        return
    wrong = wrong or f"it has no {missing[0]}"
    raise UserError(
        f"{options.init_checkpoint} was not trained on this task ({wrong}): train first, or give a model that was."
    )


def show_answers(folder, examples, count=3):
    """Prints what an export answers to some of the examples, evenly out of all of them."""
    from bert_tf.export.loaded_model import Export
    from bert_tf.tasks.text_classification.predictions import answered

    export = Export(folder)
    examples = examples[:: -(-len(examples) // count)]
    outputs = export.predict(examples)
    for number, example in enumerate(examples):
        given = {name: values[number] for name, values in outputs.items()}
        row = answered(example, given, labels=export.labels, inputs=export.inputs)
        share = dict(row.get("probabilities", {})).get(row["label"])
        sure = f" {share:.0%}" if share is not None else ""
        truth = ", ".join(map(str, example.label)) if isinstance(example.label, list) else example.label
        truth = "" if truth is None else f" (it is {'none' if truth == '' else truth})"
        text = textwrap.shorten(" | ".join(example.texts), 90)
        print(f"  {text}  ->  {row['label'] or 'none'}{sure}{truth}", flush=True)
