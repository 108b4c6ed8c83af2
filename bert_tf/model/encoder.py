"""BertEncoder: ids to the tokens of every layer, and pooled.

B rows, T slots in a row, N = B * T, D hidden size, H heads, L layers.
"""

import keras
import tensorflow as tf

from bert_tf.model.layers import BatchLayout, ConfiguredLayer, Embeddings, TransformerLayer, gather_tokens, size_of
from bert_tf.model.sequence_packing import Packing, choose_row_width, first_fit_decreasing


def pack_dynamic(inputs):
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
    return cut | {"row_width": choose_row_width(lengths)}


def recomputed(layer, x, **known):
    """What a layer makes of `x`, computed again when its gradient is wanted. Of attention nothing is known: None."""
    return tf.recompute_grad(lambda x: layer(x, **known)[0])(x), None


def pack_static(inputs, rows):
    """Model inputs that the encoder puts into a number of rows as wide as theirs, and whether all texts find room.

    inputs: as for `pack_dynamic`, in static shapes; rows: a Python number. The shapes inside are known beforehand, as
    XLA and TPUs need it; where there is no room the answers would be wrong.
    """
    slots = inputs["token_ids"].shape[-1]
    _, needed, _ = first_fit_decreasing(tf.reshape(inputs["lengths"], [-1]), tf.constant([slots]))
    return inputs | {"row_form": tf.zeros([rows, slots], tf.int32)}, needed[0] <= rows


@keras.saving.register_keras_serializable("bert_tf")
class BertEncoder(ConfiguredLayer):
    """BERT without a head (Devlin et al. 2018, section 3; google-research/bert `modeling.py: BertModel`).

    recomputes: in training a layer keeps nothing for its backward pass but what came in, and computes the rest once
    more there (Chen et al. 2016, arXiv:1604.06174): the same gradients, a third more work, a fraction of the memory.
    """

    recomputes = False

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
            return BatchLayout.packed(inputs["text_numbers"], **known)
        return BatchLayout.padded(inputs["lengths"], size_of(inputs["token_ids"], 1), **known)

    def call(self, inputs, seed=None, places=None, return_hidden_states=False, return_attention=False):
        """Encodes rows of texts.

        inputs: int32 `token_ids`, `segment_ids` [B, T], and either `lengths` [B] (one text a row) or `text_numbers`
            and `positions` [B, T] (several texts a row). With `lengths` also `row_width`, see `pack_dynamic`, or
            `row_form`, see `pack_static`: inside, several texts then lie in a row. Outside, nothing differs but
            what stands in slots of padding, and attention, which is that of these rows.
        seed: int32 [2], the seed of this pass's dropout; None: no dropout.
        places: int32 [B, P], the slots whose tokens will be read, P may be 0. The last layer is then computed for
            these and the summaries alone, which is a twelfth less work for a classifier of twelve layers.

        Returns a dictionary: "tokens" [B, T, D], or with places "tokens_at" [B, P, D]; "pooled" [B, D]; and on request,
        without places, "hidden_states", a tuple of L + 1 [B, T, D] (the first: the embeddings), and
        "attention_probabilities", a tuple of L [B, H, T, T].
        """
        packing = Packing.of_inputs(inputs)
        rows = packing.rows(inputs) if packing else inputs
        layout = self.layout(rows, seed)
        read = None if places is None else self._slots(inputs, packing, places)  # [B * (1 + P)]
        x = self.embeddings(rows["token_ids"], rows["segment_ids"], rows.get("positions"), layout=layout)  # [N, D]
        hidden_states, attention = self._through_layers(x, layout, read)
        x = hidden_states[-1]
        if places is not None:
            x = x if self.layers else gather_tokens(x, read)
            x = tf.reshape(x, [-1, 1 + size_of(places, 1), self.config.hidden_size])  # [B, 1 + P, D]
            return {"tokens_at": x[:, 1:], "pooled": self.pooler(x[:, 0])}
        as_texts = packing.texts if packing else layout.as_rows
        tokens = as_texts(x)  # [B, T, D]
        summary = tf.gather(tokens, self._summary_slots(inputs), batch_dims=1)
        outputs = {"tokens": tokens, "pooled": self.pooler(summary)}
        if return_hidden_states:
            outputs["hidden_states"] = tuple(map(as_texts, hidden_states))
        if return_attention:
            outputs["attention_probabilities"] = tuple(attention)
        return outputs

    def _through_layers(self, x, layout, read):
        """What goes into the first layer and comes out of each, and their attention probabilities."""
        hidden_states, attention = [x], []
        again = self.recomputes and layout.learns
        for layer in self.layers:
            known = {"layout": layout, "read": read if layer is self.layers[-1] else None}
            x, probabilities = recomputed(layer, x, **known) if again else layer(x, **known)
            hidden_states.append(x)
            attention.append(probabilities)
        return hidden_states, attention

    def _slots(self, inputs, packing, places):
        """Where in [N, D] the tokens are that are read: of each text the summary, then those at `places`."""
        places = tf.concat([self._summary_slots(inputs)[:, None], places], 1)  # [B, 1 + P]
        if packing:
            return tf.reshape(packing.slots(places), [-1])
        rows, slots = size_of(inputs["token_ids"], 0), size_of(inputs["token_ids"], 1)
        return tf.reshape(places + slots * tf.range(rows)[:, None], [-1])

    def _summary_slots(self, inputs):
        """The token that has seen its whole text, int32 [B]: [CLS], or of a causal model the last one."""
        if self.config.is_causal:
            return tf.maximum(inputs["lengths"] - 1, 0)
        return tf.zeros([size_of(inputs["token_ids"], 0)], tf.int32)
