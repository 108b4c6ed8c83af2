"""BERT in plain NumPy and float64: forward, the two pre-training losses, and the backward pass written by hand.

It shares no code with bert_tf: the tests compare the two. Written from Devlin et al. 2019 and the algorithms of
google-research/bert (modeling.py, run_pretraining.py). Weights carry bert_tf's canonical names; kernels are [in, out].

B texts, T slots of a text, D hidden size, H heads, K size of one head, F intermediate size, V vocabulary,
P masked positions, L layers.

inputs   {"token_ids" [B, T], "segment_ids" [B, T], "lengths" [B], "masked_lm_positions" [B, P]}
targets  {"masked_lm_ids" [B, P], "masked_lm_weights" [B, P], "next_sentence_labels" [B], "next_sentence_weights" [B]}
config   a dict or an object with the names of bert_config.json; its hidden_act is "gelu_erf", "gelu_tanh" or "relu"
"""

import math

import numpy as np

MASKED_OUT = -10000.0  # what the original adds to the score of a slot that is padding
NO_MASKS = 1e-5  # keeps the masked-word loss finite in a batch that hides nothing


def encode(weights, config, token_ids, segment_ids, lengths):
    """Every layer's tokens, of a batch of padded texts. lengths: [B], or a mask [B, T] with 0 if nothing is seen.

    Returns {"hidden_states": tuple of L + 1 arrays [B, T, D] (0 is the embeddings after their LayerNorm),
    "tokens": the last of them, "pooled" [B, D], "attention_probabilities": tuple of L arrays [B, H, T, T]}.
    """
    return Network(weights, config).encode(token_ids, segment_ids, lengths)[0]


def pretraining_logits(weights, config, inputs):
    """{"masked_lm_logits" [B, P, V], "next_sentence_logits" [B, 2]}, before the softmax."""
    return Network(weights, config).pretraining_logits(inputs)[0]


def gradients(weights, config, inputs, targets):
    """The losses and the derivative of their sum by every weight: ({name: float}, {canonical name: array})."""
    network = Network(weights, config)
    logits, back = network.pretraining_logits(inputs)
    losses, d_logits = _pretraining_losses(logits, targets)
    back(d_logits)
    return losses, network.gradients


class Network:
    """Each method computes one block and returns its value together with `back`, the block's derivative.

    `back` takes the derivative of the loss by the block's output, adds that by the block's weights to
    `self.gradients`, and returns that by the block's input.
    """

    def __init__(self, weights, config):
        self.config = config if isinstance(config, dict) else vars(config)
        self.weights = {name: np.asarray(array, np.float64) for name, array in weights.items()}
        self.gradients = {name: np.zeros_like(array) for name, array in self.weights.items()}

    def pretraining_logits(self, inputs):
        outputs, back_encoder = self.encode(inputs["token_ids"], inputs["segment_ids"], inputs["lengths"])
        words, back_words = self.masked_lm(outputs["tokens"], inputs["masked_lm_positions"])  # [B, P, V]
        nexts, back_nexts = self.dense("next_sentence", outputs["pooled"])  # [B, 2]

        def back(d_logits):
            back_encoder(back_words(d_logits["masked_lm_logits"]), back_nexts(d_logits["next_sentence_logits"]))

        return {"masked_lm_logits": words, "next_sentence_logits": nexts}, back

    def encode(self, token_ids, segment_ids, lengths):
        x, back_embed = self.embed(np.asarray(token_ids), np.asarray(segment_ids))  # [B, T, D]
        lengths = np.asarray(lengths)
        is_padding = np.arange(x.shape[1]) >= lengths[:, None] if lengths.ndim == 1 else lengths == 0  # [B, T]
        mask = MASKED_OUT * is_padding[:, None, None]  # [B, 1, 1, T]
        hidden, attention, backs = [x], [], []
        for layer in range(self.config["num_hidden_layers"]):
            x, probabilities, back_layer = self.layer(f"encoder/layers/{layer}", x, mask)
            hidden.append(x)
            attention.append(probabilities)
            backs.append(back_layer)
        before_tanh, back_pooler = self.dense("encoder/pooler", x[:, 0])
        pooled = np.tanh(before_tanh)  # [B, D]

        def back(d_tokens, d_pooled):
            d_x = np.array(d_tokens)
            d_x[:, 0] += back_pooler(d_pooled * (1 - pooled**2))
            for back_layer in reversed(backs):
                d_x = back_layer(d_x)
            back_embed(d_x)

        layers = {"hidden_states": tuple(hidden), "attention_probabilities": tuple(attention)}
        return {"tokens": x, "pooled": pooled} | layers, back

    def embed(self, token_ids, segment_ids):  # [B, T], [B, T] -> [B, T, D]
        tables = [f"encoder/embeddings/{kind}_table" for kind in ("token", "segment", "position")]
        rows = [token_ids, segment_ids, np.broadcast_to(np.arange(token_ids.shape[1]), token_ids.shape)]
        total = sum(self.weights[table][row] for table, row in zip(tables, rows, strict=True))
        x, back_norm = self.norm("encoder/embeddings/norm", total)

        def back(d_x):
            d_total = back_norm(d_x)
            for table, row in zip(tables, rows, strict=True):
                np.add.at(self.gradients[table], row, d_total)

        return x, back

    def layer(self, name, x, mask):  # [B, T, D], [B, 1, 1, T] -> [B, T, D], [B, H, T, T]
        attended, probabilities, back_attention = self.attention(f"{name}/attention", x, mask)
        middle, back_middle = self.norm(f"{name}/attention_norm", x + attended)
        expanded, back_expand = self.dense(f"{name}/feed_forward/expand", middle)  # [B, T, F]
        active, slope = activation(self.config["hidden_act"], expanded)
        contracted, back_contract = self.dense(f"{name}/feed_forward/contract", active)
        y, back_y = self.norm(f"{name}/feed_forward_norm", middle + contracted)

        def back(d_y):
            d_sum = back_y(d_y)
            d_middle = back_middle(d_sum + back_expand(back_contract(d_sum) * slope))
            return d_middle + back_attention(d_middle)

        return y, probabilities, back

    def attention(self, name, x, mask):  # [B, T, D], [B, 1, 1, T] -> [B, T, D], [B, H, T, T]
        batch, slots, width = x.shape
        heads = self.config["num_attention_heads"]
        scale = 1 / math.sqrt(width // heads)
        projected, back_projected = self.dense(f"{name}/query_key_value", x)  # [B, T, 3D]
        q, k, v = projected.reshape(batch, slots, 3, heads, -1).transpose(2, 0, 3, 1, 4)  # each [B, H, T, K]
        probabilities = softmax(q @ k.swapaxes(2, 3) * scale + mask)  # [B, H, T, T]
        merged = (probabilities @ v).transpose(0, 2, 1, 3).reshape(batch, slots, width)
        y, back_out = self.dense(f"{name}/project_out", merged)

        def back(d_y):
            d_heads = back_out(d_y).reshape(batch, slots, heads, -1).transpose(0, 2, 1, 3)  # [B, H, T, K]
            d_probabilities = d_heads @ v.swapaxes(2, 3)
            mean = (d_probabilities * probabilities).sum(-1, keepdims=True)
            d_scores = probabilities * (d_probabilities - mean) * scale
            d_qkv = np.stack([d_scores @ k, d_scores.swapaxes(2, 3) @ q, probabilities.swapaxes(2, 3) @ d_heads])
            return back_projected(d_qkv.transpose(1, 3, 0, 2, 4).reshape(batch, slots, 3 * width))

        return y, probabilities, back

    def masked_lm(self, tokens, positions):  # [B, T, D], [B, P] -> [B, P, V]
        places = np.arange(len(tokens))[:, None], np.asarray(positions)
        transformed, back_transform = self.dense("masked_lm/transform", tokens[places])  # [B, P, D]
        active, slope = activation(self.config["hidden_act"], transformed)
        x, back_norm = self.norm("masked_lm/norm", active)
        table = self.weights["encoder/embeddings/token_table"]  # tied: read once more, as the output matrix

        def back(d_logits):
            self.gradients["encoder/embeddings/token_table"] += np.einsum("bpv,bpd->vd", d_logits, x)
            self.gradients["masked_lm/output_bias"] += d_logits.sum((0, 1))
            d_tokens = np.zeros_like(tokens)
            np.add.at(d_tokens, places, back_transform(back_norm(d_logits @ table) * slope))
            return d_tokens

        return x @ table.T + self.weights["masked_lm/output_bias"], back

    def dense(self, name, x):  # [..., in] -> [..., out]
        kernel, bias = self.weights[f"{name}/kernel"], self.weights[f"{name}/bias"]

        def back(d_y):
            rows, d_rows = x.reshape(-1, x.shape[-1]), d_y.reshape(-1, d_y.shape[-1])
            self.gradients[f"{name}/kernel"] += rows.T @ d_rows
            self.gradients[f"{name}/bias"] += d_rows.sum(0)
            return d_y @ kernel.T

        return x @ kernel + bias, back

    def norm(self, name, x):  # [..., D] -> [..., D]
        gamma, beta = self.weights[f"{name}/gamma"], self.weights[f"{name}/beta"]
        deviation = np.sqrt(x.var(-1, keepdims=True) + self.config.get("layer_norm_eps", 1e-12))
        normal = (x - x.mean(-1, keepdims=True)) / deviation

        def back(d_y):
            self.gradients[f"{name}/gamma"] += (d_y * normal).reshape(-1, len(gamma)).sum(0)
            self.gradients[f"{name}/beta"] += d_y.reshape(-1, len(beta)).sum(0)
            d_normal = d_y * gamma
            along = normal * (d_normal * normal).mean(-1, keepdims=True)
            return (d_normal - d_normal.mean(-1, keepdims=True) - along) / deviation

        return normal * gamma + beta, back


def activation(name, x):
    """The value of an activation at x and its slope there."""
    if name == "relu":
        return np.maximum(x, 0), (x > 0).astype(np.float64)
    if name == "gelu_erf":
        share = 0.5 * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))
        return x * share, share + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    if name == "gelu_tanh":  # the approximation that the last version of the original computes
        wave = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
        slope_inside = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
        return 0.5 * x * (1 + wave), 0.5 * (1 + wave) + 0.5 * x * (1 - wave**2) * slope_inside
    raise ValueError(f"The oracle knows gelu_erf, gelu_tanh and relu, not {name}.")


def softmax(scores):
    """Probabilities over the last axis."""
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _pretraining_losses(logits, targets):
    """The losses and the derivative of their sum by each array of logits."""
    word_weights = np.asarray(targets["masked_lm_weights"], np.float64)
    text_weights = np.asarray(targets["next_sentence_weights"], np.float64)
    word_shares = word_weights / (word_weights.sum() + NO_MASKS)
    text_shares = text_weights / max(text_weights.sum(), 1e-300)  # a batch of filler rows only has loss 0
    words, d_words = _cross_entropy(logits["masked_lm_logits"], targets["masked_lm_ids"], word_shares)
    nexts, d_nexts = _cross_entropy(logits["next_sentence_logits"], targets["next_sentence_labels"], text_shares)
    losses = {"masked_lm_loss": words, "next_sentence_loss": nexts, "loss": words + nexts}
    return losses, {"masked_lm_logits": d_words, "next_sentence_logits": d_nexts}


def _cross_entropy(logits, labels, weights):  # [..., C], [...], [...] -> float, [..., C]
    shifted = logits - logits.max(-1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    is_label = np.arange(logits.shape[-1]) == np.asarray(labels)[..., None]
    loss = -(weights * log_probabilities[is_label].reshape(weights.shape)).sum()
    return float(loss), weights[..., None] * (np.exp(log_probabilities) - is_label)
