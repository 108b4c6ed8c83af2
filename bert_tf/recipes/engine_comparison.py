"""A model in every form it can be deployed in, side by side: live, SavedModel, and the installed engines.

Each form gets the scores of a run's own evaluation rows, or those of a checkpoint on a file, its size, and the time of
one text. B rows of a batch.
"""

import collections
import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.checkpoints import formats
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.data.examples import Example
from bert_tf.data.pretraining import records
from bert_tf.errors import UserError, reason_of
from bert_tf.export import engine_parity, engine_predictor, engines, loaded_model, prediction_inputs, text_function
from bert_tf.recipes import first_answer, trained_model
from bert_tf.recipes.finetuning import scored_export
from bert_tf.recipes.trained_model import TrainedModel
from bert_tf.runtime import files
from bert_tf.runtime.lazy import tf
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training.metric_sums import averages, sum_metrics
from bert_tf.training.run_directory import recorded_flags
from bert_tf.training.task import Task

FILE = "deployments.json"
LIVE, SAVED_MODEL = "live model", "SavedModel"
FLOAT_BYTES = 4

Arrays = dict[str, np.ndarray]
Function = Callable[[Arrays], Mapping[str, Any]]


@dataclasses.dataclass(kw_only=True)
class Deployment:
    """One form of a model.

    Attributes:
        name: "live model", "SavedModel", or an engine with its quantization.
        bytes: size of the weights, or of the files.
        milliseconds: median time for one text; of an export with its tokenization.
        start_seconds: median time of a new process until its first answer; of an export alone, as is the next.
        memory_bytes: largest memory of that process.
        scores: on the evaluation rows; {} where they cannot be computed.
        error: why there is no such form, "" if there is one.
    """

    name: str
    bytes: int = 0
    milliseconds: float | None = None
    start_seconds: float | None = None
    memory_bytes: int | None = None
    scores: dict[str, float] = dataclasses.field(default_factory=dict)
    error: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """The evaluation rows: a split of a task, of which `count` rows are computed in batches of `batch_size`."""

    task: Task
    split: str
    count: int
    batch_size: int

    def __iter__(self) -> Iterator[Any]:
        """Yields batches, cut to their longest row."""
        for batch in self.task.eval_batches(self.batch_size, self.split).take(-(-self.count // self.batch_size)):
            longest = int(np.max(batch["lengths"])) if "lengths" in batch else None
            cut = {name: batch[name][..., :longest] for name in ("token_ids", "segment_ids") if name in batch}
            yield batch | cut


def compare(
    path: str,
    *,
    max_rows: int,
    batch_size: int,
    names: Sequence[str] = (),
    file: str = "",
    reads: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Compares the forms of the model in a folder; writes engines to a temporary folder only.

    Args:
        path: the folder of a run, or a checkpoint with a head.
        max_rows: rows of the evaluation split that are scored at most.
        batch_size: rows in a batch.
        names: of engines; by default all whose packages are installed.
        file: labelled rows to score a checkpoint on; "" for a run.
        reads: the columns of the file, as `bert-tf evaluate` takes them.

    Returns:
        Plain data for FILE: "task", "split", "rows", "criterion" and "deployments", see Deployment.

    Raises:
        UserError: the folder is neither, or there are no labelled rows.
    """
    if max_rows < 1 or batch_size < 1:
        raise UserError(f"max_rows is {max_rows} and batch_size {batch_size}; expected 1 or more.")
    run = _with_rows_of(file, path, reads or {}) if file else trained_model.read(path)
    rows = _rows_of(run, path, max_rows, batch_size)
    first = next(iter(rows))
    row = {name: tensor[:1] for name, tensor in first.items()}
    live = _live_function(run.model, row)
    live_scores, items = _scores(live, rows)
    deployments = [
        Deployment(
            name=LIVE,
            bytes=FLOAT_BYTES * run.model.count_params(),
            milliseconds=_milliseconds(live, _arrays(row)),
            scores=live_scores,
        ),
        *(exported := list(_exported(run, "" if file else path, rows, items, row, names))),
        *_engines(path, rows, row, names, [each.name for each in exported]),
    ]
    return {
        "task": rows.task.name,
        "split": rows.split,
        "rows": items,
        "criterion": rows.task.criterion,
        "deployments": [dataclasses.asdict(each) for each in deployments],
    }


def _with_rows_of(file: str, path: str, reads: Mapping[str, Any]) -> TrainedModel:
    """A checkpoint whose evaluation rows are those of a file."""
    about = {**scored_export.about(path), "reads": reads}
    scored_export.check_file(file, about["kind"])
    texts = scored_export.number_of_texts(file, about)
    # the split is read when the task, which knows its inputs, is there
    run = trained_model.read(path, texts, splits={"dev": lambda: _labelled(file, run.task, reads)})
    return run


def _labelled(file: str, task: Any, reads: Mapping[str, Any]) -> Any:
    if task.head.labelled_file:
        return task.head.content(file, reads)
    shapes = task.head.input_shapes(task.head.texts)
    inputs, _ = text_function.inputs_in_order(shapes, list(shapes))
    columns = comma_separated(reads.get("text_columns"))
    return list(prediction_inputs.read(file, inputs, columns=columns, label=reads.get("label_column") or "label"))


def _rows_of(run: TrainedModel, path: str, max_rows: int, batch_size: int) -> Rows:
    task = run.task
    if not isinstance(task, FineTuningTask):
        folder = recorded_flags(path).get("records_dir") or os.path.join(path, "records")
        task = task.with_records(records.open_records(folder))
    split = next(iter(task.eval_splits.values()), "")
    if not split or (isinstance(task, FineTuningTask) and not task.split(split).is_known):
        raise UserError(
            f"{path} has no labelled evaluation rows to compare on: train with a dev file, or pass a file with labels."
        )
    return Rows(task=task, split=split, count=max_rows, batch_size=batch_size)


def _arrays(batch: Mapping[str, Any]) -> Arrays:
    return {name: tensor.numpy() for name, tensor in batch.items()}


def _live_function(model: Any, batch: Mapping[str, Any]) -> Function:
    specs = {name: tf.TensorSpec([None] * x.shape.rank, x.dtype) for name, x in batch.items()}
    call = tf.function(lambda inputs: model(inputs), input_signature=[specs], autograph=False)
    return lambda arrays: call({name: tf.constant(value) for name, value in arrays.items()})


def _milliseconds(function: Callable[[Any], Any], inputs: Any) -> float:
    return 1000 * engine_parity.median_seconds([function], inputs)[0]


def _scores(function: Function, rows: Rows) -> tuple[dict[str, float], int]:
    """The scores of a function of batches, and the number of texts, questions or sentences that they are of."""
    task, sums = rows.task, collections.defaultdict[str, Any](lambda: np.zeros(2))
    chunks: dict[str, list[np.ndarray]] = collections.defaultdict(list)
    count = 0
    for batch in rows:
        outputs = {name: tf.convert_to_tensor(value) for name, value in function(_arrays(batch)).items()}
        for name, value in sum_metrics(task.metrics(outputs, batch)).items():
            sums[name] += value.numpy()
        predictions = {name: value.numpy() for name, value in task.predictions(outputs, batch).items()}
        count += len(batch["lengths"]) if "lengths" in batch else rows.batch_size
        for name, values in predictions.items():
            chunks[name].append(values[predictions["row_numbers"] > 0])
    if not isinstance(task, FineTuningTask):
        return averages(task, sums), count
    found = {name: np.concatenate(parts) for name, parts in chunks.items()}
    return task.scores(found, rows.split), task.head.answered(found, task.split(rows.split))


def _exported(
    run: TrainedModel, path: str, rows: Rows, count: int, row: Mapping[str, Any], names: Sequence[str]
) -> Iterator[Deployment]:
    """The export in the folder of the run, by TensorFlow and by each engine that it has a model for.

    path: "": one that is written to a temporary folder.
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
        others = [x for x in engine_predictor.available(folder) if not names or x.partition("_")[0] in names]
        for engine in (engine_predictor.TENSORFLOW, *others):
            found = Deployment(name=engine.replace("_", " ") if engine in others else SAVED_MODEL)
            try:
                _score_export(found, folder, engine, rows, count, row)
            except UserError as error:
                found.error = str(error)
            yield found


def _score_export(found: Deployment, folder: str, engine: str, rows: Rows, count: int, row: Mapping[str, Any]) -> None:
    export = engine_predictor.open_model(folder, engine)
    task = rows.task
    if isinstance(task, FineTuningTask):
        example = task.head.demo_examples(task.split(rows.split), 1)[0]
        found.scores = scored_export.score_split(export, task, rows.split, count, batch_size=rows.batch_size)
    else:
        example = Example("0", tuple(task.row_texts(row)))
    own = os.path.join(folder, engine_predictor.FOLDER, "" if engine == engine_predictor.TENSORFLOW else engine)
    sizes = {file: files.size(file) for file in files.walk(folder)}
    is_engine = engine != engine_predictor.TENSORFLOW
    found.bytes = sum(size for file, size in sizes.items() if file.startswith(own) == is_engine)
    found.milliseconds = _milliseconds(lambda examples: export.predict(examples), [example])
    found.start_seconds, found.memory_bytes = first_answer.measure(folder, engine, example)


def _engines(
    path: str, rows: Rows, row: Mapping[str, Any], names: Sequence[str], known: Sequence[str]
) -> Iterator[Deployment]:
    """Each engine, unquantized and in int8, written to a temporary folder, as far as its packages are installed.

    known: those that the export has.
    """
    checkpoint = formats.read(path)
    for name in names or engines.names():
        for quantize in (None, *engines.QUANTIZED):
            found = Deployment(name=f"{name} {quantize}" if quantize else name)
            if found.name in known:
                continue
            with tempfile.TemporaryDirectory() as folder:
                target = os.path.join(folder, "engine")
                try:
                    found.bytes = engines.write(checkpoint, target, name, quantize=quantize).size
                    function = _engine_function(engines.load(target))
                    found.scores, _ = _scores(function, rows)
                    found.milliseconds = _milliseconds(function, _arrays(row))
                except UserError as error:
                    found.error = str(error)
                except Exception as error:  # engines raise many types
                    found.error = f"{name} failed: {reason_of(error)}"
            yield found


def _engine_function(function: Callable[[Arrays], Arrays]) -> Function:
    """An engine as a function of batches of a task: the choices of a text are rows of their own."""
    from bert_tf.model.functional_bert import MASKS

    def call(batch: Arrays) -> Arrays:
        if "window_counts" in batch:
            raise UserError("Texts in several windows are not inputs of other engines: long_texts=cut are.")
        inputs = {name: batch[name] for name in MASKS.inputs if name in batch}
        if inputs["token_ids"].ndim == 2:
            return function(inputs)
        shape = inputs["lengths"].shape  # [B, C]
        flat = {name: x.reshape(-1, *x.shape[2:]) for name, x in inputs.items()}
        return {"logits": function(flat)["logits"].reshape(shape)}

    return call


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yields the table for people: scores, size and time of each form, and why some are missing."""
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
