"""BERT, its variants and their heads as plain functions: the textbook form, in operations other engines recognize.

Converters find attention, LayerNorm and GELU by their pattern in the graph. They do not recognize the form in
`layers.py`, chosen for TensorFlow (rows of [N, D], one matrix for query, key and value). The tests compare every fast
path of the Keras models with these functions, and an export compares its engine with the Keras model before use.

B texts, T positions, D hidden size, H heads, K size of one head, P masked positions, S segments, V vocabulary.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.model import attention, base_encoder, heads, weights
from bert_tf.model.batch_layout import vectors_of_texts
from bert_tf.model.layers import activate
from bert_tf.model.packing import TABLES, RowAssignment
from bert_tf.model.relative_bias import relative_bias
from bert_tf.runtime import tensorflow_startup

Tensors = Mapping[str, tf.Tensor]
Encode = Callable[[Mapping[str, Any], BertConfig, Tensors], tf.Tensor]
IDS = {"token_ids": ["B", "T"], "segment_ids": ["B", "T"], "lengths": ["B"]}  # inputs and their dimensions, all dynamic
TABLE_SHAPES = dict(zip(TABLES, (["P", "W"], ["B", "T"]), strict=True))  # of inputs for packed rows


class Rows(NamedTuple):
    """The rows of a batch, for the layers of an encoder.

    mask: float32 [B, 1, 1 or T, T]. shape: B and T. turn: changes queries and keys [B, H, T, K] by their positions.
    """

    mask: tf.Tensor
    shape: list[tf.Tensor]
    turn: Callable[[tf.Tensor], tf.Tensor] = tf.convert_to_tensor


class FunctionalModel(tf.Module):
    """A `function` of int32 tensors, in the order of the Head's inputs, -> {output: float32 tensor}, and its weights.

    of_params: the same function of {name: weight} and those tensors, for converters that copy constants repeatedly.
    """

    def __init__(self, config: BertConfig, arrays: Mapping[str, np.ndarray], head: "Head"):
        """arrays: {canonical name: array} of an encoder and that Head."""
        super().__init__()
        self.params = {name: tf.Variable(array, trainable=False) for name, array in parameters(arrays).items()}
        specs = [tf.TensorSpec([None] * len(shape), tf.int32, name) for name, shape in head.inputs.items()]

        weights_specs = {name: tf.TensorSpec(x.shape, x.dtype, name) for name, x in self.params.items()}

        def call(params: Tensors, *values: tf.Tensor) -> dict[str, tf.Tensor]:
            outputs = head.apply(params, config, dict(zip(head.inputs, values, strict=True)))
            return {name: tf.identity(value, name) for name, value in outputs.items()}

        self.of_params = tf.function(call, input_signature=[weights_specs, *specs], autograph=False)
        self.function = tf.function(functools.partial(call, self.params), input_signature=specs, autograph=False)


def parameters(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """{canonical name: array} for the functions here: query, key and value are split."""
    params = {}
    for name, array in arrays.items():
        if "/query_key_value/" not in name:
            params[name] = array
            continue
        width = array.shape[-1] // 3
        for number, part in enumerate(("query", "key", "value")):
            params[name.replace("query_key_value", part)] = array[..., number * width : (number + 1) * width]
    return params


def encode(params: Tensors, config: BertConfig, inputs: Tensors) -> tf.Tensor:  # -> [B, T, D]
    """The tokens of the last layer; "word_vectors" [B, T, E] in the inputs replace the embedding lookup."""
    return (base_encoder.encoder_class(config).functional_encode or encode_bert)(params, config, inputs)


def on_rows(encode: Encode) -> Encode:
    """Decorates an encoder so that texts sharing rows by tables in the inputs (`RowAssignment`) are packed for it.

    It then receives rows with "text_numbers" and "positions" [P, W], see `mask_of`, and returns [P, W, D].
    """

    @functools.wraps(encode)
    def encode_texts(params: Tensors, config: BertConfig, inputs: Tensors) -> tf.Tensor:  # -> [B, T, D]
        assignment = RowAssignment.given(inputs)
        if assignment is None:
            return encode(params, config, inputs)
        tokens = encode(params, config, assignment.pack(inputs))
        return assignment.unpack(tf.reshape(tokens, [-1, tokens.shape[-1]]))

    return encode_texts


def mask_of(inputs: Tensors, width: tf.Tensor, *, is_causal: bool = False) -> tf.Tensor:
    """The attention mask, for rows of one text or of several."""
    if "text_numbers" in inputs:
        return attention.packing_mask(inputs["text_numbers"], width, is_causal=is_causal)
    return attention.padding_mask(inputs["lengths"], width, is_causal=is_causal)


@on_rows
def encode_bert(params: Tensors, config: BertConfig, inputs: Tensors) -> tf.Tensor:  # -> [B, T, D]
    """The tokens of the last layer of a BERT or of a relative that differs in its weights alone."""
    shape = tf.unstack(tf.shape(inputs["token_ids"]))
    mask = mask_of(inputs, shape[1], is_causal=config.is_causal)
    if "encoder/relative_attention_bias" in params:
        table = params["encoder/relative_attention_bias"]
        mask += relative_bias(tf.convert_to_tensor(table), shape[1], config.max_position_embeddings)
    x, rows = embed(params, config, inputs, shape[1]), Rows(mask, shape)
    is_pre_norm = "encoder/norm/gamma" in params
    for number in range(config.num_hidden_layers):
        name = f"encoder/layers/{number * config.layers_with_weights // config.num_hidden_layers}"
        x = (pre_norm_layer if is_pre_norm else layer)(x, rows, params, name, config)
    return layer_norm(x, params, "encoder/norm", config) if is_pre_norm else x


def embed(params: Tensors, config: BertConfig, inputs: Tensors, width: tf.Tensor) -> tf.Tensor:  # -> [B, T, D]
    """Word + position + segment, LayerNorm and projection, each only if it has weights."""
    name = "encoder/embeddings"
    words = inputs.get("word_vectors")
    x = tf.gather(params[f"{name}/token_table"], inputs["token_ids"]) if words is None else words  # [B, T, E]
    if f"{name}/segment_table" in params:
        segments = tf.minimum(inputs["segment_ids"], config.type_vocab_size - 1)
        x += tf.gather(params[f"{name}/segment_table"], segments)
    if f"{name}/position_table" in params:
        first = config.encoder_traits.position_offset
        table = params[f"{name}/position_table"][first:]
        x += tf.gather(table, inputs["positions"]) if "positions" in inputs else table[:width]
    if f"{name}/norm/gamma" in params:
        x = layer_norm(x, params, f"{name}/norm", config)
    return dense(x, params, f"{name}/projection") if f"{name}/projection/kernel" in params else x


def layer(x: tf.Tensor, rows: Rows, params: Tensors, name: str, config: BertConfig) -> tf.Tensor:  # [B, T, D]
    """Attention, then feed-forward; each followed by the residual and LayerNorm."""
    x = layer_norm(x + attend(x, rows, params, name, config), params, f"{name}/attention_norm", config)
    return layer_norm(x + feed_forward(x, params, name, config), params, f"{name}/feed_forward_norm", config)


def pre_norm_layer(x: tf.Tensor, rows: Rows, params: Tensors, name: str, config: BertConfig) -> tf.Tensor:  # [B, T, D]
    """The same with LayerNorm before attention, if there are weights for it, and before feed-forward."""
    has_norm = f"{name}/attention_norm/gamma" in params
    normal = layer_norm(x, params, f"{name}/attention_norm", config) if has_norm else x
    x += attend(normal, rows, params, name, config)
    return x + feed_forward(layer_norm(x, params, f"{name}/feed_forward_norm", config), params, name, config)


def attend(x: tf.Tensor, rows: Rows, params: Tensors, name: str, config: BertConfig) -> tf.Tensor:  # [B, T, D]
    """Self-attention with its output projection."""

    def heads(part: str) -> tf.Tensor:  # -> [B, H, T, K]
        values = dense(x, params, f"{name}/attention/{part}")
        values = tf.reshape(values, [*rows.shape, config.num_attention_heads, config.head_size])
        return tf.transpose(values, [0, 2, 1, 3])

    query, key = (rows.turn(heads(part)) for part in ("query", "key"))
    scale = 1 / math.sqrt(config.head_size)
    context, _ = attention.dot_product_attention(query, key, heads("value"), rows.mask, scale=scale, scale_scores=True)
    context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [*rows.shape, config.hidden_size])
    return dense(context, params, f"{name}/attention/project_out")


def feed_forward(x: tf.Tensor, params: Tensors, name: str, config: BertConfig) -> tf.Tensor:  # [..., D] -> [..., D]
    """Two dense layers with an activation between them; the first may be twice as wide, with a gate for each number."""
    wide = dense(x, params, f"{name}/feed_forward/expand")
    if wide.shape[-1] == config.intermediate_size:
        wide = activation(wide, config.hidden_act)
    else:
        wide, gate = tf.split(wide, 2, -1)
        wide = activation(wide, config.hidden_act) * gate
    return dense(wide, params, f"{name}/feed_forward/contract")


def dense(x: tf.Tensor, params: Tensors, name: str) -> tf.Tensor:
    """A dense layer without activation: [..., I] -> [..., O]."""
    x = tf.matmul(x, params[f"{name}/kernel"])
    return x + params[f"{name}/bias"] if f"{name}/bias" in params else x


def layer_norm(x: tf.Tensor, params: Tensors, name: str, config: BertConfig) -> tf.Tensor:  # [..., D] -> [..., D]
    """LayerNorm with a division and a power of 2, the pattern converters look for."""
    centered = x - tf.reduce_mean(x, [-1], keepdims=True)
    variance = tf.reduce_mean(tf.pow(centered, 2.0), [-1], keepdims=True)
    x = centered / tf.sqrt(variance + config.layer_norm_eps) * params[f"{name}/gamma"]
    return x + params[f"{name}/beta"] if f"{name}/beta" in params else x


def activation(x: tf.Tensor, kind: str) -> tf.Tensor:
    """Like `layers.activate`; the exact GELU uses erf, because other engines lack TensorFlow's erfc."""
    if kind == "gelu_erf":
        return 0.5 * x * (1.0 + tf.math.erf(x / math.sqrt(2)))
    return activate(x, kind)


def pooled(tokens: tf.Tensor, params: Tensors, config: BertConfig, inputs: Tensors) -> tf.Tensor:  # -> [B, D]
    """The pooled vectors, see `BertConfig`: [CLS], the last token of a causal model, or the mean."""
    x = vectors_of_texts(tokens, inputs, config)
    if config.encoder_traits.shares_head:
        return for_token_heads(x, params, config)
    if config.pooling == "mean":
        return x
    x = dense(x, params, "encoder/pooler")
    return activation(x, config.encoder_traits.pooler_activation)


def for_token_heads(tokens: tf.Tensor, params: Tensors, config: BertConfig) -> tf.Tensor:  # [..., D] -> [..., D]
    """Input of token-level heads: the tokens or, if heads share a transformation, the pooler's output for them."""
    if not config.encoder_traits.shares_head:
        return tokens
    x = activation(dense(tokens, params, "encoder/pooler/dense"), config.hidden_act)
    return layer_norm(x, params, "encoder/pooler/norm", config)


def _encoder_outputs(params: Tensors, config: BertConfig, inputs: Tensors) -> dict[str, tf.Tensor]:
    tokens = encode(params, config, inputs)
    has_pooler = config.pooling == "mean" or any(name.startswith(POOLER) for name in params)
    return {"tokens": tokens} | ({"pooled": pooled(tokens, params, config, inputs)} if has_pooler else {})


def _classifier_outputs(params: Tensors, config: BertConfig, inputs: Tensors) -> dict[str, tf.Tensor]:
    tokens = encode(params, config, inputs)
    return {"logits": dense(pooled(tokens, params, config, inputs), params, "classifier")}


def _token_classifier_outputs(params: Tensors, config: BertConfig, inputs: Tensors) -> dict[str, tf.Tensor]:
    logits = dense(for_token_heads(encode(params, config, inputs), params, config), params, "classifier")
    if "crf/potentials" not in params:
        return {"logits": logits}
    return {"logits": logits, "potentials": tf.tile(params["crf/potentials"][None], [tf.shape(logits)[0], 1, 1])}


def _span_outputs(params: Tensors, config: BertConfig, inputs: Tensors) -> dict[str, tf.Tensor]:
    logits = dense(for_token_heads(encode(params, config, inputs), params, config), params, "span")  # [B, T, 2]
    return {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}


def _pretraining_outputs(params: Tensors, config: BertConfig, inputs: Tensors) -> dict[str, tf.Tensor]:
    tokens = encode(params, config, inputs)
    x = tf.gather(tokens, inputs["masked_lm_positions"], batch_dims=1)  # [B, P, D]
    x = for_token_heads(x, params, config)
    if "masked_lm/transform/kernel" in params:
        own = config.of_masked_lm
        x = activation(dense(x, params, "masked_lm/transform"), own.hidden_act)
        x = layer_norm(x, params, "masked_lm/norm", own)
    logits = tf.matmul(x, params["encoder/embeddings/token_table"], transpose_b=True)  # [B, P, V]
    outputs = {"masked_lm_logits": logits + params["masked_lm/output_bias"]}
    if "encoder/pooler/kernel" in params and "next_sentence/kernel" in params:
        outputs["next_sentence_logits"] = dense(pooled(tokens, params, config, inputs), params, "next_sentence")
    return outputs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """A head on the encoder, and its inputs.

    apply(params, config, inputs): {output: tensor}. model(config, arrays): the same in Keras, for weights of these
    shapes. token_outputs: outputs [B, T, ...], meaningless after the end of a text. optional: name prefixes of weights
    that a checkpoint may lack.
    """

    apply: Callable[[Tensors, BertConfig, Tensors], dict[str, tf.Tensor]]
    model: Callable[[BertConfig, Mapping[str, np.ndarray]], heads.BertModel]
    token_outputs: tuple[str, ...] = ()
    inputs: Mapping[str, list[str]] = dataclasses.field(default_factory=lambda: IDS)
    optional: tuple[str, ...] = ()


def sharing_rows(head: Head) -> Head:
    """The Head with a `RowAssignment`'s tables as additional inputs, which pack texts into rows [P, W]."""
    return dataclasses.replace(head, inputs={**head.inputs, **TABLE_SHAPES})


def _classes(arrays: Mapping[str, np.ndarray]) -> int:
    return len(arrays.get("classifier/bias", ()))


# The forms that heads name, see `heads.base.format_names`.
POOLER = "encoder/pooler/"
TEXTS = Head(apply=_classifier_outputs, model=lambda config, arrays: heads.Classifier(config, _classes(arrays)))
TOKENS = Head(
    apply=_token_classifier_outputs,
    model=lambda config, arrays: heads.TokenClassifier(config, _classes(arrays), crf="crf/potentials" in arrays),
    token_outputs=("logits",),
    optional=(POOLER,),
)
SPANS = Head(
    apply=_span_outputs,
    model=lambda config, arrays: heads.SpanFinder(config),
    token_outputs=("start_logits", "end_logits"),
    optional=(POOLER,),
)
MASKS = Head(
    apply=_pretraining_outputs,
    model=lambda config, arrays: heads.Pretrainer(config),
    inputs=IDS | {"masked_lm_positions": ["B", "P"]},
    optional=(POOLER, "next_sentence/"),
)
VECTORS = Head(
    apply=_encoder_outputs,
    model=lambda config, arrays: heads.BertModel(config),
    token_outputs=("tokens",),
    optional=(POOLER,),
)


class Checkpoint(Protocol):
    """The required part of a `checkpoints.checkpoint.Checkpoint`."""

    @property
    def config(self) -> BertConfig:
        """The configuration of the model."""

    @property
    def weights(self) -> Mapping[str, np.ndarray]:
        """{canonical name: array}."""


class CheckpointModel:
    """A checkpoint's Keras model as a function {input: int32 array} -> {output: float32 array}, and its Head.

    report: which weights were loaded.
    """

    def __init__(self, checkpoint: Checkpoint, head: Head):
        """Raises UserError if the checkpoint lacks weights of that Head, or its encoder is not a BERT variant."""
        if not checkpoint.config.encoder_traits.is_functional:
            encoder = checkpoint.config.encoder
            raise UserError(f"Other engines support only BERT and similar encoders; this model has {encoder!r}.")
        self.head = head
        model = head.model(checkpoint.config, checkpoint.weights)
        self.report = weights.assign(model, checkpoint.weights)
        missing = [name for name in self.report.newly_initialized if not name.startswith(self.head.optional)]
        if missing:
            raise UserError(f"The checkpoint has no {missing[0]}: convert a complete one.")
        if self.report.shape_mismatch:
            raise UserError(f"{self.report.shape_mismatch[0][0]} does not have the shape given in its configuration.")
        loaded = {name: checkpoint.weights[name] for name in self.report.loaded}
        self._functional = FunctionalModel(checkpoint.config, loaded, self.head)
        specs = {name: tf.TensorSpec([None] * len(shape), tf.int32) for name, shape in self.head.inputs.items()}
        self._function = tf.function(lambda inputs: model(inputs), input_signature=[specs], autograph=False)

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs the Keras model."""
        outputs = self._function({name: tf.constant(inputs[name]) for name in self.head.inputs})
        return {name: value.numpy() for name, value in outputs.items()}

    def save(self, folder: str) -> None:
        """Writes the SavedModel of the FunctionalModel."""
        with tensorflow_startup.quiet_log():
            tf.saved_model.save(self._functional, folder, signatures=self._functional.function)
