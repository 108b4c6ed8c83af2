"""BertEncoder: ids to the tokens of every layer, and pooled.

B rows, T slots in a row, N = B * T, D hidden size, H heads, L layers.
"""

import keras
import tensorflow as tf

from bert_tf.layers import ConfiguredLayer, Embeddings, Layout, TransformerLayer
from bert_tf.packing import Packing, width_for


def trimmed(inputs):
    """Model inputs without most of the padding: the same answers, sooner.

    inputs: a batch with `lengths` [...], `token_ids` and `segment_ids` [..., T]. Cuts the slots that no text uses, and
    says as `row_width` that the encoder may put several texts into rows of so many slots. Other tensors stay as they
    are, and batches that are packed already. Shapes are then known at run time only: not for XLA.
    """
    if "lengths" not in inputs:
        return inputs
    lengths = tf.reshape(inputs["lengths"], [-1])
    longest = tf.reduce_max(tf.concat([lengths, [1]], 0))  # of no text at all: 1
    cut = {name: x[..., :longest] if name in ("token_ids", "segment_ids") else x for name, x in inputs.items()}
    return cut | {"row_width": width_for(lengths)}


@keras.saving.register_keras_serializable("bert_tf")
class BertEncoder(ConfiguredLayer):
    """BERT without a head (Devlin et al. 2018, section 3; google-research/bert `modeling.py: BertModel`)."""

    def __init__(self, config, **options):
        super().__init__(config, **options)
        self.embeddings = Embeddings(self.config, dtype=self.dtype_policy)
        self.layers = [
            TransformerLayer(self.config, number, dtype=self.dtype_policy)
            for number in range(self.config.num_hidden_layers)
        ]
        self.pooler = self.new_dense(self.config.hidden_size, self.config.hidden_size, "tanh")
        self.built = True

    @property
    def token_table(self):
        """The word embeddings [V, D], in the precision of the computation; the masked-LM head shares them."""
        return tf.cast(self.embeddings.token_table.value, self.compute_dtype)

    def layout(self, inputs, seed=None):
        """Says how the texts of `inputs` lie in their rows."""
        known = {"heads": self.config.num_attention_heads, "dtype": self.compute_dtype, "seed": seed}
        known["is_causal"] = self.config.is_causal
        if "text_numbers" in inputs:
            return Layout.packed(inputs["text_numbers"], **known)
        token_ids = inputs["token_ids"]
        slots = token_ids.shape[1] if token_ids.shape[1] is not None else tf.shape(token_ids)[1]
        return Layout.padded(inputs["lengths"], slots, **known)

    def call(self, inputs, seed=None, return_hidden_states=False, return_attention=False):
        """Encodes rows of texts.

        inputs: int32 `token_ids`, `segment_ids` [B, T], and either `lengths` [B] (one text a row) or `text_numbers`
            and `positions` [B, T] (several texts a row). With `lengths` also `row_width`, see `trimmed`: inside, the
            texts then lie in rows of so many slots. Outside, nothing differs but what stands in slots of padding, and
            attention, which is that of these rows.
        seed: int32 [2], the seed of this pass's dropout; None: no dropout.

        Returns a dictionary: "tokens" [B, T, D], "pooled" [B, D] and on request "hidden_states", a tuple of L + 1
        [B, T, D] (the first: the embeddings), and "attention_probabilities", a tuple of L [B, H, T, T].
        """
        packing, lengths = None, inputs.get("lengths")
        if "row_width" in inputs:
            packing = Packing.of(lengths, tf.shape(inputs["token_ids"])[1], inputs["row_width"])
            inputs = packing.rows(inputs)
        layout = self.layout(inputs, seed)
        as_texts = packing.texts if packing else layout.as_rows
        x = self.embeddings(
            inputs["token_ids"], inputs["segment_ids"], inputs.get("positions"), layout=layout
        )  # [N, D]
        hidden_states, attention = [x], []
        for layer in self.layers:
            x, probabilities = layer(x, layout=layout)
            hidden_states.append(x)
            attention.append(probabilities)
        tokens = as_texts(x)  # [B, T, D]
        outputs = {"tokens": tokens, "pooled": self.pooler(self._summary(x, tokens, packing, lengths))}
        if return_hidden_states:
            outputs["hidden_states"] = tuple(map(as_texts, hidden_states))
        if return_attention:
            outputs["attention_probabilities"] = tuple(attention)
        return outputs

    def _summary(self, x, tokens, packing, lengths):  # [N, D], [B, T, D] -> [B, D]
        """The token that has seen its whole text: [CLS], or of a causal model the last one."""
        if self.config.is_causal:
            last = tf.maximum(lengths - 1, 0)
            return packing.tokens_at(x, last) if packing else tf.gather(tokens, last, batch_dims=1)
        return packing.tokens_at(x, tf.zeros_like(lengths)) if packing else tokens[:, 0]
