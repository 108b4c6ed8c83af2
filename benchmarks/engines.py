"""A checkpoint in every installed engine, unquantized and in int8: size, time for one text, difference from ours.

  python benchmarks/engines.py CHECKPOINT [--calibration_file=texts.txt] [--labelled=dev.jsonl]

Models are written to a temporary folder; the time is the median of calls that alternate with TensorFlow's. With
calibration texts OpenVINO's int8 quantizes activations too, not only weights. With labelled lines,
{"texts": [one or two], "label": number}, the accuracy of each engine is printed, with one text per call.
"""

import argparse
import itertools
import json
import os
import tempfile

import numpy as np

from bert_tf.checkpoints import formats
from bert_tf.errors import UserError
from bert_tf.export import engine_parity, engines
from bert_tf.model import functional_bert

MAX_LENGTH = 128  # tokens of a labelled text, as in training
CALIBRATION_TEXTS = 300


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--calibration_file")
    parser.add_argument("--labelled")
    arguments = parser.parse_args()
    texts = calibration_texts(arguments.calibration_file) if arguments.calibration_file else ()
    checkpoint, written, scores = formats.read(arguments.checkpoint), [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name in engines.names():
            for quantize in (None, *engines.QUANTIZED):
                try:
                    path = os.path.join(folder, f"{name}-{quantize}")
                    written.append(engines.write(checkpoint, path, name, quantize=quantize, texts=texts))
                except UserError as error:
                    print(f"{name} {quantize or ''}: {error}", flush=True)
                    continue
                if arguments.labelled:
                    rows, labels = labelled(arguments.labelled, path)
                    scores[f"{name} {quantize or ''}"] = accuracy(engines.load(path), rows, labels)
    if written:
        print(arguments.checkpoint, *engines.table(written), sep="\n")
    if scores:
        scores["TensorFlow, here"] = accuracy(functional_bert.CheckpointModel(checkpoint), rows, labels)
        print(*(f"  {name:22} {share:.2%} of {len(labels):,} right" for name, share in scores.items()), sep="\n")


def calibration_texts(path):
    """The first non-empty lines of a file."""
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in itertools.islice(file, CALIBRATION_TEXTS) if line.strip()]


def labelled(path, folder):
    """Inputs of one text each, and labels [n]."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.enable_truncation(MAX_LENGTH)
    with open(path, encoding="utf-8") as file:
        examples = [json.loads(line) for line in file]
    rows = []
    for encoded in tokenizer.encode_batch(
        [tuple(row["texts"]) if row["texts"][1:] else row["texts"][0] for row in examples]
    ):
        inputs = engine_parity.inputs_of([encoded.ids])
        rows.append(inputs | {"segment_ids": np.array([encoded.type_ids], np.int32)})
    return rows, np.array([row["label"] for row in examples])


def accuracy(answer, rows, labels):
    """The accuracy of an engine."""
    predictions = [np.asarray(answer(inputs)["logits"])[0].argmax() for inputs in rows]
    return float(np.mean(np.array(predictions) == labels))


if __name__ == "__main__":
    main()
