"""A model in every form it can be deployed in, side by side: live, SavedModel, and the installed engines.

For each form: scores on a run's evaluation rows, or for a checkpoint on a file, size, and time per text.
"""

import collections
import dataclasses
import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf import heads
from bert_tf.checkpoints import formats
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.data.examples import Example
from bert_tf.data.pretraining import records
from bert_tf.errors import NoEngine, UserError, reason_of
from bert_tf.export import (
    engine_network,
    engine_parity,
    engines,
    host_settings,
    loaded_model,
    opening,
    prediction_inputs,
    text_function,
    trained_model,
)
from bert_tf.export.host import Row
from bert_tf.export.network import Arrays
from bert_tf.export.predictor import Predictor
from bert_tf.export.tensorflow_network import TensorFlowNetwork
from bert_tf.export.text_function import TextFunction
from bert_tf.export.trained_model import TrainedModel
from bert_tf.heads.base.servable import TextTask
from bert_tf.heads.masked_lm import MaskedLm
from bert_tf.recipes import first_answer, recorded_run
from bert_tf.recipes.finetuning import scored_export
from bert_tf.runtime import files
from bert_tf.runtime.lazy import tf
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training.metric_sums import averages, sum_metrics
from bert_tf.training.run_directory import recorded_flags

FILE = "deployments.json"
LIVE, SAVED_MODEL = "live model", "SavedModel"
FLOAT_BYTES = 4


@dataclasses.dataclass(kw_only=True)
class Deployment:
    """One form of a model.

    Attributes:
        name: "live model", "SavedModel", or an engine with its quantization.
        bytes: size of the weights or files.
        milliseconds: median time per text, including tokenization.
        start_seconds: median time from process start to first answer; like memory_bytes, only for exports.
        memory_bytes: peak memory of that process.
        scores: scores on the evaluation rows; {} if they cannot be computed.
        error: why this form is missing, "" if it is not.
    """

    name: str
    bytes: int = 0
    milliseconds: float | None = None
    start_seconds: float | None = None
    memory_bytes: int | None = None
    scores: dict[str, float] = dataclasses.field(default_factory=dict)
    error: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Held:
    """The examples to score: the first texts, questions or sentences of a split, or rows from pre-training."""

    task: TextTask
    split: str
    most: int
    batch_size: int

    @property
    def count(self) -> int:
        """The number of examples."""
        if isinstance(self.task, FineTuningTask):
            return len(self.task.split(self.split).items[: self.most])
        return sum(len(batch["lengths"]) for batch in self._batches())

    def example(self) -> Example:
        """The example to time."""
        if isinstance(self.task, FineTuningTask):
            return self.task.head.training.demo_examples(self.task.split(self.split), 1)[0]
        return Example("0", tuple(self.task.row_texts({k: x[:1] for k, x in next(iter(self._batches())).items()})))

    def scores_of(self, model: Any) -> dict[str, float]:
        """The scores of a TextFunction, or of a Predictor's network for pre-training; {} if it has none."""
        if isinstance(self.task, FineTuningTask):
            return scored_export.score_split(model, self.task, self.split, self.most, batch_size=self.batch_size)
        if not hasattr(model, "network"):
            return {}
        sums = collections.defaultdict[str, Any](lambda: np.zeros(2))
        for batch in self._batches():
            outputs = {name: tf.stack(values) for name, values in model.network.numbers(_rows_of(batch)).items()}
            for name, value in sum_metrics(self.task.metrics(outputs, batch)).items():
                sums[name] += value.numpy()
        return averages(self.task, sums)

    def _batches(self) -> Iterator[Mapping[str, Any]]:
        yield from self.task.eval_batches(self.batch_size, self.split).take(-(-self.most // self.batch_size))


def _rows_of(batch: Mapping[str, Any]) -> list[Row]:
    """The rows of a pre-training batch."""
    names = ("token_ids", "segment_ids", "masked_lm_positions")
    columns = zip(batch["lengths"].numpy(), *(batch[name].numpy() for name in names), strict=True)
    return [Row(ids[:size].tolist(), kinds[:size].tolist(), masked.tolist()) for size, ids, kinds, masked in columns]


class FunctionNetwork(TensorFlowNetwork):
    """A Network of a function of rows loaded by an engine."""

    def __init__(self, name: str, function: Callable[..., Any], source: str, settings: dict[str, Any]) -> None:
        super().__init__(function, source, settings, "false", takes_tables=False)
        self.name = name

    def _outputs(self, inputs: Iterator[Arrays]) -> Iterator[Arrays]:
        return map(self._function, inputs)


def compare(
    path: str,
    *,
    max_rows: int,
    batch_size: int,
    names: Sequence[str] = (),
    file: str = "",
    reads: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Compares the forms of a model; writes engines only to a temporary folder.

    Args:
        path: a run folder, or a checkpoint with a head.
        max_rows: maximum rows of the evaluation split to score.
        batch_size: rows per batch.
        names: engines; by default all with installed packages.
        file: labeled rows to score a checkpoint on; "" for a run.
        reads: the columns of the file, as in `bert-tf evaluate`.

    Returns:
        Plain data for FILE: "task", "split", "rows", "criterion" and "deployments", see Deployment.

    Raises:
        UserError: the folder is neither, or there are no labeled rows.
    """
    if max_rows < 1 or batch_size < 1:
        raise UserError(f"max_rows is {max_rows} and batch_size {batch_size}; expected 1 or more.")
    run = _with_rows_of(file, path, reads or {}) if file else recorded_run.read(path)
    held = _held_out(run, path, max_rows, batch_size)
    live = Deployment(name=LIVE, bytes=FLOAT_BYTES * run.model.count_params())
    _score(live, _live(run, path), held)
    exported = list(_exported(run, "" if file else path, held, names))
    others = _engines(run, path, held, names, [each.name for each in exported])
    return {
        "task": held.task.name,
        "split": held.split,
        "rows": held.count,
        "criterion": held.task.criterion,
        "deployments": [dataclasses.asdict(each) for each in (live, *exported, *others)],
    }


def _with_rows_of(file: str, path: str, reads: Mapping[str, Any]) -> TrainedModel:
    """A checkpoint with a file's rows for evaluation."""
    about = {**scored_export.about(path), "reads": reads}
    scored_export.check_file(file, about)
    texts = scored_export.number_of_texts(file, about)
    # the split is read once the task, which knows its inputs, exists
    run = trained_model.read(path, texts, splits={"dev": lambda: _labelled(file, run.task, reads)})
    return run


def _labelled(file: str, task: Any, reads: Mapping[str, Any]) -> Any:
    if task.head.wording().labelled_file:
        return task.head.training.content(file, reads)
    shapes = task.head.input_shapes(task.head.texts)
    inputs, _ = text_function.inputs_in_order(shapes, list(shapes))
    columns = comma_separated(reads.get("text_columns"))
    return list(prediction_inputs.read(file, inputs, columns=columns, label=reads.get("label_column") or "label"))


def _held_out(run: TrainedModel, path: str, most: int, batch_size: int) -> Held:
    task = run.task
    if not isinstance(task, FineTuningTask):
        folder = recorded_flags(path).get("records_dir") or os.path.join(path, "records")
        task = task.with_records(records.open_records(folder)).of_answers()
    split = next(iter(task.eval_splits.values()), "")
    if not split or (isinstance(task, FineTuningTask) and not task.split(split).is_known):
        raise UserError(
            f"{path} has no labeled evaluation rows to compare on: train with a dev file, or pass a file with labels."
        )
    return Held(task=task, split=split, most=most, batch_size=batch_size)


def _score(found: Deployment, model: TextFunction, held: Held) -> None:
    """Adds a model's scores and time."""
    found.scores = held.scores_of(model)
    examples: Any = [held.example()]
    predict: Any = model.predict
    found.milliseconds = 1000 * engine_parity.median_seconds([predict], examples)[0]


def _live(run: TrainedModel, path: str) -> TextFunction:
    """The model in this process."""
    from bert_tf.export import keras_network

    task, model = run.task, run.model
    if task.host_settings is None:
        functions = task.signatures(model, run.tokenizer)
        return text_function.Signatures(path, functions, _about(run), heads.get(task.head.kind))
    choice = task.vector_choice(model.config)
    return _predictor(run, path, lambda settings: keras_network.KerasNetwork(model, path, settings, choice=choice))


def _predictor(run: TrainedModel, path: str, network: Callable[[dict[str, Any]], Any]) -> Predictor:
    """A Predictor for a network, created by network(settings)."""
    tokenizer, about = run.tokenizer.host, _about(run)
    settings = host_settings.of_model(run.task.host_settings, run.model, tokenizer.pad_id)
    head = heads.get(about["kind"]) if about.get("kind") else MaskedLm
    return Predictor(path, network(settings), settings, about, tokenizer, head)


def _about(run: TrainedModel) -> dict[str, Any]:
    """Contents of an about.json."""
    return {"task": run.task.name, **(run.task.about() if isinstance(run.task, FineTuningTask) else {})}


def _exported(run: TrainedModel, path: str, held: Held, names: Sequence[str]) -> Iterator[Deployment]:
    """The export in the run folder, run by TensorFlow and by each engine it has a model for.

    path: the run folder; "": export to a temporary folder.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.path.join(temporary, "export")
        try:
            if path:
                folder = loaded_model.find(path)
            else:
                trained_model.write_export(run, folder)
        except UserError as error:
            yield Deployment(name=SAVED_MODEL, error=str(error))
            return
        others = [x for x in engine_network.available(folder) if not names or x.partition("_")[0] in names]
        for engine in (opening.TENSORFLOW, *others):
            found = Deployment(name=engine.replace("_", " ") if engine in others else SAVED_MODEL)
            try:
                _score(found, opening.open_model(folder, engine), held)
                found.start_seconds, found.memory_bytes = first_answer.measure(folder, engine, held.example())
            except UserError as error:
                found.error = str(error)
            own = os.path.join(folder, engine_network.FOLDER, engine if engine in others else "")
            sizes = {file: files.size(file) for file in files.walk(folder)}
            found.bytes = sum(size for file, size in sizes.items() if file.startswith(own) == (engine in others))
            yield found


def _engines(
    run: TrainedModel, path: str, held: Held, names: Sequence[str], known: Sequence[str]
) -> Iterator[Deployment]:
    """Each installed engine, unquantized and in int8, written to a temporary folder.

    known: engines already in the export.
    """
    from bert_tf.export import engine_folders, engine_models

    checkpoint, settings = formats.read(path), run.task.host_settings
    for name in names or engines.names():
        for quantize in (None, *engines.QUANTIZED):
            found = Deployment(name=f"{name} {quantize}" if quantize else name)
            if found.name in known:
                continue
            with tempfile.TemporaryDirectory() as folder:
                target = os.path.join(folder, "engine")
                try:
                    if settings:
                        engine_models.form_of(checkpoint.kind, checkpoint.weights, settings)
                    found.bytes = engine_folders.write(checkpoint, target, name, quantize=quantize).size
                    function = engines.load(target)
                    make = functools.partial(FunctionNetwork, name, function, path)
                    _score(found, _predictor(run, path, make), held)
                except NoEngine as error:
                    found.error = f"{error.reason}."
                except UserError as error:
                    found.error = str(error)
                except Exception as error:  # engines raise many types
                    found.error = f"{name} failed: {reason_of(error)}"
            yield found


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yields a readable table: scores, size and time of each form, and why some are missing."""
    deployments = result["deployments"]
    names = list(next((each["scores"] for each in deployments if each["scores"]), {}))
    names = sorted(names, key=lambda name: name != result["criterion"])[:3]
    yield f"{result['task']}, {result['rows']:,} of {result['split']}; time of one text, median"
    header = "".join(f"{name:>12}" for name in ("size", "time", "start", "memory"))
    yield f"  {'':18}" + "".join(f"{name[:14]:>16}" for name in names) + header
    for each in deployments:
        if each["error"]:
            continue
        shown = (each["scores"].get(name) for name in names)
        scores = "".join(f"{'–' if value is None else format(value, '.4f'):>16}" for value in shown)
        line = f"  {each['name']:18}{scores}{each['bytes'] / 1e6:>9.1f} MB{each['milliseconds']:>9.1f} ms"
        line += "" if each["start_seconds"] is None else f"{each['start_seconds']:>10.2f} s"
        yield line + ("" if each["memory_bytes"] is None else f"{each['memory_bytes'] / 1e6:>9.0f} MB")
    for each in deployments:
        if each["error"]:
            yield f"  {each['name']}: {each['error']}"
