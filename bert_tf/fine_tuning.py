"""What fine-tuning does around the loop, whatever the task: task and tokenizer, length of training, weights.

`options` are the flags of a script that fine-tunes.
"""

import dataclasses
import os
import sys

from bert_tf import vocabulary
from bert_tf.config import TrainConfig
from bert_tf.errors import UserError
from bert_tf.run_folder import read_json

# Examples below which the corrected optimizer is the default: fine-tuning on few fails now and then without it
# (Mosbach et al. 2020; Zhang et al. 2020).
FEW_EXAMPLES = 10_000


def with_what_was_trained(options, folder):
    """Without training: the flags with the model of the run folder, or else init_checkpoint, and its labels."""
    if options.do_train:
        return options
    if folder.last_step():
        options = dataclasses.replace(options, init_checkpoint=folder.path)
    if not options.init_checkpoint:
        raise UserError(f"There is no checkpoint in {folder.path}: train first, or give init_checkpoint.")
    described = read_json(os.path.join(options.init_checkpoint, "task.json")) or {}
    return dataclasses.replace(options, labels=options.labels or described.get("labels", ""))


def make_task(options, start, folder):
    """The task of that name and its tokenizer; GLUE's tasks go by their own names too, in any case."""
    from bert_tf import tasks
    from bert_tf.text import Tokenizer

    made = []

    def tokenizer_for(texts):
        pieces = start.vocabulary
        if pieces is None and folder.last_step():
            pieces = vocabulary.read(folder.file("vocab.txt"))
        if pieces is None:
            print(f"Learning a vocabulary of {options.vocab_size:,} pieces", flush=True)
            pieces = vocabulary.learn(texts(), options.vocab_size, lower_case=start.lower_case)
        made.append(Tokenizer(pieces, start.lower_case))
        return made[0]

    name = options.task_name
    known = [each for each in tasks.known() if not each.startswith("pretraining/")]
    if "." not in name:
        name = next((each for each in (name, name.lower(), f"glue/{name.lower()}") if each in known), None)
    if name is None:
        raise UserError(f"There is no task {options.task_name!r} to fine-tune on. Known: {', '.join(known)}.")
    task = tasks.get(name)(options, tokenizer_for)
    return task, made[0]


def number_of_steps(options, task):
    """Steps of training: as in the original, examples / batch size * epochs; 0 without training."""
    if not options.do_train:
        return 0
    if not task.source("train").is_known:
        raise UserError("The training data have no labels; give a table with a column of them.")
    return max(1, int(len(task.source("train").texts) / options.train_batch_size * options.num_train_epochs))


def train_config(options, examples, steps):
    """The TrainConfig of so many examples and steps."""
    optimizer = options.optimizer
    if optimizer == "auto":
        optimizer = "adamw_corrected" if examples < FEW_EXAMPLES else "adamw"
    computed = {
        "num_train_steps": steps,
        "num_warmup_steps": int(steps * options.warmup_proportion),
        "optimizer": optimizer,
        "max_eval_steps": sys.maxsize,
    }
    names = [field.name for field in dataclasses.fields(TrainConfig)]
    return TrainConfig(**{name: computed[name] if name in computed else getattr(options, name) for name in names})


def write_text_side(folder, start, tokenizer, task):
    """What makes the run folder a checkpoint that can be read: vocabulary, configuration, casing, labels."""
    if folder.writes:
        vocabulary.write(folder.file("vocab.txt"), tokenizer.vocabulary)
        start.config.write(folder.file("bert_config.json"))
    folder.write_json("tokenizer_config.json", {"do_lower_case": start.lower_case})
    folder.write_json("task.json", {"task": task.name, "labels": list(task.goal.labels)})


def assign_weights(model, start, options):
    """Puts the weights of the starting point into the model and prints what became of them.

    Raises UserError where no training follows and the head of the task is not among them, or is one of another task.
    """
    from bert_tf import weights

    if not start.weights:
        return
    found = weights.assign(model, start.weights)
    print(found, flush=True)
    if options.do_train or not (found.fresh or found.refused):
        return
    wrong = [f"{name} is {given} there, {expected} here" for name, given, expected in found.refused]
    wrong = "; ".join(wrong) or f"it has no {found.fresh[0]}"
    raise UserError(
        f"{options.init_checkpoint} was not trained on this task ({wrong}): train first, or give a model that was."
    )
