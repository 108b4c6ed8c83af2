"""Which vectors are wanted of a text: of what layers, for tokens, words or the whole. Free of TensorFlow.

K vectors of a token, D hidden size, L layers.
"""

import dataclasses

from bert_tf.errors import UserError

UNITS = ("token", "word", "sentence")
POOLINGS = ("cls", "mean", "max", "mean_max", "mean_sqrt_len", "weighted_mean", "last", "pooled")
WORDS = ("text", "spaces")
WORD_VECTORS = ("first", "mean")
EMBEDDINGS, ALL = "embeddings", "all"
ONE_LAYER = {"last": -1, "second_to_last": -2}
LAST_FOUR = {"sum_last_four": "sum", "concat_last_four": "concat"}  # how they become one vector
NAMES = (EMBEDDINGS, *ONE_LAYER, *LAST_FOUR, ALL)
WEIGHTED_SUM = "weighted_sum"
# The rows of Devlin et al. 2018, Table 7: the layers (see `choose`), and how they become one vector.
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
    """The layers of one model that are wanted, and what becomes of them.

    layers: numbers among the L + 1 states of an encoder, 0 for the embeddings, L for the last layer.
    names: of the K vectors that a token has then, a number as the user wrote it or one of NAMES.
    join: "apart" (K vectors), "sum" (one, each layer times its weight) or "concat" (one).
    """

    layers: tuple
    names: tuple
    join: str = "apart"
    weights: tuple = ()

    def width(self, hidden_size):
        """Numbers of one vector."""
        return hidden_size * (len(self.layers) if self.join == "concat" else 1)


def parsed(text):
    """The parts of what --layers says: numbers and NAMES. Raises UserError for anything else.

    parsed("embeddings,-1")  ->  ["embeddings", -1]
    """
    parts = [part.strip() for part in text.split(",")]
    found = []
    for part in parts:
        number = part.removeprefix("-")
        if part not in NAMES and not (number.isascii() and number.isdigit()):
            raise UserError(
                f"layers is {text!r}; expected numbers with commas (-1 is the last layer, 0 the first) or "
                f"{', '.join(NAMES)}."
            )
        found.append(part if part in NAMES else int(part))
    if len(found) > 1 and (alone := [part for part in found if part in LAST_FOUR]):
        raise UserError(f"layers is {text!r}, but {alone[0]} stands alone: leave out the others.")
    return found


def parsed_weights(text):
    """The numbers of --layer_weights, () without. Raises UserError where one is no number."""
    try:
        return tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise UserError(f"layer_weights is {text!r}; expected numbers with commas, one for each layer.") from None


def choose(text, num_hidden_layers, weights=""):
    """The LayerChoice that --layers and --layer_weights say of a model with so many layers.

    text: numbers as google-research/bert `extract_features.py` counts, 0 for the first layer and -1 for the last, or
        NAMES: "embeddings" (what goes into the first layer), "all" (every layer, without the embeddings).
    weights: numbers with commas; the vector is then one, the sum of the layers, each times its weight.
    Raises UserError for a layer that the model has not, and for too many or few weights.
    """
    parts, factors = parsed(text), parsed_weights(weights)
    if not num_hidden_layers and parts != [EMBEDDINGS]:
        raise UserError(f"layers is {text!r}, but the model has embeddings alone: choose layers=embeddings.")
    names = [name for part in parts for name in (range(num_hidden_layers) if part == ALL else [part])]
    if doubles := [name for name in names if names.count(name) > 1]:
        raise UserError(f"layers is {text!r}, which names {doubles[0]} more than once; expected each layer once.")
    join = LAST_FOUR.get(names[0], "apart")
    layers = tuple(
        _state(number, text, num_hidden_layers)
        for number in (range(-4, 0) if join != "apart" else [ONE_LAYER.get(name, name) for name in names])
    )
    if factors:
        if join != "apart" or len(factors) != len(layers):
            reason = f"{names[0]} has its own" if join != "apart" else f"layers {text!r} are {len(layers)}"
            raise UserError(f"layer_weights are {len(factors)} numbers, but {reason}: give one for each layer.")
        return LayerChoice(layers=layers, names=(WEIGHTED_SUM,), join="sum", weights=factors)
    return LayerChoice(layers=layers, names=tuple(names), join=join, weights=(1.0,) * len(layers))


def _state(number, text, count):
    """The number among the states of a layer as the user counts; UserError where there is no such layer."""
    if number == EMBEDDINGS:
        return 0
    if not -count <= number < count:
        raise UserError(
            f"layers is {text!r}, but the model has {count} layers: 0 to {count - 1}, or -{count} to -1 from the end."
        )
    return number + 1 if number >= 0 else count + 1 + number


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorChoice:
    """What is wanted of a text.

    unit: a vector for each of its tokens ([CLS] and [SEP] too), for each word, or one for the whole.
    pooling: how the tokens become one: that of [CLS], their mean or largest number, both, their sum divided by the
        root of their count, a mean in which the n-th counts n times, the last one, or the pooler's answer.
    word_vectors: that of a word's first piece (Devlin et al. 2018, section 5.3), or the mean of its pieces.
    words: what parts them, spaces and punctuation ("text"), or "spaces" alone, as in a treebank's own words.
    normalize: the units whose vectors are divided by their length.
    stride: pieces from the start of a window of a long text to the next; 0: what does not fit is cut off.
    """

    layers: LayerChoice
    unit: str = "token"
    pooling: str = "mean"
    word_vectors: str = "first"
    words: str = "text"
    normalize: tuple = ()
    max_seq_length: int = 128
    stride: int = 64

    def width(self, hidden_size):
        """Numbers of one vector."""
        return self.layers.width(hidden_size) * (2 if self.unit == "sentence" and self.pooling == "mean_max" else 1)
