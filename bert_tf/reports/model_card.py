"""Model cards: README.md for a run, an export or a converted checkpoint, with metadata for model hubs.

A card describes the model's purpose, how to load it, its training data and recipe, its scores, its limits, and the
license of the checkpoint it started from. The metadata is written by huggingface_hub.
"""

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_tf import heads
from bert_tf.checkpoints import published
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.export import engines
from bert_tf.heads.base.wording import Wording
from bert_tf.heads.vectors import Vectors
from bert_tf.reports import report, scoreboard, text_statistics, usage, wording
from bert_tf.runtime import atomic_files, files, head_records
from bert_tf.runtime.lazy import module
from bert_tf.runtime.terminal import printable

huggingface_hub = module("huggingface_hub")
CARD = "README.md"
TEMPLATE = "model_card.md.jinja"
LIBRARY = "bert_tf"
MAX_LABELS = 200  # listed in a card
# Flags that describe a recipe, if a run has them.
RECIPE = (
    "init_checkpoint teacher task_name learning_rate head_learning_rate train_batch_size num_train_epochs "
    "num_train_steps warmup_proportion num_warmup_steps optimizer weight_decay dropout_prob max_seq_length "
    "masked_lm_prob next_sentence_weight precision random_seed"
).split()
UNSET = (None, "", -1)
DATA_FLAGS = ("input_file", "data_dir", "train_file", "eval_file", "predict_file")
COUNTED = ("documents", "sentences", "tokens", "examples", "questions", "contexts")  # in a split
PROGRAM = 'import bert_tf\n\nmodel = bert_tf.load("{name}")\nprint(model.{call})'
PIPELINE = """from transformers import pipeline

model = pipeline("{use.pipeline_tag}", model="{name}")"""
ENCODER = """from transformers import AutoModel, AutoTokenizer

model = AutoModel.from_pretrained("{name}")
tokenizer = AutoTokenizer.from_pretrained("{name}")"""
ENGINE = """from bert_tf.export import engines

model = engines.load("{name}")  # a function of token ids, described by about.json"""
EXPORT = "saved_model"  # the format of `bert-tf export`
FOLDERS = re.compile(r"(?<![\w./])(?:/[^/\s:,]+)*/(?=[^/\s])")  # in absolute paths
NOT_TESTED = "nothing was tested for bias or for other kinds of text."
UNKNOWN_LICENSE = (
    "This model started from {start}, whose license is not known to this program: look it up before you publish the "
    "model, which inherits its terms."
)


def write_of_run(folder: str, targets: Iterable[str] = ()) -> None:
    """Writes the card of a run into its folder, and into other folders with its model, such as the export."""
    text = of_run(folder)
    for target in (folder, *targets):
        if files.exists(target):
            atomic_files.write_lines(os.path.join(target, CARD), [text])


def of_run(folder: str) -> str:
    """Returns the card of a run, as Markdown, from the files in its folder."""
    values = report.read(folder)
    run, flags = values["run"], report.dictionary(values["run"].get("flags"))
    shown = {flag: without_folders(value) for flag, value in flags.items()}
    name = os.path.basename(files.absolute(folder))
    config, kind = report.dictionary(run.get("config")), values["kind"]
    task, titles = report.subject(run) or name, report.titles(kind)
    start = str(flags.get("init_checkpoint") or "")
    classes = scoreboard.class_details(values["details"])
    scores = scoreboard.final_scores(values["scores"], task, kind is not None)
    splits = dict(report.dictionary(run.get("text_statistics")))
    time = sum(seconds for seconds in report.dictionary(run.get("phases")).values() if isinstance(seconds, int | float))
    use = heads.shown(kind).wording()
    return _render(
        name,
        use,
        summary=_summary(use, config, run.get("parameters"), without_folders(start))
        + _labels(head_records.read_task(folder).get("labels")),
        start=start,
        results=_results(use, task, values["scores"]),
        commands="\n".join(command for command, _ in usage.commands_of(folder, name)),
        program=PROGRAM.format(name=name, call=usage.call_of(folder)),
        data=_data(shown, splits, report.dictionary(values["manifest"].get("statistics")), report.data_of(run)),
        command=wording.command(_command(run.get("command"))).replace(" \\\n    ", " "),
        recipe=_recipe(shown, report.dictionary(run.get("training"))),
        versions=", ".join(
            f"{package} {version}" for package, version in report.dictionary(run.get("versions")).items()
        ),
        machine=_machine(report.dictionary(run.get("machine"))),
        time=wording.duration(time) if time else "",
        scores=[
            (
                titles.get(metric) or wording.words(metric),
                wording.score_text(metric, value, [name for name, *_ in scores]),
            )
            for metric, value, _ in scores
        ],
        baselines=_baselines(run, titles),
        verdict=text_statistics.verdict(values["scores"], classes),
        refitted=wording.refitted(run),
        split=_scored_on(values["sweep"]) if kind else str(run.get("evaluated_on") or "held-out text"),
        limits=_limits_of_run(run, values["manifest"].get("warnings") or []),
    )


def write_of_conversion(checkpoint: Checkpoint, source: str, folder: str, format_name: str) -> None:
    """Writes the card of a checkpoint converted from `source` into `folder`.

    format_name: a format, an engine, or EXPORT.
    """
    config = checkpoint.config
    own = heads.shown(checkpoint.kind) if checkpoint.kind else heads.of_checkpoint(None, checkpoint.weights) or Vectors
    use = own.wording()
    name = os.path.basename(files.absolute(folder))
    values = config.to_dict()
    size = sum(int(array.size) for array in checkpoint.weights.values())
    program, is_engine = PROGRAM, engines.is_engine(format_name)
    command = (
        "bert-tf serve {}" if format_name == EXPORT else "bert-tf extract {} --file=texts.txt --output=vectors.npz"
    )
    if is_engine:
        program = ENGINE
    elif format_name == "huggingface":
        program = PIPELINE if use.has_pipeline else ENCODER
    text = _render(
        name,
        use,
        summary=_summary(use, values, size, source, verb="converted from") + _labels(checkpoint.labels),
        start=source,
        results=[],
        commands="" if is_engine else command.format(shlex.quote(name)),
        program=program.format(name=name, use=use, call=use.call),
        limits=[*_limits(values, None), f"For evaluation results, see the card of the original model; {NOT_TESTED}"],
    )
    atomic_files.write_lines(os.path.join(folder, CARD), [text])


def _render(name: str, use: Wording, *, start: str, results: Sequence[Any], **values: Any) -> str:
    name = printable(" ".join(name.split()))
    license_name = license_of(start)
    metadata = huggingface_hub.ModelCardData(
        library_name=LIBRARY,
        pipeline_tag=use.pipeline_tag,
        tags=["bert", "tensorflow", "keras"],
        license=license_name,
        base_model=_hub_name(start),
        model_name=name,
        eval_results=list(results) or None,
    )
    text = report.render(
        TEMPLATE,
        name=name,
        metadata=metadata.to_yaml(),
        license=_license_text(without_folders(start), license_name),
        **values,
    )
    return text.strip() + "\n"


def without_folders(value: Any) -> Any:
    """The last part of an absolute path, because its folders mean nothing on other machines; others unchanged."""
    is_path = isinstance(value, str) and os.path.isabs(value)
    return os.path.basename(value.rstrip("/")) if is_path else value


def _command(arguments: Any) -> Any:
    """The recorded command line with `without_folders` applied to its paths."""
    if not isinstance(arguments, list):
        return arguments
    parts = [str(argument).partition("=") for argument in arguments]
    return [f"{without_folders(name)}{sign}{without_folders(value)}" for name, sign, value in parts]


def license_of(start: str) -> str | None:
    """A checkpoint's license: from its own card, or of a published one; None if unknown or there is no start."""
    card = os.path.join(start, CARD)
    if start and not start.startswith("hf://") and files.is_file(card):
        try:
            with files.local_copy(card) as local:
                value = (huggingface_hub.metadata_load(local) or {}).get("license")
        except ValueError:  # not a card
            return None
        return str(value) if value else None
    return published.license_of(start)


def _license_text(start: str, license_name: str | None) -> str:
    if not start:
        return "The model was trained from scratch; its license is for whoever trained it to choose."
    if license_name is None:
        return UNKNOWN_LICENSE.format(start=start)
    return f"It started from {start}, whose license is {license_name}."


def _hub_name(start: str) -> str | None:
    """owner/name of a start from the hub."""
    handle = start if start.startswith("hf://") else published.handle(start)
    return handle.removeprefix("hf://") if handle else None


def _recipe(flags: Mapping[str, Any], training: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Flags and their values, including automatic choices of the run."""
    chosen = {"optimizer": training.get("optimizer") or flags.get("optimizer")}
    values = {**flags, **chosen, "head_learning_rate": training.get("head_learning_rate") or None}
    return [(flag, wording.exact_text(values[flag])) for flag in RECIPE if values.get(flag) not in UNSET]


def _summary(use: Wording, config: Mapping[str, Any], size: Any, start: str, verb: str = "started from") -> str:
    """One sentence: the model's purpose, size and start."""
    shape = ""
    if config.get("num_hidden_layers"):
        shape = f" with {config['num_hidden_layers']} layers of width {config.get('hidden_size')}"
    if isinstance(size, int):
        shape += f" and {size:,} parameters"
    origin = f" {verb} {start}" if start else " trained from scratch"
    return f"A BERT{shape},{origin}. It {use.phrase}."


def _labels(labels: Any) -> str:
    if not isinstance(labels, Sequence) or not labels:
        return ""
    more = f" and {len(labels) - MAX_LABELS:,} more" if len(labels) > MAX_LABELS else ""
    return f" Labels: {', '.join(map(str, labels[:MAX_LABELS]))}{more}."


def _results(use: Wording, task: str, scores: Mapping[str, Any]) -> list[Any]:
    """The scores in the metadata, shown by hubs."""
    return [
        huggingface_hub.EvalResult(use.pipeline_tag, task, task, metric, float(value), dataset_split="validation")
        for metric, value in scores.items()
        if isinstance(value, int | float)
    ]


def _data(
    flags: Mapping[str, Any],
    splits: Mapping[str, Any],
    statistics: Mapping[str, Any],
    said: Mapping[str, Sequence[str]],
) -> str:
    """The model's training data: files, numbers of examples or tokens, class shares, skipped rows."""
    named = [wording.code(f"--{flag}={flags[flag]}") for flag in DATA_FLAGS if flags.get(flag)]
    lines = [f"Files: {', '.join(named)}." if named else "The demonstration: the documentation that comes with Python."]
    if any(said.values()):
        return "\n\n".join(
            [*lines, *(wording.prose(FOLDERS.sub("", line)) for line in (*said["splits"], *said["notes"]))]
        )
    for split, values in (statistics or splits).items():
        if isinstance(values, dict):
            counts = [(name, value) for name, value in values.items() if name in COUNTED and isinstance(value, int)]
            text = ", ".join(f"{value:,} {name if value != 1 else name[:-1]}" for name, value in counts)
            lines += [f"{wording.prose(wording.words(split))}: {text}."] * bool(text)
    return "\n\n".join(lines)


def _scored_on(sweep: Mapping[str, Any] | None) -> str:
    folds = (sweep or {}).get("folds")
    return f"the held-out rows of {folds} folds, on average" if folds else "the development set"


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine['cores']} cores ({machine.get('processor', 'unknown')})" if machine.get("cores") else ""


def _baselines(run: Mapping[str, Any], titles: Mapping[str, str]) -> list[str]:
    """Sentences on simpler models on the same split; titles: from `report.titles`."""
    short = {name: title.partition(":")[0] for name, title in titles.items()}
    models = [
        f"{model} ({', '.join(f'{short.get(name) or wording.words(name)} {text}' for name, text in scores.items())})"
        for model, scores in report.baselines_of(run).items()
    ]
    not_beaten = run.get("not_beaten") or []
    sentences = [f"For comparison, on the same data: {'; '.join(models)}."] * bool(models)
    return sentences + [f"The model does not beat {', '.join(not_beaten)}."] * bool(not_beaten)


def _limits_of_run(run: Mapping[str, Any], warnings: Iterable[str]) -> list[str]:
    config, flags = report.dictionary(run.get("config")), report.dictionary(run.get("flags"))
    limits = [f"Its training has collapsed: on the development set {run.get('collapsed')}."] * bool(
        run.get("collapsed")
    )
    limits += _limits(config, flags.get("max_seq_length"))
    return [*limits, f"It was scored only on the data named here; {NOT_TESTED}", *warnings]


def _limits(config: Mapping[str, Any], max_seq_length: Any) -> list[str]:
    positions = config.get("max_position_embeddings")
    length = max_seq_length or positions
    limits = [f"It reads {length} tokens at a time; longer texts are cut or read in windows."] if length else []
    if config.get("vocab_size"):
        limits.append(f"Its vocabulary has {config['vocab_size']:,} tokens; other words are split into parts.")
    return limits
