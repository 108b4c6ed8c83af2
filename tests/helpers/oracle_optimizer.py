"""BERT's optimizer, LAMB, clipping and the learning rate in plain NumPy and float64, one step at a time.

Written from google-research/bert optimization.py, google-research/albert lamb_optimizer.py and You et al. 2020. It
shares no code with bert_tf.

Weights and gradients are {canonical name: array}; `state` is {"step": int, "m": {name: array}, "v": {name: array}}.
"""

import math

import numpy as np


def new_state(weights):
    """The state before the first step: both moments zero."""
    zeros = {name: np.zeros(np.shape(array)) for name, array in weights.items()}
    return {"step": 0, "m": zeros, "v": dict(zeros)}


def adam_weight_decay(weights, gradients, state, *, learning_rate, weight_decay=0.01, bias_correction=False):
    """One step of the original's optimizer, or with the bias correction of Kingma and Ba 2015 that it left out.

    The original's epsilon stands outside the root. Returns (weights, state); the arguments stay as they were.
    """
    directions, state = _directions(weights, gradients, state, weight_decay, bias_correction)
    return {name: weights[name] - learning_rate * directions[name] for name in weights}, state


def lamb(weights, gradients, state, *, learning_rate, weight_decay=0.01, bias_correction=True):
    """One step of LAMB: the step of a matrix is scaled to the length of that matrix.

    As in ALBERT's code, what is not decayed is not scaled either, and query, key and value are three matrices.
    """
    directions, state = _directions(weights, gradients, state, weight_decay, bias_correction)
    new_weights = {}
    for name, weight in weights.items():
        matrices = 3 if name.endswith("query_key_value/kernel") else 1
        pairs = zip(np.split(weight, matrices, -1), np.split(directions[name], matrices, -1), strict=True)
        steps = [_trust(*pair) * pair[1] if is_decayed(name) else pair[1] for pair in pairs]
        new_weights[name] = weight - learning_rate * np.concatenate(steps, -1)
    return new_weights, state


def muon(weights, gradients, state, *, learning_rate, weight_decay=0.01, momentum=0.9):
    """One step of Muon on hidden matrices, as in Liu et al. 2025, equation 4, and of LAMB on all other weights.

    The singular values of Nesterov's momentum become those of five iterations of a polynomial on its normalized ones.
    """
    new_weights, new_state = lamb(weights, gradients, state, learning_rate=learning_rate, weight_decay=weight_decay)
    for name, weight in weights.items():
        if "/layers/" not in name or not name.endswith("kernel"):
            continue
        direction = momentum * new_state["m"][name] + (1 - momentum) * gradients[name]
        steps = []
        for matrix in np.split(direction, 3 if name.endswith("query_key_value/kernel") else 1, -1):
            left, values, right = np.linalg.svd(matrix, full_matrices=False)
            values = values / np.linalg.norm(values)
            for _ in range(5):
                values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
            steps.append(0.2 * math.sqrt(max(matrix.shape)) * (left * values) @ right)
        new_weights[name] = weight - learning_rate * (np.concatenate(steps, -1) + weight_decay * weight)
    return new_weights, new_state


def _trust(weight, direction):
    """How much longer the weight is than the direction in which it goes."""
    lengths = float(np.linalg.norm(weight)), float(np.linalg.norm(direction))
    return lengths[0] / lengths[1] if min(lengths) > 0 else 1.0


def _directions(weights, gradients, state, weight_decay, bias_correction, *, beta_1=0.9, beta_2=0.999, epsilon=1e-6):
    step = state["step"] + 1
    m = {name: beta_1 * state["m"][name] + (1 - beta_1) * gradients[name] for name in weights}
    v = {name: beta_2 * state["v"][name] + (1 - beta_2) * gradients[name] ** 2 for name in weights}
    grown_m, grown_v = (1 - beta_1**step, 1 - beta_2**step) if bias_correction else (1.0, 1.0)
    directions = {}
    for name, weight in weights.items():
        directions[name] = (m[name] / grown_m) / (np.sqrt(v[name] / grown_v) + epsilon)
        if is_decayed(name):
            directions[name] = directions[name] + weight_decay * weight
    return directions, {"step": step, "m": m, "v": v}


def is_decayed(name):
    """Tables and kernels are decayed, LayerNorms and biases are not (the original's LayerNorm|layer_norm|bias)."""
    return name.rsplit("/", 1)[-1] not in ("gamma", "beta", "bias", "output_bias")


def clip(gradients, clip_norm):
    """Gradients shortened to `clip_norm` together, as one vector, and the norm they had before."""
    norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients.values()))
    scale = clip_norm / max(norm, clip_norm)
    return {name: gradient * scale for name, gradient in gradients.items()}, norm


def learning_rate(step, *, peak, num_train_steps, num_warmup_steps, continuous=False):
    """The rate of step 0, 1, 2 ...: linear to 0, and warm-up in its place before `num_warmup_steps`.

    The original decays from step 0 on, so that the rate falls by the share W / N when warm-up ends; `continuous` decays
    from the peak.
    """
    if step < num_warmup_steps:
        return peak * step / num_warmup_steps
    start = num_warmup_steps if continuous else 0
    return peak * max(0.0, (num_train_steps - step) / max(1, num_train_steps - start))
