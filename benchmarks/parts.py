"""What the parts with a gradient of their own save: forward and backward pass, ours and what TensorFlow derives.

    python benchmarks/parts.py

4,096 tokens of BERT-base. Prints the median milliseconds of ROUNDS turns.
"""

import functools
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from bert_tf.quiet import start_tensorflow  # noqa: E402

start_tensorflow()

import tensorflow as tf  # noqa: E402

from bert_tf import distribute, gradients  # noqa: E402

TOKENS, WIDTH, ROUNDS = 4096, 768, 30


def main():
    distribute.create_strategy("one_device")  # which also keeps memory that was freed, as training does
    print("| | derived, ms | ours, ms |\n|---|---:|---:|")
    for kind in ("bfloat16", "float32"):
        wide = drawn([TOKENS, 4 * WIDTH], kind)
        gelu = functools.partial(tf.nn.gelu, approximate=False)
        report(f"GELU, {kind}", with_gradient(gelu, wide), with_gradient(gradients.GELUS["gelu_erf"], wide))
        tokens, weights = drawn([TOKENS, WIDTH], kind), (drawn([WIDTH], "float32"), drawn([WIDTH], "float32"))
        ours = with_gradient(lambda *given: gradients.layer_norm(*given, 1e-12), tokens, *weights)
        report(f"LayerNorm, {kind}", with_gradient(plain_norm, tokens, *weights), ours)


def drawn(shape, kind):
    return tf.cast(tf.random.stateless_normal(shape, [1, 2]), kind)


def plain_norm(x, gamma, beta):
    wide = tf.cast(x, tf.float32)
    mean, variance = tf.nn.moments(wide, -1, keepdims=True)
    return tf.cast((wide - mean) * (tf.math.rsqrt(variance + 1e-12) * gamma) + beta, x.dtype)


def with_gradient(function, *arguments):
    """A function that runs one and its backward pass, in a graph that does not know how many tokens there are."""
    specs = [tf.TensorSpec([None, *x.shape[1:]] if len(x.shape) > 1 else x.shape, x.dtype) for x in arguments]

    @tf.function(input_signature=specs)
    def run(*given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            value = function(*given)
        return value, *tape.gradient(value, given, value)

    return lambda: run(*arguments)


def report(name, *functions):
    print(f"| {name} | {' | '.join(f'{milliseconds(function):.1f}' for function in functions)} |", flush=True)


def milliseconds(function):
    seconds = []
    for _ in range(ROUNDS + 2):
        start = time.perf_counter()
        function()[0].numpy()
        seconds.append(time.perf_counter() - start)
    return 1000 * statistics.median(seconds[2:])


if __name__ == "__main__":
    main()
