"""Learning rates: the schedule over steps, the factor of each layer, and the selection of trained layers."""

import re
from collections.abc import Callable, Iterable, Mapping

import tensorflow as tf

from bert_tf.config.train_config import check_layers
from bert_tf.model.weights import HEADS

LAYER = re.compile(r"encoder/layers/(\d+)/")
ADAPTER = "/lora/"
# CRF potentials start at 0 and are few; at the encoder's rate Adam would hardly move them during fine-tuning.
CRF_RATE_FACTOR = 100.0
EMBEDDINGS = ("encoder/embeddings/", "encoder/token_embeddings")

Schedule = Callable[[tf.Tensor], tf.Tensor]


def polynomial_schedule(
    learning_rate: float,
    num_train_steps: int,
    num_warmup_steps: int = 0,
    *,
    continuous: bool = False,
    power: float = 1.0,
) -> Schedule:
    """Returns a function from a step (counted from 0) to its learning rate: linear warm-up and polynomial decay.

    As in google-research/bert `optimization.py`, the decay runs from step 0 to `num_train_steps`, and warm-up replaces
    it while step < `num_warmup_steps`, so the rate drops when warm-up ends.
    power: exponent of the remaining share of steps; 0.5 in NVIDIA's `PolyWarmUpScheduler`.
    continuous: start the decay after warm-up instead, so that the rate reaches `learning_rate` and does not jump.
    """

    def rate(step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        start = num_warmup_steps if continuous else 0
        remaining = (num_train_steps - step) / max(num_train_steps - start, 1)
        remaining = tf.clip_by_value(remaining, 0.0, 1.0)
        decayed = learning_rate * (remaining if power == 1 else tf.pow(remaining, power))
        warming = learning_rate * step / max(num_warmup_steps, 1)
        return tf.where(step < num_warmup_steps, warming, decayed)

    return rate


def by_progress(schedule: Schedule, share: Callable[[], tf.Tensor], num_train_steps: int) -> Schedule:
    """Returns a schedule that follows `schedule` by the share of progress, whatever the step."""
    return lambda step: schedule(share() * num_train_steps)


def layer_factors(names: Iterable[str], decay: float, head: float = 1.0) -> dict[str, float]:
    """Returns {canonical name: factor of the learning rate}, smaller for layers closer to the input.

    With L layers, counted from 0, layer i has decay^(L - i), the embeddings decay^(L + 1), the pooler and pre-training
    heads 1, task heads `head`.
    This is the discriminative fine-tuning of ULMFiT (Howard and Ruder 2018, section 3.1); google-research/electra
    (`model/optimization.py: _get_layer_lrs`) uses one power more for layers and embeddings. A CRF has its own factor.
    """
    names = list(names)
    top = number_of_layers(names)
    factors = {name: decay ** (top + 1 - _depth(name, top)) for name in names}
    factors |= {name: head for name in names if name.startswith(HEADS)}
    return factors | {name: CRF_RATE_FACTOR for name in names if name.startswith("crf/")}


def trainable(
    variables: Mapping[str, tf.Variable], num_frozen_layers: int = 0, freeze: str = "none"
) -> dict[str, tf.Variable]:
    """Returns {canonical name: variable} of the trained variables.

    num_frozen_layers: if above 0, the embeddings and the first N layers are frozen. freeze: "embeddings" freezes these,
    "encoder" all but the pooler, the head and adapters (`model.lora`). Raises UserError if the model has fewer layers.
    """
    top = number_of_layers(variables)
    check_layers(num_frozen_layers, top)
    lowest = num_frozen_layers + 1 if num_frozen_layers or freeze == "embeddings" else 0
    least = {True: lowest, False: top + 1 if freeze == "encoder" else lowest}  # keyed by whether it is an adapter
    return {name: variable for name, variable in variables.items() if _depth(name, top) >= least[ADAPTER in name]}


def unfrozen(variables: Mapping[str, tf.Variable], phase: int) -> dict[str, tf.Variable]:
    """Returns the variables trained in a phase of gradual unfreezing (Howard and Ruder 2018, section 3.3).

    Phase 0 trains pooler and heads; each later phase adds one layer from the top, and finally the embeddings.
    """
    top = number_of_layers(variables)
    return {name: variable for name, variable in variables.items() if _depth(name, top) > top - phase}


def without_biases(variables: Mapping[str, tf.Variable]) -> dict[str, tf.Variable]:
    """Returns {canonical name: variable} without the biases of the encoder's dense layers; heads keep theirs.

    See Geiping and Goldstein 2022, section 4.2.
    """
    return {name: x for name, x in variables.items() if not (name.startswith("encoder/") and name.endswith("/bias"))}


def number_of_layers(names: Iterable[str]) -> int:
    """Returns the number of layers of the encoder with these canonical names."""
    return max((int(match[1]) + 1 for name in names if (match := LAYER.match(name))), default=0)


def _depth(name: str, num_hidden_layers: int) -> int:
    """0 for the embeddings, i + 1 for layer i, L + 1 for pooler and heads."""
    match = LAYER.match(name)
    if match:
        return int(match[1]) + 1
    return 0 if name.startswith(EMBEDDINGS) else num_hidden_layers + 1
