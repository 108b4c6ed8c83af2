"""Milliseconds by operation, for a training step or for the prediction of a batch or a single text.

    python benchmarks/time_by_op.py --size=base --work=fine_tuning

Random weights; works: fine_tuning (32 rows of 128), pretraining (16 rows of 128, 20 predictions), single (one text of
128), batch (32 of them). Time inside operations is summed over threads, so the sum can exceed wall-clock time. "floor"
is the time of the matrix products alone, at the measured rate of one large product.
"""

import argparse
import collections
import json
import pathlib
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "peers"), str(HERE)]
REPEATS, SHOWN = 5, 16


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="base")
    parser.add_argument("--work", default="fine_tuning", choices=("fine_tuning", "pretraining", "single", "batch"))
    parser.add_argument("--precision", default="auto", choices=("auto", "float32", "bfloat16"))
    arguments = parser.parse_args()
    import encoder
    import race
    import race_bert_tf
    import training_step

    works = {**encoder.WORKS, **training_step.WORKS}
    work = json.loads(json.dumps(works[arguments.work][1](None)))
    run = race_bert_tf.worker(work, arguments.size, arguments.precision)
    import tensorflow as tf

    from bert_tf.training import precision

    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    run()
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        for _ in range(REPEATS):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        tf.profiler.experimental.stop()
        by_name = by_operation(folder)
    median = 1000 * statistics.median(seconds)
    rate = rate_of_products(precision.policy(arguments.precision))
    floor = 1000 * operations_of(work, arguments.size) / rate
    print(f"{arguments.work}, {arguments.size}, {race.machine()}: {median:,.0f} ms, first {first:.1f} s")
    print(f"products: {rate / 1e9:,.0f} GFLOP/s, floor {floor:,.0f} ms, {floor / median:.0%} of the time")
    total = sum(spent for spent, _ in by_name.values())
    print("| operation | ms | share | calls |\n|---|---:|---:|---:|")
    for name, (spent, calls) in sorted(by_name.items(), key=lambda item: -item[1][0])[:SHOWN]:
        print(f"| {name} | {1000 * spent / REPEATS:,.1f} | {spent / total:.1%} | {calls / REPEATS:,.0f} |")


def operations_of(work, size):
    """Additions and multiplications in a workload's matrix products; of a training step thrice those of an answer."""
    import turns

    layers, width, _ = turns.SHAPES[size]
    rows = work["texts"] if work["kind"] == "encode" else work["batches"][0]
    tokens, seq_length = len(rows) * len(rows[0]), len(rows[0])
    each = layers * (24 * width**2 + 4 * seq_length * width)  # of a token: its dense layers, and attention
    predictions = len(rows) * work.get("num_predictions", 0)
    head = predictions * 2 * width * (width + work["vocab_size"])
    return (tokens * each + head) * (1 if work["kind"] == "encode" else 3)


def rate_of_products(policy):
    """Operations a second of a product of [4096, 768] and [768, 3072] in the precision of a policy."""
    import tensorflow as tf

    kind = "bfloat16" if "bfloat16" in policy else "float32"
    x, kernel = (tf.cast(tf.random.normal(shape), kind) for shape in ([4096, 768], [768, 3072]))
    seconds = []
    for _ in range(4 * REPEATS):
        start = time.perf_counter()
        tf.matmul(x, kernel).numpy()
        seconds.append(time.perf_counter() - start)
    return 2 * 4096 * 768 * 3072 / min(seconds)


def by_operation(folder):
    """{operation: (seconds, calls)} of a profile."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    (file,) = pathlib.Path(folder).rglob("*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(file.read_bytes())
    by_name = collections.defaultdict(lambda: [0.0, 0])
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                kind = name.rpartition(":")[2].partition("#")[0]
                if ":" in name and is_operation(name):
                    by_name[kind][0] += event.duration_ps / 1e12
                    by_name[kind][1] += 1
    return by_name


def is_operation(name):
    """Whether an event is "name_of_the_node:Operation", and none of TensorFlow's own bookkeeping."""
    node, _, kind = name.rpartition(":")
    return kind.partition("#")[0].isidentifier() and "::" not in name and not node.startswith("__inference")


if __name__ == "__main__":
    main()
