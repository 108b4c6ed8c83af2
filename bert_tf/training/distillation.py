"""Knowledge distillation: a student learns from the outputs of a trained teacher model on the same rows.

Teacher and student read the same batch in the same rows, the teacher without dropout. Each loss is an entry of LOSSES,
a mean over rows or tokens of the global batch like every objective; a method is an entry of RECIPES, losses and their
factors.

B rows, N tokens in all rows (padding included), T positions in a row, H heads, K head size, D hidden size, L
layers.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.train_config import DistillationConfig
from bert_tf.errors import UserError, leave_out
from bert_tf.model import weights
from bert_tf.model.activation_probe import Probe, check_support
from bert_tf.model.layers import Dense
from bert_tf.model.packing import PackingSpec
from bert_tf.model.weights import layer_map
from bert_tf.training.task import Batch, Objective, Task

SOFT_TARGETS = "soft_targets"
TASK = "task"  # used like a loss: the factor of the task's own objectives
LOGITS = {"span_loss": ("start_logits", "end_logits")}  # of an objective, if its name does not imply them
UNLIKELY = -1e4  # logit of padding
Metrics = dict[str, tuple[tf.Tensor, tf.Tensor]]

# DistilBERT: Sanh et al. 2019, and the weights of huggingface/transformers `examples/distillation`. TinyBERT: Jiao et
# al. 2020, equations 7 to 10, all at once and with the task's own loss, because no second stage follows. MiniLM: Wang
# et al. 2020, equations 4 to 7, with the task's own loss, which trains the head.
RECIPES: dict[str, dict[str, float]] = {
    "distilbert": {SOFT_TARGETS: 5.0, TASK: 2.0, "hidden_cosine": 1.0},
    "tinybert": {SOFT_TARGETS: 1.0, TASK: 1.0, "hidden_error": 1.0, "attention_error": 1.0},
    "minilm": {"attention_divergence": 1.0, "value_divergence": 1.0, TASK: 1.0},
}


@dataclasses.dataclass(frozen=True)
class View:
    """Outputs and activations of one model, for the losses."""

    outputs: Mapping[str, tf.Tensor]
    probe: Probe

    def scores(self, layer: int) -> tf.Tensor:
        """Attention scores of a layer before the softmax, float32 [B, H, T, T]."""
        query, key, _ = self.probe.attention[layer]
        return _products(query, key)


@dataclasses.dataclass(frozen=True)
class Pair:
    """Student and teacher on a batch.

    layers: the teacher's layer for each student layer, from 0. weights: weights of the task's objectives.
    widen: maps the student's hidden states to the width of the teacher's.
    """

    student: View
    teacher: View
    layers: Sequence[int]
    temperature: float
    weights: Mapping[str, tf.Tensor]
    lengths: tf.Tensor
    widen: Callable[[tf.Tensor], tf.Tensor] = tf.identity

    @property
    def is_token(self) -> tf.Tensor:
        """1 for tokens of texts, 0 for padding: float32 [N]."""
        return tf.cast(tf.sign(self.student.probe.texts), tf.float32)

    def over_keys(self, values: tf.Tensor) -> tf.Tensor:  # [B, H, T, T] -> [N]
        """The sum over the keys visible to a query, averaged over heads."""
        seen = tf.cast(self.student.probe.mask == 0, tf.float32)  # [B, 1, 1 or T, T]
        return tf.reshape(tf.reduce_mean(tf.reduce_sum(values * seen, -1), 1), [-1])

    def keys(self) -> tf.Tensor:
        """Number of keys visible to each query, at least 1: float32 [N]."""
        rows, width = tf.shape(self.student.scores(0))[0], tf.shape(self.student.scores(0))[2]
        seen = tf.broadcast_to(tf.cast(self.student.probe.mask == 0, tf.float32), [rows, 1, width, width])
        return tf.maximum(self.over_keys(seen), 1.0)

    def divergence(self, student: tf.Tensor, teacher: tf.Tensor) -> tf.Tensor:  # [B, H, T, T] twice -> [N]
        """The Kullback-Leibler divergence of the student's softmax over keys from the teacher's."""
        mask = tf.cast(self.student.probe.mask, tf.float32)
        return self.over_keys(_divergences(student + mask, teacher + mask))


def soft_targets(pair: Pair) -> Metrics:
    """T^2 KL(teacher || student) of the logits, both divided by the temperature T (Hinton et al. 2015, section 2)."""
    found: Metrics = {}
    for objective, given in pair.weights.items():
        own = (f"{objective.removesuffix('_loss')}_logits",)
        names = LOGITS.get(objective, own if own[0] in pair.student.outputs else ("logits",))
        if not {*names} <= pair.student.outputs.keys():
            raise UserError("soft_targets are of classes, which this task does not have: choose other losses.")
        terms = []
        for name in names:
            student, teacher = (view.outputs[name] / pair.temperature for view in (pair.student, pair.teacher))
            if len(names) > 1:  # the classes are the tokens
                is_used = tf.sequence_mask(pair.lengths, tf.shape(student)[1])
                student, teacher = (tf.where(is_used, x, UNLIKELY) for x in (student, teacher))
            terms.append(tf.reduce_sum(_divergences(student, teacher), -1))
        found[f"soft_{objective}"] = pair.temperature**2 * tf.add_n(terms) / len(terms), given
    return found


def hidden_cosine(pair: Pair) -> Metrics:
    """1 minus the cosine similarity of the last hidden states, per token."""
    student, teacher = (tf.cast(view.probe.hidden_states[-1], tf.float32) for view in (pair.student, pair.teacher))
    cosine = tf.reduce_sum(tf.math.l2_normalize(student, -1) * tf.math.l2_normalize(teacher, -1), -1)
    return {"hidden_cosine": (1 - cosine, pair.is_token)}


def hidden_error(pair: Pair) -> Metrics:
    """Mean squared differences of embeddings and hidden states, summed over layers, per token.

    If the widths differ, one trained dense layer, shared by all layers, first maps the student's states to the
    teacher's width (Jiao et al. 2020, equation 8; `fit_dense` of their code).
    """
    student = [pair.widen(tf.cast(x, tf.float32)) for x in pair.student.probe.hidden_states]
    teacher = pair.teacher.probe.hidden_states
    matched = [(student[0], teacher[0])]
    matched += [(student[ours + 1], teacher[theirs + 1]) for ours, theirs in enumerate(pair.layers)]
    errors = [tf.reduce_mean(tf.math.squared_difference(*_float32(both)), -1) for both in matched]
    return {"hidden_error": (tf.add_n(errors), pair.is_token)}


def attention_error(pair: Pair) -> Metrics:
    """Mean squared differences of attention scores before the softmax, summed over layers, per token."""
    differences = [
        tf.math.squared_difference(pair.student.scores(ours), pair.teacher.scores(theirs))
        for ours, theirs in enumerate(pair.layers)
    ]
    return {"attention_error": (pair.over_keys(tf.add_n(differences)) / pair.keys(), pair.is_token)}


def attention_divergence(pair: Pair) -> Metrics:
    """KL(teacher || student) of the last layer's attention, per token (Wang et al. 2020, equation 4)."""
    divergence = pair.divergence(pair.student.scores(-1), pair.teacher.scores(-1))
    return {"attention_divergence": (divergence, pair.is_token)}


def value_divergence(pair: Pair) -> Metrics:
    """KL(teacher || student) of the softmax of the last layer's value relations, per token (equations 5 and 6).

    Relations are the scaled products of values with each other.
    """
    values = (view.probe.attention[-1][2] for view in (pair.student, pair.teacher))
    divergence = pair.divergence(*(_products(value, value) for value in values))
    return {"value_divergence": (divergence, pair.is_token)}


@dataclasses.dataclass(frozen=True)
class Loss:
    """An entry of LOSSES.

    equal: the BertConfig entries that student and teacher must share.
    """

    function: Callable[[Pair], Metrics]
    equal: tuple[str, ...] = ()


LOSSES = {
    SOFT_TARGETS: Loss(soft_targets),
    "hidden_cosine": Loss(hidden_cosine, equal=("hidden_size",)),
    "hidden_error": Loss(hidden_error),
    "attention_error": Loss(attention_error, equal=("num_attention_heads",)),
    "attention_divergence": Loss(attention_divergence, equal=("num_attention_heads",)),
    "value_divergence": Loss(value_divergence, equal=("num_attention_heads",)),
}


def parse_losses(text: str) -> dict[str, float]:
    """{loss: factor} for a recipe's name or a list such as "soft_targets=1,task=0.5"; otherwise UserError."""
    if text in RECIPES:
        return RECIPES[text]
    factors = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        try:
            factor = float(number or 1)
        except ValueError:
            factor = math.nan
        if name not in (*LOSSES, TASK) or not 0 <= factor < math.inf:
            raise UserError(
                f"distillation is {text!r}; expected {', '.join(RECIPES)}, or factors of losses such as "
                f"soft_targets=1,task=0.5, of {', '.join((*LOSSES, TASK))}."
            )
        factors[name] = factor
    return factors


class DistilledTask:
    """A task with a teacher's terms added to its loss; otherwise it behaves like that task.

    Create it in the strategy's scope, because it may have variables of its own.

    Args:
        task: the task to learn.
        teacher: a model trained for it.
        student: the model to train.
        config: the losses.

    Raises:
        UserError: the teacher or the losses do not fit the student or the task.
    """

    needs_probe = True

    def __init__(self, task: Task, teacher: keras.Model, student: keras.Model, config: DistillationConfig):
        factors = dict(parse_losses(config.distillation))
        own = factors.pop(TASK, 0.0)
        self.task, self.teacher = task, teacher
        self.temperature = config.distillation_temperature
        counts = student.config.num_hidden_layers, teacher.config.num_hidden_layers
        self.layers = [number - 1 for number in layer_map(config.layer_map, *counts)]
        self.losses = [name for name, factor in factors.items() if factor]
        self.objectives = {
            name: Objective(factor=own * each.factor, epsilon=each.epsilon)
            for name, each in task.objectives.items()
            if own
        }
        for name in self.losses:
            metrics = [f"soft_{each}" for each in task.objectives] if name == SOFT_TARGETS else [name]
            self.objectives |= {metric: Objective(factor=factors[name]) for metric in metrics}
        self._check(student)
        self.projection: Dense | None = None
        widths = [model.config.hidden_size for model in (student, teacher)]
        if "hidden_error" in self.losses and widths[0] != widths[1]:
            self.projection = Dense(student.config, *widths, dtype="float32")

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """{name: variable} trained in addition to the student."""
        own = weights.variables(self.projection) if self.projection else {}
        return {weights.TEACHER_PROJECTION + name: variable for name, variable in own.items()}

    def _check(self, student: keras.Model) -> None:
        for model in (student, self.teacher):
            check_support(model.encoder, "teacher")
        if self.task.comparison:
            raise leave_out("teacher does not work with a loss that compares all rows of a batch")
        if self.task.head and not self.task.head.is_exclusive and SOFT_TARGETS in self.losses:
            raise UserError("soft_targets need one class for each text, and this task has several: see distillation.")
        for loss in self.losses:
            for entry in LOSSES[loss].equal:
                ours, theirs = (getattr(model.config, entry) for model in (student, self.teacher))
                if ours != theirs:
                    raise UserError(
                        f"{loss} compares models of the same {entry}, which is {ours} here and {theirs} in the "
                        f"teacher: choose other losses, such as distillation={SOFT_TARGETS}=1,{TASK}=1."
                    )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Weights of the task's objectives, the same for soft targets, and lengths for losses per token."""
        given = dict(self.task.loss_weights(batch))
        given |= {f"soft_{name}": values for name, values in given.items()}
        tokens = tf.cast(batch["lengths"], tf.float32)
        return {name: given.get(name, tokens) for name in self.objectives}

    def training_metrics(
        self, outputs: Mapping[str, tf.Tensor], batch: Batch, probe: Probe | None, packing: PackingSpec | None
    ) -> Metrics:
        """{metric: (values, weights)} of the task, and of the losses if there is a probe: float32.

        outputs, probe, packing: of the student's pass, which showed all tokens.
        """
        own = self.task.metrics(outputs, batch)
        return own | self._taught_metrics(outputs, batch, probe, packing) if probe else own

    def _taught_metrics(
        self, outputs: Mapping[str, tf.Tensor], batch: Batch, probe: Probe, packing: PackingSpec | None
    ) -> Metrics:
        seen = Probe(shows_all_tokens=True)
        taught = self.teacher(batch, packing=packing, probe=seen)
        pair = Pair(
            student=View(outputs, probe),
            teacher=View(taught, seen),
            layers=self.layers,
            temperature=self.temperature,
            weights=self.task.loss_weights(batch),
            lengths=batch["lengths"],
            widen=self.projection or tf.identity,
        )
        return {name: value for loss in self.losses for name, value in LOSSES[loss].function(pair).items()}


def _divergences(student: tf.Tensor, teacher: tf.Tensor) -> tf.Tensor:
    """P (log p - log q) per element, for the softmax p of the teacher's logits and q of the student's."""
    logs = tf.nn.log_softmax(tf.cast(teacher, tf.float32))
    return tf.exp(logs) * (logs - tf.nn.log_softmax(tf.cast(student, tf.float32)))


def _products(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:  # [B, H, T, K] twice -> float32 [B, H, T, T]
    x, y = _float32((x, y))
    return tf.matmul(x, y, transpose_b=True) / math.sqrt(x.shape[-1])


def _float32(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return [tf.cast(x, tf.float32) for x in tensors]
