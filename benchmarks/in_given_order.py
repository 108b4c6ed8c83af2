"""Runs a script of this project on training examples in a given order instead of a random one.

    python benchmarks/in_given_order.py ORDER.json run_classifier.py --flag=value ...

ORDER.json is a list of batches, each a list of example numbers from 0. Everything else is as in the script.
"""

import json
import pathlib
import runpy
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    order, script = sys.argv[1:3]
    batches = json.loads(pathlib.Path(order).read_text())
    sys.path.insert(0, str(ROOT))
    sys.argv = [script, *sys.argv[3:]]
    give(batches)
    runpy.run_path(str(ROOT / script), run_name="__main__")


def give(batches):
    """Lets the batches of training come in this order; evaluation goes on as it does."""
    from bert_tf.runtime import tensorflow_startup

    tensorflow_startup.start_tensorflow()
    import tensorflow as tf

    from bert_tf.data import pipeline

    original = pipeline.batch_indices

    def batch_indices(count, size, *, seed=None, lengths=None):
        if seed is None:
            return original(count, size)
        assert all(len(batch) == size and max(batch) < count for batch in batches)
        return tf.data.Dataset.from_tensor_slices(tf.constant(batches, tf.int64))

    pipeline.batch_indices = batch_indices


if __name__ == "__main__":
    main()
