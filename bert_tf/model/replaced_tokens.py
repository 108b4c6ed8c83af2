"""Pre-training of ELECTRA and DeBERTa-v3: a generator fills masks, a discriminator detects replaced tokens.

B rows, T positions in a row, D hidden size, E embedding size, V vocabulary, P masked positions.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model import base_encoder
from bert_tf.model.base_encoder import Pass
from bert_tf.model.batch_layout import size_of
from bert_tf.model.embeddings import SharedEmbeddings
from bert_tf.model.heads import BertModel, Inputs, LogitsHead, MaskedLmHead
from bert_tf.model.layers import ConfiguredLayer

GENERATOR, SAMPLE = 0x5EED, 1  # offsets of the generator's seeds


class ReplacedTokenHead(ConfiguredLayer):
    """Distinguishes replaced from original tokens (google-research/electra `_get_discriminator_output`)."""

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        self.transform = self.new_dense(self.config.hidden_size, self.config.hidden_size, self.config.hidden_act)
        self.output_layer = LogitsHead(self.config, 1, dtype=self.dtype_policy)
        self.built = True

    def call(self, tokens: tf.Tensor) -> tf.Tensor:
        """Tokens [B, T, D] -> float32 [B, T], above 0: replaced."""
        x = self.transform(tf.reshape(tokens, [-1, self.config.hidden_size]))
        return tf.reshape(self.output_layer(x), [-1, size_of(tokens, 1)])


@keras.saving.register_keras_serializable("bert_tf")
class Discriminator(BertModel):
    """A published ELECTRA or DeBERTa-v3: detects which tokens of a text were replaced."""

    unread: tuple[str, ...] = ("encoder/pooler/kernel", "encoder/pooler/bias")

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        head = self.encoder.replaced_token_head or ReplacedTokenHead
        self.replaced_token = head(self.config, dtype=self.dtype_policy)
        self.built = True

    def outputs(self, inputs: Inputs, how: Pass) -> dict[str, tf.Tensor]:
        """Returns float32 "replaced_token_logits" [B, T], above 0: replaced."""
        return {"replaced_token_logits": self.replaced_token(self.encoder(inputs, **how._asdict())["tokens"])}


def generator_config(config: BertConfig) -> BertConfig:
    """The configuration of a generator with an encoder's embeddings.

    For ELECTRA it is as deep and a quarter as wide (Clark et al. 2020, section 3.2), for DeBERTa as wide and half as
    deep (microsoft/DeBERTa `rtd_base.json`).
    """
    if config.encoder_traits.generator == "shallow":
        return dataclasses.replace(config, num_hidden_layers=-(-config.num_hidden_layers // 2))
    heads = max(1, config.num_attention_heads // 4)
    return dataclasses.replace(
        config,
        hidden_size=heads * config.head_size,
        num_attention_heads=heads,
        intermediate_size=max(1, config.intermediate_size // 4),
        embedding_size=config.embedding_width,
    )


def is_generator(config: BertConfig, arrays: Mapping[str, np.ndarray]) -> bool:
    """Returns whether {canonical name: array} includes a generator of `generator_config`'s size."""
    small = generator_config(config)
    biases = [arrays.get(f"generator/layers/{small.num_hidden_layers - n}/attention/project_out/bias") for n in (1, 0)]
    return biases[0] is not None and biases[0].shape == (small.hidden_size,) and biases[1] is None


@keras.saving.register_keras_serializable("bert_tf")
class ReplacedTokenModel(Discriminator):
    """An ELECTRA or DeBERTa-v3 in pre-training: a generator fills masks, the encoder detects its mistakes.

    The generator has the embeddings of the encoder, see `generator_config`, and is trained only by masked LM.
    """

    unread = (*Discriminator.unread, "generator/pooler/kernel", "generator/pooler/bias")

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        small = generator_config(self.config)
        shared = SharedEmbeddings(small, self.encoder.embeddings, dtype=self.dtype_policy)
        self.generator = base_encoder.create_encoder(small, embeddings=shared, dtype=self.dtype_policy)
        self.masked_lm = MaskedLmHead(small, dtype=self.dtype_policy)
        self.built = True

    def outputs(self, inputs: Inputs, how: Pass) -> dict[str, tf.Tensor]:
        """inputs: also `masked_lm_positions`, and in pre-training `masked_lm_ids` and `masked_lm_weights`, [B, P].

        Returns the generator's float32 "masked_lm_logits" [B, P, V]. With the ids also "replaced_token_logits" and
        "replaced_token_labels" [B, T] after filling the masks with tokens drawn by the generator's probabilities;
        label 1 if such a token differs from the original.
        """
        positions, other_seed = inputs.get("masked_lm_positions"), None
        if how.seed is not None:  # the encoder's dropout masks must differ
            other_seed = tf.bitwise.bitwise_xor(how.seed, tf.constant([0, GENERATOR], tf.int32))
        encoded = self.generator(inputs, seed=other_seed, positions=positions, packing=how.packing)
        tokens = encoded["tokens"] if positions is None else encoded["tokens_at"]
        logits = self.masked_lm(tokens, self.generator.token_table)
        if "masked_lm_ids" not in inputs:
            return {"masked_lm_logits": logits}
        drawn = _draw(
            tf.stop_gradient(logits), tf.constant([0, SAMPLE], tf.int32) if other_seed is None else other_seed
        )
        token_ids = _at_positions(inputs["token_ids"], inputs, drawn)
        original = _at_positions(inputs["token_ids"], inputs, inputs["masked_lm_ids"])
        outputs = super().outputs({**inputs, "token_ids": token_ids}, how)
        labels = tf.cast(tf.not_equal(token_ids, original), tf.float32)
        labels = labels[:, : size_of(outputs["replaced_token_logits"], 1)]
        return {"masked_lm_logits": logits, "replaced_token_labels": labels, **outputs}


def _draw(logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """An id for each position, drawn from the distribution of float32 [B, P, V]: int32 [B, P]."""
    uniform = tf.random.stateless_uniform(tf.shape(logits), seed, minval=1e-9)
    return tf.argmax(logits - tf.math.log(-tf.math.log(uniform)), -1, tf.int32)


def _at_positions(token_ids: tf.Tensor, inputs: Inputs, ids: tf.Tensor) -> tf.Tensor:
    """Token ids [B, T] with other ids [B, P] at the masked positions, except at weight 0."""
    positions = inputs["masked_lm_positions"]
    change = tf.where(inputs["masked_lm_weights"] > 0, ids - tf.gather(token_ids, positions, batch_dims=1), 0)
    rows = tf.broadcast_to(tf.range(size_of(positions, 0))[:, None], tf.shape(positions))
    return tf.tensor_scatter_nd_add(token_ids, tf.stack([rows, positions], -1), change)
