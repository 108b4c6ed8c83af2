"""Base class of encoders: completed inputs, dropout seeds, one signature.

B rows, T positions in a row, P requested positions, D hidden size, H heads, L layers, V vocabulary.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NotRequired, TypedDict, Unpack

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.encoder_traits import PACKAGE, module_with_layer
from bert_tf.errors import leave_out
from bert_tf.model import random_bits
from bert_tf.model.activation_probe import Probe
from bert_tf.model.inputs import complete_for
from bert_tf.model.layers import ConfiguredLayer, config_of
from bert_tf.model.packing import PackingSpec


class Asked(TypedDict):
    """Arguments of a call in addition to its inputs; see `BaseEncoder.call`."""

    seed: tf.Tensor | None
    positions: tf.Tensor | None
    return_hidden_states: bool
    return_attention: bool
    packing: PackingSpec | None
    probe: NotRequired[Probe]


class Pass(NamedTuple):
    """Arguments of a call that a model passes on to its encoder; see `BaseEncoder.call`."""

    seed: tf.Tensor | None = None
    packing: PackingSpec | None = None
    probe: Probe | None = None


class BaseEncoder(ConfiguredLayer):
    """Base class of encoders: `call` completes the inputs and draws a seed in training, then calls `encode`.

    An encoder defines `encode`, with the arguments of `call` without `training`, and `token_table` [V, D].

    takes_any_mask: whether a mask may have zeros before the end of a text.
    fills_probes: whether it has BERT's layers, which fill an `activation_probe.Probe`.
    replaced_token_head: the layer that finds replaced tokens; None for ELECTRA's.
    functional_encode: its computation in `model.functional_bert`; None for BERT's.
    takes_row_tables: whether inputs may assign texts to rows, see `packing.RowAssignment.given`.
    """

    fills_probes = False
    takes_row_tables = False
    takes_any_mask = True
    replaced_token_head: type[keras.layers.Layer] | None = None
    functional_encode: Callable[..., tf.Tensor] | None = None

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        self._dropout_state = (
            self.add_weight(  # the underscore excludes it from the model's weights, see `weights.variables_by_name`
                name="dropout_state",
                shape=(2,),
                dtype="int64",
                initializer=lambda shape, dtype: tf.constant(random_bits.new_state(), dtype),
                trainable=False,
                autocast=False,
                aggregation="none",
            )
        )

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "BaseEncoder":
        """The layer of a Keras file. This package's encoders share a class name; the configuration identifies them."""
        if not cls.__module__.startswith(f"{PACKAGE}."):
            return cls(**config)
        layer: BaseEncoder = module_with_layer(config_of(config["config"]).encoder).Encoder(**config)
        return layer

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        seed: tf.Tensor | None = None,
        positions: tf.Tensor | None = None,
        return_hidden_states: bool = False,
        return_attention: bool = False,
        packing: PackingSpec | None = None,
        probe: Probe | None = None,
        training: bool | None = None,
    ) -> dict[str, Any]:
        """Encodes rows of texts.

        Args:
            inputs: int32 `token_ids`, `segment_ids` [B, T], and either `lengths` [B] (one text per row) or
                `text_numbers` and `positions` [B, T] (several texts per row). All but `token_ids` are optional, and
                other names are accepted, too: see `inputs.complete`.
            seed: int32 [2], the dropout seed of this pass; None: no dropout, unless `training`.
            positions: int32 [B, P], the only tokens needed; P may be 0. The last layer then computes only these and the
                pooled ones, which saves a twelfth of the work of a classifier with twelve layers.
            return_hidden_states: also return "hidden_states", a tuple of L + 1 [B, T, D], starting with the embeddings.
                Not with positions.
            return_attention: also return "attention_probabilities", a tuple of L [B, H, T, T]. Not with positions.
            packing: how to pack inputs with `lengths` into rows; None: no packing. Outputs differ only on padding and
                in attention, which is per row; with dynamic packing T of the outputs is the longest text's.
            probe: filled by this pass; only for encoders with `fills_probes`.
            training: without a seed, draw one from the state saved with the layer. Keras sets it in `fit`.

        Returns:
            A dictionary: "tokens" [B, T, D], or with positions "tokens_at" [B, P, D]; "pooled" [B, D]; and on request
            "hidden_states" and "attention_probabilities".
        """
        seed = self.seed_of(seed, training)
        inputs = complete_for(self.config, inputs)
        if "text_mask" in inputs and not self.takes_any_mask:
            mask = inputs["text_mask"]  # [B, T]
            tf.debugging.assert_equal(
                tf.reduce_max(mask[:, 1:] - mask[:, :-1]) <= 0,
                True,
                "The mask has padding before a token, which this encoder cannot skip: begin each row with its text.",
            )
        return self.encode(
            inputs,
            seed=seed,
            positions=positions,
            return_hidden_states=return_hidden_states,
            return_attention=return_attention,
            packing=packing,
            **({} if probe is None else {"probe": probe}),
        )

    def encode(self, inputs: Mapping[str, tf.Tensor], **asked: Unpack[Asked]) -> dict[str, Any]:
        """The encoder's own computation; see `call`."""
        raise NotImplementedError

    def configure_training(
        self, *, gradient_checkpointing: bool = False, token_dropping: float = 0.0, one_hot: str = "false"
    ) -> None:
        """Sets how a step of training computes: see `families.bert.layer.BertEncoder`, the only one that has a choice.

        one_hot: whether to look up tokens by a matrix product: "true", "false", or "auto", if the encoder can.
        Raises UserError for options this encoder does not support.
        """
        name = self.config.encoder
        if gradient_checkpointing:
            raise leave_out(f"gradient_checkpointing requires BERT's layers, and encoder={name} has none")
        if token_dropping:
            raise leave_out(
                f"token_dropping needs three or more of BERT's layers, unlike encoder={name} with num_hidden_layers "
                f"{self.config.num_hidden_layers}"
            )
        if one_hot == "true":
            raise leave_out(f"use_one_hot_embeddings requires BERT's embeddings, and encoder={name} has others")

    def for_token_heads(self, tokens: tf.Tensor) -> tf.Tensor:
        """Input [B, T, D] of token-level heads."""
        if not self.config.encoder_traits.shares_head:
            return tokens
        return tf.reshape(self.pooler(tf.reshape(tokens, [-1, tokens.shape[-1]])), tf.shape(tokens))

    def seed_of(self, seed: tf.Tensor | None, training: bool | None) -> tf.Tensor | None:
        """The seed of a pass: the given one, else a new one in training, else None."""
        return random_bits.next_seed(self._dropout_state) if seed is None and training else seed

    def load_own_variables(self, store: Mapping[str, Any]) -> None:
        """Reads the dropout state from a `.keras` file; files of earlier versions have none."""
        if len(store):
            super().load_own_variables(store)


def create_encoder(config: BertConfig, **options: Any) -> BaseEncoder:
    """Creates the encoder that `config.encoder` names."""
    return encoder_class(config)(config, **options)


def encoder_class(config: BertConfig) -> type[BaseEncoder]:
    """The class of the encoder that `config.encoder` names."""
    encoder: type[BaseEncoder] = module_with_layer(config.encoder).Encoder
    return encoder
