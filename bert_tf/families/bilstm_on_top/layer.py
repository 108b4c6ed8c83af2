"""BERT with a BiLSTM between it and the head (Devlin et al. 2018, section 5.1, "+ BiLSTM").

B rows, T positions in a row, D hidden size.
"""

from collections.abc import Mapping
from typing import Any, Unpack

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.families.bert.layer import BertEncoder
from bert_tf.model.base_encoder import Asked
from bert_tf.model.ragged_lstm import BiLstm, final_states


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder, then a BiLSTM of two layers with the same hidden size."""

    takes_row_tables = False
    takes_any_mask = False

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        width = self.config.hidden_size
        self.bilstm = BiLstm(self.config, width, width, dtype=self.dtype_policy)

    def encode(  # type: ignore[override]  # which also takes them as positional arguments
        self, inputs: Mapping[str, tf.Tensor], **asked: Unpack[Asked]
    ) -> dict[str, Any]:
        """Like BertEncoder; "tokens", "pooled" and the last of L + 2 "hidden_states" come from the BiLSTM."""
        positions, asked["positions"] = asked["positions"], None
        outputs = super().encode(inputs, **asked)
        tokens = self.bilstm(outputs["tokens"], inputs["lengths"])
        outputs |= {"tokens": tokens, "pooled": self.pool(final_states(tokens, inputs["lengths"]))}
        if positions is not None:
            outputs["tokens_at"] = tf.gather(tokens, positions, batch_dims=1)
        if asked["return_hidden_states"]:
            outputs["hidden_states"] += (tokens,)
        return outputs
