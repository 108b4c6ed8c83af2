"""A checkpoint in every engine that is installed, as it is and in int8: size, time for one text, difference from ours.

  python benchmarks/engines.py CHECKPOINT [--calibration_file=texts.txt]

Each is written in a folder that is removed again; the time is the median of calls that take turns with
TensorFlow's own. With texts OpenVINO's int8 has eight bits in products too, and not in weights alone.
"""

import argparse
import os
import tempfile

from bert_tf import checkpoints, engines
from bert_tf.commands.convert import texts_of
from bert_tf.errors import UserError


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--calibration_file")
    given = parser.parse_args()
    texts = texts_of(given.calibration_file) if given.calibration_file else ()
    checkpoint, written = checkpoints.read(given.checkpoint), []
    with tempfile.TemporaryDirectory() as folder:
        for name in engines.names():
            for quantize in (None, *engines.QUANTIZED):
                try:
                    place = os.path.join(folder, f"{name}-{quantize}")
                    written.append(engines.write(checkpoint, place, name, quantize=quantize, texts=texts))
                except UserError as error:
                    print(f"{name} {quantize or ''}: {error}", flush=True)
    if written:
        print(given.checkpoint, *engines.table(written), sep="\n")


if __name__ == "__main__":
    main()
