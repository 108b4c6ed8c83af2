"""Keras `compile`, `fit`, `evaluate` and `predict` for the models of this package.

B rows, T positions in a row, C classes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.runtime import backend

Tensors = dict[str, tf.Tensor]

LEARNING_RATE, WEIGHT_DECAY, MAX_NORM = 5e-5, 0.01, 1.0  # of the default optimizer
NOT_DECAYED = ("bias", "gamma", "beta")  # suffixes of variable names


def _sparse(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Softmax cross-entropy for class indices [...], or for probabilities [..., C]."""
    if labels.shape.rank == logits.shape.rank:
        return tf.nn.softmax_cross_entropy_with_logits(tf.cast(labels, logits.dtype), logits)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(labels, tf.int32), logits)


def _binary(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    losses = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels, logits.dtype), logits)
    return tf.reduce_mean(losses, -1)


def _squared(labels: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.math.squared_difference(tf.cast(labels, values.dtype), values), -1)


# {head kind: its loss per row or position}; softmax cross-entropy for the others
LOSSES: Mapping[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "multi_label": _binary,
    "relevance": _binary,
    "regression": _squared,
    "relevance_score": _squared,
}


def _metric(kind: str) -> Any:
    """The metric for a head kind."""
    if kind in ("multi_label", "relevance"):
        return keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)
    return "mean_absolute_error" if LOSSES.get(kind) is _squared else "accuracy"


class Outputs(dict[str, Any]):
    """The result of `predict`: a dictionary whose values are also attributes, as in transformers."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"The model returns {', '.join(self)}, not {name}.")


class FittedModel(keras.Model):
    """A Keras model with a dictionary of outputs and its own loss and metrics.

    `compile()` takes the arguments of Keras. The default optimizer is AdamW, and the head determines the default loss
    and, if neither loss nor metrics are specified, the default metrics. Labels are an array, or a dictionary keyed by
    output name; under their names in transformers ("labels", "start_positions") they may be among the inputs. Negative
    token labels, such as -100, are ignored.

    kind: the head kind, which determines loss and metrics.
    answers: {output to compare with labels: the name of these labels in transformers}.
    stacks_labels: whether an array of labels has a last dimension for the answers.
    """

    kind: str = ""
    answers: Mapping[str, str] = {}
    stacks_labels = False
    _answers_tokens = False

    def compile(
        self,
        optimizer: Any = None,
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        jit_compile: Any = "auto",
        **options: Any,
    ) -> None:
        """Configures training, see `keras.Model.compile`; all arguments have defaults suited to the head.

        Example:
            model = bert_tf.load("my-bert", labels=["bad", "good"]).model
            model.compile()
            model.fit(dict(tokenizer(texts, padding=True, return_tensors="np")), np.array([0, 1]))
        """
        if loss is None and metrics is None and weighted_metrics is None and self._has_metrics:
            metrics = [_metric(self.kind)]
        if len(self.answers) > 1:
            loss, metrics, weighted_metrics = map(self._for_each_answer, (loss, metrics, weighted_metrics))
        elif self._answers_tokens and isinstance(metrics, list | tuple):
            metrics, weighted_metrics = (
                None,
                [*metrics, *(weighted_metrics or [])],
            )  # weighted: positions without a label count as 0
        self._compile_loss, self._compile_metrics = None, None  # Keras would keep those from an earlier call
        super().compile(
            optimizer=_optimizer() if optimizer is None else optimizer,
            loss=loss,
            loss_weights=loss_weights,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            jit_compile=False if jit_compile == "auto" and backend.platform() == "cpu" else jit_compile,
            **options,
        )
        self._names_outputs = isinstance(loss, Mapping)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles from the `get_compile_config` in a Keras file."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    @property
    def _has_metrics(self) -> bool:
        return bool(self.answers)

    def _for_each_answer(self, given: Any) -> Any:
        """Repeats a value for each output, unless it is keyed by output name."""
        return given if given is None or isinstance(given, Mapping) else dict.fromkeys(self.answers, given)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> tf.Tensor:
        """The loss of a batch: the compiled loss, or the head's own."""
        labels, outputs, weights = self._compared(x, y, y_pred, sample_weight)
        if self._compile_loss is not None or not labels:
            compared = self._plain(labels, outputs, weights) if labels else (y, y_pred, sample_weight)
            return super().compute_loss(x, *compared, training=training)
        return self.own_loss(labels, outputs | {"all": y_pred}, weights) + sum(self.losses)

    def own_loss(self, labels: Tensors, outputs: Tensors, weights: Tensors) -> tf.Tensor:
        """The head's loss, averaged over rows or positions with nonzero weight; outputs["all"]: all model outputs."""
        loss = LOSSES.get(self.kind, _sparse)
        return tf.add_n([weighted_mean(loss(labels[name], outputs[name]), weights[name]) for name in labels])

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """The metrics so far."""
        labels, outputs, weights = self._compared(x, y, y_pred, sample_weight)
        compared = self._plain(labels, outputs, weights) if labels else (y, y_pred, sample_weight)
        metrics: dict[str, Any] = super().compute_metrics(x, *compared)
        return metrics

    def _compared(self, x: Any, y: Any, y_pred: Any, weight: Any) -> tuple[Tensors, Tensors, Tensors]:
        """{output: labels}, {output: values} and {output: weights}, each {} for a model without a head."""
        labels, outputs, weights = {}, {}, {}
        for name, label in self._labels(x, y).items():
            values = self.judged(name, y_pred[name], x)
            label, given = tf.convert_to_tensor(label), weight.get(name) if isinstance(weight, Mapping) else weight
            if values.shape.rank == 1:  # Keras losses average over the last axis
                label, values = tf.reshape(label, [-1, 1]), values[:, None]
            elif label.shape.rank == values.shape.rank and label.shape[-1] == 1 < values.shape[-1]:
                label = tf.squeeze(label, -1)
            outputs[name] = values
            weights[name] = tf.ones_like(values[..., 0], tf.float32)
            if label.shape.rank == 2 and values.shape.rank == 3:  # token labels
                weights[name] = tf.cast(label >= 0, tf.float32)
                label = tf.maximum(label, 0)
            labels[name] = label
            if given is not None:
                given = tf.cast(given, tf.float32)
                rank = weights[name].shape.rank
                if given.shape.rank > rank:
                    given = tf.squeeze(given, -1)
                weights[name] *= tf.reshape(given, [-1, *[1] * (rank - 1)]) if given.shape.rank < rank else given
        return labels, outputs, weights

    def _labels(self, x: Any, y: Any) -> dict[str, Any]:
        """The labels keyed by output name, {} if there are none."""
        if y is None:
            y = x if isinstance(x, Mapping) else {}
        if isinstance(y, Mapping):
            named = {name: y.get(name, y.get(alias)) for name, alias in self.answers.items()}
            return {name: label for name, label in named.items() if label is not None}
        if not isinstance(y, list | tuple):
            y = tf.unstack(tf.convert_to_tensor(y), axis=-1) if self.stacks_labels else [y]
        return dict(zip(self.answers, y, strict=False))

    def judged(self, name: str, values: tf.Tensor, x: Any) -> tf.Tensor:
        """An output in the form expected by the loss."""
        return values

    def _plain(self, labels: Tensors, outputs: Tensors, weights: Tensors) -> tuple[Any, Any, Any]:
        """In the form Keras expects: a single output without its name, unless the loss is keyed by name."""
        if len(labels) > 1 or self._names_outputs:
            return labels, outputs, weights
        (name,) = labels
        return labels[name], outputs[name], weights[name]

    def fit(self, x: Any = None, y: Any = None, *values: Any, **options: Any) -> Any:
        """See `keras.Model.fit`; the inputs may come from a transformers tokenizer."""
        if isinstance(options.get("validation_data"), tuple):
            held_out, *rest = options["validation_data"]
            options["validation_data"] = (arrays(held_out), *map(arrays, rest))
        return super().fit(arrays(x), arrays(y), *values, **options)

    def evaluate(self, x: Any = None, y: Any = None, *values: Any, **options: Any) -> Any:
        """See `keras.Model.evaluate` and `fit`."""
        return super().evaluate(arrays(x), arrays(y), *values, **options)

    def predict(self, x: Any, *values: Any, **options: Any) -> Any:
        """See `keras.Model.predict` and `fit`; returns the model's outputs as arrays, keyed by name."""
        found = super().predict(arrays(x), *values, **options)
        return Outputs(found) if isinstance(found, dict) else found


def _optimizer() -> keras.optimizers.Optimizer:
    """AdamW for fine-tuning: clipped gradients, no weight decay for biases and LayerNorm."""
    optimizer = keras.optimizers.AdamW(LEARNING_RATE, weight_decay=WEIGHT_DECAY, global_clipnorm=MAX_NORM)
    optimizer.exclude_from_weight_decay(var_names=list(NOT_DECAYED))
    return optimizer


def weighted_mean(losses: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The sum of weighted losses divided by the number of nonzero weights, as in Keras: []."""
    count = tf.math.count_nonzero(weights, dtype=tf.float32)
    return tf.math.divide_no_nan(tf.reduce_sum(losses * weights), count)


def arrays(given: Any) -> Any:
    """Converts inputs or labels for Keras: lists of numbers, also in dictionaries, become arrays.

    Raises TypeError for texts.
    """
    if isinstance(given, Mapping):
        return {name: arrays(value) for name, value in given.items()}
    if isinstance(given, list | tuple) and given and not any(hasattr(each, "shape") for each in given):
        given = np.asarray(given)
    if isinstance(given, np.ndarray) and given.dtype.kind in "SUO" or isinstance(given, str):
        raise TypeError(
            "The model takes numbers, not texts: pass bert_tf.PreprocessingLayer(bert)(texts), or "
            "dict(tokenizer(texts)) of transformers; labels are numbers, the positions of their names in bert.labels."
        )
    return given
