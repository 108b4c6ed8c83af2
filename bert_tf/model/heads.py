"""Models: an encoder plus a task head.

B rows, T positions in a row, D hidden size, V vocabulary, P masked positions, C choices, W windows of a long text.
With dynamic packing T of the outputs is the length of the longest text.
"""

import bert_tf.model.started  # noqa: F401  # isort: skip

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.train_config import LoraConfig
from bert_tf.model import base_encoder, weights
from bert_tf.model import lora as adapters
from bert_tf.model.activation_probe import Probe
from bert_tf.model.base_encoder import Pass
from bert_tf.model.batch_layout import size_of
from bert_tf.model.crf import Crf, row_losses
from bert_tf.model.fitting import FittedModel, Tensors
from bert_tf.model.inputs import complete_for
from bert_tf.model.layers import ConfiguredLayer, Dense, Dropout, LayerNorm, config_of, dense
from bert_tf.model.packing import POSITION_INPUTS, TABLES, PackingSpec
from bert_tf.model.row_blocks import concat_blocks
from bert_tf.runtime import files

Inputs = Mapping[str, tf.Tensor]

HEAD_DROPOUT = 0.1  # before a task head, as in google-research/bert, whatever the encoder's configuration
IMPOSSIBLE = -1e9  # score of impossible choices; finite, because differences of infinities are NaN
WINDOWS_AT_ONCE = 32  # for texts in windows, if no gradient is needed


class MaskedLmHead(ConfiguredLayer):
    """Predicts the masked tokens (google-research/bert `run_pretraining.py: get_masked_lm_output`)."""

    transform: Dense | None = None  # None if the encoder transforms already

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        width = self.config.embedding_width
        if not self.config.encoder_traits.shares_head:
            own = self.config.of_masked_lm
            self.transform = self.new_dense(self.config.hidden_size, width, own.hidden_act)
            self.norm = LayerNorm(own, width, dtype=self.dtype_policy)
        self.output_bias = self.add_weight(name="output_bias", shape=(self.config.vocab_size,), initializer="zeros")
        self.built = True

    def call(self, tokens: tf.Tensor, token_table: tf.Tensor) -> tf.Tensor:
        """Returns logits float32 [B, P, V] for tokens [B, P, D]; the word embeddings [V, E] are the output matrix."""
        x = tf.reshape(tokens, [-1, self.config.hidden_size])
        x = self.norm(self.transform(x)) if self.transform else x  # [B * P, E]
        logits = tf.matmul(x, token_table, transpose_b=True)  # [B * P, V]
        logits = tf.nn.bias_add(tf.cast(logits, tf.float32), tf.cast(self.output_bias.value, tf.float32))
        return tf.reshape(logits, [-1, size_of(tokens, 1), self.config.vocab_size])


class LogitsHead(ConfiguredLayer):
    """One dense layer on a vector, computed in float32: in bfloat16 different answers could have equal scores."""

    def __init__(self, config: BertConfig | dict, size: int, size_in: int | None = None, **options: Any):
        super().__init__(config, **options)
        shape = (size_in or self.config.hidden_size, size)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=self.initializer(), autocast=False)
        self.bias = self.add_weight(name="bias", shape=(size,), initializer="zeros", autocast=False)
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [B, D] to float32 [B, size]."""
        return dense(*(tf.cast(tensor, tf.float32) for tensor in (x, self.kernel.value, self.bias.value)))


@keras.saving.register_keras_serializable("bert_tf")
class BertModel(FittedModel):
    """An encoder; subclasses add a head and define `outputs`, a dictionary of tensors.

    For `compile`, `fit`, `evaluate` and `predict` see `model.fitting`. `get_config` is plain data, so
    `.keras` files need no code except `import bert_tf`. docs/keras.md shows subclasses, adapters and custom loops.

    Args:
        config: a BertConfig, or a dictionary.
        kind: a name of `bert_tf.heads` that determines loss and metrics; "": the class's default.
        lora: fields of a LoraConfig, to attach adapters.
        options: arguments of keras.Model: name, dtype.

    Example:
        encoder = bert_tf.load("my-bert").model.encoder  # from a BertModel or any other model
        encoder.trainable = False
        ids = keras.Input([32], dtype="int32")
        vectors = encoder({"input_ids": ids})["pooled"]
        model = keras.Model(ids, keras.layers.Dense(2)(vectors))

    unread: canonical names of weights that do not affect the outputs, so other formats may lack them.
    write_description: writes additional files of the model's Keras files, such as its vocabulary.
    """

    unread: tuple[str, ...] = ()
    write_description: Callable[[str], None] | None = None
    lora: LoraConfig | None = None  # configuration of adapters, see `lora.attach`

    def __init__(self, config: BertConfig | dict, kind: str = "", lora: dict[str, Any] | None = None, **options: Any):
        super().__init__(**options)
        self.kind = kind or type(self).kind
        self.config = config_of(config)
        self.encoder = base_encoder.create_encoder(self.config, dtype=self.dtype_policy)
        if lora:
            adapters.attach(self, LoraConfig(**lora))
        self.built = True

    def call(
        self,
        inputs: Inputs,
        seed: tf.Tensor | None = None,
        packing: PackingSpec | None = None,
        probe: Probe | None = None,
        training: bool | None = None,
    ) -> dict[str, Any]:
        """Computes the class's `outputs`.

        Args:
            inputs: `token_ids` [B, T] and optional inputs; see `inputs.complete` for these and for other names.
            seed: int32 [2], the dropout seed; None: no dropout, unless `training`.
            packing: how to pack texts into rows; None: one text per row.
            probe: filled by this pass, see `model.activation_probe`.
            training: without a seed, draw one from the state saved with the model. Keras sets it in `fit`.
        """
        return self.outputs(self.complete(inputs), Pass(self.encoder.seed_of(seed, training), packing, probe))

    def complete(self, inputs: Any) -> Inputs:
        """Adds optional inputs the caller has omitted; see `inputs.complete_for`."""
        return complete_for(self.config, inputs)

    def outputs(self, inputs: Inputs, how: Pass) -> dict[str, Any]:
        """Returns the encoder's "tokens" [B, T, D] and "pooled" [B, D]."""
        return self.encoder(inputs, **how._asdict())

    def save_assets(self, folder: str) -> None:
        """Called by Keras to write additional files of a Keras file."""
        if self.write_description is not None:
            self.write_description(folder)

    def load_assets(self, folder: str | None) -> None:
        """Called by Keras to read them; None for files of earlier versions, which have none."""
        content = files.read_folder(folder) if folder else {}
        if content:
            self.write_description = functools.partial(files.write_folder, content=content)

    def count_params(self) -> int:
        """The number of weights, without the dropout state."""
        return sum(math.prod(variable.shape) for variable in weights.variables_by_name(self).values())

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments as plain data."""
        values = {"name": self.name, "dtype": self.dtype_policy.name, "config": self.config.to_dict()}
        values |= {"kind": self.kind} if self.kind else {}
        return values | ({"lora": dataclasses.asdict(self.lora)} if self.lora else {})


@keras.saving.register_keras_serializable("bert_tf")
class Pretrainer(BertModel):
    """BERT with its two pre-training heads: masked LM (tied to the word embeddings) and next sentence prediction.

    Encoders not pre-trained on pairs (`sentence_pairs` of their traits) have only the first.

    Example:
        model = bert_tf.Pretrainer(config)
        model.compile()
        model.fit({"input_ids": masked_ids}, original_ids)  # [batch, positions], -100 for no prediction
    """

    kind, answers = "masked_lm", {"masked_lm_logits": "labels", "next_sentence_logits": "next_sentence_label"}
    _has_metrics = False

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        self.masked_lm = MaskedLmHead(self.config, dtype=self.dtype_policy)
        if self.config.encoder_traits.sentence_pairs:
            self.next_sentence = LogitsHead(self.config, 2, dtype=self.dtype_policy)
        self.built = True

    def outputs(self, inputs: Inputs, how: Pass) -> dict[str, tf.Tensor]:
        """inputs: also `masked_lm_positions` [B, P]; without them P is T, and every token is predicted.

        Returns float32 "masked_lm_logits" [B, P, V] and "next_sentence_logits" [B, 2] (0: is next, 1: random).
        """
        encoded = self.encoder(inputs, positions=inputs.get("masked_lm_positions"), **how._asdict())
        tokens = encoded["tokens_at"] if "masked_lm_positions" in inputs else encoded["tokens"]
        tokens = self.encoder.for_token_heads(tokens)
        outputs = {"masked_lm_logits": self.masked_lm(tokens, self.encoder.token_table)}
        if self.config.encoder_traits.sentence_pairs:
            outputs["next_sentence_logits"] = self.next_sentence(encoded["pooled"])
        return outputs


class PooledModel(BertModel):
    """BERT with one dense layer on its pooled vector (google-research/bert `run_classifier.py: create_model`).

    window_pooling: "mean" or "max", how to combine the windows of a text.
    """

    def __init__(self, config: BertConfig | dict, size: int, window_pooling: str = "mean", **options: Any):
        super().__init__(config, **options)
        self.window_pooling = window_pooling
        self.dropout = Dropout(HEAD_DROPOUT, "head", dtype=self.dtype_policy)
        self.classifier = LogitsHead(self.config, size, dtype=self.dtype_policy)
        self.built = True

    def logits(self, inputs: Inputs, how: Pass) -> tf.Tensor:
        """Float32 [B, size], for texts or texts split into windows; inputs: see `vectors`."""
        return self.classifier(self.dropout(self.vectors(inputs, how), seed=how.seed))

    def vectors(self, inputs: Inputs, how: Pass) -> tf.Tensor:
        """Input of the dense layer, [B, D].

        inputs: texts in windows have `token_ids`, `segment_ids` [B, W, T], `lengths` [B, W], `window_counts` [B].
        """
        rows = as_rows(inputs) if "window_counts" in inputs else inputs
        if "window_counts" in inputs and how.packing and how.seed is None and TABLES[0] not in inputs:
            pooled = self._pooled_in_blocks(rows, how)
        else:
            pooled = self._pooled(rows, how)  # [B or B * W, D]
        if "window_counts" in inputs:
            pooled = _pool_windows(pooled, inputs["lengths"], inputs["window_counts"], self.window_pooling)
        return pooled

    def _pooled(self, rows: Inputs, how: Pass) -> tf.Tensor:
        """The pooled vectors of rows [R, D]."""
        no_tokens = tf.zeros([size_of(rows["token_ids"], 0), 0], tf.int32)
        return self.encoder(rows, positions=no_tokens, **how._asdict())["pooled"]

    def _pooled_in_blocks(self, rows: Inputs, how: Pass) -> tf.Tensor:
        """`_pooled` for the rows that have tokens, in blocks, so that memory does not depend on their number."""
        lengths = rows["lengths"]
        used = tf.where(lengths > 0)  # [N, 1]

        def of_rows(first: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            block = {name: tf.gather(x, used[first:end, 0]) for name, x in rows.items()}
            return tf.cast(self._pooled(block, how), tf.float32)

        size = self.config.hidden_size
        pooled = concat_blocks(of_rows, tf.shape(used)[0], [size], WINDOWS_AT_ONCE)  # [N, D]
        shape = tf.stack([tf.size(lengths, tf.int64), size])
        return tf.cast(tf.scatter_nd(used, pooled, shape), self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "window_pooling": self.window_pooling}


@keras.saving.register_keras_serializable("bert_tf")
class Classifier(PooledModel):
    """Classifies texts, or pairs of them, into `size` classes, or with `size` independent labels.

    Example:
        model = bert_tf.Classifier(config, 5, kind="multi_label")  # or kind="classes", the default
        model.compile()
        model.fit({"input_ids": ids}, labels)  # labels: 0 or 1, [batch, 5]; for classes their indices, [batch]
        model.predict({"input_ids": ids}).logits.shape  # (batch, 5)
    """

    kind, answers = "classes", {"logits": "labels"}

    def outputs(self, inputs: Inputs, how: Pass) -> dict[str, tf.Tensor]:
        """Returns float32 "logits" [B, size]."""
        return {"logits": self.logits(inputs, how)}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "size": self.classifier.bias.shape[0]}


@keras.saving.register_keras_serializable("bert_tf")
class Regressor(PooledModel):
    """Predicts a number for texts, or for pairs of them.

    Example:
        model = bert_tf.Regressor(config)
        model.compile(keras.optimizers.Adam(1e-4), "huber")
        model.fit({"input_ids": ids}, numbers)  # [batch]
    """

    kind, answers = "regression", {"values": "labels"}

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, 1, **options)

    def outputs(self, inputs: Inputs, how: Pass) -> dict[str, tf.Tensor]:
        """Returns float32 "values" [B], unbounded."""
        return {"values": self.logits(inputs, how)[:, 0]}


@keras.saving.register_keras_serializable("bert_tf")
class MultipleChoice(PooledModel):
    """Chooses among texts, each encoded separately (Devlin et al. 2018, section 4.4).

    Example:
        model = bert_tf.MultipleChoice(config)
        model.compile()
        model.fit({"input_ids": ids}, numbers)  # [batch, choices, positions], and the index of the right choice
    """

    kind, answers = "choice", {"logits": "labels"}

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, 1, **options)

    def outputs(self, inputs: Inputs, how: Pass) -> dict[str, tf.Tensor]:
        """inputs: int32 `token_ids`, `segment_ids` [B, C, T], `lengths` [B, C]. Returns float32 "logits" [B, C]."""
        logits = self.logits(as_rows(inputs), how)  # [B * C, 1]
        return {"logits": tf.reshape(logits, [-1, size_of(inputs["lengths"], -1)])}


@keras.saving.register_keras_serializable("bert_tf")
class SpanFinder(BertModel):
    """Scores every token as the start and as the end of an answer (google-research/bert `run_squad.py`).

    Example:
        model = bert_tf.SpanFinder(config)
        model.compile()
        model.fit({"input_ids": ids}, {"start_positions": starts, "end_positions": ends})
    """

    kind, answers = "span", {"start_logits": "start_positions", "end_logits": "end_positions"}
    stacks_labels = True
    unread = ("encoder/pooler/kernel", "encoder/pooler/bias")

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        self.span = LogitsHead(self.config, 2, dtype=self.dtype_policy)
        self.built = True

    def outputs(self, inputs: Inputs, how: Pass) -> dict[str, tf.Tensor]:
        """Returns float32 "start_logits" and "end_logits" [B, T]."""
        tokens = self.encoder(inputs, **how._asdict())["tokens"]  # [B, T, D]
        tokens = self.encoder.for_token_heads(tokens)
        logits = self.span(tf.reshape(tokens, [-1, self.config.hidden_size]))  # [B * T, 2]
        logits = tf.reshape(logits, [-1, size_of(tokens, 1), 2])
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}

    def judged(self, name: str, values: tf.Tensor, x: Any) -> tf.Tensor:
        """The logits with padding masked out."""
        return without_padding(values, self.complete(x)["lengths"])

    def own_loss(self, labels: Tensors, outputs: Tensors, weights: Tensors) -> tf.Tensor:
        """The mean of the start and end losses."""
        return super().own_loss(labels, outputs, weights) / len(self.answers)


@keras.saving.register_keras_serializable("bert_tf")
class TokenClassifier(BertModel):
    """Labels every token with one of `size` labels (Devlin et al. 2018, section 5.3): one dense layer.

    crf: whether to model the labels of a sentence as a chain; see `model.crf`.

    Example:
        model = bert_tf.TokenClassifier(config, 9)
        model.compile()
        model.fit({"input_ids": ids}, tags)  # [batch, positions], -100 for tokens without a tag
    """

    kind, answers = "tags", {"logits": "labels"}
    _answers_tokens = True
    unread = ("encoder/pooler/kernel", "encoder/pooler/bias")

    def __init__(self, config: BertConfig | dict, size: int, crf: bool = False, **options: Any):
        super().__init__(config, **options)
        self.dropout = Dropout(HEAD_DROPOUT, "head", dtype=self.dtype_policy)
        self.classifier = LogitsHead(self.config, size, dtype=self.dtype_policy)
        self.crf = Crf(size, dtype=self.dtype_policy) if crf else None
        self.built = True

    def outputs(self, inputs: Inputs, how: Pass) -> dict[str, tf.Tensor]:
        """Returns float32 "logits" [B, T, size], and with a CRF "potentials" [B, size + 2, size]."""
        tokens = self.encoder(inputs, **how._asdict())["tokens"]  # [B, T, D]
        tokens = self.encoder.for_token_heads(tokens)
        x = self.dropout(tf.reshape(tokens, [-1, self.config.hidden_size]), seed=how.seed)
        logits = self.classifier(x)  # [B * T, size]
        logits = tf.reshape(logits, [-1, size_of(tokens, 1), logits.shape[-1]])
        return {"logits": logits} | ({"potentials": self.crf(logits)} if self.crf else {})

    def own_loss(self, labels: Tensors, outputs: Tensors, weights: Tensors) -> tf.Tensor:
        """With a CRF, the negative log-likelihood of the rows, per word."""
        if self.crf is None:
            return super().own_loss(labels, outputs, weights)
        losses, counts = row_losses(
            outputs["logits"], labels["logits"], weights["logits"] > 0, outputs["all"]["potentials"][0]
        )
        return tf.math.divide_no_nan(tf.reduce_sum(losses * counts), tf.reduce_sum(counts))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "size": self.classifier.bias.shape[0], "crf": self.crf is not None}


def of_head(head: Any, config: BertConfig, size: int, **options: Any) -> BertModel:
    """The model of a Head of `bert_tf.heads`, newly initialized; size: of its bias, if its outputs have names."""
    model_class = globals()[head.model_class]
    if model_class.kind not in ("", head.kind):
        options = {"kind": head.kind, **options}
    model: BertModel = model_class(config, *([size] if head.is_labelled else []), **options)
    return model


def without_padding(logits: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Position scores [B, T], set to IMPOSSIBLE after the end of each text; lengths [B]."""
    return tf.where(tf.range(tf.shape(logits)[1])[None, :] < lengths[:, None], logits, IMPOSSIBLE)


def as_rows(inputs: Inputs) -> dict[str, tf.Tensor]:
    """Encoder inputs [B, W, ...] (windows or choices) -> [B * W, ...]."""
    flat = {
        name: tf.reshape(inputs[name], [-1, size_of(inputs[name], -1)]) for name in POSITION_INPUTS if name in inputs
    }
    tables = {name: inputs[name] for name in TABLES if name in inputs}  # per text, whatever it belongs to
    return {**flat, "lengths": tf.reshape(inputs["lengths"], [-1]), **tables}


def _pool_windows(
    pooled: tf.Tensor, lengths: tf.Tensor, counts: tf.Tensor, pooling: str
) -> tf.Tensor:  # [B * W, D], [B, W], [B] -> [B, D]
    """Mean or maximum over the windows of each text, without windows of length 0."""
    pooled = tf.reshape(pooled, [-1, size_of(lengths, -1), pooled.shape[-1]])  # [B, W, D]
    is_used = (lengths > 0)[:, :, None]
    if pooling == "max":
        return tf.reduce_max(tf.where(is_used, pooled, pooled.dtype.min), 1)
    summed = tf.reduce_sum(tf.where(is_used, tf.cast(pooled, tf.float32), 0), 1)
    return tf.cast(summed / tf.cast(counts, tf.float32)[:, None], pooled.dtype)
