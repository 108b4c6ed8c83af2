"""Diagnosis of a loss or gradient that is not finite: the step is recomputed eagerly, layer by layer.

Training itself only stops updating (`WeightUpdate.diverged`), so the weights are still those from before the step.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.errors import reason_of
from bert_tf.model import weights
from bert_tf.model.packing import PackingSpec, local_costs
from bert_tf.runtime import files
from bert_tf.runtime.atomic_files import atomic_write
from bert_tf.training.run_directory import RunFolder
from bert_tf.training.task import Batch
from bert_tf.training.train_step import TrainStep

REPORT, ROWS = "not_finite.json", "not_finite_batch.npz"
MAX_ROWS = 5  # reported at most
LOWER = "start again in another output_dir with a lower learning_rate, more num_warmup_steps or precision=float32"


@dataclasses.dataclass
class Cause:
    """First tensor of a step that is not finite.

    Attributes:
        kind: "batch" (an input or label), "weight" (before the step), "layer" (the output of one whose inputs are
            finite), "loss", "gradient" (of a weight), or "unknown" if the recomputed step is finite.
        name: the input, weight, layer (its attribute path in the model) or metric.
        rows: the first rows of the batch, from 0, that are not finite even on their own; [] if unknown.
        largest_input: largest absolute value among the layer's inputs.
    """

    kind: str = "unknown"
    name: str = ""
    rows: list[int] = dataclasses.field(default_factory=list)
    largest_input: float | None = None

    def __str__(self) -> str:
        texts = {
            "batch": f'"{self.name}" of the batch is not finite',
            "weight": f"the weight {self.name} was not finite before it",
            "layer": f"the output of the layer {self.name or 'model'} is not finite",
            "loss": f"{self.name} is not finite, though the outputs of all layers are",
            "gradient": f"the gradient of {self.name} is not finite, though the loss is",
            "unknown": "the loss or its gradient is not finite, though it is when computed again without compilation",
        }
        rows = ", ".join(map(str, self.rows)) + (" and more" if len(self.rows) == MAX_ROWS else "")
        return texts[self.kind] + (f" in rows {rows} counted from 0" if rows else "")

    @property
    def remedy(self) -> str:
        """The remedy in words."""
        return "correct or remove these rows of the data and start again" if self.kind == "batch" else LOWER


def explain(train_step: TrainStep, batch: Batch, step: int, folder: RunFolder) -> Cause:
    """Finds the cause, writes it and the batch into the run folder, and returns it.

    Args:
        train_step: the training step, with the weights from before the step.
        batch: the global batch of the step.
        step: the step number, from 1.
        folder: receives REPORT (the Cause, the step, row numbers and texts) and ROWS (the arrays of the batch).
    """
    try:
        cause = find(train_step, batch, step)
    except (tf.errors.OpError, MemoryError) as error:  # out of memory, for example: eager execution needs more
        cause = Cause(name=reason_of(error))
    texts, numbers = train_step.task.row_texts(batch), batch.get("row_numbers")
    report: dict[str, Any] = {"step": step, **dataclasses.asdict(cause), "sentence": str(cause)}
    if numbers is not None:
        report["row_numbers"] = numbers.numpy().tolist()
    folder.write_json(REPORT, report | {"texts": texts})
    if folder.is_chief:
        arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in batch.items()}
        with atomic_write(folder.file(ROWS)) as partial, open(partial, "wb") as file:
            np.savez_compressed(file, **arrays)
    return cause


def forget(folder: RunFolder) -> None:
    """Removes the files of an earlier start of the run."""
    for name in (REPORT, ROWS):
        if folder.is_chief and files.exists(folder.file(name)):
            files.remove(folder.file(name))


def find(train_step: TrainStep, batch: Batch, step: int) -> Cause:
    """Recomputes a step with `TrainStep.replay` and returns the first thing that is not finite."""
    for name, tensor in batch.items():
        if not _is_finite(tensor):
            is_faulty = tf.reduce_any(~tf.math.is_finite(tf.reshape(tensor, [tensor.shape[0], -1])), 1)
            return Cause("batch", name, rows=np.flatnonzero(is_faulty)[:MAX_ROWS].tolist())
    for name, variable in train_step.variables.items():
        if not _is_finite(variable):
            return Cause("weight", name)
    with watching(train_step.model) as cause:
        metrics, gradients = train_step.replay(batch, step)
    if cause.kind == "layer":
        rows = faulty_rows(train_step.model, batch, range(len(next(iter(batch.values())))))
        cause.rows = list(itertools.islice(rows, MAX_ROWS))
        return cause
    for name in train_step.task.objectives:
        if not _is_finite(metrics[name]):
            return Cause("loss", name)
    return _cause_among(dict(zip(train_step.trainable, gradients, strict=True)))


def _cause_among(gradients: Mapping[str, tf.Tensor | None]) -> Cause:
    """The first non-finite gradient in order of computation, hence the last layer's; if there is none, the largest."""
    computed = {name: gradient for name, gradient in gradients.items() if gradient is not None}
    if np.isfinite(float(tf.linalg.global_norm(list(computed.values())))):
        return Cause()
    norms = {name: float(tf.norm(gradient)) for name, gradient in computed.items()}
    faulty = [name for name, norm in norms.items() if not np.isfinite(norm)]
    return Cause("gradient", faulty[-1] if faulty else max(norms, key=lambda name: norms[name]))


@contextlib.contextmanager
def watching(model: keras.Model) -> Iterator[Cause]:
    """Yields a Cause that is set to the first layer with finite inputs and a non-finite output.

    Functions run eagerly in the block.
    """
    cause, is_eager, watched = Cause(), tf.config.functions_run_eagerly(), []
    tf.config.run_functions_eagerly(True)
    try:
        for name, layer in weights.layers_by_name(model).items():
            object.__setattr__(layer, "call", _watched(layer.call, name, cause))  # bypasses Keras's attribute tracking
            watched.append(layer)
        yield cause
    finally:
        for layer in watched:
            object.__delattr__(layer, "call")
        tf.config.run_functions_eagerly(is_eager)


def _watched(call: Callable[..., Any], name: str, cause: Cause) -> Callable[..., Any]:
    def watched(*arguments: Any, **options: Any) -> Any:
        outputs = call(*arguments, **options)
        if cause.kind == "unknown" and not _is_finite(outputs) and _is_finite((arguments, options)):
            cause.kind, cause.name = "layer", name
            inputs = [tensor for tensor in _numbers((arguments, options)) if tf.size(tensor)]
            cause.largest_input = max((float(tf.reduce_max(tf.abs(tensor))) for tensor in inputs), default=None)
        return outputs

    return watched


def _numbers(values: Any) -> list[tf.Tensor]:
    """The floating point tensors in a nested structure."""
    return [x for x in tf.nest.flatten(values) if isinstance(x, tf.Tensor | tf.Variable) and x.dtype.is_floating]


def _is_finite(values: Any) -> bool:
    return all(bool(tf.reduce_all(tf.math.is_finite(tensor))) for tensor in _numbers(values))


def faulty_rows(model: keras.Model, batch: Batch, rows: range) -> Iterator[int]:
    """Yields the rows whose outputs are not finite when computed without the others.

    By bisection: rows computed together may share a packed row, and with it the non-finite values.
    """
    part = {name: x[rows.start : rows.stop] for name, x in batch.items()}
    if _is_finite(model(part, packing=PackingSpec(local_costs()))):
        return
    if len(rows) == 1:
        yield rows.start
        return
    middle = len(rows) // 2
    yield from faulty_rows(model, batch, rows[:middle])
    yield from faulty_rows(model, batch, rows[middle:])
