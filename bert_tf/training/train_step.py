"""One training step: the exact gradient of the global batch on one device, on replicas and with micro-batches.

Each metric is divided by its global sum of weights; gradients are summed over micro-batches and replicas before they
are clipped. B rows of the global batch.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import UserError
from bert_tf.model import packing, weights
from bert_tf.model.activation_probe import Probe, check_support
from bert_tf.model.packing import FITS, TABLES, PackingSpec, local_costs
from bert_tf.runtime import backend
from bert_tf.runtime.process import check_changing_weights
from bert_tf.training import learning_rates, optimizers
from bert_tf.training.budget import Budget
from bert_tf.training.distribute import (
    all_gather,
    all_reduce_sum,
    needs_static_shapes,
    number_of_replicas,
    on_first_replica,
    on_replicas,
    replica_id,
    shard_batch,
    spans_processes,
)
from bert_tf.training.gradients import (
    Gradients,
    LossScale,
    WeightUpdate,
    fill_in,
    perturbation,
    split_batch,
    sum_over_parts,
    to_dense,
)
from bert_tf.training.metric_sums import Sums, flatten_result, loss_of, split_results, sum_metrics
from bert_tf.training.task import Batch, Comparison, Learnable
from bert_tf.training.weight_average import WeightAverage


class TrainStep:
    """A model, its optimizer and the function for one training step. Create it inside `strategy.scope()`."""

    def __init__(
        self, task: Learnable, model: keras.Model, config: TrainConfig, strategy: tf.distribute.Strategy
    ) -> None:
        check_changing_weights()
        self.micro_batches = config.num_accumulation_steps or 1
        slices = strategy.num_replicas_in_sync * self.micro_batches
        if config.train_batch_size % slices:
            raise UserError(
                f"train_batch_size {config.train_batch_size} cannot be split among "
                f"{strategy.num_replicas_in_sync} replicas with {self.micro_batches} micro-batches "
                f"each: choose a multiple of {slices}."
            )
        if not config.num_accumulation_steps and spans_processes(strategy):
            raise UserError("num_accumulation_steps=auto requires a single process: pass a number.")
        self.task, self.model, self.config, self.strategy = task, model, config, strategy
        self.variables = weights.variables(model) | {**task.variables}
        self.trainable = learning_rates.trainable(self.variables, config.num_frozen_layers, config.freeze)
        if not config.train_biases:
            self.trainable = learning_rates.without_biases(self.trainable)
        self.active = self._active_after(0)
        self.budget = Budget(config.budget_minutes)
        self.optimizer = _optimizer(config, self.variables, self.trainable, self.budget)
        self.average = WeightAverage(self.trainable, config.ema_decay)
        one_hot = config.use_one_hot_embeddings
        if one_hot == "auto" and not isinstance(strategy, tf.distribute.TPUStrategy):
            one_hot = "false"
        model.encoder.configure_training(
            gradient_checkpointing=config.gradient_checkpointing, token_dropping=config.token_dropping, one_hot=one_hot
        )
        if config.fgm_epsilon:
            check_support(model.encoder, "fgm_epsilon")
        if task.needs_probe and (config.fgm_epsilon or config.gradient_checkpointing or config.token_dropping):
            raise UserError(
                "teacher does not work with fgm_epsilon, gradient_checkpointing or token_dropping: remove them."
            )
        self.loss_scale = LossScale(enabled=model.dtype_policy.compute_dtype == "float16")
        self.is_static = needs_static_shapes(strategy, config.jit_compile)
        parts = self.trainable, self.optimizer, self.loss_scale, self.average
        self.update = WeightUpdate(*parts, is_compiled=self.is_static)
        self.iterations_per_loop = 1
        if config.num_accumulation_steps:  # else a step that runs out of memory is repeated
            self.iterations_per_loop = config.iterations_per_loop or backend.steps_per_call()
        self._create_functions()

    def _create_functions(self) -> None:
        """Creates the traced functions; XLA-compiled ones are called as `self._compiled(self.method)(...)`."""
        self._step = on_replicas(self.strategy, self._on_replica)
        self._loop = tf.function(self._several_on_replicas, autograph=False, reduce_retracing=True)  # any step count
        compiles = backend.should_jit(self.config.jit_compile)
        compile_: Callable = functools.partial(tf.function, jit_compile=True, autograph=False)
        self._compiled = functools.cache(compile_ if compiles else lambda function: function)

    def _active_after(self, step: int) -> dict[str, tf.Variable]:
        """The variables trained by the step after `step`, {canonical name: variable}."""
        if not self.config.unfreeze_steps:
            return self.trainable
        return learning_rates.unfrozen(self.trainable, step // self.config.unfreeze_steps)

    def unfreeze(self, step: int) -> None:
        """Prepares the steps after `step`: gradual unfreezing may add layers, which requires retracing."""
        active = self._active_after(step)
        if active.keys() != self.active.keys():
            self.active = active
            self._create_functions()

    def halve_micro_batch_size(self) -> bool:
        """Halves the rows per pass from now on; False if num_accumulation_steps or the batch prevent it."""
        rows = self.config.train_batch_size // self.strategy.num_replicas_in_sync
        if self.config.num_accumulation_steps or rows % (2 * self.micro_batches):
            return False
        self.micro_batches *= 2
        self._create_functions()
        return True

    def state(self) -> dict[str, Any]:
        """Returns the state to checkpoint, except the data position; with frozen weights, so the model is complete."""
        parts = {"optimizer": self.optimizer.state(), "loss_scale": self.loss_scale.state()}
        return {"weights": self.variables, **parts, **self.budget.state(), **self.average.state()}

    def step(self, batch: Batch, *, stop_requested: bool = False) -> dict[str, Any]:
        """Trains on one global batch, {name: [B, ...]}.

        Returns tensors without waiting for them: "metrics", {name: [sum of values * weights, sum of weights]};
        "gradient_norm" (before clipping); "diverged" (the norm is not finite, and never will be again);
        "learning_rate"; "tokens"; and, if several processes train together, "stop_requests", the number of replicas
        with `stop_requested`.
        """
        stop = [tf.constant(float(stop_requested))] if spans_processes(self.strategy) else []
        return self._step(shard_batch(self.strategy, self.with_rows(batch)), *stop)

    def with_rows(self, batch: Batch) -> Batch:
        """A global batch with the tables of packed rows (`packing.pack_batch`), if `packed_rows` is set.

        They are built here, on the host: on a device, every step of the loop would be several tiny kernels.
        """
        rows = self.config.packed_rows
        if not (self.is_static and rows and "lengths" in batch):
            return batch
        slices = self.strategy.num_replicas_in_sync * self.micro_batches
        width = batch["token_ids"].shape[-1]
        tables = packing.pack_batch(batch["lengths"].numpy(), width, slices=slices, rows=rows)
        return {**batch, **{name: tf.constant(x) for name, x in tables.items()}}

    def steps(self, batches: Sequence[Batch], *, stop_requested: bool = False) -> list[Mapping[str, Any]]:
        """Trains on several batches in one call; returns the same as `step` for each, bit for bit."""
        if len(batches) == 1:
            return [self.step(batches[0], stop_requested=stop_requested)]
        stop = [tf.constant(float(stop_requested))] if spans_processes(self.strategy) else []
        batches = [self.with_rows(batch) for batch in batches]
        stacked = {name: tf.stack([batch[name] for batch in batches]) for name in batches[0]}
        numbers = self._loop(shard_batch(self.strategy, stacked, axis=1), tf.constant(len(batches)), *stop)
        return split_results(numbers, self._result, len(batches))

    def _several_on_replicas(self, batches: Any, count: tf.Tensor, *stop: tf.Tensor) -> tf.Tensor:
        """`_on_replica` on each of [S, B, ...]: float32 [S, all numbers of a result]."""

        def one(batches: Batch, number: tf.Tensor, *stop: tf.Tensor) -> dict[str, Any]:
            return self._on_replica({name: x[number] for name, x in batches.items()}, *stop)

        def add(number: tf.Tensor, numbers: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            results = self.strategy.run(one, args=(batches, number, *stop))
            self._result, flat = flatten_result(on_first_replica(self.strategy, results))
            return number + 1, numbers.write(number, flat)

        numbers = tf.TensorArray(tf.float32, count, element_shape=[None])
        return tf.while_loop(lambda number, _: number < count, add, (0, numbers), parallel_iterations=1)[1].stack()

    def _on_replica(self, batch: Batch, *stop: tf.Tensor) -> dict[str, Any]:
        """One step on the rows of a replica: it calls `_gradients`, which calls `_pass`."""
        weight_sums = {name: all_reduce_sum(tf.reduce_sum(w)) for name, w in self.task.loss_weights(batch).items()}
        seed = self._seed(tf.cast(self.optimizer.step, tf.int32), replica_id())
        metrics, gradients = self._gradients(batch, weight_sums, seed)
        learning_rate = self.optimizer.learning_rate()
        norm, diverged = self._compiled(self.update)(self._sum_over_replicas(gradients))
        counts = {"tokens": tf.reduce_sum(tf.cast(batch["lengths"], tf.float32))}
        for requested in stop:  # one tensor if processes train together, else none
            counts["stop_requests"] = requested
        numbers = {"gradient_norm": norm, "diverged": diverged, "learning_rate": learning_rate}
        return {"metrics": all_reduce_sum(metrics), **numbers, **all_reduce_sum(counts)}

    def _sum_over_replicas(self, gradients: Gradients) -> Gradients:
        """Sums the gradients of all micro-batches: replicas exchange nothing else but a few scalars."""
        dense = [gradient for gradient in gradients if gradient is not None]
        if not self.all_reduced_bytes():
            return gradients
        sent = [tf.cast(gradient, self.config.all_reduce_precision) for gradient in dense]
        reduced = [tf.cast(total, own.dtype) for total, own in zip(all_reduce_sum(sent), dense, strict=True)]
        return fill_in(reduced, gradients)

    def all_reduced_bytes(self) -> int:
        """The bytes of gradients summed over replicas in every step; 0 for one replica."""
        numbers = sum(variable.shape.num_elements() for variable in self.trainable.values())
        several = self.strategy.num_replicas_in_sync > 1
        return numbers * tf.as_dtype(self.config.all_reduce_precision).size if several else 0

    def replay(self, batch: Batch, step: int) -> tuple[Sums, Gradients]:
        """Computes metrics and gradients of a global batch as in training step `step` (from 1), without an update.

        Eager, replica after replica, for `training.nonfinite`. The weights must be those from before that step, which
        they are after a step that has diverged.
        """
        self.unfreeze(step - 1)
        weight_sums = {name: tf.reduce_sum(w) for name, w in self.task.loss_weights(batch).items()}
        replicas = self.strategy.num_replicas_in_sync
        results = []
        for replica in range(replicas):
            part = {name: tf.split(x, replicas)[replica] for name, x in self.with_rows(batch).items()}
            results.append(self._gradients(part, weight_sums, self._seed(step - 1, replica)))
        metrics, gradients = zip(*results, strict=True)
        summed = [None if each[0] is None else tf.add_n(each) for each in zip(*gradients, strict=True)]
        return tf.nest.map_structure(lambda *each: tf.add_n(each), *metrics), self.loss_scale.unscale(summed)

    def _seed(self, updates: Any, replica: Any) -> tf.Tensor:
        """The dropout seed of a replica after that many updates."""
        seed = tf.constant([self.config.random_seed, 0], tf.int32)
        for number in (updates, replica):
            seed = tf.random.experimental.stateless_fold_in(seed, number)
        return seed

    def _gradients(self, batch: Batch, weight_sums: Sums, seed: tf.Tensor) -> tuple[Sums, Gradients]:
        """Sums of the metrics of a replica's rows, and its dense gradients, over all micro-batches."""
        parts = self.micro_batches
        if self.task.comparison and (parts > 1 or number_of_replicas() > 1):
            return self._over_compared_rows(self.task.comparison, batch, seed)
        part_of = split_batch(batch, seed, parts)

        def on_part(number: Any) -> tuple[Sums, Gradients]:
            part, part_seed = part_of(number)
            return self._compiled(self._pass)(part, weight_sums, part_seed)

        return sum_over_parts(parts, on_part)

    def _over_compared_rows(self, comparison: Comparison, batch: Batch, seed: tf.Tensor) -> tuple[Sums, Gradients]:
        """`_gradients` for a loss that compares all rows of the global batch (Gao et al. 2021, arXiv:2101.06983).

        First the outputs of all micro-batches and replicas, without gradients; then the loss and its gradient with
        respect to these outputs, on every replica; then each micro-batch once more, with the same dropout, to
        backpropagate that gradient.
        """
        if self.config.fgm_epsilon:
            raise UserError(
                "fgm_epsilon is set, but the loss compares all rows of a batch: remove it, or train with one replica "
                "and num_accumulation_steps=1."
            )
        parts, replicas = self.micro_batches, number_of_replicas()
        part_of = split_batch(batch, seed, parts)
        own = tf.map_fn(
            lambda number: self._compiled(self._forward)(*part_of(number)),
            tf.range(parts),
            fn_output_signature=tf.float32,
            parallel_iterations=1,
        )  # [parts, B / parts, ...]
        columns = {name: batch[name] for name in comparison.columns}
        rows = batch[comparison.columns[0]].shape[0]  # of this replica
        columns, outputs = all_gather((columns, tf.reshape(own, tf.concat([[rows], tf.shape(own)[2:]], 0))))
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            metrics = sum_metrics(self.task.metrics({comparison.output: outputs}, columns))
            weight_sums = {name: sums[1] for name, sums in metrics.items()}
            loss = self.loss_scale.scale(loss_of(self.task, metrics, weight_sums))
        first = replica_id() * rows
        gradient = tf.reshape(tape.gradient(loss, outputs)[first : first + rows], tf.shape(own))

        def on_part(number: Any) -> tuple[Sums, Gradients]:
            part, part_seed = part_of(number)
            return {}, self._compiled(self._backward)(part, gradient[number], part_seed)

        _, gradients = sum_over_parts(parts, on_part)
        return {name: sums / replicas for name, sums in metrics.items()}, gradients  # summed over replicas later

    def _forward(self, batch: Batch, seed: tf.Tensor) -> tf.Tensor:
        """The model output compared between rows."""
        output = self.task.comparison.output  # type: ignore[union-attr]
        return self._in_rows(batch, lambda rows, packing: self.model(rows, seed=seed, packing=packing)[output])

    def _backward(self, batch: Batch, gradient: tf.Tensor, seed: tf.Tensor) -> Gradients:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(list(self.active.values()))
            outputs = self._forward(batch, seed)
        gradients = tape.gradient(outputs, self.active, output_gradients=gradient)
        return [to_dense(gradients.get(name)) for name in self.trainable]

    def _pass(self, batch: Batch, weight_sums: Sums, seed: tf.Tensor) -> tuple[Sums, Gradients]:
        """One forward and backward pass (two with fgm_epsilon): sums of the metrics, and dense gradients.

        A gradient is None if the loss does not depend on its weight.
        """

        def compute(rows: Batch, packing: PackingSpec | None) -> tuple[Sums, Gradients]:
            differentiate = functools.partial(self._differentiate, rows, packing, weight_sums, seed)
            if not self.config.fgm_epsilon:
                return differentiate(Probe(shows_all_tokens=True) if self.task.needs_probe else None)
            clean, again = Probe(), Probe()
            metrics, gradients = differentiate(clean)
            again.perturbation = perturbation(gradients.pop(), clean.texts, self.config.fgm_epsilon)
            _, others = differentiate(again)
            pairs = zip(gradients, others, strict=False)  # the others end with the token vectors' gradient
            return metrics, [a if b is None else b if a is None else a + b for a, b in pairs]

        return self._in_rows(batch, compute)

    def _differentiate(
        self, rows: Batch, packing: PackingSpec | None, weight_sums: Sums, seed: tf.Tensor, probe: Probe | None
    ) -> tuple[Sums, Gradients]:
        """The metrics of rows and the loss gradients; with fgm_epsilon the token vectors' gradient comes last."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:  # nothing is stored for frozen layers
            tape.watch(list(self.active.values()))
            if probe and self.config.fgm_epsilon:
                probe.watch = tape.watch
            outputs = self.model(rows, seed=seed, packing=packing, probe=probe)
            metrics = sum_metrics(self.task.training_metrics(outputs, rows, probe, packing))
            loss = self.loss_scale.scale(loss_of(self.task, metrics, weight_sums))
        vectors = [probe.token_vectors] if probe and self.config.fgm_epsilon else []
        gradients, of_vectors = tape.gradient(loss, (self.active, vectors))
        in_order = (*map(gradients.get, self.trainable), *of_vectors)
        return metrics, [to_dense(gradient) for gradient in in_order]

    def _in_rows(self, batch: Batch, compute: Callable[[Batch, PackingSpec | None], Any]) -> Any:
        """compute(batch, packing), with texts packed into rows as this device requires."""
        if not self.is_static:
            return compute(batch, PackingSpec(local_costs()))
        if FITS not in batch:
            return compute(batch, None)
        padded = {name: x for name, x in batch.items() if name not in (FITS, *TABLES)}
        packed = {name: x for name, x in batch.items() if name != FITS}
        return tf.cond(batch[FITS][0], lambda: compute(packed, None), lambda: compute(padded, None))


def _optimizer(
    config: TrainConfig, variables: Mapping[str, tf.Variable], trainable: Mapping[str, tf.Variable], budget: Budget
) -> optimizers.Optimizer:
    schedule = learning_rates.polynomial_schedule(
        config.learning_rate,
        config.num_train_steps,
        config.warmup_steps,
        continuous=config.continuous_schedule,
        power=config.decay_power,
    )
    if budget.minutes:
        schedule = learning_rates.by_progress(schedule, budget.share, config.num_train_steps)
    head = config.head_learning_rate / config.learning_rate if config.head_learning_rate > 0 else 1.0
    factors = learning_rates.layer_factors(variables, config.layerwise_learning_rate_decay, head)
    return optimizers.create(config.optimizer, trainable, schedule, weight_decay=config.weight_decay, factors=factors)
