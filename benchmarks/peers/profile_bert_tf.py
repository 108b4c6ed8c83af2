"""The kernels of a workload of race_bert_tf.py by time: a contender that answers once, with "kernels"."""

import collections
import json
import pathlib
import sys
import tempfile

import race_bert_tf
import turns


def main():
    arguments = turns.parse_arguments(__doc__, race_bert_tf.PRECISIONS)
    run = race_bert_tf.worker(arguments.work, arguments.size, arguments.precision)
    run(), run()  # compiles; later calls repeat the work
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps({"kernels": profile(run, arguments.work["repeats"])}), flush=True)


def profile(run, repeats):
    """[(name, ms, calls)] of one repetition, the longest first."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        run()
        tf.profiler.experimental.stop()
        (file,) = pathlib.Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(file.read_bytes())
    totals = collections.defaultdict(lambda: [0.0, 0])
    on_gpu = [plane for plane in space.planes if plane.name.startswith("/device:GPU")]
    for plane in on_gpu:
        for line in plane.lines:
            if line.name.startswith("Stream"):
                for event in line.events:
                    total = totals[plane.event_metadata[event.metadata_id].name]
                    total[0] += event.duration_ps / 1e9 / repeats
                    total[1] += 1 / repeats
    return sorted(((name, *total) for name, total in totals.items()), key=lambda row: -row[1])


if __name__ == "__main__":
    main()
