"""One training step that is exact: on one device, on replicas and with micro-batches.

B rows of the global batch. The gradient is that of the loss over the whole global batch: every measure is divided by
its global sum of weights, gradients are summed over micro-batches and replicas, and only then clipped.
"""

import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.model import weights
from bert_tf.model.sequence_packing import PackingSpec, fits, local_costs
from bert_tf.runtime import backend
from bert_tf.runtime.process import expect_changing_weights
from bert_tf.training import learning_rates, optimizers
from bert_tf.training.distribute import all_reduce_sum, on_first_replica, replica_id, shard_batch, spans_processes

FLOAT16_SCALE = 2.0**15  # first loss scale; halved at an overflow, doubled after this many steps without one
FLOAT16_PATIENCE = 2000


class TrainStep:
    """A model, its optimizer and the function that improves it by one step. Made inside `strategy.scope()`."""

    def __init__(self, task, model, config, strategy):
        expect_changing_weights()
        slices = strategy.num_replicas_in_sync * config.num_accumulation_steps
        if config.train_batch_size % slices:
            raise UserError(
                f"train_batch_size {config.train_batch_size} cannot be shared out among "
                f"{strategy.num_replicas_in_sync} replicas with {config.num_accumulation_steps} micro-batches "
                f"each: choose a multiple of {slices}."
            )
        self.task, self.model, self.config, self.strategy = task, model, config, strategy
        self.variables = weights.variables(model)
        self.trainable = learning_rates.trainable(self.variables, config.num_frozen_layers)
        schedule = learning_rates.linear_schedule(
            config.learning_rate, config.num_train_steps, config.num_warmup_steps, continuous=config.continuous_schedule
        )
        self.optimizer = optimizers.create(
            config.optimizer,
            self.trainable,
            schedule,
            weight_decay=config.weight_decay,
            factors=learning_rates.layer_factors(self.variables, config.layerwise_learning_rate_decay),
        )
        if config.gradient_checkpointing:
            enable_gradient_checkpointing(model.encoder)
        self.scale = LossScale(enabled=model.dtype_policy.compute_dtype == "float16")
        self.static = backend.should_jit(config.jit_compile) or isinstance(strategy, tf.distribute.TPUStrategy)
        self._step = tf.function(self._on_replicas, autograph=False)
        if backend.should_jit(config.jit_compile):
            self._forward_backward = tf.function(self._forward_backward, jit_compile=True, autograph=False)

    def state(self):
        """What a checkpoint must hold, beside the position in the data: frozen weights too, so that it is a model."""
        return {"weights": self.variables, "optimizer": self.optimizer.state(), "loss_scale": self.scale.state()}

    def step(self, batch, *, stops=False):
        """Improves the model by one global batch, {name: [B, ...]}.

        Returns "measures", {name: [sum of values * weights, sum of weights]}, "gradient_norm" (before clipping),
        "diverged" (the norm is not a number, nor will it be), "learning_rate" and "tokens", as tensors that nobody has
        waited for. Where several processes train together, "stops" too: how many replicas were called with `stops`.
        """
        wish = [tf.constant(float(stops))] if spans_processes(self.strategy) else []
        return self._step(shard_batch(self.strategy, batch), *wish)

    def _on_replicas(self, batch, *wish):
        return on_first_replica(self.strategy, self.strategy.run(self._on_replica, args=(batch, *wish)))

    def _on_replica(self, batch, *wish):
        sums = {name: all_reduce_sum(tf.reduce_sum(w)) for name, w in self.task.loss_weights(batch).items()}
        seed = tf.constant([self.config.random_seed, 0], tf.int32)
        for number in (tf.cast(self.optimizer.step, tf.int32), replica_id()):
            seed = tf.random.experimental.stateless_fold_in(seed, number)
        measures, gradients = self._over_micro_batches(batch, sums, seed)
        connected = [gradient is not None for gradient in gradients]
        reduced = iter(all_reduce_sum([gradient for gradient in gradients if gradient is not None]))
        gradients = self.scale.removed([next(reduced) if known else None for known in connected])
        rate = self.optimizer.learning_rate()
        norm = self.optimizer.apply(gradients)
        diverged = self.scale.update(norm)
        counts = {"tokens": tf.reduce_sum(tf.cast(batch["lengths"], tf.float32))}
        for stops in wish:  # one where processes train together, else none
            counts["stops"] = tf.identity(stops)  # a tensor of this replica: only such can be summed
        numbers = {"gradient_norm": norm, "diverged": diverged, "learning_rate": rate, **all_reduce_sum(counts)}
        return {"measures": all_reduce_sum(measures), **numbers}

    def _over_micro_batches(self, batch, sums, seed):
        parts = self.config.num_accumulation_steps
        if parts == 1:
            return self._forward_backward(batch, sums, seed)
        batch = {name: tf.reshape(x, [parts, x.shape[0] // parts, *x.shape[1:]]) for name, x in batch.items()}

        def part(number):
            here = tf.random.experimental.stateless_fold_in(seed, number)
            return self._forward_backward({name: x[number] for name, x in batch.items()}, sums, here)

        first = part(0)
        connected = [gradient is not None for gradient in first[1]]

        def add(number, measures, gradients):
            more_measures, more = part(number)
            more = [gradient for gradient in more if gradient is not None]
            added = tf.nest.map_structure(tf.add, (measures, gradients), (more_measures, more))
            return number + 1, *added

        start = (1, first[0], [gradient for gradient in first[1] if gradient is not None])
        _, measures, gradients = tf.while_loop(lambda number, *_: number < parts, add, start)
        gradients = iter(gradients)
        return measures, [next(gradients) if known else None for known in connected]

    def _forward_backward(self, batch, sums, seed):
        """Measures as [sum, sum of weights], and dense gradients (None where the loss does not depend on a weight)."""
        if not self.static:
            return self._learned(batch, sums, seed, PackingSpec.dynamic(local_costs()))
        rows = self.config.packed_rows
        if not rows or "lengths" not in batch:
            return self._learned(batch, sums, seed)
        packing = PackingSpec.static(rows)
        return tf.cond(
            fits(batch, rows),
            lambda: self._learned(batch, sums, seed, packing),
            lambda: self._learned(batch, sums, seed),
        )

    def _learned(self, batch, sums, seed, packing=None):
        trained = list(self.trainable.values())
        with tf.GradientTape(watch_accessed_variables=False) as tape:  # nothing is kept for layers that are frozen
            tape.watch(trained)
            measures = self.task.metrics(self.model(batch, seed=seed, packing=packing), batch)
            measures = {name: tf.stack([tf.reduce_sum(v * w), tf.reduce_sum(w)]) for name, (v, w) in measures.items()}
            loss = self.scale.applied(loss_of(self.task, measures, sums))
        gradients = tape.gradient(loss, trained)
        return measures, [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients]


def enable_gradient_checkpointing(encoder):
    """Makes an encoder keep less for its backward pass; UserError if it is one without layers to do it in."""
    if not hasattr(encoder, "gradient_checkpointing"):
        raise UserError(
            f"gradient_checkpointing is for BERT's layers, and encoder={encoder.config.encoder} has none: leave it out."
        )
    encoder.gradient_checkpointing = True


def loss_of(task, measures, sums):
    """The loss: each objective's sum, divided by the global sum of its weights, times its factor."""
    terms = [
        objective.factor * measures[name][0] / (sums[name] + objective.epsilon)
        for name, objective in task.objectives.items()
    ]
    return tf.add_n(terms)


def averages(task, measures):
    """{measure: mean} and the "loss" of measures that were summed over a whole global batch, or over many."""
    values = {name: float(summed / max(weight, 1e-12)) for name, (summed, weight) in measures.items()}
    loss = sum(objective.factor * values[name] for name, objective in task.objectives.items())
    return {"loss": loss, **values}


class LossScale(tf.Module):
    """Keeps float16 gradients in range: the loss is multiplied, gradients are divided, the factor follows overflows."""

    def __init__(self, *, enabled):
        super().__init__()
        self.enabled = enabled
        self.factor = tf.Variable(FLOAT16_SCALE if enabled else 1.0, trainable=False)
        self.good_steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    def state(self):
        return {"factor": self.factor, "good_steps": self.good_steps}

    def applied(self, loss):
        return loss * self.factor if self.enabled else loss

    def removed(self, gradients):
        if not self.enabled:
            return gradients
        return [None if gradient is None else gradient / self.factor for gradient in gradients]

    def update(self, norm):
        """Follows the norm of a step's gradients; returns whether it is not finite and no smaller factor will help."""
        finite = tf.math.is_finite(norm)
        if not self.enabled:
            return ~finite
        diverged = ~finite & (self.factor <= 1.0)
        ripe = self.good_steps + 1 >= FLOAT16_PATIENCE
        grown = tf.where(ripe, self.factor * 2, self.factor)
        self.factor.assign(tf.where(finite, grown, tf.maximum(self.factor / 2, 1.0)))
        self.good_steps.assign(tf.where(finite & ~ripe, self.good_steps + 1, 0))
        return diverged
