"""A checkpoint in every installed engine, unquantized and in int8: size, time for one text, difference from ours.

  python benchmarks/engines.py CHECKPOINT [--calibration_file=texts.txt] [--labelled=dev.jsonl]

Models are written to a temporary folder; the time is the median of calls that alternate with TensorFlow's. With
calibration texts OpenVINO's int8 quantizes activations too, not only weights. With labelled lines,
{"texts": [one or two], "label": number}, the accuracy of each engine is printed, with one text per call.
"""

import argparse
import json
import os
import tempfile

import numpy as np

from bert_tf.checkpoints import formats
from bert_tf.cli.commands.convert import texts_of
from bert_tf.errors import UserError
from bert_tf.export import engine_parity, engines
from bert_tf.model import functional_bert

LONGEST = 128  # pieces of a labelled text, as it was trained


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--calibration_file")
    parser.add_argument("--labelled")
    given = parser.parse_args()
    texts = texts_of(given.calibration_file) if given.calibration_file else ()
    checkpoint, written, scores = formats.read(given.checkpoint), [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name in engines.names():
            for quantize in (None, *engines.QUANTIZED):
                try:
                    place = os.path.join(folder, f"{name}-{quantize}")
                    written.append(engines.write(checkpoint, place, name, quantize=quantize, texts=texts))
                except UserError as error:
                    print(f"{name} {quantize or ''}: {error}", flush=True)
                    continue
                if given.labelled:
                    rows, labels = labelled(given.labelled, place)
                    scores[f"{name} {quantize or ''}"] = right(engines.load(place), rows, labels)
    if written:
        print(given.checkpoint, *engines.table(written), sep="\n")
    if scores:
        scores["TensorFlow, here"] = right(functional_bert.CheckpointModel(checkpoint), rows, labels)
        print(*(f"  {name:22} right in {share:.2%} of {len(labels):,}" for name, share in scores.items()), sep="\n")


def labelled(path, folder):
    """Inputs of one text each, and labels [n]."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.enable_truncation(LONGEST)
    with open(path, encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    rows = []
    for encoded in tokenizer.encode_batch(
        [tuple(row["texts"]) if row["texts"][1:] else row["texts"][0] for row in found]
    ):
        inputs = engine_parity.inputs_of([encoded.ids])
        rows.append(inputs | {"segment_ids": np.array([encoded.type_ids], np.int32)})
    return rows, np.array([row["label"] for row in found])


def right(answer, rows, labels):
    """The share of labels that an engine gives."""
    guesses = [np.asarray(answer(inputs)["logits"])[0].argmax() for inputs in rows]
    return float(np.mean(np.array(guesses) == labels))


if __name__ == "__main__":
    main()
