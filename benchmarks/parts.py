"""Measures hand-written gradients against TensorFlow's automatic ones: forward and backward pass.

    python benchmarks/parts.py [--parts=GELU,LayerNorm,BiLSTM]

4,096 tokens of BERT-base; for the BiLSTM (two layers of 768, against Keras's LSTMs) a batch of sentences with the
lengths of CoNLL-2003's. Prints the median milliseconds of ROUNDS rounds in which both sides alternate.
"""

import argparse
import functools
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from bert_tf.runtime.tensorflow_startup import start_tensorflow  # noqa: E402

start_tensorflow()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from bert_tf.config.bert_config import BertConfig  # noqa: E402
from bert_tf.model import fused_ops  # noqa: E402
from bert_tf.model.encoders.bilstm_on_top import BiLstm  # noqa: E402
from bert_tf.runtime import process  # noqa: E402

TOKENS, WIDTH, ROUNDS = 4096, 768, 30
SENTENCES, WORDS = 32, 14.5  # of a batch; of a sentence, in the mean


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    names = parser.parse_args().parts.split(",")
    process.keep_freed_memory()  # as training does
    print("| | automatic, ms | hand-written, ms | ratio |\n|---|---:|---:|---:|")
    for name in names:
        for kind in ("bfloat16", "float32"):
            report(f"{name}, {kind}", *PARTS[name](kind))


def gelus(kind):
    wide = random_normal([TOKENS, 4 * WIDTH], kind)
    gelu = functools.partial(tf.nn.gelu, approximate=False)
    return with_gradient(gelu, wide), with_gradient(fused_ops.GELUS["gelu_erf"], wide)


def norms(kind):
    inputs = random_normal([TOKENS, WIDTH], kind), random_normal([WIDTH], "float32"), random_normal([WIDTH], "float32")
    ours = with_gradient(lambda *inputs: fused_ops.layer_norm(*inputs, 1e-12), *inputs)
    return with_gradient(plain_norm, *inputs), ours


def bilstms(kind):
    """With static shapes `ragged_lstm` leaves the work to Keras; a length in a variable is not static."""
    lengths = np.random.default_rng(1).geometric(1 / WORDS, SENTENCES).astype(np.int32)
    policy = "mixed_bfloat16" if kind == "bfloat16" else kind
    layer = BiLstm(BertConfig(vocab_size=2), 2 * WIDTH, WIDTH, dtype=policy)
    longest, inputs = tf.Variable(lengths.max()), random_normal([SENTENCES, lengths.max(), 2 * WIDTH], kind)
    used = tf.sequence_mask(lengths, dtype=kind)[:, :, None]
    sides = (lambda x: layer(x, lengths) * used), (lambda x: layer(x[:, :longest], lengths) * used)
    weights = [variable.value for variable in layer.trainable_variables]
    return [with_gradient(side, inputs, weights=weights) for side in sides]


def random_normal(shape, kind):
    return tf.cast(tf.random.stateless_normal(shape, [1, 2]), kind)


def plain_norm(x, gamma, beta):
    wide = tf.cast(x, tf.float32)
    mean, variance = tf.nn.moments(wide, -1, keepdims=True)
    return tf.cast((wide - mean) * (tf.math.rsqrt(variance + 1e-12) * gamma) + beta, x.dtype)


def with_gradient(function, *arguments, weights=()):
    """A function that runs one and its backward pass, in a graph that does not know how many tokens there are."""
    specs = [tf.TensorSpec([None, *x.shape[1:]] if len(x.shape) > 1 else x.shape, x.dtype) for x in arguments]

    @tf.function(input_signature=specs, autograph=False)
    def run(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            value = function(*inputs)
        return value, *tape.gradient(value, [*inputs, *weights], value)

    return lambda: run(*arguments)


def report(name, *functions):
    turns = [[milliseconds(function) for function in functions] for _ in range(ROUNDS + 2)][2:]
    derived, ours = (statistics.median(side) for side in zip(*turns, strict=True))
    print(f"| {name} | {derived:.1f} | {ours:.1f} | {derived / ours:.2f} × |", flush=True)


def milliseconds(function):
    start = time.perf_counter()
    function()[0].numpy()
    return 1000 * (time.perf_counter() - start)


PARTS = {"GELU": gelus, "LayerNorm": norms, "BiLSTM": bilstms}


if __name__ == "__main__":
    main()
