"""BERT and its heads as plain functions of tensors, in the operations that other engines recognize and join.

A converter finds attention, LayerNorm and GELU by their shape in the graph; that of `layers.py`, which suits TensorFlow
(rows of [N, D], one matrix for query, key and value), it does not find. What is written with these functions is
compared with the model of `models.py` before it is used.

B texts, T slots, D hidden size, H heads, K size of one head, P masked positions, S segments, V vocabulary.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.model import heads, weights
from bert_tf.model.layers import MASK_BIAS

IDS = {"token_ids": ["B", "T"], "segment_ids": ["B", "T"], "lengths": ["B"]}  # inputs and their dimensions, all dynamic


class Network(tf.Module):
    """`function` of int32 tensors, in the order of the Head's inputs, -> {output: float32 tensor}, and its weights."""

    def __init__(self, config, arrays, head):
        """arrays: {canonical name: array} of an encoder and of that Head."""
        super().__init__()
        self.arrays = {
            part: tf.Variable(values, trainable=False)
            for name, array in arrays.items()
            for part, values in _parts(name, array)
        }
        specs = [tf.TensorSpec([None] * len(shape), tf.int32, name) for name, shape in head.inputs.items()]

        def answer(*values):
            inputs = dict(zip(head.inputs, values, strict=True))
            answers = head.answer(self.arrays, config, inputs)
            return {name: tf.identity(value, name) for name, value in answers.items()}

        self.function = tf.function(answer, input_signature=specs, autograph=False)


def _parts(name, array):
    """A weight as the network has it: query, key and value apart."""
    if "/query_key_value/" not in name:
        return [(name, array)]
    names = [name.replace("query_key_value", part) for part in ("query", "key", "value")]
    return zip(names, np.split(array, 3, -1), strict=True)


def encode(arrays, config, inputs):  # -> [B, T, D]
    """The tokens of the last layer."""
    tokens, segments = inputs["token_ids"], inputs["segment_ids"]
    rows, slots = tf.unstack(tf.shape(tokens))
    place = tf.range(slots)
    hidden = tf.reshape(place, [1, 1, 1, -1]) >= tf.reshape(inputs["lengths"], [-1, 1, 1, 1])  # [B, 1, 1, T]
    if config.is_causal:
        hidden |= tf.reshape(place, [1, 1, 1, -1]) > tf.reshape(place, [1, 1, -1, 1])  # [B, 1, T, T]
    mask = tf.cast(hidden, tf.float32) * MASK_BIAS
    table = {name: arrays[f"encoder/embeddings/{name}_table"] for name in ("token", "segment", "position")}
    x = tf.gather(table["token"], tokens) + tf.gather(table["segment"], segments)  # [B, T, D]
    x = layer_norm(x + table["position"][:slots], arrays, "encoder/embeddings/norm", config)
    for number in range(config.num_hidden_layers):
        x = layer(x, mask, [rows, slots], arrays, f"encoder/layers/{number}", config)
    return x


def layer(x, mask, shape, arrays, name, config):  # [B, T, D], [B, 1, 1 or T, T] -> [B, T, D]
    """Attention, then feed-forward; after each what came in is added and normalised."""

    def heads(part):  # -> [B, H, T, K]
        values = dense(x, arrays, f"{name}/attention/{part}")
        values = tf.reshape(values, [*shape, config.num_attention_heads, config.head_size])
        return tf.transpose(values, [0, 2, 1, 3])

    scores = tf.matmul(heads("query"), heads("key"), transpose_b=True) * (1 / math.sqrt(config.head_size))
    mixed = tf.matmul(tf.nn.softmax(scores + mask), heads("value"))  # [B, H, T, K]
    mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [*shape, config.hidden_size])
    x = layer_norm(x + dense(mixed, arrays, f"{name}/attention/project_out"), arrays, f"{name}/attention_norm", config)
    wide = activation(dense(x, arrays, f"{name}/feed_forward/expand"), config.hidden_act)
    narrow = dense(wide, arrays, f"{name}/feed_forward/contract")
    return layer_norm(x + narrow, arrays, f"{name}/feed_forward_norm", config)


def dense(x, arrays, name):
    return tf.matmul(x, arrays[f"{name}/kernel"]) + arrays[f"{name}/bias"]


def layer_norm(x, arrays, name, config):
    """LayerNorm; by a division and a power of 2, as converters look for it."""
    centred = x - tf.reduce_mean(x, [-1], keepdims=True)
    variance = tf.reduce_mean(tf.pow(centred, 2.0), [-1], keepdims=True)
    return centred / tf.sqrt(variance + config.layer_norm_eps) * arrays[f"{name}/gamma"] + arrays[f"{name}/beta"]


def activation(x, kind):
    """As `layers.activate`; the exact GELU with erf, as erfc is unknown to other engines."""
    if kind == "gelu_erf":
        return 0.5 * x * (1.0 + tf.math.erf(x / math.sqrt(2)))
    if kind == "gelu_tanh":
        return 0.5 * x * (1.0 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * tf.pow(x, 3.0))))
    return {"relu": tf.nn.relu, "tanh": tf.tanh}[kind](x)


def pooled(tokens, arrays, config, inputs):  # [B, T, D] -> [B, D]
    """Of the token that has seen the whole text: [CLS], or of a causal model the last one."""
    first = tokens[:, 0]
    if config.is_causal:
        first = tf.gather(tokens, tf.maximum(inputs["lengths"] - 1, 0), batch_dims=1)
    return tf.tanh(dense(first, arrays, "encoder/pooler"))


def _vectors(arrays, config, inputs):
    tokens = encode(arrays, config, inputs)
    has_pooler = "encoder/pooler/kernel" in arrays
    return {"tokens": tokens} | ({"pooled": pooled(tokens, arrays, config, inputs)} if has_pooler else {})


def _text(arrays, config, inputs):
    tokens = encode(arrays, config, inputs)
    return {"logits": dense(pooled(tokens, arrays, config, inputs), arrays, "classifier")}


def _tags(arrays, config, inputs):
    return {"logits": dense(encode(arrays, config, inputs), arrays, "classifier")}


def _span(arrays, config, inputs):
    logits = dense(encode(arrays, config, inputs), arrays, "span")  # [B, T, 2]
    return {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}


def _masks(arrays, config, inputs):
    tokens = encode(arrays, config, inputs)
    found = {}
    if "encoder/pooler/kernel" in arrays and "next_sentence/kernel" in arrays:
        found["next_sentence_logits"] = dense(pooled(tokens, arrays, config, inputs), arrays, "next_sentence")
    x = tf.gather(tokens, inputs["masked_lm_positions"], batch_dims=1)  # [B, P, D]
    x = activation(dense(x, arrays, "masked_lm/transform"), config.hidden_act)
    x = layer_norm(x, arrays, "masked_lm/norm", config)
    logits = tf.matmul(x, arrays["encoder/embeddings/token_table"], transpose_b=True)  # [B, P, V]
    return {"masked_lm_logits": logits + arrays["masked_lm/output_bias"], **found}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """What stands on the encoder, and its inputs; `model(config, size)` is the same in Keras, of a classifier's size.

    of_slots: outputs with an answer for every slot of T, those behind a text's end included. optional: beginnings of
    names of weights that a checkpoint may lack.
    """

    answer: Callable
    model: Callable
    of_slots: tuple = ()
    inputs: dict = dataclasses.field(default_factory=lambda: IDS)
    optional: tuple = ()


class Vectors(heads.BertModel):
    """An encoder alone."""

    def call(self, inputs):
        return self.encoder(inputs)


POOLER = "encoder/pooler/"
HEADS = {
    "text": Head(answer=_text, model=heads.Classifier),
    "tags": Head(answer=_tags, model=heads.TokenClassifier, of_slots=("logits",), optional=(POOLER,)),
    "span": Head(
        answer=_span,
        model=lambda config, size: heads.SpanFinder(config),
        of_slots=("start_logits", "end_logits"),
        optional=(POOLER,),
    ),
    "masks": Head(
        answer=_masks,
        model=lambda config, size: heads.Pretrainer(config),
        inputs=IDS | {"masked_lm_positions": ["B", "P"]},
        optional=(POOLER, "next_sentence/"),
    ),
    "vectors": Head(
        answer=_vectors, model=lambda config, size: Vectors(config), of_slots=("tokens",), optional=(POOLER,)
    ),
}


def head_of(checkpoint):
    """The name of the head in HEADS that a checkpoint has; UserError where its encoder is another than BERT's."""
    if checkpoint.config.encoder != "bert":
        raise UserError(f"Other engines have BERT's encoder alone; this model has {checkpoint.config.encoder!r}.")
    there = {name.split("/")[0] for name in checkpoint.weights}
    if "masked_lm" in there:
        return "masks"
    if "classifier" in there:
        return "tags" if checkpoint.kind == "tags" else "text"
    return "span" if "span" in there else "vectors"


class Live:
    """The model of a checkpoint, as a function {input: int32 array} -> {output: float32 array}, and its Head.

    report: what became of the weights. Raises UserError where the checkpoint lacks some.
    """

    def __init__(self, checkpoint):
        self.head = HEADS[head_of(checkpoint)]
        model = self.head.model(checkpoint.config, len(checkpoint.weights.get("classifier/bias", ())))
        self.report = weights.assign(model, checkpoint.weights)
        missing = [name for name in self.report.newly_initialized if not name.startswith(self.head.optional)]
        if missing:
            raise UserError(f"The checkpoint has no {missing[0]}: convert one that is whole.")
        if self.report.shape_mismatch:
            raise UserError(f"{self.report.shape_mismatch[0][0]} has another shape than its configuration says.")
        there = {name: checkpoint.weights[name] for name in self.report.loaded}
        self._network = Network(checkpoint.config, there, self.head)
        specs = {name: tf.TensorSpec([None] * len(shape), tf.int32) for name, shape in self.head.inputs.items()}
        self._function = tf.function(lambda inputs: model(inputs), input_signature=[specs], autograph=False)

    def __call__(self, inputs):
        answers = self._function({name: tf.constant(inputs[name]) for name in self.head.inputs})
        return {name: value.numpy() for name, value in answers.items()}

    def save(self, folder):
        """Writes the SavedModel of the Network."""
        tf.saved_model.save(self._network, folder, signatures=self._network.function)
