"""A run's folder as something to use again: its task, its model with the trained weights, its tokenizer, its export.

No data of the task is read: what a task would find in them, labels and a vocabulary, lies in the folder.
"""

import dataclasses
import os

from bert_tf.errors import UserError
from bert_tf.export import loaded_model
from bert_tf.recipes import initialization
from bert_tf.runtime import atomic_files
from bert_tf.runtime.json_files import read_json
from bert_tf.training.run_directory import RunFolder

# The threshold of each of several labels that was best on the examples that were evaluated.
LABEL_THRESHOLDS = "label_thresholds.json"
THRESHOLD_FLAG = "null_score_diff_threshold"
# What an export is compared with the live model on; the first has a gap for what fills gaps.
SENTENCES = (
    "The [MASK] is on the table.",
    "Ann Smith moved from Paris to New York in 1998, and works at Acme Inc. there.",
    "",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """What `read` found; about: what its export says of itself. step: of the checkpoint, 0 of the best of several."""

    task: object
    model: object
    tokenizer: object
    about: dict
    with_attention: bool
    step: int


def read(path, scripts, *, with_attention=False):
    """The FinishedRun in a folder, in float32; starts TensorFlow.

    scripts: {"pretraining", "classifier", "squad": the dataclass of the flags of that script}, which fill up what an
    older run did not write down. with_attention: its export has attention, even if the run's was not to have it.
    Raises UserError where the folder is no run, has no checkpoint, or has no export by its nature.
    """
    folder, run = RunFolder(path, writes=False), expect_run(path)
    kind = kind_of(run)
    options = _options(scripts[kind], run["flags"] | ({"export_attention": True} if with_attention else {}))
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    from bert_tf.checkpoints import formats

    checkpoint = formats.read(path)
    start = initialization.Initialization(
        config=checkpoint.config,
        vocabulary=checkpoint.vocabulary,
        lower_case=checkpoint.lower_case,
        weights=checkpoint.weights,
        labels=checkpoint.labels,
    )
    make = _pretrained if kind == "pretraining" else _fine_tuned
    found = make(folder, options, start, run)
    if options.export_attention:
        from bert_tf.export import attention_signature

        attention_signature.check(start.config)
    return FinishedRun(**found, with_attention=options.export_attention, step=folder.last_step())


def expect_run(path):
    """run.json of a folder with a checkpoint; UserError, before TensorFlow is loaded, where there is none."""
    run = read_json(os.path.join(path, "run.json"))
    if not isinstance(run, dict) or not isinstance(run.get("flags"), dict):
        raise UserError(f"{path} is not the folder of a run: it holds no readable run.json.")
    from bert_tf.checkpoints.formats import native

    if not native.recognizes(path):
        raise UserError(f"The run in {path} has no checkpoint with its bert_config.json: train first.")
    return run


def kind_of(run):
    """Which script made a run: "pretraining", "squad" or "classifier"."""
    name = str(run.get("name"))
    return "squad" if name.startswith("squad/") else "pretraining" if name == "pretraining" else "classifier"


def _options(kind, recorded):
    from bert_tf.config import flags

    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in flags.upgrade(kind, recorded).items() if name in names})


def _pretrained(folder, options, start, run):
    from bert_tf.config import flags
    from bert_tf.config.train_config import MaskingConfig
    from bert_tf.tasks import catalog
    from bert_tf.tasks.pretraining.mask_filling import guesses_of
    from bert_tf.text.tokenizer import Tokenizer

    tokenizer = Tokenizer(start.vocabulary, start.lower_case)
    task = catalog.get("pretraining/mlm_nsp")(
        {"wanted": {"max_seq_length": options.max_seq_length}},  # the records themselves are not needed
        tokenizer,
        flags.part(MaskingConfig, options),
        next_sentence_weight=options.next_sentence_weight,
        guesses=guesses_of(start.config),
    )
    return {
        "task": task,
        "model": _model(task, start),
        "tokenizer": tokenizer,
        "about": {"attention": options.export_attention},
    }


def _fine_tuned(folder, options, start, run):
    from bert_tf.recipes.finetuning import fine_tuning
    from bert_tf.tasks.text_classification import goals

    trained = {"do_train": False, "init_checkpoint": folder.path}
    if hasattr(options, "labels"):
        trained["labels"] = list(start.labels or ()) or ""
    options = dataclasses.replace(options, **trained)
    task, tokenizer = fine_tuning.make_task(options, start, folder)
    start = fine_tuning.with_head(options, start, task)
    given = any(f"{argument}=".startswith(f"--{THRESHOLD_FLAG}=") for argument in map(str, run.get("command", ())))
    given = given or goals.given_threshold(getattr(options, "label_threshold", "")) is not None
    task = task if given else with_best_threshold(task, folder)
    return {
        "task": task,
        "model": _model(task, start),
        "tokenizer": tokenizer,
        "about": fine_tuning.about_export(options, task),
    }


def _model(task, start):
    from bert_tf.model import weights

    model = task.create_model(start.config)
    weights.expect_same_shapes(weights.assign(model, start.weights))
    return model


def with_best_threshold(task, folder):
    """The task with what an evaluation found: the threshold for "no answer", or of each label; else the task itself."""
    if task.kind == "several":
        from bert_tf.tasks.text_classification import classification

        found = read_json(folder.file(LABEL_THRESHOLDS)) or {}
        is_ours = found.keys() == set(task.labels)
        return classification.with_thresholds(task, [found[label] for label in task.labels]) if is_ours else task
    if task.kind != "span":
        return task
    return task.with_calibration(read_json(folder.file(task.calibration_file)) or {})


def expect_place(target, *, overwrite):
    """Raises UserError where an export would take the place of anything, but for an export that may be replaced."""
    if not overwrite or not os.path.isfile(os.path.join(target, loaded_model.SAVED_MODEL)):
        atomic_files.expect_free(target)


def write_export(run, target, precision="float32"):
    """Writes the export of a FinishedRun, as its script would have; it is compared with the model on SENTENCES."""
    from bert_tf.export.saved_model import export

    signatures = run.task.signatures(run.model, run.tokenizer)
    given = {"examples": examples_of(signatures), "about": run.about, "precision": precision}
    given["with_attention"] = run.with_attention
    export(run.task, run.model, run.tokenizer, target, **given)


def examples_of(signatures):
    """{signature: {input: values}} made of SENTENCES, for signatures that take strings of one or two dimensions."""
    found = {}
    for name, function in signatures.items():
        if name != "tf_example":  # its strings are no texts
            found[name] = {spec.name: _values(spec.shape) for spec in function.input_signature}
    return found


def _values(shape):
    """SENTENCES as they stand, so many of them in a row as a choice has, or as rows of words."""
    if shape.rank == 1:
        return list(SENTENCES)
    if shape[1] is not None:
        return [
            [SENTENCES[(row + place) % len(SENTENCES)] for place in range(shape[1])] for row in range(len(SENTENCES))
        ]
    rows = [sentence.split() for sentence in SENTENCES]
    return [row + [""] * (max(map(len, rows)) - len(row)) for row in rows]
