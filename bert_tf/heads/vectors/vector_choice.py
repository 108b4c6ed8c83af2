"""Which vectors to take from a text: their layers, for tokens, words or the whole text. Free of TensorFlow.

K vectors per token, D hidden size, L layers.
"""

import dataclasses
from typing import Any

from bert_tf.config.flag_parsers import finite
from bert_tf.config.sentence_vectors import VectorLayer
from bert_tf.errors import UserError
from bert_tf.runtime import json_values

SMALLEST = 1e-12  # lower bound of the length that a vector is divided by
EPSILON = 1e-5  # added to the variance by the LayerNorm of sentence-transformers
UNITS = ("token", "word", "sentence")
POOLINGS = ("cls", "mean", "max", "mean_max", "mean_sqrt_len", "weighted_mean", "last", "pooled")
WORDS = ("text", "spaces")
WORD_VECTORS = ("first", "mean")
EMBEDDINGS, ALL = "embeddings", "all"
ONE_LAYER = {"last": -1, "second_to_last": -2}
LAST_FOUR = {"sum_last_four": "sum", "concat_last_four": "concat"}  # how they are combined
NAMES = (EMBEDDINGS, *ONE_LAYER, *LAST_FOUR, ALL)
WEIGHTED_SUM = "weighted_sum"
# The rows of Devlin et al. 2018, Table 7: the layers (see `choose_layers`), and how they are combined.
FEATURES = {
    "embeddings": ("embeddings", "concat"),
    "second_to_last": ("second_to_last", "concat"),
    "last": ("last", "concat"),
    "weighted_sum_last_four": ("-4,-3,-2,-1", "mix"),
    "concat_last_four": ("-4,-3,-2,-1", "concat"),
    "weighted_sum_all": ("all", "mix"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerChoice:
    """The layers of one model to take, and how they are combined.

    layers: numbers among the L + 1 states of an encoder, 0 for the embeddings, L for the last layer.
    names: names of the K vectors per token: numbers as written by the user, or names in NAMES.
    join: "apart" (K vectors), "sum" (one, each layer times its weight) or "concat" (one).
    """

    layers: tuple[int, ...]
    names: tuple[int | str, ...]
    join: str = "apart"
    weights: tuple[float, ...] = ()

    def width(self, hidden_size: int) -> int:
        """Size of one vector."""
        return hidden_size * (len(self.layers) if self.join == "concat" else 1)


def parse_layers(text: str) -> list[int | str]:
    """The parts of --layers: numbers and NAMES. Raises UserError for anything else.

    parse_layers("embeddings,-1")  ->  ["embeddings", -1]
    """
    layers: list[int | str] = []
    for part in (part.strip() for part in text.split(",")):
        number = part.removeprefix("-")
        if part not in NAMES and not (number.isascii() and number.isdigit()):
            raise UserError(
                f"layers is {text!r}; expected comma-separated numbers (-1 is the last layer, 0 the first) or "
                f"{', '.join(NAMES)}."
            )
        layers.append(part if part in NAMES else int(part))
    if len(layers) > 1 and (alone := [part for part in layers if part in LAST_FOUR]):
        raise UserError(f"layers is {text!r}, but {alone[0]} cannot be combined: remove the others.")
    return layers


def parse_weights(text: str) -> tuple[float, ...]:
    """The numbers of --layer_weights, () if empty. Raises UserError for anything else."""
    try:
        return tuple(finite(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise UserError(f"layer_weights is {text!r}; expected comma-separated numbers, one for each layer.") from None


def choose_layers(text: str, num_hidden_layers: int, weights: str = "") -> LayerChoice:
    """The LayerChoice of --layers and --layer_weights.

    Args:
        text: numbers as in google-research/bert `extract_features.py`, 0 for the first layer and -1 for the last,
            or NAMES: "embeddings" (the input of the first layer), "all" (every layer, without the embeddings).
        num_hidden_layers: the model's number of layers.
        weights: comma-separated numbers; the vector is then the weighted sum of the layers.

    Raises:
        UserError: a layer that the model does not have, or a wrong number of weights.
    """
    parts, factors = parse_layers(text), parse_weights(weights)
    if not num_hidden_layers and parts != [EMBEDDINGS]:
        raise UserError(f"layers is {text!r}, but the model has only embeddings: choose layers=embeddings.")
    names = [name for part in parts for name in (range(num_hidden_layers) if part == ALL else [part])]
    if duplicates := [name for name in names if names.count(name) > 1]:
        raise UserError(f"layers is {text!r}, which names {duplicates[0]} more than once; expected each layer once.")
    join = LAST_FOUR.get(str(names[0]), "apart")
    chosen = range(-4, 0) if join != "apart" else [ONE_LAYER.get(str(name), name) for name in names]
    layers = tuple(_state(number, text, num_hidden_layers) for number in chosen)
    if factors:
        if join != "apart" or len(factors) != len(layers):
            reason = f"{names[0]} has its own" if join != "apart" else f"layers {text!r} are {len(layers)}"
            raise UserError(f"layer_weights are {len(factors)} numbers, but {reason}: pass one for each layer.")
        return LayerChoice(layers=layers, names=(WEIGHTED_SUM,), join="sum", weights=factors)
    return LayerChoice(layers=layers, names=tuple(names), join=join, weights=(1.0,) * len(layers))


def _state(layer: int | str, text: str, count: int) -> int:
    """The index of a layer among the states, from the user's numbering; UserError if the layer does not exist."""
    if layer == EMBEDDINGS:
        return 0
    number = int(layer)
    if not -count <= number < count:
        raise UserError(
            f"layers is {text!r}, but the model has {count} layers: 0 to {count - 1}, or -{count} to -1 from the end."
        )
    return number + 1 if number >= 0 else count + 1 + number


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorChoice:
    """Which vectors to take from a text.

    unit: one vector for each token (including [CLS] and [SEP]), for each word, or for the whole text.
    pooling: how token vectors are combined: [CLS] only, mean, maximum, mean and maximum, the sum divided by the
        square root of the token count, a mean that weights the n-th token by n, the last token, or the pooler's
        output.
    word_vectors: the vector of a word's first token (Devlin et al. 2018, section 5.3), or the mean of its tokens.
    words: separated by spaces and punctuation ("text"), or only by spaces ("spaces"), as words in a treebank.
    normalize: the units whose vectors are divided by their length, as the last step.
    stride: tokens from the start of a window of a long text to the next; 0: long texts are truncated.
    after: layers applied to text vectors after pooling.
    truncate_dim: number of dimensions kept after that; None: all.
    prompt: added before a text, for whole-text vectors. include_prompt: whether its tokens are pooled too.
    """

    layers: LayerChoice
    unit: str = "token"
    pooling: str = "mean"
    word_vectors: str = "first"
    words: str = "text"
    normalize: tuple[str, ...] = ()
    max_seq_length: int = 128
    stride: int = 64
    after: tuple[VectorLayer, ...] = ()
    truncate_dim: int | None = None
    prompt: str = ""
    include_prompt: bool = True

    def width(self, hidden_size: int) -> int:
        """Size of one vector; UserError if the layers after pooling expect a different size."""
        width = self.layers.width(hidden_size)
        if self.unit != "sentence":
            return width
        width *= len(self.pooling.replace("mean_max", "mean+max").split("+"))
        for layer in self.after:
            before, after = layer.widths or (width, width)
            if before != width:
                raise UserError(
                    f"The layers and the pooling {self.pooling} produce vectors of {width} dimensions, but the "
                    f"modules after the pooling take {before}: keep the layers and pooling of the model."
                )
            width = after
        return min(width, self.truncate_dim or width)

    @property
    def is_of_last_layer(self) -> bool:
        """Returns whether they come from the last layer only, which is all that engines return."""
        return self.layers.names in ((-1,), ("last",))

    @property
    def is_of_pooler(self) -> bool:
        """Returns whether they are the encoder's pooled vectors."""
        return self.unit == "sentence" and self.pooling == "pooled"

    def host_settings(self) -> dict[str, Any]:
        """See `export.host.vectors`."""
        names = ("unit", "pooling", "word_vectors", "words", "max_seq_length", "stride", "truncate_dim")
        of_texts = self.unit == "sentence"
        return {
            "stages": "vectors",
            **{name: getattr(self, name) for name in names},
            "prompt": self.prompt if of_texts else "",
            "include_prompt": self.include_prompt,
            "after": [vars(layer) | {"arrays": json_values.arrays_as_json(layer.arrays)} for layer in self.after],
            "is_normalized_last": self.unit in self.normalize,
        }
