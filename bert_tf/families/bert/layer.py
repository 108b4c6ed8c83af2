"""BertEncoder: token ids to the hidden states of every layer, and a pooled vector.

B rows, T positions in a row, N = B * T, D hidden size, H heads, L layers.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model.activation_probe import Probe
from bert_tf.model.base_encoder import BaseEncoder
from bert_tf.model.batch_layout import BatchLayout, gather_tokens, pooled_positions, size_of, vectors_of_texts
from bert_tf.model.embeddings import Embeddings, SharedEmbeddings
from bert_tf.model.layers import ConfiguredLayer, LayerNorm, PreNormLayer, TransformerLayer
from bert_tf.model.packing import PackingSpec, RowAssignment
from bert_tf.model.token_dropping import KeptTokens


@keras.saving.register_keras_serializable("bert_tf")
class BertEncoder(BaseEncoder):
    """BERT without a head (Devlin et al. 2018, section 3; google-research/bert `modeling.py: BertModel`).

    Other encoders differ in their traits, or are subclasses with a different `layer_class`, for instance.

    gradient_checkpointing: in training a layer keeps only its input for the backward pass and recomputes the rest there
        (Chen et al. 2016, arXiv:1604.06174): the same gradients, a third more work, a fraction of the memory.
    token_dropping: in training, the share of each row that the middle layers skip, see `model.token_dropping`.

    Args:
        config: the configuration.
        embeddings: another encoder's embeddings to share; None: its own.

    Example:
        encoder = bert_tf.Encoder(config)  # with random weights; bert_tf.load(PATH).model.encoder has trained ones
        encoder({"input_ids": ids})["tokens"].shape  # [batch, positions, width]
        encoder.layers[0].trainable = False
    """

    fills_probes = True
    takes_row_tables = True
    gradient_checkpointing = False
    token_dropping = 0.0
    norm: LayerNorm | None = None

    def __init__(
        self, config: BertConfig | dict, embeddings: Embeddings | SharedEmbeddings | None = None, **options: Any
    ):
        super().__init__(config, **options)
        self.embeddings = embeddings or Embeddings(self.config, dtype=self.dtype_policy, **self.embedding_options)
        self.layers = [
            self.layer_class(self.config, number, dtype=self.dtype_policy)
            for number in range(self.config.layers_with_weights)
        ]
        self.pooler = self.new_pooler() if self.config.pooling == "cls" else None
        if self.config.encoder_traits.is_pre_norm:
            self.norm = self.new_norm()
        self.built = True

    def configure_training(
        self, *, gradient_checkpointing: bool = False, token_dropping: float = 0.0, one_hot: str = "false"
    ) -> None:
        """Sets the attributes with these names; see `BaseEncoder`."""
        can_drop, can_multiply = bool(self.config.middle_layers), isinstance(self.embeddings, Embeddings)
        super().configure_training(
            token_dropping=0.0 if can_drop else token_dropping, one_hot="false" if can_multiply else one_hot
        )
        self.gradient_checkpointing, self.token_dropping = gradient_checkpointing, token_dropping
        if isinstance(self.embeddings, Embeddings):
            self.embeddings.one_hot = one_hot != "false"

    @property
    def layer_class(self) -> type[TransformerLayer]:
        """The class of its layers."""
        return PreNormLayer if self.config.encoder_traits.is_pre_norm else TransformerLayer

    @property
    def embedding_options(self) -> Mapping[str, bool]:
        """Options of its Embeddings."""
        return self.config.encoder_traits.embedding_options

    @property
    def pooler_activation(self) -> str:
        """The activation of its pooler."""
        return self.config.encoder_traits.pooler_activation

    def new_pooler(self) -> ConfiguredLayer:
        """Layer that maps the token representing a text to the vector for heads."""
        return self.new_dense(self.config.hidden_size, self.config.hidden_size, self.pooler_activation)

    def layer_at(self, number: int, layout: BatchLayout) -> tuple[TransformerLayer, BatchLayout]:
        """The layer applied at that position, and its layout: each use of the same layer has its own dropout."""
        if not self.config.encoder_traits.shares_layers:
            return self.layers[number], layout
        group = number * self.config.num_hidden_groups // self.config.num_hidden_layers
        if layout.seed is None:
            return self.layers[group], layout
        seed = tf.bitwise.bitwise_xor(layout.seed, tf.constant([0, number], tf.int32))
        return self.layers[group], dataclasses.replace(layout, seed=seed)

    def after_layers(self, x: tf.Tensor, layout: BatchLayout) -> tf.Tensor:
        """Transformation of the output [N, D] of the last layer."""
        return self.norm(x) if self.norm else x

    @property
    def token_table(self) -> tf.Tensor:
        """The word embeddings [V, D], in the compute dtype; shared with the masked LM head."""
        return tf.cast(self.embeddings.token_table.value, self.compute_dtype)

    def layout(self, inputs: Mapping[str, tf.Tensor], seed: tf.Tensor | None = None) -> BatchLayout:
        """Layout of the texts in `inputs` in their rows."""
        options = {"heads": self.config.num_attention_heads, "dtype": self.compute_dtype, "seed": seed}
        options |= {"is_causal": self.config.is_causal, "text_mask": inputs.get("text_mask")}
        if "text_numbers" in inputs:
            return BatchLayout.packed(inputs["text_numbers"], **options)
        return BatchLayout.padded(inputs["lengths"], size_of(inputs["token_ids"], 1), **options)

    def encode(
        self,
        inputs: Mapping[str, tf.Tensor],
        seed: tf.Tensor | None,
        positions: tf.Tensor | None,
        return_hidden_states: bool,
        return_attention: bool,
        packing: PackingSpec | None,
        probe: Probe | None = None,
    ) -> dict[str, Any]:
        """Like `BaseEncoder.call`; a mean needs all tokens of the last layer."""
        if positions is not None and self.config.pools_mean:
            outputs = self.encode(
                inputs,
                seed=seed,
                positions=None,
                return_hidden_states=return_hidden_states,
                return_attention=return_attention,
                packing=packing,
                probe=probe,
            )
            return {"tokens_at": tf.gather(outputs["tokens"], positions, batch_dims=1), "pooled": outputs["pooled"]}
        assignment = RowAssignment.given(inputs)
        if packing and assignment is None and "text_numbers" not in inputs:
            inputs = packing.trim(inputs)
            assignment = packing.assign(inputs)
        rows = assignment.pack(inputs) if assignment else inputs
        layout = self.layout(rows, seed).with_probe(probe)
        layout = dataclasses.replace(layout, shows_attention=return_attention) if return_attention else layout
        indices = None if positions is None else self._indices(inputs, assignment, positions)
        x = self.embeddings(rows["token_ids"], rows["segment_ids"], rows.get("positions"), layout=layout)  # [N, D]
        hidden_states, attention = self._through_layers(x, layout, indices)
        x = hidden_states[-1]
        if positions is not None:
            x = x if self.layers else gather_tokens(x, indices)
            x = tf.reshape(x, [-1, 1 + size_of(positions, 1), self.config.hidden_size])  # [B, 1 + P, D]
            return {"tokens_at": x[:, 1:], "pooled": self.pool(x[:, 0])}
        as_texts = assignment.unpack if assignment else layout.as_rows
        tokens = as_texts(x)  # [B, T, D]
        outputs = {"tokens": tokens, "pooled": self.pool(vectors_of_texts(tokens, inputs, self.config))}
        if return_hidden_states:
            outputs["hidden_states"] = tuple(map(as_texts, hidden_states))
        if return_attention:
            outputs["attention_probabilities"] = tuple(attention)
        return outputs

    def pool(self, x: tf.Tensor) -> tf.Tensor:
        """Output of the pooler for its input [B, D], or the input if there is no pooler."""
        return x if self.pooler is None else self.pooler(x)

    def _through_layers(
        self, x: tf.Tensor, layout: BatchLayout, indices: tf.Tensor | None
    ) -> tuple[list[tf.Tensor], list[tf.Tensor | None]]:
        """The input of the first layer, the output of each, and their attention probabilities."""
        hidden_states, attention = [x], []
        shows_all = layout.probe is not None and layout.probe.shows_all_tokens
        middle = self.config.middle_layers if self.token_dropping and layout.training else range(0)
        for number in range(self.config.num_hidden_layers):
            if middle and number == middle.start:
                kept = KeptTokens.draw(layout, indices, self.token_dropping, is_causal=self.config.is_causal)
                all_tokens, all_positions = x, layout
                x, layout = kept.narrow(x), kept.layout
            if middle and number == middle.stop:
                x, layout = kept.widen(x, all_tokens), all_positions
            layer, layer_layout = self.layer_at(number, layout)
            is_last = number == self.config.num_hidden_layers - 1
            arguments: Any = {"layout": layer_layout, "indices": indices if is_last and not shows_all else None}
            if self.gradient_checkpointing and layout.training:
                x, probabilities = _checkpointed(layer, x, **arguments), None
            else:
                x, probabilities = layer(x, **arguments)
            hidden_states.append(x)
            attention.append(probabilities)
        hidden_states[-1] = self.after_layers(x, layout)
        if layout.probe:
            layout.probe.hidden_states = list(hidden_states)
        if shows_all and self.layers:
            hidden_states[-1] = gather_tokens(hidden_states[-1], indices)
        return hidden_states, attention

    def _indices(
        self, inputs: Mapping[str, tf.Tensor], assignment: RowAssignment | None, positions: tf.Tensor
    ) -> tf.Tensor:
        """Indices into [N, D] of the needed tokens, for each text the pooled one, then the rest.

        int32 [B, 1 + P], or [B * (1 + P)] for packed texts, where several share a row.
        """
        first = pooled_positions(inputs, self.config)
        positions = tf.concat([first[:, None], positions], 1)  # [B, 1 + P]
        if assignment:
            return tf.reshape(assignment.locate(positions), [-1])
        rows, width = size_of(inputs["token_ids"], 0), size_of(inputs["token_ids"], 1)
        return positions + width * tf.range(rows)[:, None]


Encoder = BertEncoder


def _checkpointed(
    layer: TransformerLayer, x: tf.Tensor, *, layout: BatchLayout, indices: tf.Tensor | None
) -> tf.Tensor:
    """The output of a layer, recomputed for its gradient: arguments have a gradient, captured tensors have none."""
    names = [name for name in ("bias", "distance_vectors") if getattr(layout, name) is not None]

    def compute(x: tf.Tensor, *values: tf.Tensor) -> tf.Tensor:
        given = dataclasses.replace(layout, **dict(zip(names, values, strict=True)))
        return layer(x, layout=given, indices=indices)[0]

    y = tf.recompute_grad(compute)(x, *(getattr(layout, name) for name in names))
    return tf.reshape(y, tf.shape(y))  # which has a dense gradient: recompute_grad takes none from tf.gather
